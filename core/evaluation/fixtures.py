"""Fixtures: what happened, frozen (offline-evaluation, section 5.2): one file a case, one folder a mode.

Beside the lookup itself a fixture may hold a probe: how deep each branch would have had to look, and what the index
knows of the gold, so that "never found" can be told from "not in the corpus" and from "rank 37".
"""

from __future__ import annotations

import codecs
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pydantic_core

from core.errors import InvalidCases, redact
from core.evaluation import locate
from core.evaluation.cases import CaseSet
from core.evaluation.observed import INVALID_NUMBER, Observed, observe, snake_keys

SUFFIX: Final = ".json"
_KEYS = {
    "caseId",
    "query",
    "retrievedAt",
    "searchMode",
    "kbScope",
    "generation",
    "profile",
    "fingerprint",
    "corpusSnapshot",
    "settings",
    "probe",
    "failed",
    "error",
    "invalidScores",
    "lookupResult",
}
_OLD_KEYS = {"meta", "result", "debug", "scenario", "tags", "notes", "mode"}


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """What the index knows of a gold document; ``chunks`` = 0: it is not in the index."""

    doc_id: str
    chunks: int
    category: str | None = None
    kb_scope: str | None = None
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class IndexedPassage:
    """The chunks in which an anchor stands whole; none: parsing or chunking lost it."""

    path: str
    anchor: str
    evidence_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeepHit:
    evidence_key: str
    doc_id: str
    rank: int
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """A deeper search apart from the lookup, inside the same scopes and without a category filter."""

    depth: int
    dense: tuple[DeepHit, ...] = ()
    bm25: tuple[DeepHit, ...] = ()
    documents: tuple[IndexedDocument, ...] = ()
    passages: tuple[IndexedPassage, ...] = ()

    def rank(self, branch: str, doc_id: str) -> int | None:
        """The best rank of a document in ``dense`` or ``bm25`` down to ``depth``; null when never found."""
        hits = self.dense if branch == "dense" else self.bm25
        return min((hit.rank for hit in hits if hit.doc_id == doc_id), default=None)

    def document(self, doc_id: str) -> IndexedDocument | None:
        return next((document for document in self.documents if document.doc_id == doc_id), None)


@dataclass(frozen=True, slots=True)
class Fixture:
    """One frozen lookup. ``observed`` is null when the lookup failed before it had a result; ``error`` says why.

    ``invalid_scores``: places of the result that held no finite number before it was written (null in the file).
    """

    case_id: str
    query: str
    search_mode: str
    retrieved_at: str = ""
    kb_scope: str | None = None
    generation: int | None = None
    profile: str = ""
    fingerprint: str = ""
    corpus_snapshot: str = ""
    failed: bool = False
    error: str | None = None
    probe: Probe | None = None
    invalid_scores: tuple[str, ...] = ()
    lookup_result: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    observed: Observed | None = None
    file: str = ""


@dataclass(frozen=True, slots=True)
class FixtureSet:
    """The fixtures of one mode, by case id."""

    mode: str
    fixtures: Mapping[str, Fixture]
    folder: str = ""

    def values(self, name: str) -> tuple[str, ...]:
        """The distinct values of a field of the set (``generation``, ``profile`` …), sorted; one when not mixed."""
        found = {getattr(fixture, name) for fixture in self.fixtures.values() if not fixture.failed}
        return tuple(sorted(str(value) for value in found if value not in {None, ""}))


@dataclass(frozen=True, slots=True)
class Stale:
    """A fixture that no longer belongs to its case or to its set."""

    case_id: str
    reason: str


def load_fixtures(folder: Path, mode: str) -> FixtureSet:
    """Every fixture of ``folder/mode``, else of ``folder`` itself (the papers' flat form), without its
    ``lookup_result``: of a thousand of them only what was ``observed`` is kept (``read_fixture`` has all of one).

    Raises InvalidCases with every file that is unreadable, has unknown keys or claims a case that another one claims.
    """
    place = folder / mode if (folder / mode).is_dir() else folder
    if not place.is_dir():
        raise InvalidCases([f"{place}: no such folder of fixtures; take a snapshot first"])
    problems: list[str] = []
    found: dict[str, Fixture] = {}
    for path in sorted(place.glob(f"*{SUFFIX}")):
        try:
            fixture = read_fixture(path, mode)
        except InvalidCases as exc:
            problems += exc.problems
            continue
        if fixture.case_id in found:
            problems.append(
                f"{path.name}:1: case {fixture.case_id!r} has another fixture, {found[fixture.case_id].file}"
            )
        found[fixture.case_id] = replace(fixture, lookup_result=None)
    if problems:
        raise InvalidCases(problems)
    return FixtureSet(mode, found, str(place))


def read_fixture(path: Path, mode: str = "") -> Fixture:
    """The fixture of one file. Raises InvalidCases with file and line."""
    try:
        raw = path.read_bytes()
        data = _read(raw)
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidCases([f"{path.name}: cannot be read ({redact(exc)})"]) from exc
    except json.JSONDecodeError as exc:
        raise InvalidCases([f"{path.name}:{exc.lineno}: not valid JSON ({exc.msg}); take the snapshot again"]) from exc
    if not isinstance(data, dict):
        raise InvalidCases([f"{path.name}:1: expected an object with caseId and lookupResult"])
    unknown = sorted(set(data) - _KEYS - _OLD_KEYS)
    if unknown:
        text = raw.decode("utf-8-sig")
        raise InvalidCases(
            [f"{path.name}:{locate.line_of(text, (key,))}: unknown key {key!r} in a fixture" for key in unknown]
        )
    try:
        return parse_fixture(data, mode=mode, file=path.name, default_id=path.stem)
    except InvalidCases as exc:
        raise InvalidCases([f"{path.name}:1: {problem}" for problem in exc.problems]) from exc


def _read(raw: bytes) -> Any:
    """JSON that may hold bare NaN and Infinity (they are found and named later); the slow reader knows the line."""
    try:
        return pydantic_core.from_json(raw.removeprefix(codecs.BOM_UTF8), allow_inf_nan=True, cache_strings="keys")
    except ValueError:
        return json.loads(raw.decode("utf-8-sig"))


def parse_fixture(data: Mapping[str, Any], *, mode: str = "", file: str = "", default_id: str = "") -> Fixture:
    """A fixture from JSON data of this or of the papers' form. Raises InvalidCases."""
    meta = {**_object(data.get("meta")), **{key: value for key, value in data.items() if key not in _OLD_KEYS}}
    result = data.get("lookupResult", data.get("result"))
    failed = bool(meta.get("failed"))
    if result is None and not failed:
        raise InvalidCases(["lookupResult is missing and the fixture is not marked as failed"])
    query = meta.get("query", _object(result).get("query"))
    if not isinstance(query, str) or not query:
        raise InvalidCases(["query is missing; without it a stale fixture cannot be told"])
    observed = observe(result) if isinstance(result, Mapping) else None
    invalid = tuple(f"{name}: {INVALID_NUMBER}" for name in meta.get("invalidScores") or ())
    if observed is not None and invalid:
        observed = replace(observed, defects=(*observed.defects, *invalid))
    generation = meta.get("generation")
    return Fixture(
        case_id=str(meta.get("caseId") or default_id),
        query=query,
        search_mode=str(meta.get("searchMode") or data.get("mode") or mode),
        retrieved_at=str(meta.get("retrievedAt") or ""),
        kb_scope=meta.get("kbScope"),
        generation=generation if isinstance(generation, int) else None,
        profile=str(meta.get("profile") or ""),
        fingerprint=str(meta.get("fingerprint") or ""),
        corpus_snapshot=str(meta.get("corpusSnapshot") or ""),
        failed=failed or bool(observed and observed.failed),
        error=meta.get("error") or (observed.error_class if observed else None),
        probe=_probe(meta.get("probe")),
        invalid_scores=tuple(map(str, meta.get("invalidScores") or ())),
        lookup_result=result,
        observed=observed,
        file=file,
    )


def fixture_data(fixture: Fixture) -> dict[str, Any]:
    """The JSON data of a fixture, as ``write_fixtures`` writes it."""
    data: dict[str, Any] = {
        "caseId": fixture.case_id,
        "query": fixture.query,
        "retrievedAt": fixture.retrieved_at,
        "searchMode": fixture.search_mode,
        "kbScope": fixture.kb_scope,
        "generation": fixture.generation,
        "profile": fixture.profile,
        "fingerprint": fixture.fingerprint,
        "corpusSnapshot": fixture.corpus_snapshot,
        "failed": fixture.failed,
        "error": fixture.error,
        "lookupResult": fixture.lookup_result,
    }
    if fixture.invalid_scores:
        data["invalidScores"] = list(fixture.invalid_scores)
    if fixture.probe is not None:
        data["probe"] = _probe_data(fixture.probe)
    return data


def write_fixtures(folder: Path, mode: str, fixtures: Sequence[Fixture]) -> Path:
    """Replaces ``folder/mode`` by ``fixtures``: all of them or, when anything fails, none. Returns the folder.

    A number that is not finite must have been made null before (strict JSON: ValueError).
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / mode
    fresh = Path(tempfile.mkdtemp(prefix=f".{mode}-", dir=folder))
    try:
        for fixture in fixtures:
            name = safe_name(fixture.case_id)
            text = json.dumps(fixture_data(fixture), ensure_ascii=False, indent=1, allow_nan=False)
            (fresh / name).write_text(text + "\n", encoding="utf-8")
        old = Path(tempfile.mkdtemp(prefix=f".{mode}-old-", dir=folder)) / mode
        if target.exists():
            os.replace(target, old)
        try:
            fresh.chmod(0o755)
            os.replace(fresh, target)
        except OSError:
            if old.exists():
                os.replace(old, target)
            raise
        finally:
            shutil.rmtree(old.parent, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def safe_name(case_id: str) -> str:
    """The file name of a case's fixture. Raises InvalidCases for an id that is no plain file name."""
    if not case_id or case_id.startswith(".") or any(char in '/\\:*?"<>|' or ord(char) < 32 for char in case_id):
        raise InvalidCases([f'case {case_id!r}: the id must be usable as a file name (no / \\ : * ? " < > |)'])
    return case_id + SUFFIX


def stale(cases: CaseSet, fixtures: FixtureSet) -> tuple[Stale, ...]:
    """Fixtures of another question, another scope, another generation than most of the set, or of no case at all."""
    known = cases.by_id()
    found: list[Stale] = []
    majority = {name: _most(fixtures, name) for name in ("generation", "profile", "fingerprint", "corpus_snapshot")}
    for case_id, fixture in fixtures.fixtures.items():
        case = known.get(case_id)
        if case is None:
            found.append(Stale(case_id, "no case of this id; remove the fixture or restore the case"))
            continue
        if fixture.query != case.query:
            found.append(Stale(case_id, "the query of the case has changed since; take the snapshot again"))
        if fixture.kb_scope not in {None, "", case.kb_scope}:
            found.append(Stale(case_id, f"taken in scope {fixture.kb_scope!r}, the case asks {case.kb_scope!r}"))
        for name, usual in majority.items():
            value = getattr(fixture, name)
            if usual is not None and value not in {None, "", usual}:
                found.append(Stale(case_id, f"{name} {value} while most of the set has {usual}"))
    return tuple(found)


def _most(fixtures: FixtureSet, name: str) -> Any:
    values = [getattr(f, name) for f in fixtures.fixtures.values() if getattr(f, name) not in {None, ""}]
    return max(sorted(set(values), key=str), key=values.count, default=None)


def _probe(raw: Any) -> Probe | None:
    if not isinstance(raw, Mapping):
        return None
    data = snake_keys({key: value for key, value in raw.items() if key != "documents"})
    documents = raw.get("documents")
    return Probe(
        depth=int(data.get("depth") or 0),
        dense=tuple(_deep(hit, "distance") for hit in data.get("dense") or ()),
        bm25=tuple(_deep(hit, "score") for hit in data.get("bm25") or ()),
        documents=tuple(_indexed(name, fact) for name, fact in _object(documents).items()),
        passages=tuple(
            IndexedPassage(str(p["path"]), str(p["anchor"]), tuple(map(str, p.get("evidence_keys") or ())))
            for p in data.get("passages") or ()
        ),
    )


def _deep(hit: Mapping[str, Any], score: str) -> DeepHit:
    return DeepHit(str(hit.get("evidence_key", "")), str(hit.get("doc_id", "")), int(hit["rank"]), hit.get(score))


def _indexed(name: str, fact: Any) -> IndexedDocument:
    fact = _object(fact)
    return IndexedDocument(
        name, int(fact.get("chunks") or 0), fact.get("category"), fact.get("kbScope"), fact.get("revision")
    )


def _probe_data(probe: Probe) -> dict[str, Any]:
    def hits(found: Iterable[DeepHit], score: str) -> list[dict[str, Any]]:
        return [{"evidenceKey": h.evidence_key, "docId": h.doc_id, "rank": h.rank, score: h.score} for h in found]

    return {
        "depth": probe.depth,
        "dense": hits(probe.dense, "distance"),
        "bm25": hits(probe.bm25, "score"),
        "documents": {
            d.doc_id: {"chunks": d.chunks, "category": d.category, "kbScope": d.kb_scope, "revision": d.revision}
            for d in probe.documents
        },
        "passages": [
            {"path": p.path, "anchor": p.anchor, "evidenceKeys": list(p.evidence_keys)} for p in probe.passages
        ],
    }


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
