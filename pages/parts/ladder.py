"""The rank ladder: one row a chunk, one column a stage. ``bump`` draws it, ``ladder_table`` gives its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from core.model import AttemptTrace, Candidate, QualityBasis, Stage, StageStatus
from pages.parts.numbers import finite
from pages.parts.text import cell

_FIELDS: Final[Mapping[Stage, str]] = {
    Stage.DENSE: "dense_rank",
    Stage.BM25: "bm25_rank",
    Stage.FUSE: "rrf_rank",
    Stage.RERANK: "rerank_rank",
    Stage.EVIDENCE: "evidence_rank",
    Stage.PACK: "pack_rank",
    Stage.PROJECT: "projection_rank",
}
LABELS: Final[Mapping[Stage, str]] = {
    Stage.DENSE: "Dense",
    Stage.BM25: "BM25",
    Stage.FUSE: "RRF",
    Stage.RERANK: "Rerank",
    Stage.EVIDENCE: "Evidence",
    Stage.PACK: "Pack",
    Stage.PROJECT: "Projection",
}
_OPTIONAL = {Stage.BM25, Stage.FUSE, Stage.RERANK}


@dataclass(frozen=True, slots=True)
class LadderRow:
    """One chunk on its way. ``ranks`` has a key for every shown column, None where it has no rank there."""

    key: str
    doc_id: str
    title: str
    breadcrumb: str
    category: str
    ranks: Mapping[Stage, int | None]
    drop_stage: Stage | None
    drop_reason: str | None
    duplicate_of: str | None
    dense_distance: float | None
    bm25_score: float | None
    rrf_score: float | None
    rerank_score: float | None
    quality: float | None
    basis: QualityBasis | None
    hit_reasons: tuple[str, ...]

    @property
    def reached_agent(self) -> bool:
        return self.ranks.get(Stage.PROJECT) is not None

    @property
    def name(self) -> str:
        return self.title or self.doc_id or self.key


def ladder_columns(attempt: AttemptTrace) -> tuple[Stage, ...]:
    """The stages to show: BM25, RRF and rerank only where they ran, failed or left a rank."""
    seen = {branch.branch.value for branch in attempt.branches if branch.status is not StageStatus.NOT_RUN}
    seen |= {stage.stage.value for stage in attempt.stages if stage.status is not StageStatus.NOT_RUN}
    return tuple(
        stage
        for stage, name in _FIELDS.items()
        if stage not in _OPTIONAL
        or stage.value in seen
        or any(getattr(candidate, name) is not None for candidate in attempt.candidates)
    )


def ladder_states(attempt: AttemptTrace) -> dict[Stage, str]:
    """What a column's head must say beside its name: the status of every shown stage that did not complete."""
    states = {stage.stage: stage.status for stage in attempt.stages}
    states |= {Stage(branch.branch.value): branch.status for branch in attempt.branches}
    columns = ladder_columns(attempt)
    return {
        stage: status.value.replace("_", " ")
        for stage, status in states.items()
        if stage in columns and status is not StageStatus.COMPLETE
    }


def ladder_rows(attempt: AttemptTrace) -> tuple[LadderRow, ...]:
    """Every candidate of ``attempt`` in its original order (fusion, or rerank where on); those without one come last,
    by their best branch rank."""
    columns = ladder_columns(attempt)
    return tuple(_row(candidate, columns) for candidate in sorted(attempt.candidates, key=_order))


def _order(candidate: Candidate) -> tuple[int, int, str]:
    last = 10**9
    branch = min(rank for rank in (candidate.dense_rank, candidate.bm25_rank, last) if rank is not None)
    first = candidate.original_rank or (candidate.rrf_rank or last)
    return (first, branch, candidate.evidence_key)


def _row(candidate: Candidate, columns: Sequence[Stage]) -> LadderRow:
    return LadderRow(
        key=candidate.evidence_key,
        doc_id=candidate.doc_id,
        title=candidate.title,
        breadcrumb=candidate.breadcrumb,
        category=candidate.category,
        ranks={stage: getattr(candidate, _FIELDS[stage]) for stage in columns},
        drop_stage=candidate.drop_stage,
        drop_reason=candidate.drop_reason.value if candidate.drop_reason else None,
        duplicate_of=candidate.duplicate_of,
        dense_distance=finite(candidate.dense_distance),
        bm25_score=finite(candidate.bm25_score),
        rrf_score=finite(candidate.rrf_score),
        rerank_score=finite(candidate.rerank_score),
        quality=finite(candidate.quality_score),
        basis=candidate.quality_basis,
        hit_reasons=candidate.hit_reasons,
    )


def ladder_table(rows: Sequence[LadderRow], columns: Sequence[Stage]) -> pd.DataFrame:
    """The ladder as numbers, one row a chunk in the order of ``rows``; missing ranks are missing, not 0."""
    data: dict[str, object] = {
        "Title": [cell(row.name, 120) for row in rows],
    }
    for stage in columns:
        data[LABELS[stage]] = pd.array([row.ranks[stage] for row in rows], dtype="Int64")
    data["Dropped by"] = [row.drop_reason or "" for row in rows]
    data["Quality"] = pd.array([row.quality for row in rows], dtype="Float64")
    data["Basis"] = [row.basis.value if row.basis else "" for row in rows]
    data["Distance²"] = pd.array([row.dense_distance for row in rows], dtype="Float64")
    data["BM25 score"] = pd.array([row.bm25_score for row in rows], dtype="Float64")
    data["RRF score"] = pd.array([row.rrf_score for row in rows], dtype="Float64")
    if Stage.RERANK in columns:
        data["Rerank score"] = pd.array([row.rerank_score for row in rows], dtype="Float64")
    data["Chunk"] = [cell(row.key, 120) for row in rows]
    data["Same as"] = [cell(row.duplicate_of or "", 120) for row in rows]
    data["Hit reasons"] = [cell(", ".join(row.hit_reasons)) for row in rows]
    return pd.DataFrame(data)
