"""One gold document through one lookup: its rank at every stage, and where and why it was lost.

The codes are those of retrieval-quality section 16.2 as far as this pipeline reaches, and our own for the steps that
the paper does not have (evidence limits, retry, projection).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from core.evaluation.behaviour import evidence_before, filtered_out
from core.evaluation.cases import Case
from core.evaluation.fixtures import Fixture
from core.evaluation.observed import Attempt, Observed, Row
from core.model import DropReason, StageStatus


class LossCode(StrEnum):
    """In pipeline order: a later one means that the evidence went further."""

    EVAL_INCOMPLETE = "EVAL_INCOMPLETE"
    CORPUS_MISSING = "CORPUS_MISSING"
    PARSE_LOSS = "PARSE_LOSS"
    ACL_FALSE_NEGATIVE = "ACL_FALSE_NEGATIVE"
    LEXICAL_MISS = "LEXICAL_MISS"
    SEMANTIC_MISS = "SEMANTIC_MISS"
    CANDIDATE_MISS = "CANDIDATE_MISS"
    FUSION_DROP = "FUSION_DROP"
    RERANK_DROP = "RERANK_DROP"
    STALE_EVIDENCE = "STALE_EVIDENCE"
    EVIDENCE_DROP = "EVIDENCE_DROP"
    RETRY_DROP = "RETRY_DROP"
    PACKING_DROP = "PACKING_DROP"
    PROJECTION_DROP = "PROJECTION_DROP"
    EVIDENCE_INCOMPLETE = "EVIDENCE_INCOMPLETE"
    SHOULD_REFUSE = "SHOULD_REFUSE"


ORDER: Final = tuple(LossCode)
LAYER: Final = {
    LossCode.EVAL_INCOMPLETE: "labels",
    LossCode.CORPUS_MISSING: "corpus",
    LossCode.PARSE_LOSS: "chunking",
    LossCode.ACL_FALSE_NEGATIVE: "filter",
    LossCode.LEXICAL_MISS: "bm25",
    LossCode.SEMANTIC_MISS: "dense",
    LossCode.CANDIDATE_MISS: "retrieve",
    LossCode.FUSION_DROP: "fuse",
    LossCode.RERANK_DROP: "rerank",
    LossCode.STALE_EVIDENCE: "evidence",
    LossCode.EVIDENCE_DROP: "evidence",
    LossCode.RETRY_DROP: "fallback",
    LossCode.PACKING_DROP: "pack",
    LossCode.PROJECTION_DROP: "project",
    LossCode.EVIDENCE_INCOMPLETE: "context",
    LossCode.SHOULD_REFUSE: "gate",
}
_BY_DROP: Final = {
    DropReason.FUSION_WINDOW: LossCode.FUSION_DROP,
    DropReason.RERANK_LIMIT: LossCode.RERANK_DROP,
    DropReason.SCOPE_VIOLATION: LossCode.ACL_FALSE_NEGATIVE,
    DropReason.STALE_REVISION: LossCode.STALE_EVIDENCE,
    DropReason.DUPLICATE_EVIDENCE: LossCode.EVIDENCE_DROP,
    DropReason.DUPLICATE_CONTENT: LossCode.EVIDENCE_DROP,
    DropReason.DOCUMENT_LIMIT: LossCode.EVIDENCE_DROP,
    DropReason.RETURN_LIMIT: LossCode.EVIDENCE_DROP,
    DropReason.ATTEMPT_REPLACED: LossCode.RETRY_DROP,
    DropReason.PACK_BUDGET: LossCode.PACKING_DROP,
    DropReason.PROJECTION_DUPLICATE: LossCode.PROJECTION_DROP,
    DropReason.PROJECTION_LIMIT: LossCode.PROJECTION_DROP,
    DropReason.PROJECTION_BYTES: LossCode.PROJECTION_DROP,
}
_DROPS: Final = tuple(reason.value for reason in DropReason)
_BROKEN: Final = {StageStatus.ERROR.value, StageStatus.UNAVAILABLE.value}


@dataclass(frozen=True, slots=True)
class Loss:
    """A failure code with its cause (a drop reason, ``category``, ``scope`` …) and a sentence."""

    code: LossCode
    text: str
    cause: str | None = None
    doc_id: str | None = None

    @property
    def layer(self) -> str:
        return LAYER[self.code]


@dataclass(frozen=True, slots=True)
class Ladder:
    """The best rank of a gold document at each stage of the selected attempt, null where it is not there."""

    doc_id: str
    dense: int | None = None
    bm25: int | None = None
    fused: int | None = None
    reranked: int | None = None
    evidence: int | None = None
    context: int | None = None
    projected: int | None = None
    deep_dense: int | None = None
    deep_bm25: int | None = None
    lost: Loss | None = None
    contributing: tuple[Loss, ...] = ()


def climb(case: Case, fixture: Fixture, observed: Observed, doc_id: str) -> Ladder:
    """The ladder of one gold document, with the first stage at which it is gone, if it is."""
    attempt = observed.selected
    rows = [row for row in attempt.rows if row.doc_id == doc_id] if attempt else []
    evidence = [(rank, p.key) for rank, p in enumerate(observed.evidence, start=1) if p.doc_id == doc_id]
    keys = {key for _, key in evidence}
    shown = [key for key, _ in observed.agent] if observed.agent is not None else None
    lost, others = _lost(case, fixture, observed, doc_id, rows, keys)
    return Ladder(
        doc_id=doc_id,
        dense=_best(row.dense_rank for row in rows),
        bm25=_best(row.bm25_rank for row in rows),
        fused=_best(row.rrf_rank for row in rows),
        reranked=_best(row.rerank_rank for row in rows),
        evidence=evidence[0][0] if evidence else None,
        context=_place(observed.packed, keys),
        projected=_place(shown, keys),
        deep_dense=fixture.probe.rank("dense", doc_id) if fixture.probe else None,
        deep_bm25=fixture.probe.rank("bm25", doc_id) if fixture.probe else None,
        lost=lost,
        contributing=(*others, *_one_branch_only(attempt, rows, doc_id)),
    )


def chunk_loss(observed: Observed, keys: Sequence[str]) -> Loss:
    """Where the chunks ``keys``, none of which is evidence, were lost: the one that went furthest speaks for all."""
    rows = [row for row in observed.selected.rows if row.key in keys] if observed.selected else []
    if not rows:
        doc_id = keys[0].partition("#")[0]
        return Loss(LossCode.CANDIDATE_MISS, f"no branch returned {', '.join(keys)}", None, doc_id)
    furthest = max(rows, key=_distance)
    return replace(_by_drop_reason(observed, furthest, furthest.key), doc_id=furthest.doc_id)


def _lost(
    case: Case, fixture: Fixture, observed: Observed, doc_id: str, rows: Sequence[Row], keys: set[str]
) -> tuple[Loss | None, tuple[Loss, ...]]:
    if keys:
        losses = list(_after_evidence(observed, rows, doc_id, keys))
        return (losses[0], tuple(losses[1:])) if losses else (None, ())
    loss = _before_evidence(case, fixture, observed, doc_id, rows)
    before = observed.replaced
    if before is not None and doc_id in evidence_before(before):
        text = f"{doc_id} was evidence of the first attempt ({before.name}); the retry replaced it"
        return Loss(LossCode.RETRY_DROP, text, DropReason.ATTEMPT_REPLACED.value, doc_id), (loss,)
    if loss.cause == DropReason.RETURN_LIMIT.value and loss.code is LossCode.EVIDENCE_DROP:
        return loss, tuple(_pushed_by_fusion(observed, rows, doc_id))
    return loss, ()


def _after_evidence(observed: Observed, rows: Sequence[Row], doc_id: str, keys: set[str]) -> Iterable[Loss]:
    reasons = {row.key: row.drop_reason for row in rows}
    if observed.packed is not None and not keys & set(observed.packed):
        cause = next((r for key in keys if (r := reasons.get(key))), DropReason.PACK_BUDGET.value)
        yield Loss(LossCode.PACKING_DROP, f"{doc_id} is evidence, but no room was left in the pack", cause, doc_id)
    if observed.agent is not None and not keys & {key for key, _ in observed.agent}:
        cause = next((r for key in keys if (r := reasons.get(key)) and r.startswith("projection")), "projection")
        yield Loss(LossCode.PROJECTION_DROP, f"{doc_id} is evidence, but the agent does not see it", cause, doc_id)


def _before_evidence(case: Case, fixture: Fixture, observed: Observed, doc_id: str, rows: Sequence[Row]) -> Loss:
    probe, attempt = fixture.probe, observed.selected
    known = probe.document(doc_id) if probe else None
    if known is not None and known.chunks == 0:
        return Loss(LossCode.CORPUS_MISSING, f"{doc_id} is not in the index", None, doc_id)
    if not rows:
        anchors = {p.anchor for p in case.gold_passages if p.doc_id == doc_id}
        chunked = [p for p in (probe.passages if probe else ()) if p.anchor in anchors]
        if chunked and not any(p.evidence_keys for p in chunked):
            return Loss(LossCode.PARSE_LOSS, f"no chunk of {doc_id} holds the gold passage whole", None, doc_id)
        if attempt is not None and doc_id in filtered_out(case, fixture, attempt):
            text = f"the category filter {attempt.category_filter!r} kept {doc_id} out"
            return Loss(LossCode.ACL_FALSE_NEGATIVE, text, "category", doc_id)
        return _candidate_miss(fixture, attempt, doc_id)
    return _by_drop_reason(observed, max(rows, key=_distance), doc_id)


def _candidate_miss(fixture: Fixture, attempt: Attempt | None, doc_id: str) -> Loss:
    if attempt is None:
        return Loss(LossCode.CANDIDATE_MISS, f"{doc_id} is no evidence, and no candidates were recorded", None, doc_id)
    broken = sorted(name for name, status in attempt.branches.items() if status in _BROKEN)
    if broken:
        text = f"{doc_id} is no candidate while the branch {', '.join(broken)} had failed"
        return Loss(LossCode.CANDIDATE_MISS, text, "branch_failed", doc_id)
    if attempt.truncated:
        text = f"{doc_id} is not among the recorded candidates, whose list was cut"
        return Loss(LossCode.CANDIDATE_MISS, text, "trace_truncated", doc_id)
    probe = fixture.probe
    if probe is None:
        return Loss(LossCode.CANDIDATE_MISS, f"no branch returned {doc_id}; nothing deeper was probed", None, doc_id)
    ranks = {branch: probe.rank(branch, doc_id) for branch in ("dense", "bm25")}
    deep = [f"{branch} rank {rank}" for branch, rank in ranks.items() if rank]
    text = f"no branch returned {doc_id}: " + (", ".join(deep) or f"not within rank {probe.depth} either")
    return Loss(LossCode.CANDIDATE_MISS, text, "deeper" if deep else "never_found", doc_id)


def _by_drop_reason(observed: Observed, row: Row, doc_id: str) -> Loss:
    reason = row.drop_reason
    if reason in _DROPS:
        code = _BY_DROP[DropReason(reason)]
        kept = len(observed.evidence)
        text = f"{doc_id} fell out by {reason}" + (f" (kept: {row.duplicate_of})" if row.duplicate_of else "")
        if (
            reason == DropReason.RETURN_LIMIT
            and row.rerank_rank is not None
            and row.rrf_rank is not None
            and row.rrf_rank <= kept < row.rerank_rank
        ):
            text = f"the reranker moved {doc_id} from rank {row.rrf_rank} to {row.rerank_rank}, beyond the {kept} kept"
            return Loss(LossCode.RERANK_DROP, text, reason, doc_id)
        cause = "scope" if code is LossCode.ACL_FALSE_NEGATIVE else reason
        return Loss(code, text, cause, doc_id)
    if row.rrf_rank is None and row.original_rank is None:
        return Loss(LossCode.FUSION_DROP, f"a branch returned {doc_id}, the fused list lacks it", None, doc_id)
    return Loss(
        LossCode.EVIDENCE_DROP, f"{doc_id} was ranked, but is no evidence and no reason is recorded", None, doc_id
    )


def _pushed_by_fusion(observed: Observed, rows: Sequence[Row], doc_id: str) -> Iterable[Loss]:
    kept = len(observed.evidence)
    best = _best(rank for row in rows for rank in (row.dense_rank, row.bm25_rank))
    fused = _best(row.rrf_rank for row in rows)
    if best is not None and fused is not None and best <= kept < fused:
        text = f"fusion moved {doc_id} from branch rank {best} to {fused}, beyond the {kept} kept"
        yield Loss(LossCode.FUSION_DROP, text, "order", doc_id)


def _one_branch_only(attempt: Attempt | None, rows: Sequence[Row], doc_id: str) -> Iterable[Loss]:
    if attempt is None or not rows:
        return
    ran = {name for name, status in attempt.branches.items() if status == StageStatus.COMPLETE}
    by_dense, by_bm25 = any(row.dense_rank for row in rows), any(row.bm25_rank for row in rows)
    if by_dense and not by_bm25 and "bm25" in ran:
        yield Loss(LossCode.LEXICAL_MISS, f"bm25 did not return {doc_id}, dense did", None, doc_id)
    if by_bm25 and not by_dense and "dense" in ran:
        yield Loss(LossCode.SEMANTIC_MISS, f"dense did not return {doc_id}, bm25 did", None, doc_id)


def _distance(row: Row) -> int:
    """How far a row went: by its drop reason in pipeline order; without one, as far as fusion or not even there."""
    if row.drop_reason in _DROPS:
        return _DROPS.index(row.drop_reason)
    return -1 if row.rrf_rank is None and row.original_rank is None else len(_DROPS)


def _best(ranks: Iterable[int | None]) -> int | None:
    return min((rank for rank in ranks if rank is not None), default=None)


def _place(keys: Sequence[str] | None, wanted: set[str]) -> int | None:
    return next((rank for rank, key in enumerate(keys or (), start=1) if key in wanted), None)
