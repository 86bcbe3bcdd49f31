"""What the labels say: relevance by document, which gold resolves to nothing, how far the labels reach."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from core.evaluation.cases import Case, CaseSet, doc_id_of

README: Final = "README.md"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A label that points to nothing in the source folder. ``where`` is ``file:line`` of its case."""

    case_id: str
    where: str
    field: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: case {self.case_id!r}: {self.field} {self.value!r}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of ``total`` cases carry a kind of label."""

    label: str
    count: int
    total: int


@lru_cache(maxsize=512)  # the texts of one lookup, which judge, context and loss each ask for
def normalise(text: str) -> str:
    """Text as anchors and keywords are compared: NFKC, case folded, white space as one blank."""
    return " ".join(unicodedata.normalize("NFKC", text).split()).casefold()


def relevance(case: Case) -> dict[str, int]:
    """doc_id -> grade; a document named twice counts once, with its explicit grade in ``goldSources`` first.

    Gold passages and expected documents without a grade of their own are relevant (their passage's grade, or 1);
    forbidden documents are judged not relevant (0). What is absent is unjudged.
    """
    grades: dict[str, int] = {gold.doc_id: gold.grade for gold in case.gold_sources}
    explicit = set(grades)
    for passage in case.gold_passages:
        if passage.doc_id not in explicit:
            grades[passage.doc_id] = max(grades.get(passage.doc_id, 0), passage.grade)
    for doc_id in (*case.expected_doc_ids, *map(doc_id_of, case.expected_sources)):
        grades.setdefault(doc_id, 1)
    for doc_id in (*case.must_not_doc_ids, *map(doc_id_of, case.must_not_sources)):
        grades.setdefault(doc_id, 0)
    return grades


def relevant(case: Case) -> tuple[str, ...]:
    """The relevant documents of a case, in the order of its labels."""
    return tuple(doc_id for doc_id, grade in relevance(case).items() if grade > 0)


def necessary(case: Case) -> tuple[str, ...]:
    """The documents an answer cannot do without: the expected ones, else all relevant ones."""
    expected = (*case.expected_doc_ids, *map(doc_id_of, case.expected_sources))
    return tuple(dict.fromkeys(expected)) or relevant(case)


def read_source(folder: Path) -> dict[str, str]:
    """doc_id -> normalised text of every Markdown file under ``folder`` (each README.md is skipped)."""
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*.md")):
        if path.name != README and path.is_file():
            name = unicodedata.normalize("NFC", path.relative_to(folder).as_posix())
            texts[doc_id_of(name)] = normalise(path.read_text(encoding="utf-8-sig", errors="replace"))
    return texts


def unresolved(cases: CaseSet, texts: Mapping[str, str]) -> tuple[Unresolved, ...]:
    """Labels that name a document or an anchor that is not in ``texts`` (``read_source``), in file order."""
    found: list[Unresolved] = []
    for case in cases.cases:
        for field, doc_id in _documents(case):
            if doc_id not in texts:
                found.append(_missing(cases, case, field, doc_id, "no such document in the source folder"))
        for field, path, anchor in _anchors(case):
            text = texts.get(doc_id_of(path))
            if text is None:
                found.append(_missing(cases, case, field, path, "no such document in the source folder"))
            elif normalise(anchor) not in text:
                found.append(_missing(cases, case, field, anchor, f"the text does not stand in {path}"))
    return tuple(found)


def coverage(cases: Iterable[Case]) -> tuple[Coverage, ...]:
    """How many cases carry each kind of label: what the metrics can be trusted for."""
    listed = list(cases)
    checks = {
        "reviewed": lambda case: case.gates,
        "expected documents": lambda case: bool(case.expected_doc_ids or case.expected_sources),
        "gold sources": lambda case: bool(case.gold_sources),
        "gold passages": lambda case: bool(case.gold_passages),
        "required facts": lambda case: bool(case.required_facts),
        "judged not relevant": lambda case: any(grade == 0 for grade in relevance(case).values()),
        "unanswerable": lambda case: not case.answerable,
        "pool depth": lambda case: bool(case.pool_depth),
        "adjudicated": lambda case: case.adjudication_status in {"adjudicated", "agreed", "resolved", "final"},
    }
    return tuple(Coverage(label, sum(map(check, listed)), len(listed)) for label, check in checks.items())


def _documents(case: Case) -> Iterable[tuple[str, str]]:
    yield from (("expectedDocIds", doc_id) for doc_id in case.expected_doc_ids)
    yield from (("expectedSources", doc_id_of(source)) for source in case.expected_sources)
    yield from (("mustNotDocIds", doc_id) for doc_id in case.must_not_doc_ids)
    yield from (("mustNotSources", doc_id_of(source)) for source in case.must_not_sources)
    yield from (("goldSources", gold.doc_id) for gold in case.gold_sources)


def _anchors(case: Case) -> Iterable[tuple[str, str, str]]:
    yield from (("goldPassages", gold.path, gold.anchor) for gold in case.gold_passages)
    yield from (("requiredFacts", fact.path, fact.anchor) for fact in case.required_facts)


def _missing(cases: CaseSet, case: Case, field: str, value: str, reason: str) -> Unresolved:
    return Unresolved(case.case_id, cases.where(case.case_id), field, value, reason)
