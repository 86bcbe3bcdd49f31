"""Which way the pipeline went: fallback, filter, gate, branches, level, latency, side effects (DESIGN, section 6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from core.evaluation.cases import NONE, Case
from core.evaluation.fixtures import Fixture
from core.evaluation.gold import relevant
from core.evaluation.judge import Share
from core.evaluation.observed import Attempt, Observed
from core.evaluation.stages import RankedStage, StageScores
from core.model import AttemptName, DropReason

Pairs = Sequence[tuple[Case, Fixture]]


@dataclass(frozen=True, slots=True)
class Fallback:
    """``correct``: among cases that say whether a fallback belongs there. ``helped`` / ``hurt`` / ``neutral``: by the
    share of relevant documents among the evidence, before and after, of triggered cases with gold."""

    triggered: Share
    correct: Share
    helped: tuple[str, ...]
    hurt: tuple[str, ...]
    neutral: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GateAccuracy:
    """Answerable against unanswerable, by whether the lookup ended with a level (accepted) or without."""

    answerable_accepted: int
    answerable_refused: int
    unanswerable_accepted: int
    unanswerable_refused: int

    @property
    def accuracy(self) -> float | None:
        right = self.answerable_accepted + self.unanswerable_refused
        total = right + self.answerable_refused + self.unanswerable_accepted
        return right / total if total else None


@dataclass(frozen=True, slots=True)
class Branches:
    """Shares at ``k`` over cases with gold in which both branches ran (rerank: in which a reranker ran).

    ``intersection_rate``: chunks in both top k / chunks in either. ``rrf_incremental_recall``: recall of the
    fused list minus the better single branch. ``rescue`` / ``damage``: of cases that fusion missed (found), the share
    that the reranker found (missed).
    """

    k: int
    cases: int
    dense_only_hit: Share
    bm25_only_hit: Share
    intersection_rate: float | None
    rrf_incremental_recall: float | None
    reranker_rescue: Share
    reranker_damage: Share


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds by nearest rank over ``count`` lookups."""

    p50: float
    p95: float
    count: int


@dataclass(frozen=True, slots=True)
class Behaviour:
    fallback: Fallback
    filter_misfires: tuple[str, ...]
    filtered: int
    gate: GateAccuracy
    levels: Mapping[str, int]
    branches: Branches | None
    latency: Mapping[str, Latency]
    without_embedding: Latency | None
    scope_violations: int
    stale_evidence: int
    no_answer_accepted: tuple[str, ...]
    degraded: tuple[str, ...]
    truncated: tuple[str, ...]
    costs: Mapping[str, float] = field(default_factory=dict)


def summarise_behaviour(pairs: Pairs, stages: Mapping[RankedStage, StageScores], k: int) -> Behaviour:
    """Over the lookups that succeeded; failed ones have no behaviour to count and stand in the judge's summary."""
    ran = [(case, f, f.observed) for case, f in pairs if f.observed is not None and not f.failed]
    levels = [o.level or NONE for _, _, o in ran]
    filtered = [(c, f, o) for c, f, o in ran if o.attempts and o.attempts[0].category_filter]
    return Behaviour(
        fallback=_fallback([(c, o) for c, _, o in ran]),
        filter_misfires=tuple(c.case_id for c, f, o in filtered if filtered_out(c, f, o.attempts[0])),
        filtered=len(filtered),
        gate=_gate([(c, o) for c, _, o in ran]),
        levels={level: levels.count(level) for level in ("PRECISE", "REFERENCE", NONE)},
        branches=_branches([(c, o) for c, _, o in ran], stages, k),
        latency=latency([o for _, _, o in ran]),
        without_embedding=latency_without_embedding([o for _, _, o in ran]),
        scope_violations=sum(a.scope_violations for _, _, o in ran for a in o.attempts),
        stale_evidence=sum(stale_pieces(f) for _, f, _ in ran),
        no_answer_accepted=tuple(c.case_id for c, _, o in ran if not c.answerable and o.level),
        degraded=tuple(c.case_id for c, _, o in ran if o.degraded),
        truncated=tuple(c.case_id for c, _, o in ran if o.truncated),
        costs=_costs([o for _, _, o in ran]),
    )


def filtered_out(case: Case, fixture: Fixture, attempt: Attempt) -> tuple[str, ...]:
    """Relevant documents that the category filter of ``attempt`` kept out: their category differs, and the attempt
    has none of their chunks. Their category is known from the index, or from another attempt that found them."""
    if not attempt.category_filter:
        return ()
    categories = {d.doc_id: d.category for d in fixture.probe.documents if d.chunks} if fixture.probe else {}
    for other in fixture.observed.attempts if fixture.observed else ():
        for row in other.rows:
            categories.setdefault(row.doc_id, row.category)
    present = {row.doc_id for row in attempt.rows}
    return tuple(
        doc_id
        for doc_id in relevant(case)
        if doc_id not in present and categories.get(doc_id) not in {None, attempt.category_filter}
    )


def stale_pieces(fixture: Fixture) -> int:
    """Pieces of evidence older than the newest revision that the index knows."""
    newest = {d.doc_id: d.revision for d in fixture.probe.documents} if fixture.probe else {}
    pieces = fixture.observed.evidence if fixture.observed else ()
    return sum(
        piece.revision is not None and (known := newest.get(piece.doc_id)) is not None and piece.revision < known
        for piece in pieces
    )


def latency(observed: Iterable[Observed]) -> dict[str, Latency]:
    """p50 and p95 of every recorded time, in pipeline order; a stage that never ran is absent."""
    listed = [o.timings for o in observed]
    names = dict.fromkeys(name for timings in listed for name in timings)
    result: dict[str, Latency] = {}
    for name in names:
        result[name] = _latency(timings[name] for timings in listed if name in timings)
    return result


def latency_without_embedding(observed: Iterable[Observed]) -> Latency | None:
    """p50 and p95 of the total less the embedding. A question whose vector was cached embeds nothing, so the totals of
    two runs over one question are only comparable without it. None without a recorded total."""
    timings = (o.timings for o in observed)
    rest = [t["total_ms"] - t.get("embedding_ms", 0.0) for t in timings if "total_ms" in t]
    return _latency(rest) if rest else None


def _latency(milliseconds: Iterable[float]) -> Latency:
    values = sorted(milliseconds)
    return Latency(percentile(values, 0.50), percentile(values, 0.95), len(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of sorted, non-empty ``values``: the smallest that ``share`` of them do not exceed."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def evidence_before(attempt: Attempt) -> frozenset[str]:
    """Documents that would have been the evidence of an attempt that a retry replaced."""
    kept = {DropReason.ATTEMPT_REPLACED.value}
    return frozenset(row.doc_id for row in attempt.rows if row.evidence_rank or row.drop_reason in kept)


def _fallback(ran: Sequence[tuple[Case, Observed]]) -> Fallback:
    triggered = [(c, o) for c, o in ran if _triggered(o)]
    says = [(c, o) for c, o in ran if c.expected_fallback_reason or c.expected_selected_attempt]
    moved: dict[str, list[str]] = {"helped": [], "hurt": [], "neutral": []}
    for case, observed in triggered:
        gold, before = set(relevant(case)), observed.replaced
        if gold and before is not None:
            gain = len(gold & {p.doc_id for p in observed.evidence}) - len(gold & evidence_before(before))
            moved["helped" if gain > 0 else "hurt" if gain < 0 else "neutral"].append(case.case_id)
    return Fallback(
        triggered=Share(len(triggered), len(ran)),
        correct=Share(sum(_as_expected(c, o) for c, o in says), len(says)),
        helped=tuple(moved["helped"]),
        hurt=tuple(moved["hurt"]),
        neutral=tuple(moved["neutral"]),
    )


def _triggered(observed: Observed) -> bool:
    return observed.fallback_reason is not None or any(
        a.name == AttemptName.UNFILTERED_VECTOR_RETRY for a in observed.attempts
    )


def _as_expected(case: Case, observed: Observed) -> bool:
    if case.expected_fallback_reason is not None:
        return case.expected_fallback_reason == (observed.fallback_reason or NONE)
    return (case.expected_selected_attempt == AttemptName.UNFILTERED_VECTOR_RETRY) == _triggered(observed)


def _gate(ran: Sequence[tuple[Case, Observed]]) -> GateAccuracy:
    accepted = [(case.answerable, observed.level is not None) for case, observed in ran]
    return GateAccuracy(
        *(accepted.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False)))
    )


def _branches(
    ran: Sequence[tuple[Case, Observed]], stages: Mapping[RankedStage, StageScores], k: int
) -> Branches | None:
    dense, bm25 = _values(stages, RankedStage.DENSE), _values(stages, RankedStage.BM25)
    fused, reranked = _values(stages, RankedStage.FUSED), _values(stages, RankedStage.RERANKED)
    both = [q for q in dense if q in bm25]
    if not both:
        return None
    hit, recall = f"hit@{k}", f"recall@{k}"
    overlaps = [rate for case, o in ran if case.case_id in both and (rate := _overlap(o, k)) is not None]
    gains = [(fused[q][recall] or 0) - max(dense[q][recall] or 0, bm25[q][recall] or 0) for q in both if q in fused]
    missed = [q for q in reranked if q in fused and not fused[q][hit]]
    found = [q for q in reranked if q in fused and fused[q][hit]]
    return Branches(
        k=k,
        cases=len(both),
        dense_only_hit=Share(sum(bool(dense[q][hit]) and not bm25[q][hit] for q in both), len(both)),
        bm25_only_hit=Share(sum(bool(bm25[q][hit]) and not dense[q][hit] for q in both), len(both)),
        intersection_rate=fmean(overlaps) if overlaps else None,
        rrf_incremental_recall=fmean(gains) if gains else None,
        reranker_rescue=Share(sum(bool(reranked[q][hit]) for q in missed), len(missed)),
        reranker_damage=Share(sum(not reranked[q][hit] for q in found), len(found)),
    )


def _values(stages: Mapping[RankedStage, StageScores], stage: RankedStage) -> Mapping[str, Mapping[str, float | None]]:
    scores = stages[stage].scores if stage in stages else None
    return scores.per_query if scores is not None else {}


def _overlap(observed: Observed, k: int) -> float | None:
    rows = observed.selected.rows if observed.selected else ()
    dense = {row.key for row in rows if row.dense_rank and row.dense_rank <= k}
    bm25 = {row.key for row in rows if row.bm25_rank and row.bm25_rank <= k}
    return len(dense & bm25) / len(dense | bm25) if dense | bm25 else None


def _costs(observed: Sequence[Observed]) -> dict[str, float]:
    names = dict.fromkeys(name for o in observed for name in o.costs)
    return {name: fmean(o.costs[name] for o in observed if name in o.costs) for name in names}
