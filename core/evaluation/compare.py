"""Two runs pair by pair: what one finds and the other misses, with intervals, a test, and the price of it.

A difference of two means says little over few cases; a verdict here names cases first and calls a metric only where the
paired test does. A fall on thin labels is ``EVAL_INCOMPLETE``, counted apart and no regression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from core.errors import InvalidCases
from core.evaluation.behaviour import Latency
from core.evaluation.cases import CaseSet
from core.evaluation.difference import EPSILON, Differing, thin_labels
from core.evaluation.fixtures import Fixture, FixtureSet, Stale
from core.evaluation.loss import UNJUDGED_LIMIT
from core.evaluation.metrics import DEFAULT_KS
from core.evaluation.offline import evaluate
from core.evaluation.report import CaseRow, Report
from core.evaluation.stages import RankedStage, rankings
from core.evaluation.stats import Interval, bootstrap_mean, jaccard, randomisation_test, rbo
from core.wording import counted

ALPHA: Final = 0.05
WORST: Final = 10
WITHOUT_EMBEDDING: Final = "total_without_embedding_ms"
_SAME: Final = ("generation", "corpus_snapshot", "profile")


@dataclass(frozen=True, slots=True)
class PairedMetric:
    """``delta`` = mean of (b - a) over ``pairs`` cases scored in both; ``interval``: 95 % bootstrap; ``p``: paired
    randomisation. ``incomplete``: pairs in which the losing side has too few judged results; they stand in no other
    number here. ``significant``: p below 0.05 and the interval on one side of 0."""

    stage: RankedStage
    metric: str
    mean_a: float | None
    mean_b: float | None
    delta: float | None
    interval: Interval | None
    p: float | None
    wins: int
    ties: int
    losses: int
    pairs: int
    incomplete: int

    @property
    def significant(self) -> bool:
        if self.p is None or self.interval is None or self.p >= ALPHA:
            return False
        return self.interval.low > 0 or self.interval.high < 0


@dataclass(frozen=True, slots=True)
class PairRow:
    """One case in both runs. Ranks are those of the first relevant document in the evidence (1 / MRR), null: none."""

    case_id: str
    query_type: str
    delta: float | None
    rank_a: int | None
    rank_b: int | None
    passed_a: bool | None
    passed_b: bool | None
    jaccard: float | None
    rbo: float | None
    incomplete: bool
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class SideEffect:
    """A number that must not grow while a metric does."""

    name: str
    a: float | None
    b: float | None
    worse: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    name_a: str
    name_b: str
    k: int
    verdict: str
    metrics: tuple[PairedMetric, ...]
    rows: tuple[PairRow, ...]
    worst: tuple[PairRow, ...]
    found_by_b: tuple[str, ...]
    lost_by_b: tuple[str, ...]
    incomplete: tuple[str, ...]
    jaccard: float | None
    rbo: float | None
    latency: Mapping[str, tuple[Latency | None, Latency | None]]
    side_effects: tuple[SideEffect, ...]
    differing: tuple[Differing, ...]
    stale: tuple[Stale, ...]
    report_a: Report
    report_b: Report


def compare(
    cases: CaseSet,
    a: FixtureSet,
    b: FixtureSet,
    *,
    ks: Sequence[int] = DEFAULT_KS,
    unjudged_limit: float = UNJUDGED_LIMIT,
    same_index: bool = True,
) -> Comparison:
    """Runs ``a`` (before) and ``b`` (after) over the same cases.

    ``same_index`` refuses fixtures of different generations, corpora or models (InvalidCases): two modes can only be
    held against each other over one index. Set it to False to compare two indexes on purpose; the differences are
    then named in ``differing``.
    """
    differing = tuple(_index_differences(a, b))
    if differing and same_index:
        told = "; ".join(map(str, differing))
        raise InvalidCases([f"{a.mode} and {b.mode} were not taken over one index ({told}); take both snapshots again"])
    before = evaluate(cases, a, ks=ks, unjudged_limit=unjudged_limit)
    after = evaluate(cases, b, ks=ks, unjudged_limit=unjudged_limit)
    k = ks[0]
    thin = _thin(before, after, k, unjudged_limit)
    rows = tuple(_rows(before, after, a, b, k, thin))
    metrics = tuple(_metrics(before, after, ks, thin))
    found, lost = _found_and_lost(before, after, k, thin)
    name_a, name_b = (a.mode, b.mode) if a.mode != b.mode else (f"{a.mode} before", f"{b.mode} after")
    scored = [row for row in rows if row.delta is not None and row.delta < -EPSILON]
    effects = tuple(_side_effects(before, after))
    return Comparison(
        name_a=name_a,
        name_b=name_b,
        k=k,
        verdict=_verdict(name_a, name_b, k, found, lost, metrics, effects, thin),
        metrics=metrics,
        rows=rows,
        worst=tuple(sorted(scored, key=lambda row: (row.delta or 0, row.case_id))[:WORST]),
        found_by_b=found,
        lost_by_b=lost,
        incomplete=tuple(sorted(thin)),
        jaccard=_mean(row.jaccard for row in rows),
        rbo=_mean(row.rbo for row in rows),
        latency=_latency(before, after),
        side_effects=effects,
        differing=differing,
        stale=(*before.stale, *after.stale),
        report_a=before,
        report_b=after,
    )


def _latency(before: Report, after: Report) -> dict[str, tuple[Latency | None, Latency | None]]:
    """Every recorded time of both sides, and last the total that a cached query vector does not change."""
    a, b = before.behaviour, after.behaviour
    pairs = {name: (a.latency.get(name), b.latency.get(name)) for name in dict.fromkeys([*a.latency, *b.latency])}
    return {**pairs, WITHOUT_EMBEDDING: (a.without_embedding, b.without_embedding)} if pairs else {}


def _index_differences(a: FixtureSet, b: FixtureSet) -> Iterable[Differing]:
    if not (_answered(a) and _answered(b)):
        return
    for name in _SAME:
        left, right = a.values(name), b.values(name)
        if left != right or len(left) > 1:
            yield Differing(name, ", ".join(left) or "none", ", ".join(right) or "none")


def _answered(run: FixtureSet) -> bool:
    return any(not fixture.failed for fixture in run.fixtures.values())


def _value(row: CaseRow, stage: RankedStage, metric: str) -> float | None:
    return row.metrics.get(stage.value, {}).get(metric)


def _thin(before: Report, after: Report, k: int, limit: float) -> frozenset[str]:
    """Cases whose difference cannot be called: the side with the lower nDCG has too few judged results.

    Both directions alike: dropping only the falls would make every change look good.
    """
    found: set[str] = set()
    for old, new in zip(before.rows, after.rows, strict=True):
        a, b = (_value(row, RankedStage.EVIDENCE, f"ndcg@{k}") for row in (old, new))
        if a is None or b is None or abs(a - b) <= EPSILON:
            continue
        if thin_labels(new if b < a else old, k, limit):
            found.add(new.case_id)
    return frozenset(found)


def _metrics(before: Report, after: Report, ks: Sequence[int], thin: frozenset[str]) -> Iterable[PairedMetric]:
    wanted = [(RankedStage.FUSED, f"recall@{ks[-1]}")]
    wanted += [(RankedStage.EVIDENCE, name) for name in (f"recall@{ks[0]}", f"hit@{ks[0]}", f"ndcg@{ks[0]}", "mrr")]
    wanted += [(RankedStage.CONTEXT, f"recall@{ks[0]}"), (RankedStage.PROJECTED, f"recall@{ks[0]}")]
    for stage, metric in wanted:
        yield _paired(before, after, stage, metric, thin)


def _paired(before: Report, after: Report, stage: RankedStage, metric: str, thin: frozenset[str]) -> PairedMetric:
    pairs: list[tuple[float, float]] = []
    skipped = 0
    for old, new in zip(before.rows, after.rows, strict=True):
        a, b = _value(old, stage, metric), _value(new, stage, metric)
        if a is None or b is None:
            continue
        if new.case_id in thin:
            skipped += 1
            continue
        pairs.append((a, b))
    deltas = [b - a for a, b in pairs]
    return PairedMetric(
        stage=stage,
        metric=metric,
        mean_a=fmean(a for a, _ in pairs) if pairs else None,
        mean_b=fmean(b for _, b in pairs) if pairs else None,
        delta=fmean(deltas) if deltas else None,
        interval=bootstrap_mean(deltas),
        p=randomisation_test(deltas) if deltas else None,
        wins=sum(delta > EPSILON for delta in deltas),
        ties=sum(abs(delta) <= EPSILON for delta in deltas),
        losses=sum(delta < -EPSILON for delta in deltas),
        pairs=len(deltas),
        incomplete=skipped,
    )


def _rows(
    before: Report, after: Report, a: FixtureSet, b: FixtureSet, k: int, thin: frozenset[str]
) -> Iterable[PairRow]:
    for old, new in zip(before.rows, after.rows, strict=True):
        left, right = (_value(row, RankedStage.EVIDENCE, f"ndcg@{k}") for row in (old, new))
        fixture_a, fixture_b = a.fixtures.get(old.case_id), b.fixtures.get(new.case_id)
        unknown = None if old.known and new.known else f"{old.status.value} / {new.status.value}"
        yield PairRow(
            case_id=new.case_id,
            query_type=new.query_type,
            delta=right - left if left is not None and right is not None else None,
            rank_a=_first_rank(old),
            rank_b=_first_rank(new),
            passed_a=old.passed,
            passed_b=new.passed,
            jaccard=None if unknown else jaccard(_keys(fixture_a, k), _keys(fixture_b, k)),
            rbo=None if unknown else rbo(_documents(fixture_a), _documents(fixture_b)),
            incomplete=new.case_id in thin,
            unknown=unknown,
        )


def _first_rank(row: CaseRow) -> int | None:
    value = _value(row, RankedStage.EVIDENCE, "mrr")
    return round(1 / value) if value else None


def _keys(fixture: Fixture | None, k: int) -> list[str]:
    pieces = fixture.observed.evidence if fixture and fixture.observed else ()
    return [piece.key for piece in pieces][:k]


def _documents(fixture: Fixture | None) -> tuple[str, ...]:
    if fixture is None or fixture.observed is None:
        return ()
    found = rankings(fixture.observed)
    ranking = found.get(RankedStage.RERANKED) or found.get(RankedStage.FUSED) or found[RankedStage.EVIDENCE]
    return ranking.documents or ()


def _found_and_lost(
    before: Report, after: Report, k: int, thin: frozenset[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found: list[str] = []
    lost: list[str] = []
    for old, new in zip(before.rows, after.rows, strict=True):
        a, b = (_value(row, RankedStage.EVIDENCE, f"hit@{k}") for row in (old, new))
        if a is None or b is None or new.case_id in thin or a == b:
            continue
        (found if b > a else lost).append(new.case_id)
    return tuple(found), tuple(lost)


def _side_effects(before: Report, after: Report) -> Iterable[SideEffect]:
    old, new = before.behaviour, after.behaviour
    counts: list[tuple[str, float | None, float | None]] = [
        ("no-answer false accepts", len(old.no_answer_accepted), len(new.no_answer_accepted)),
        ("scope violations", old.scope_violations, new.scope_violations),
        ("stale evidence", old.stale_evidence, new.stale_evidence),
        ("filter misfires", len(old.filter_misfires), len(new.filter_misfires)),
        ("failed lookups", before.judgement.by_status["FAILED"], after.judgement.by_status["FAILED"]),
        ("duplicate ratio of the context", before.context.duplicate_ratio, after.context.duplicate_ratio),
        *((f"{n} (mean)", old.costs.get(n), new.costs.get(n)) for n in dict.fromkeys([*old.costs, *new.costs])),
    ]
    for name, a, b in counts:
        yield SideEffect(name, a, b, a is not None and b is not None and b > a + EPSILON)


def _verdict(
    name_a: str,
    name_b: str,
    k: int,
    found: Sequence[str],
    lost: Sequence[str],
    metrics: Sequence[PairedMetric],
    effects: Sequence[SideEffect],
    thin: frozenset[str],
) -> str:
    pairs = max((metric.pairs for metric in metrics), default=0)
    if not pairs:
        return f"{name_b} and {name_a} share no case that both answered and that has gold: nothing can be said."
    first = f"{name_b} finds {counted(len(found), 'case')} that {name_a} misses, loses {len(lost)}"
    if not found and not lost:
        first = f"{name_b} and {name_a} find the same {pairs} cases within rank {k}"
    clauses = [
        _clause(metric, pairs) for metric in metrics if metric.stage is RankedStage.EVIDENCE and metric.metric == "mrr"
    ]
    clauses += [
        _clause(m, pairs) for m in metrics if m.significant and (m.stage, m.metric) != (RankedStage.EVIDENCE, "mrr")
    ]
    if thin:
        clauses.append(
            f"{counted(len(thin), 'case')} moved on labels too thin to judge ({', '.join(sorted(thin)[:3])})"
        )
    worse = [effect.name for effect in effects if effect.worse and not effect.name.endswith("(mean)")]
    if worse:
        clauses.append(f"worse: {', '.join(worse)}")
    return "; ".join([first, *clauses]) + "."


def _clause(metric: PairedMetric, pairs: int) -> str:
    name = metric.metric.upper() if metric.metric == "mrr" else f"{metric.metric} of the {metric.stage.value}"
    if metric.delta is None:
        return f"{name} was scored in no pair"
    if not metric.wins and not metric.losses:
        return f"{name} is the same in every case"
    moved = f"{metric.delta:+.3f}"
    if metric.interval is not None:
        moved += f", 95 % interval {metric.interval.low:+.3f} to {metric.interval.high:+.3f}"
    if metric.significant:
        return f"{name} is {'better' if metric.delta > 0 else 'worse'} ({moved}, p {p_value(metric.p)})"
    return f"too few cases to call {name} ({moved}, {metric.wins + metric.losses} of {pairs} differ)"


def p_value(p: float | None) -> str:
    """``= 0.042``. A randomisation test never gives 0: what is smaller than its display is said to be so."""
    return "unknown" if p is None else f"= {p:.3f}" if p >= 0.001 else "< 0.001"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
