"""One order from several branches: Reciprocal Rank Fusion (Cormack, Clarke, Büttcher, SIGIR 2009), DESIGN 3.3.

Raw scores of different branches are never compared: only ranks count. What the boundary does not admit, and what is
out of date, leaves here, before any text goes further.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from core.errors import InvalidSettings
from core.model import (
    Branch,
    Candidate,
    Chunk,
    DropReason,
    Hit,
    MergedEvidence,
    SearchFilter,
    Stage,
    evidence_key,
    evolve,
)
from core.ports import FusedRow

Explain = Callable[[Chunk], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Guard:
    """What may pass: the filter as sent (checked again on what came back) and the revision of each document of the
    generation. Empty ``revisions`` are unknown, not "no document": nothing is stale then."""

    where: SearchFilter
    revisions: Mapping[str, int]

    def violated(self, chunk: Chunk) -> bool:
        where = self.where
        return not where.scopes.admits(chunk.kb_scope) or (
            where.category is not None and chunk.category != where.category
        )

    def stale(self, chunk: Chunk) -> bool:
        return bool(self.revisions) and self.revisions.get(chunk.doc_id, -1) != chunk.revision


@dataclass(frozen=True, slots=True)
class Fused:
    """``candidates`` in fused order, the dropped ones among them; ``count_in`` is the number of distinct chunks."""

    candidates: tuple[Candidate, ...]
    count_in: int
    count_out: int
    scope_violations: int
    merged: tuple[MergedEvidence, ...] = ()
    vectors: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


def fuse(
    hits: Mapping[Branch, Sequence[Hit]],
    guard: Guard,
    *,
    k: int,
    weights: Mapping[Branch, float],
    window: int,
    explain: Explain,
    rows: Sequence[FusedRow] | None = None,
) -> Fused:
    """The branches as one list, best first: score ``Σ w / (k + rank)``, rank from 1; a branch without the chunk adds
    nothing. Ties break by best single rank, then by evidence key. What ranks beyond ``window`` is dropped.

    With ``rows`` (the store's own RRF over the same branches) its scores decide, ties broken alike; weights must be
    equal then, else InvalidSettings.
    """
    if rows is not None and len(set(weights.values())) > 1:
        raise InvalidSettings("the server's RRF has equal weights only: set both alike or fusion = 'client'")
    found, merged = _collect(hits, rows or ())
    for entry in found.values():
        if rows is None:
            entry.score = sum(weights[branch] / (k + hit.rank) for branch, hit in entry.hits.items())
        elif entry.row is not None:
            entry.score = entry.row.score if math.isfinite(entry.row.score) else None
    order = sorted(found.items(), key=_by_score)
    candidates = []
    for position, (key, entry) in enumerate(order, start=1):
        rank = position if entry.score is not None else None
        beyond = rank is None or rank > window
        candidates.append(_candidate(key, entry, guard, explain, rrf_rank=rank, original_rank=rank, beyond=beyond))
    return _fused(candidates, found, merged)


def dense_order(hits: Sequence[Hit], guard: Guard, explain: Explain) -> Fused:
    """The dense branch alone (mode ``dense``): its order is the original rank; no fused rank or score exists."""
    found, merged = _collect({Branch.DENSE: hits}, ())
    candidates = [
        _candidate(key, entry, guard, explain, rrf_rank=None, original_rank=entry.hits[Branch.DENSE].rank, beyond=False)
        for key, entry in found.items()
    ]
    return _fused(candidates, found, merged)


# --------------------------------------------------------------------------------------------- one entry a chunk


@dataclass(slots=True)
class _Entry:
    chunk: Chunk
    seen: list[Chunk]
    hits: dict[Branch, Hit]
    vector: Any = None
    row: FusedRow | None = None
    score: float | None = None

    @property
    def best_rank(self) -> int:
        ranks = [hit.rank for hit in self.hits.values()]
        return min(ranks) if ranks else self.row.rank if self.row else 0


def _collect(
    hits: Mapping[Branch, Sequence[Hit]], rows: Sequence[FusedRow]
) -> tuple[dict[str, _Entry], tuple[MergedEvidence, ...]]:
    """Hits by evidence key. A key that a branch returned twice keeps its first rank; the second one is merged."""
    found: dict[str, _Entry] = {}
    merged = []
    for branch in sorted(hits, key=list(Branch).index):  # one order of summation, whatever order the mapping has
        for hit in hits[branch]:
            key, entry = _entry(found, hit.chunk, hit.vector)
            if branch in entry.hits:
                merged.append(MergedEvidence(key, key, DropReason.DUPLICATE_EVIDENCE))
            else:
                entry.hits[branch] = hit
    for row in rows:
        _, entry = _entry(found, row.chunk, row.vector)
        entry.row = entry.row or row
    return found, tuple(merged)


def _entry(found: dict[str, _Entry], chunk: Chunk, vector: Any) -> tuple[str, _Entry]:
    key = str(chunk.evidence_key) or evidence_key(chunk.doc_id, chunk.chunk_index, rank=len(found) + 1)
    entry = found.get(key)
    if entry is None:
        entry = found[key] = _Entry(chunk, [chunk], {}, vector)
    else:
        entry.seen.append(chunk)
        entry.vector = vector if entry.vector is None else entry.vector
        known = entry.chunk
        if not (known.breadcrumb and known.title and known.source):
            entry.chunk = replace(
                known,
                title=known.title or chunk.title,
                breadcrumb=known.breadcrumb or chunk.breadcrumb,
                source=known.source or chunk.source,
            )
    return key, entry


_NOTHING: Final = Candidate(evidence_key="", doc_id="")


def _by_score(item: tuple[str, _Entry]) -> tuple[float, int, str]:
    key, entry = item
    return (-entry.score if entry.score is not None else math.inf, entry.best_rank, key)


# --------------------------------------------------------------------------------------------- entry → candidate


def _candidate(
    key: str,
    entry: _Entry,
    guard: Guard,
    explain: Explain,
    *,
    rrf_rank: int | None,
    original_rank: int | None,
    beyond: bool,
) -> Candidate:
    chunk, dense, bm25 = entry.chunk, entry.hits.get(Branch.DENSE), entry.hits.get(Branch.BM25)
    outside = next((seen for seen in entry.seen if guard.violated(seen)), None)
    drop = None
    if outside is not None:
        drop = DropReason.SCOPE_VIOLATION
        # Only what the alarm needs: the text of a foreign scope goes nowhere, not even into a trace.
        chunk = replace(outside, content="", title="", breadcrumb="", source="")
    elif beyond:
        drop = DropReason.FUSION_WINDOW
    elif guard.stale(chunk):
        drop = DropReason.STALE_REVISION
    admitted = outside is None
    return evolve(
        _NOTHING,
        evidence_key=key,
        doc_id=chunk.doc_id,
        chunk_index=chunk.chunk_index,
        title=chunk.title,
        breadcrumb=chunk.breadcrumb,
        source=chunk.source,
        category=chunk.category,
        kb_scope=chunk.kb_scope,
        revision=chunk.revision,
        dense_rank=dense.rank if dense else None,
        dense_distance=dense.score if dense else None,
        bm25_rank=bm25.rank if bm25 else None,
        bm25_score=bm25.score if bm25 else None,
        rrf_rank=rrf_rank,
        rrf_score=entry.score,
        original_rank=original_rank if drop in (None, DropReason.FUSION_WINDOW) else None,
        hit_reasons=tuple(branch.value for branch in entry.hits) + (explain(chunk) if admitted else ()),
        drop_stage=Stage.FUSE if drop else None,
        drop_reason=drop,
        content_sha256=content_hash(chunk.content) if admitted else None,
        content=chunk.content if admitted else None,
    )


def content_hash(content: str) -> str:
    """SHA-256 of the text as UTF-8: what a later reader compares before it shows text under this key."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _fused(candidates: Sequence[Candidate], found: Mapping[str, _Entry], merged: tuple[MergedEvidence, ...]) -> Fused:
    return Fused(
        candidates=tuple(candidates),
        count_in=len(candidates),
        count_out=sum(c.live for c in candidates),
        scope_violations=sum(c.drop_reason is DropReason.SCOPE_VIOLATION for c in candidates),
        merged=merged,
        vectors={key: entry.vector for key, entry in found.items() if entry.vector is not None},
    )
