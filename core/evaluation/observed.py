"""What one lookup did, as far as evaluation looks: a slim view over the JSON of a ``LookupResult``.

Reads the names of DESIGN "Trace" and the older camel-case form of the papers alike. A number that is no finite number
is read as null and named in ``defects``, so that one bad score neither loses the run nor passes unseen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from core.errors import InvalidCases
from core.evaluation.cases import OLD_FALLBACKS, doc_id_of
from core.model import split_evidence_key

_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
INVALID_NUMBER = "not a finite number"


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate with its rank at every stage, null where it has none."""

    key: str
    doc_id: str
    category: str | None = None
    kb_scope: str | None = None
    revision: int | None = None
    dense_rank: int | None = None
    dense_distance: float | None = None
    bm25_rank: int | None = None
    rrf_rank: int | None = None
    rerank_rank: int | None = None
    original_rank: int | None = None
    quality_score: float | None = None
    quality_basis: str | None = None
    exact_distance: float | None = None
    evidence_rank: int | None = None
    pack_rank: int | None = None
    projection_rank: int | None = None
    drop_reason: str | None = None
    duplicate_of: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of evidence; the order is the rank."""

    key: str
    doc_id: str
    source: str
    title: str
    breadcrumb: str
    content: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One retrieval round. ``branches`` maps a branch to its status; a branch that is absent did not run."""

    name: str
    status: str
    category_filter: str | None
    low_quality: bool | None
    top_quality: float | None
    rows: tuple[Row, ...]
    branches: Mapping[str, str]
    scope_violations: int = 0
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """``packed`` and ``agent`` are null when the record does not hold them, which is not the same as empty."""

    status: str
    evidence: tuple[Piece, ...]
    attempts: tuple[Attempt, ...] = ()
    selected_attempt: str | None = None
    fallback_reason: str | None = None
    level: str | None = None
    top_quality: float | None = None
    packed: tuple[str, ...] | None = None
    packed_text: str | None = None
    agent: tuple[tuple[str, str], ...] | None = None
    truncated: bool = False
    timings: Mapping[str, float] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    kb_scope: str | None = None
    error_class: str | None = None
    degraded: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.status == "ERROR"

    @property
    def selected(self) -> Attempt | None:
        """The attempt whose result was returned; null when the record has no attempts."""
        chosen = [attempt for attempt in self.attempts if attempt.name == self.selected_attempt]
        return chosen[-1] if chosen else (self.attempts[-1] if self.attempts else None)

    @property
    def replaced(self) -> Attempt | None:
        """The first attempt, when a retry replaced it."""
        first = self.attempts[0] if self.attempts else None
        return first if first is not None and first is not self.selected else None


def observe(data: Mapping[str, Any]) -> Observed:
    """The view of one lookup result. Raises InvalidCases when ``data`` has no list of evidence."""
    if "retrieval_trace" not in data or "evidence_status" not in data:
        data = snake_keys(data)
    raw = data.get("evidence")
    if not isinstance(raw, list):
        raise InvalidCases(["lookupResult.evidence is missing or no list; take the snapshot again"])
    defects: list[str] = []
    evidence = tuple(_piece(item, rank) for rank, item in enumerate(raw, start=1))
    trace = _mapping(data.get("retrieval_trace"))
    attempts = tuple(_attempt(item, defects) for item in _items(trace.get("attempts")))
    fallback = trace.get("fallback_reason") or None
    status = data.get("evidence_status") or trace.get("evidence_status")
    packed, packed_text = _pack(data.get("context_pack"), evidence)
    agent = data.get("tool_result")
    shown = None
    if isinstance(agent, Mapping):
        shown = tuple((str(e.get("document_id", "")), str(e.get("excerpt", ""))) for e in _items(agent.get("evidence")))
    return Observed(
        status=str(status) if status else ("READY" if evidence else "NO_EVIDENCE"),
        evidence=evidence,
        attempts=attempts,
        selected_attempt=trace.get("selected_attempt") or None,
        fallback_reason=OLD_FALLBACKS.get(str(fallback).lower(), str(fallback)) if fallback else None,
        level=data.get("relevance_level") or None,
        top_quality=_number(data.get("top_quality"), "top_quality", defects),
        packed=packed,
        packed_text=packed_text,
        agent=shown,
        truncated=bool(isinstance(agent, Mapping) and agent.get("truncated")),
        timings=_numbers(trace.get("timings"), "timings", defects),
        costs=_numbers(trace.get("costs"), "costs", defects),
        kb_scope=trace.get("kb_scope"),
        error_class=data.get("error_class"),
        degraded=tuple(map(str, _items(trace.get("degraded")))),
        defects=tuple(defects),
    )


def snake_keys(data: Any) -> Any:
    """``data`` with every object key in snake case, values untouched."""
    if isinstance(data, Mapping):
        return {_snake(str(key)): snake_keys(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [snake_keys(value) for value in data]
    return data


@lru_cache(maxsize=1024)
def _snake(key: str) -> str:
    return _CAMEL.sub(r"_\1", key).lower()


def _piece(item: Any, rank: int) -> Piece:
    item = _mapping(item)
    source = str(item.get("source") or "")
    key = str(item.get("evidence_key") or "")
    doc_id = str(item.get("doc_id") or "")
    if not doc_id:
        parts = split_evidence_key(key)
        doc_id = parts[0] if parts else doc_id_of(source)
    if not key:
        index = item.get("chunk_index")
        key = f"{doc_id}#chunk-{index}" if isinstance(index, int) else f"rank:{rank}"
    content = item.get("content")
    if content is None:
        content = item.get("excerpt")
    return Piece(
        key=key,
        doc_id=doc_id,
        source=source,
        title=str(item.get("title") or ""),
        breadcrumb=str(item.get("breadcrumb") or ""),
        content=str(content or ""),
        revision=item.get("revision"),
    )


def _attempt(item: Any, defects: list[str]) -> Attempt:
    item = _mapping(item)
    name = str(item.get("name", ""))
    return Attempt(
        name=name,
        status=str(item.get("status", "")),
        category_filter=item.get("category_filter") or None,
        low_quality=item.get("low_quality"),
        top_quality=_number(item.get("top_quality"), f"{name}.top_quality", defects),
        rows=tuple(_row(row, defects) for row in _items(item.get("candidates"))),
        branches={str(b.get("branch")): str(b.get("status")) for b in _items(item.get("branches"))},
        scope_violations=int(item.get("scope_violations") or 0),
        truncated=bool(item.get("candidates_truncated")),
    )


def _row(item: Mapping[str, Any], defects: list[str]) -> Row:
    get = item.get
    key = str(get("evidence_key", ""))
    distance, exact, quality = get("dense_distance"), get("exact_distance"), get("quality_score")
    others = {name: get(name) for name in ("rrf_score", "bm25_score", "rerank_score")}
    if not _all_finite(distance, exact, quality, *others.values()):
        distance = _number(distance, f"{key}.dense_distance", defects)
        exact = _number(exact, f"{key}.exact_distance", defects)
        quality = _number(quality, f"{key}.quality_score", defects)
        for name, value in others.items():
            _number(value, f"{key}.{name}", defects)
    return Row(
        key=key,
        doc_id=str(get("doc_id", "")),
        category=get("category"),
        kb_scope=get("kb_scope"),
        revision=get("revision"),
        dense_rank=get("dense_rank"),
        dense_distance=distance,
        bm25_rank=get("bm25_rank"),
        rrf_rank=get("rrf_rank"),
        rerank_rank=get("rerank_rank"),
        original_rank=get("original_rank"),
        quality_score=quality,
        quality_basis=get("quality_basis"),
        exact_distance=exact,
        evidence_rank=get("evidence_rank"),
        pack_rank=get("pack_rank"),
        projection_rank=get("projection_rank"),
        drop_reason=get("drop_reason"),
        duplicate_of=get("duplicate_of"),
    )


def _pack(raw: Any, evidence: tuple[Piece, ...]) -> tuple[tuple[str, ...] | None, str | None]:
    if not isinstance(raw, Mapping):
        return None, None
    states = [s for s in _items(raw.get("sources")) if isinstance(s, Mapping)]
    if states:
        keys = [str(s.get("evidence_key")) for s in states if s.get("state") != "omitted"]
    else:
        by_source = {piece.source: piece.key for piece in reversed(evidence)}
        names = [str(name) for name in _items(raw.get("included_sources"))]
        known = {piece.key for piece in evidence}
        keys = [name if name in known else by_source.get(name, name) for name in names]
    return tuple(keys), str(raw.get("packed_text") or "")


def _all_finite(*values: Any) -> bool:
    """Whether every value is null or a finite float or integer; one sum tells for all of them."""
    total = 0.0
    for value in values:
        if value is not None:
            if value.__class__ is not float and value.__class__ is not int:
                return False
            total += value
    return math.isfinite(total)


def _number(value: Any, name: str, defects: list[str]) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    defects.append(f"{name}: {INVALID_NUMBER}")
    return None


def _numbers(raw: Any, name: str, defects: list[str]) -> dict[str, float]:
    pairs = ((str(key), _number(value, f"{name}.{key}", defects)) for key, value in _mapping(raw).items())
    return {key: value for key, value in pairs if value is not None}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else ()
