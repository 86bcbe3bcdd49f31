"""Calibration: the distance scale and the thresholds of an embedding profile, from judged queries.

The gate asks one number, the best quality of a lookup. So the operating points are chosen on the best distance of each
query: answerable ones should pass, unanswerable ones should not. Distances are squared L2 (smaller is nearer); lexical
shares and reranker scores lie in [0,1] (larger is better). Nothing is saved here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from core.evaluation.cases import Case
from core.evaluation.fixtures import Fixture
from core.evaluation.gold import relevance
from core.evaluation.stats import Interval, auroc, wilson
from core.model import QualityBasis

FEW_NEGATIVES: Final = 50
REFERENCE: Final = 0.5
PRECISE: Final = 0.75
MAX_DISTANCE: Final = 4.0
_DENSE = {QualityBasis.DENSE_HIT.value, QualityBasis.DENSE_EXACT.value}
DENSE: Final = "dense"


class Aim(StrEnum):
    """How the operating point of the gate is chosen. ``balanced``: equal weight to both errors (Youden);
    ``false_fallback``: at most the given share of answerable queries may be taken for low quality."""

    BALANCED = "balanced"
    FALSE_FALLBACK = "false_fallback"


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """One judged query on one basis. ``best``: the value that the gate sees (nearest distance, or best share or
    score); ``best_gold`` and ``best_irrelevant``: of relevant and of all other candidates, null where there is none."""

    query_id: str
    set_name: str
    basis: str
    answerable: bool
    best: float
    best_gold: float | None = None
    best_irrelevant: float | None = None


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """``count`` of ``total`` with its 95 % Wilson interval; the rate is null when there is nothing to count."""

    count: int
    total: int
    interval: Interval | None

    @property
    def rate(self) -> float | None:
        return self.count / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A threshold on ``best``. False fallback: an answerable query beyond it; missed fallback: an unanswerable one
    within it."""

    threshold: float
    false_fallback: ErrorRate
    missed_fallback: ErrorRate


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What to save. ``min_distance`` and ``max_distance`` are null for a basis that has no distance."""

    basis: str
    reference: OperatingPoint
    precise: OperatingPoint
    min_distance: float | None
    max_distance: float | None
    precise_threshold: float
    reference_threshold: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """Sorted values of one group: what the plot draws."""

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """One basis. ``suggestion`` is null when a group is empty; ``warnings`` say how far the numbers can be trusted.

    ``separation``: AUROC of best answerable against best unanswerable; ``gold_separation``: of gold against other
    candidates. 0.5 cannot tell them apart, 1 always can.
    """

    basis: str
    answerable: int
    unanswerable: int
    sets: tuple[str, ...]
    distributions: tuple[Distribution, ...]
    separation: float | None
    gold_separation: float | None
    suggestion: Suggestion | None
    current: OperatingPoint | None = None
    warnings: tuple[str, ...] = ()


def judged_query(case: Case, fixture: Fixture, set_name: str = "") -> tuple[JudgedQuery, ...]:
    """The values of one case, one entry a basis that occurs: ``dense`` (hit or exact), ``lexical``, ``rerank``.

    Values come from the first attempt: it is the one whose quality the gate asks. A failed lookup gives none.
    """
    observed = fixture.observed
    if observed is None or observed.failed or not observed.attempts:
        return ()
    grades = relevance(case)
    values: dict[str, list[tuple[float, bool]]] = {}
    for row in observed.attempts[0].rows:
        good = grades.get(row.doc_id, 0) > 0
        distance = row.dense_distance if row.dense_distance is not None else row.exact_distance
        if distance is not None:
            values.setdefault(DENSE, []).append((distance, good))
        if row.quality_basis not in {*_DENSE, None, QualityBasis.RANK.value} and row.quality_score is not None:
            values.setdefault(str(row.quality_basis), []).append((row.quality_score, good))
    return tuple(_judged(case, basis, found, set_name) for basis, found in values.items())


def calibrate(
    queries: Iterable[JudgedQuery],
    basis: str = DENSE,
    *,
    aim: Aim = Aim.BALANCED,
    false_fallback: float = 0.05,
    missed_precise: float = 0.05,
    current_threshold: float | None = None,
) -> Calibration:
    """The calibration of one basis over queries pooled from any number of sets.

    The reference point is chosen by ``aim``; the precise point is the loosest that lets at most ``missed_precise`` of
    the unanswerable queries pass, and never looser than the reference point. ``current_threshold``: the value of
    ``best`` at which the gate switches today, to show its error rates beside.
    """
    listed = [query for query in queries if query.basis == basis]
    sign = 1.0 if basis == DENSE else -1.0
    good = sorted(sign * query.best for query in listed if query.answerable)
    bad = sorted(sign * query.best for query in listed if not query.answerable)
    gold = [sign * q.best_gold for q in listed if q.best_gold is not None]
    other = [sign * q.best_irrelevant for q in listed if q.best_irrelevant is not None]
    suggestion = None
    if good and bad:
        reference = _reference(good, bad, aim, false_fallback)
        precise = _precise(good, bad, reference, missed_precise)
        suggestion = _suggest(basis, sign, good, bad, reference, precise)
    current = None if current_threshold is None else _point(good, bad, sign * current_threshold, sign)
    return Calibration(
        basis=basis,
        answerable=len(good),
        unanswerable=len(bad),
        sets=tuple(sorted({query.set_name for query in listed})),
        distributions=tuple(
            Distribution(label, tuple(sorted(sign * value for value in values)))
            for label, values in (("answerable", good), ("unanswerable", bad), ("gold", gold), ("not relevant", other))
        ),
        separation=auroc([-value for value in good], [-value for value in bad]),
        gold_separation=auroc([-value for value in gold], [-value for value in other]),
        suggestion=suggestion,
        current=current,
        warnings=tuple(_warnings(good, bad, listed)),
    )


def scale(reference: float, precise: float) -> tuple[float, float, float]:
    """``(min_distance, max_distance, precise_threshold)`` of the linear scale that puts quality 0.5 at the distance
    ``reference`` and, where a scale from 0 allows it, 0.75 at ``precise``. Raises ValueError unless
    0 <= precise < reference."""
    if not 0 <= precise < reference:
        raise ValueError(f"precise distance {precise} must be below reference distance {reference} and not negative")
    low = max(0.0, 2 * precise - reference)
    high = 2 * reference - low
    if high > MAX_DISTANCE:
        high = MAX_DISTANCE
        low = max(0.0, 2 * reference - high)
    return low, high, 1 - (precise - low) / (high - low)


def _judged(case: Case, basis: str, found: Sequence[tuple[float, bool]], set_name: str) -> JudgedQuery:
    best = min if basis == DENSE else max
    gold = [value for value, good in found if good]
    other = [value for value, good in found if not good]
    return JudgedQuery(
        query_id=case.case_id,
        set_name=set_name,
        basis=basis,
        answerable=case.answerable,
        best=best(value for value, _ in found),
        best_gold=best(gold) if gold else None,
        best_irrelevant=best(other) if other else None,
    )


def _reference(good: Sequence[float], bad: Sequence[float], aim: Aim, limit: float) -> float:
    points = _between([*good, *bad])
    if aim is Aim.FALSE_FALLBACK:
        allowed = [point for point in points if _beyond(good, point) <= limit * len(good)]
        return min(allowed, key=lambda point: (_within(bad, point), point))
    return min(points, key=lambda point: (_beyond(good, point) / len(good) + _within(bad, point) / len(bad), point))


def _precise(good: Sequence[float], bad: Sequence[float], reference: float, limit: float) -> float:
    points = [point for point in _between([*good, *bad]) if point < reference]
    safe = [point for point in points if _within(bad, point) <= limit * len(bad)]
    below = [value for value in good if value < reference]
    middle = below[(len(below) - 1) // 2] if below else good[0]
    if safe and max(safe) < reference:
        chosen = max(safe)
        return min(chosen, middle) if _within(bad, reference) <= limit * len(bad) else chosen
    return min(middle, points[0] if points else middle)


def _suggest(
    basis: str, sign: float, good: Sequence[float], bad: Sequence[float], reference: float, precise: float
) -> Suggestion:
    at_reference, at_precise = _point(good, bad, reference, sign), _point(good, bad, precise, sign)
    if basis != DENSE:
        reference_share = max(0.0, min(1.0, -reference))
        return Suggestion(
            basis, at_reference, at_precise, None, None, max(reference_share, min(1.0, -precise)), reference_share
        )
    low, high, threshold = scale(reference, max(0.0, min(precise, reference * (1 - 1e-6))))
    return Suggestion(basis, at_reference, at_precise, low, high, round(threshold, 6), REFERENCE)


def _point(good: Sequence[float], bad: Sequence[float], threshold: float, sign: float) -> OperatingPoint:
    false, missed = _beyond(good, threshold), _within(bad, threshold)
    return OperatingPoint(
        threshold=sign * threshold,
        false_fallback=ErrorRate(false, len(good), wilson(false, len(good))),
        missed_fallback=ErrorRate(missed, len(bad), wilson(missed, len(bad))),
    )


def _between(values: Sequence[float]) -> list[float]:
    """Thresholds worth trying: between neighbouring values, and one beyond either end."""
    ordered = sorted(set(values))
    middles = [(a + b) / 2 for a, b in pairwise(ordered)]
    span = (ordered[-1] - ordered[0]) or abs(ordered[0]) or 1.0
    return [ordered[0] - span * 0.01, *middles, ordered[-1] + span * 0.01]


def _beyond(values: Sequence[float], threshold: float) -> int:
    return len(values) - bisect_right(values, threshold)


def _within(values: Sequence[float], threshold: float) -> int:
    return bisect_right(values, threshold)


def _warnings(good: Sequence[float], bad: Sequence[float], queries: Sequence[JudgedQuery]) -> Iterable[str]:
    if not good or not bad:
        yield "both answerable and unanswerable queries are needed; nothing can be suggested"
        return
    if len(bad) < FEW_NEGATIVES:
        interval = wilson(0, len(bad))
        width = f"{interval.high:.0%}" if interval else "unknown"
        yield (
            f"{len(bad)} unanswerable queries are too few to tell (below {FEW_NEGATIVES}): even none missed "
            f"would allow a rate up to {width}; pool the negatives of several sets"
        )
    if len({query.set_name for query in queries if not query.answerable}) < 2:
        yield "all negatives come from one set; another corpus may look different"
    separation = auroc([-value for value in good], [-value for value in bad])
    if separation is not None and separation < 0.7:
        yield f"the two groups hardly differ (AUROC {separation:.2f}); no threshold will serve well"
