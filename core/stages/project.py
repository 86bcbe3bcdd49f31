"""What the agent sees: a bounded, honest excerpt of the result (DESIGN 3.10).

Four bounds: query characters, excerpt characters, pieces of evidence, bytes of the finished JSON. Excerpts are
verbatim beginnings of the content, cut between graphemes. Every loss sets ``truncated`` and stands in the report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import orjson

from core.analysis import cut_graphemes
from core.errors import InvalidSettings
from core.model import (
    Candidate,
    DropReason,
    Evidence,
    EvidenceStatus,
    ProjectionItem,
    ProjectionReport,
    RagToolResult,
    RelevanceLevel,
    Stage,
    ToolEvidence,
    evidence_key,
    evolve,
)

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
MAX_EXCERPT: Final = "max_excerpt_chars"
MAX_EVIDENCE: Final = "max_evidence"
MAX_BYTES: Final = "max_bytes"
DUPLICATE: Final = "duplicate"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Characters are code points; bytes are UTF-8 of ``to_json``."""

    max_query_chars: int
    max_excerpt_chars: int
    max_evidence: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Projected:
    tool_result: RagToolResult
    report: ProjectionReport
    count_in: int
    count_out: int


def to_json(result: RagToolResult) -> str:
    """What ``max_bytes`` measures: indented as the command line prints it, so that any tighter JSON fits as well."""
    return _dumps(plain(result))


def plain(result: RagToolResult) -> dict[str, Any]:
    """The tool result as JSON data; every id is a string."""
    return {
        "evidence_status": result.evidence_status.value,
        "tool_call_id": result.tool_call_id,
        "query": result.query,
        "evidence": [_plain_item(item) for item in result.evidence],
        "relevance_level": result.relevance_level.value if result.relevance_level else None,
        "truncated": result.truncated,
        "returned_count": result.returned_count,
    }


def project(
    evidence: Sequence[Evidence],
    *,
    status: EvidenceStatus,
    level: RelevanceLevel | None,
    query: str,
    tool_call_id: str,
    bounds: Bounds,
) -> Projected:
    """The tool result within all four bounds: copies out, then the surplus, then long excerpts cut; over the bytes,
    pieces go from the end, the last one left is shortened, and when nothing of it fits the answer is ``NO_EVIDENCE``
    without a level. ``status`` ``ERROR`` carries no evidence.

    Raises InvalidSettings when ``max_bytes`` cannot hold even an empty answer.
    """
    items = [] if status is EvidenceStatus.ERROR else [_Item(i, piece) for i, piece in enumerate(evidence, start=1)]
    _drop_copies(items)
    _drop_surplus(items, bounds.max_evidence)
    for item in items:
        item.cut(bounds.max_excerpt_chars, MAX_EXCERPT)
    whole = readable(query)
    envelope = _Envelope(status, level, cut_graphemes(whole, bounds.max_query_chars), readable(tool_call_id))
    before = replace(envelope, query=whole).size([item.full for item in items])
    _fit(items, envelope, bounds.max_bytes)
    kept = [item for item in items if item.kept]
    truncated = len(envelope.query) < len(whole) or any(item.bound for item in items)
    result = envelope.result([item.shown for item in kept], truncated=truncated)
    report = ProjectionReport(
        items=tuple(item.report() for item in items),
        query_chars_before=len(whole),
        query_chars_after=len(envelope.query),
        bytes_before=before,
        bytes_after=_size(result),
        max_query_chars=bounds.max_query_chars,
        max_excerpt_chars=bounds.max_excerpt_chars,
        max_evidence=bounds.max_evidence,
        max_bytes=bounds.max_bytes,
        truncated=truncated,
    )
    return Projected(result, report, count_in=len(items), count_out=len(kept))


def mark_projected(candidates: Sequence[Candidate], report: ProjectionReport) -> tuple[Candidate, ...]:
    """The candidates with their ``projection_rank``, or with the bound that cost them their place. An earlier drop
    (out of the pack) keeps its reason."""
    ranks: dict[str, int] = {}
    drops: dict[str, DropReason] = {}
    for item in report.items:
        if item.kept:
            ranks[item.evidence_key] = len(ranks) + 1
        elif item.drop_reason and item.evidence_key not in ranks:
            drops[item.evidence_key] = item.drop_reason
    return tuple(_mark(c, ranks, drops) if c.evidence_rank else c for c in candidates)


def readable(text: str) -> str:
    """``text`` with half characters replaced: no encoding could hold them."""
    return _SURROGATE.sub("\ufffd", text)


# --------------------------------------------------------------------------------------------- one item


class _Item:
    """A piece of evidence on its way out; ``bound`` names the last limit that cost it something."""

    def __init__(self, ordinal: int, piece: Evidence) -> None:
        self.key = piece.evidence_key
        self.identity = piece.evidence_key or evidence_key(piece.doc_id, piece.chunk_index, rank=ordinal)
        self.full = ToolEvidence(
            document_id=readable(self.identity),
            source=readable(piece.source),
            title=readable(piece.title),
            breadcrumb=readable(piece.breadcrumb),
            excerpt=readable(piece.content),
        )
        self.shown = self.full
        self.kept = True
        self.drop_reason: DropReason | None = None
        self.bound: str | None = None

    def drop(self, reason: DropReason, bound: str) -> None:
        self.kept, self.drop_reason, self.bound = False, reason, bound

    def cut(self, limit: int, bound: str) -> None:
        if self.kept and len(self.shown.excerpt) > limit:
            self.shown = replace(self.shown, excerpt=cut_graphemes(self.shown.excerpt, limit))
            self.bound = bound

    def report(self) -> ProjectionItem:
        return ProjectionItem(
            evidence_key=self.key,
            kept=self.kept,
            drop_reason=self.drop_reason,
            bound=self.bound,
            chars_before=len(self.full.excerpt),
            chars_after=len(self.shown.excerpt) if self.kept else 0,
            bytes_before=_item_size(self.full),
            bytes_after=_item_size(self.shown) if self.kept else 0,
        )


def _drop_copies(items: list[_Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.identity in seen:
            item.drop(DropReason.PROJECTION_DUPLICATE, DUPLICATE)
        seen.add(item.identity)


def _drop_surplus(items: list[_Item], max_evidence: int) -> None:
    for item in [item for item in items if item.kept][max_evidence:]:
        item.drop(DropReason.PROJECTION_LIMIT, MAX_EVIDENCE)


# --------------------------------------------------------------------------------------------- fitting the bytes


@dataclass(slots=True)
class _Envelope:
    status: EvidenceStatus
    level: RelevanceLevel | None
    query: str
    tool_call_id: str

    def result(self, shown: Sequence[ToolEvidence], *, truncated: bool) -> RagToolResult:
        status = self.status
        if status is EvidenceStatus.READY and not shown:
            status = EvidenceStatus.NO_EVIDENCE
        level = self.level if shown else None
        return RagToolResult(status, self.tool_call_id, self.query, tuple(shown), level, truncated, len(shown))

    def size(self, shown: Sequence[ToolEvidence]) -> int:
        """Bytes with ``truncated`` spelled in its longer form, so that the flag never costs the last byte."""
        return _size(self.result(shown, truncated=False))


def _fit(items: list[_Item], envelope: _Envelope, max_bytes: int) -> None:
    kept = [item for item in items if item.kept]
    while len(kept) > 1 and envelope.size([item.shown for item in kept]) > max_bytes:
        kept.pop().drop(DropReason.PROJECTION_BYTES, MAX_BYTES)
    if kept and envelope.size([item.shown for item in kept]) > max_bytes:
        _shorten(kept[0], envelope, max_bytes)
    if envelope.size([item.shown for item in items if item.kept]) <= max_bytes:
        return
    # Nothing but the envelope is left, and the query is the only part of it that may shrink.
    text = envelope.query
    best = _longest(len(text), lambda n: replace(envelope, query=cut_graphemes(text, n)).size(()) <= max_bytes)
    if best is None:
        least = replace(envelope, query="").size(())
        raise InvalidSettings(f"projection.max_bytes: {max_bytes} is too small, an empty answer takes {least} bytes")
    envelope.query = cut_graphemes(text, best)


def _shorten(item: _Item, envelope: _Envelope, max_bytes: int) -> None:
    text = item.shown.excerpt

    def fits(length: int) -> bool:
        return envelope.size([replace(item.shown, excerpt=cut_graphemes(text, length))]) <= max_bytes

    best = _longest(len(text), fits)
    if best is None or not cut_graphemes(text, best):
        item.drop(DropReason.PROJECTION_BYTES, MAX_BYTES)
    else:
        item.cut(best, MAX_BYTES)


def _longest(most: int, fits: Callable[[int], bool]) -> int | None:
    """The largest length from 0 to ``most`` that fits, None where not even 0 does."""
    if not fits(0):
        return None
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


# --------------------------------------------------------------------------------------------- JSON and marks


def _plain_item(item: ToolEvidence) -> dict[str, str]:
    return {
        "document_id": item.document_id,
        "source": item.source,
        "title": item.title,
        "breadcrumb": item.breadcrumb,
        "excerpt": item.excerpt,
    }


def _dumps(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=2)


def _size(result: RagToolResult) -> int:
    """Bytes of ``to_json(result)``, counted without laying it out: json indents in Python, an order slower."""
    return len(orjson.dumps(plain(result))) + _layout(len(result.evidence))


def _item_size(item: ToolEvidence) -> int:
    return len(orjson.dumps(_plain_item(item))) + _item_layout()


@lru_cache(maxsize=256)
def _layout(pieces: int) -> int:
    """Bytes that line breaks and indents add to a result of so many pieces; they do not depend on what it holds."""
    item = ToolEvidence("", "", "", "", "")
    data = plain(RagToolResult(EvidenceStatus.READY, "", "", (item,) * pieces, None, False, 0))
    return len(_dumps(data)) - len(orjson.dumps(data))


@lru_cache(maxsize=1)
def _item_layout() -> int:
    data = _plain_item(ToolEvidence("", "", "", "", ""))
    return len(_dumps(data)) - len(orjson.dumps(data))


def _mark(candidate: Candidate, ranks: dict[str, int], drops: dict[str, DropReason]) -> Candidate:
    key = candidate.evidence_key
    if key in ranks:
        return evolve(candidate, projection_rank=ranks[key])
    if key in drops and candidate.live:
        return evolve(candidate, drop_stage=Stage.PROJECT, drop_reason=drops[key])
    return candidate
