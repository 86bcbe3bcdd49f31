"""The signed difference of two reports, case by case: improved, regressed, equal, unknown.

Missing on one side is unknown, not equal. A fall that the labels cannot carry (few of the first results are judged, or
the first loss is the labels' own) is ``EVAL_INCOMPLETE`` and no regression. Reports of other cases, corpus, k or model are not comparable (case 103).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from core.evaluation.judge import HitLevel
from core.evaluation.loss import UNJUDGED_LIMIT
from core.evaluation.report import CaseRow, Identity
from core.evaluation.stages import RankedStage

EPSILON: Final = 1e-9
MUST_AGREE: Final = (
    "mode",
    "cases",
    "case_count",
    "corpus",
    "profile",
    "kb_scope",
    "ks",
    "unjudged_rule",
    "gain_formula",
)
UNDER_TEST: Final = ("settings", "generation")
_HITS = {None: 0, HitLevel.MISS.value: 0, HitLevel.WEAK.value: 1, HitLevel.MEDIUM.value: 2, HitLevel.STRONG.value: 3}
_DECIDING = (RankedStage.PROJECTED, RankedStage.CONTEXT, RankedStage.EVIDENCE, RankedStage.RERANKED, RankedStage.FUSED)


class Change(StrEnum):
    IMPROVED = "improved"
    REGRESSED = "regressed"
    EQUAL = "equal"
    UNKNOWN = "unknown"
    EVAL_INCOMPLETE = "eval_incomplete"


@dataclass(frozen=True, slots=True)
class Differing:
    """A field of the identity that differs. ``detail`` names, for the cases, which ones."""

    field: str
    before: str
    now: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.before} before, {self.now} now" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class Drop:
    """A metric of one case that moved, ``delta`` = now - before."""

    stage: str
    metric: str
    before: float
    now: float

    @property
    def delta(self) -> float:
        return self.now - self.before


@dataclass(frozen=True, slots=True)
class CaseChange:
    """``first_stage``: the first stage of the pipeline whose metrics fell. ``moved``: every metric that changed."""

    case_id: str
    change: Change
    text: str
    passed_before: bool | None = None
    passed_now: bool | None = None
    gates: bool = False
    first_stage: str | None = None
    moved: tuple[Drop, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """``comparable`` False: no case is compared and there is no verdict. ``under_test`` are differences that are
    allowed, because they are what is being tried (settings, another generation of the same corpus)."""

    comparable: bool
    differing: tuple[Differing, ...] = ()
    under_test: tuple[Differing, ...] = ()
    changes: tuple[CaseChange, ...] = ()

    def counts(self) -> dict[str, int]:
        found = Counter(change.change for change in self.changes)
        return {change.value: found[change] for change in Change}

    def only(self, change: Change) -> tuple[CaseChange, ...]:
        return tuple(item for item in self.changes if item.change is change)


def compare_identity(before: Identity, now: Identity) -> tuple[tuple[Differing, ...], tuple[Differing, ...]]:
    """What forbids a comparison, and what only has to be named."""
    return tuple(_fields(before, now, MUST_AGREE)), tuple(_fields(before, now, UNDER_TEST))


def difference(
    before: Identity,
    before_rows: Iterable[CaseRow],
    now: Identity,
    now_rows: Iterable[CaseRow],
    unjudged_limit: float = UNJUDGED_LIMIT,
) -> Difference:
    """What became of every case of either side, in the order of the new report, then those that are gone."""
    forbidding, named = compare_identity(before, now)
    if forbidding:
        return Difference(False, forbidding, named)
    old = {row.case_id: row for row in before_rows}
    new = {row.case_id: row for row in now_rows}
    changes = tuple(
        case_change(case_id, old.get(case_id), new.get(case_id), now.ks, unjudged_limit) for case_id in {**new, **old}
    )
    return Difference(True, (), named, changes)


def case_change(
    case_id: str, old: CaseRow | None, new: CaseRow | None, ks: Sequence[int], unjudged_limit: float = UNJUDGED_LIMIT
) -> CaseChange:
    """How one case moved. What a person asserted (passed, hit level) decides before any metric does."""
    if old is None or new is None:
        side = "now" if new is None else "before"
        return CaseChange(case_id, Change.UNKNOWN, f"missing {side}", gates=bool(new and new.gates))
    base = {"passed_before": old.passed, "passed_now": new.passed}
    if not old.known or not new.known:
        text = f"{old.status.value} before, {new.status.value} now"
        return CaseChange(case_id, Change.UNKNOWN, text, old.passed, new.passed, new.gates)
    moved = tuple(_moved(old.metrics, new.metrics, ks))
    first = first_fallen(moved)
    if old.passed != new.passed:
        change = Change.IMPROVED if new.passed else Change.REGRESSED
        text = f"passes {'now' if new.passed else 'no more'}" + (f": {new.failures[0]}" if new.failures else "")
    elif _HITS[old.hit_level] != _HITS[new.hit_level]:
        change = Change.IMPROVED if _HITS[new.hit_level] > _HITS[old.hit_level] else Change.REGRESSED
        text = f"hit level {old.hit_level} before, {new.hit_level} now"
    else:
        change, text = _by_metrics(moved)
        if change is Change.REGRESSED and thin_labels(new, ks[0], unjudged_limit):
            change, text = Change.EVAL_INCOMPLETE, f"{text}; too few of the first {ks[0]} results are judged to call it"
    if change is Change.REGRESSED and not new.counts:
        change, text = Change.EVAL_INCOMPLETE, f"{text}; its labels cannot carry a verdict, mend them first"
    return CaseChange(case_id, change, text, base["passed_before"], base["passed_now"], new.gates, first, moved)


def thin_labels(row: CaseRow, k: int, unjudged_limit: float = UNJUDGED_LIMIT) -> bool:
    """Whether more than ``unjudged_limit`` of the first k evidence documents are unjudged and nothing settles them."""
    share = row.metrics.get(RankedStage.EVIDENCE.value, {}).get(f"unjudged_ratio@{k}")
    return not row.labels_settled and share is not None and share > unjudged_limit


def first_fallen(moved: Iterable[Drop]) -> str | None:
    """The first stage in pipeline order with a fallen metric (the union of branches aside)."""
    fallen = {drop.stage for drop in moved if drop.delta < -EPSILON}
    return next(
        (stage.value for stage in RankedStage if stage is not RankedStage.UNION and stage.value in fallen), None
    )


def _by_metrics(moved: Sequence[Drop]) -> tuple[Change, str]:
    if not moved:
        return Change.EQUAL, "no metric moved"
    for stage in _DECIDING:
        here = [drop for drop in moved if drop.stage == stage.value]
        if here:
            worst = min(here, key=lambda drop: drop.delta)
            best = max(here, key=lambda drop: drop.delta)
            told = worst if worst.delta < 0 else best
            change = Change.REGRESSED if told.delta < 0 else Change.IMPROVED
            return change, f"{told.metric} of the {told.stage} {told.before:.3f} before, {told.now:.3f} now"
    return Change.EQUAL, "single branches moved, what is returned did not"


def _moved(
    old: Mapping[str, Mapping[str, float | None]], new: Mapping[str, Mapping[str, float | None]], ks: Sequence[int]
) -> Iterable[Drop]:
    names = [*(f"{name}@{k}" for k in ks for name in ("recall", "hit", "ndcg")), "mrr"]
    for stage in RankedStage:
        before, now = old.get(stage.value, {}), new.get(stage.value, {})
        for name in names:
            a, b = before.get(name), now.get(name)
            if a is not None and b is not None and abs(a - b) > EPSILON:
                yield Drop(stage.value, name, a, b)


def _fields(before: Identity, now: Identity, names: Iterable[str]) -> Iterable[Differing]:
    for name in names:
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            detail = _changed_cases(before, now) if name == "cases" else ""
            yield Differing(name, _short(old), _short(new), detail)


def _changed_cases(before: Identity, now: Identity) -> str:
    old, new = before.case_fingerprints, now.case_fingerprints
    gone, added = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    edited = sorted(name for name in old.keys() & new.keys() if old[name] != new[name])
    parts = [
        f"{word} {', '.join(names[:5])}"
        for word, names in (("changed:", edited), ("added:", added), ("gone:", gone))
        if names
    ]
    return "; ".join(parts)


def _short(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text[:12] + "…" if len(text) > 40 else text or "nothing"
