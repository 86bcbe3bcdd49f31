"""The ranking of every stage of a lookup, as documents: what the ranking metrics are computed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from core.evaluation.metrics import DEFAULT_KS, Mean, Scores, score, score_union, unique
from core.evaluation.observed import Attempt, Observed, Row
from core.model import DropReason, StageStatus, split_evidence_key


class RankedStage(StrEnum):
    """Stages that hold a ranking, in pipeline order."""

    BM25 = "bm25"
    DENSE = "dense"
    UNION = "union"
    FUSED = "fused"
    RERANKED = "reranked"
    EVIDENCE = "evidence"
    CONTEXT = "context"
    PROJECTED = "projected"


@dataclass(frozen=True, slots=True)
class Ranking:
    """One stage of one lookup. ``documents`` at their best rank; null: the stage failed and does not know.

    ``repeats`` counts evidence keys that stood twice in the stage (a defect); several chunks of one document are none.
    """

    documents: tuple[str, ...] | None
    repeats: int = 0


@dataclass(frozen=True, slots=True)
class StageScores:
    """Metrics of one stage over all queries for which it ran; ``scores`` null: it ran for none (``not_run``)."""

    stage: RankedStage
    scores: Scores | None
    repeats: Mapping[str, int] = field(default_factory=dict)

    def means(self, queries: Iterable[str] | None = None) -> tuple[Mean, ...]:
        """The means over ``queries`` (default all); a union has hit and recall only; empty when not run."""
        if self.scores is None:
            return ()
        means = self.scores.means(queries)
        if self.stage is RankedStage.UNION:
            return tuple(mean for mean in means if mean.name.startswith(("recall@", "hit@")))
        return means


_BROKEN: Final = {StageStatus.ERROR.value, StageStatus.UNAVAILABLE.value}
_CUT_BY_FUSION: Final = {DropReason.FUSION_WINDOW.value}
_CUT_BY_RERANK: Final = {DropReason.FUSION_WINDOW.value, DropReason.RERANK_LIMIT.value}


def rankings(observed: Observed) -> dict[RankedStage, Ranking]:
    """The stages that ran, of the selected attempt. A stage that did not run, or was not recorded, is absent."""
    found: dict[RankedStage, Ranking] = {}
    attempt = observed.selected
    if attempt is not None:
        for stage, rank in ((RankedStage.BM25, _bm25), (RankedStage.DENSE, _dense)):
            status = attempt.branches.get(stage.value)
            if status in _BROKEN:
                found[stage] = Ranking(None)
            elif status == StageStatus.COMPLETE or (status is None and any(rank(row) for row in attempt.rows)):
                found[stage] = _ranked(attempt.rows, rank)
        found[RankedStage.FUSED] = _fused(attempt)
        if any(row.rerank_rank for row in attempt.rows):
            found[RankedStage.RERANKED] = _ranked(attempt.rows, _order, _CUT_BY_RERANK)
    keys = [piece.key for piece in observed.evidence]
    documents = {piece.key: piece.doc_id for piece in observed.evidence}
    found[RankedStage.EVIDENCE] = _of_keys(keys, documents)
    if observed.packed is not None:
        found[RankedStage.CONTEXT] = _of_keys(observed.packed, documents)
    if observed.agent is not None:
        found[RankedStage.PROJECTED] = _of_keys([key for key, _ in observed.agent], documents)
    return found


def score_stages(
    qrels: Mapping[str, Mapping[str, int]],
    observed: Mapping[str, Observed | None],
    ks: Sequence[int] = DEFAULT_KS,
) -> dict[RankedStage, StageScores]:
    """Metrics of every stage. ``observed``: by query, null where the lookup failed or was not run."""
    ran = {query: rankings(o) if o is not None and not o.failed else None for query, o in observed.items()}
    result: dict[RankedStage, StageScores] = {}
    for stage in RankedStage:
        if stage is RankedStage.UNION:
            result[stage] = _union(qrels, ran, ks)
            continue
        here = {q: r.get(stage) if r is not None else Ranking(None) for q, r in ran.items()}
        present = {q: ranking for q, ranking in here.items() if ranking is not None}
        if all(ran[q] is None for q in present):
            result[stage] = StageScores(stage, None)
            continue
        grades = {q: qrels[q] for q in present if q in qrels}
        scores = score(grades, {q: ranking.documents for q, ranking in present.items()}, ks)
        result[stage] = StageScores(stage, scores, {q: r.repeats for q, r in present.items() if r.repeats})
    return result


def _union(
    qrels: Mapping[str, Mapping[str, int]],
    ran: Mapping[str, dict[RankedStage, Ranking] | None],
    ks: Sequence[int],
) -> StageScores:
    pairs: dict[str, tuple[Sequence[str], Sequence[str]] | None] = {}
    for query, stages in ran.items():
        if stages is None:
            pairs[query] = None
            continue
        both = [stages[stage] for stage in (RankedStage.BM25, RankedStage.DENSE) if stage in stages]
        if both:
            lists = [ranking.documents for ranking in both if ranking.documents is not None]
            pairs[query] = (lists[0], lists[1] if len(lists) > 1 else ()) if lists else None
    if all(ran[query] is None for query in pairs):
        return StageScores(RankedStage.UNION, None)
    grades = {q: qrels[q] for q in pairs if q in qrels}
    return StageScores(RankedStage.UNION, score_union(grades, pairs, ks))


def _bm25(row: Row) -> int | None:
    return row.bm25_rank


def _dense(row: Row) -> int | None:
    return row.dense_rank


def _rrf(row: Row) -> int | None:
    return row.rrf_rank


def _order(row: Row) -> int | None:
    return row.original_rank


def _fused(attempt: Attempt) -> Ranking:
    """The order after fusion; with a single branch the fusion is that branch's own order."""
    for rank in (_rrf, _order, _dense, _bm25):
        if any(rank(row) for row in attempt.rows):
            return _ranked(attempt.rows, rank, _CUT_BY_FUSION)
    failed = attempt.status in _BROKEN
    return Ranking(None if failed else ())


def _ranked(
    rows: Iterable[Row], rank: Callable[[Row], int | None], cut: frozenset[str] | set[str] = frozenset()
) -> Ranking:
    placed = [(place, row) for row in rows if (place := rank(row)) is not None and row.drop_reason not in cut]
    placed.sort(key=lambda pair: pair[0])
    keys, repeats = unique(row.key for _, row in placed)
    documents = {row.key: row.doc_id for _, row in placed}
    return Ranking(unique(documents[key] for key in keys)[0], repeats)


def _of_keys(keys: Sequence[str], documents: Mapping[str, str]) -> Ranking:
    kept, repeats = unique(keys)
    return Ranking(unique(documents.get(key) or (split_evidence_key(key) or (key, 0))[0] for key in kept)[0], repeats)
