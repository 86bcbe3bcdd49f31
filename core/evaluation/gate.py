"""The gate: whether a change may go on. Every reason names its rule, its case and, where known, the stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from core.evaluation.baseline import Baseline, diff_baseline
from core.evaluation.difference import CaseChange, Change, Difference, Drop, thin_labels
from core.evaluation.judge import WAY, CaseStatus
from core.evaluation.loss import UNJUDGED_LIMIT
from core.evaluation.report import Report
from core.evaluation.stages import RankedStage
from core.evaluation.way import FALLBACK, RETRIEVE
from core.model import Stage

MAX_DROP: Final = 0.4
Stages = Mapping[str, str | None]
_NAMES: Final = {
    RankedStage.BM25: Stage.BM25.value,
    RankedStage.DENSE: Stage.DENSE.value,
    RankedStage.UNION: RETRIEVE,
    RankedStage.FUSED: Stage.FUSE.value,
    RankedStage.RERANKED: Stage.RERANK.value,
    RankedStage.EVIDENCE: Stage.EVIDENCE.value,
    RankedStage.CONTEXT: Stage.PACK.value,
    RankedStage.PROJECTED: Stage.PROJECT.value,
}
_DEEP = (RankedStage.FUSED,)
_FINAL = (RankedStage.EVIDENCE, RankedStage.CONTEXT, RankedStage.PROJECTED)


@dataclass(frozen=True, slots=True)
class GateReason:
    """``stage`` bears the name of the pipeline's stage (or ``retrieve``, ``gate``, ``fallback``, ``labels`` …)."""

    rule: str
    text: str
    case_id: str | None = None
    stage: str | None = None

    def __str__(self) -> str:
        where = f" [{self.stage}]" if self.stage else ""
        return f"{self.rule}{where}: {f'{self.case_id}: ' if self.case_id else ''}{self.text}"


@dataclass(frozen=True, slots=True)
class GateResult:
    """``passed`` is True only when everything was checked and nothing is wrong."""

    passed: bool
    reasons: tuple[GateReason, ...]
    difference: Difference | None
    stages: tuple[tuple[str, int], ...] = ()


def gate(
    report: Report,
    baseline: Baseline | None,
    *,
    max_drop: float = MAX_DROP,
    unjudged_limit: float = UNJUDGED_LIMIT,
) -> GateResult:
    """The gate over one report. ``baseline`` null: there is none, which fails (a first one has to be accepted).

    ``max_drop``: how far recall, hit or nDCG of one reviewed case may fall at the fused list (deepest k), evidence,
    context or projection (first k), even when every mean holds; a fall on thin labels does not count.
    """
    diff = diff_baseline(report, baseline, unjudged_limit) if baseline is not None else None
    at = _stages(report, baseline, diff)
    reasons = [*_of_the_run(report), *_of_the_cases(report, at)]
    if baseline is None or diff is None:
        reasons.append(GateReason("missing_baseline", "there is no baseline; review this run and accept it"))
    else:
        reasons += _of_the_difference(report, baseline, diff, at, max_drop, unjudged_limit)
    stages: dict[str, int] = {}
    for reason in reasons:
        if reason.stage:
            stages[reason.stage] = stages.get(reason.stage, 0) + 1
    ranked = sorted(stages.items(), key=lambda pair: (-pair[1], pair[0]))
    return GateResult(not reasons, tuple(reasons), diff, tuple(ranked))


def _of_the_run(report: Report) -> Iterable[GateReason]:
    for problem in report.unresolved:
        yield GateReason("unresolved_gold", f"{problem.field} {problem.value!r}: {problem.reason}", problem.case_id)
    for item in report.stale:
        yield GateReason("stale_fixture", item.reason, item.case_id)
    for table in report.stages:
        for case_id, count in table.duplicates.items():
            yield GateReason("duplicate_in_run", f"{count} keys stand twice", case_id, _NAMES[table.stage])


def _of_the_cases(report: Report, at: Stages) -> Iterable[GateReason]:
    if not any(row.gates for row in report.rows):
        yield GateReason("nothing_reviewed", "no case is reviewed, so nothing is guarded; review some")
    for row, verdict in zip(report.rows, report.verdicts, strict=True):
        if row.status is CaseStatus.NOT_RUN:
            yield GateReason("case_missing", "it has no fixture: take a snapshot", row.case_id)
        elif row.status is CaseStatus.FAILED and row.passed is not True:
            yield GateReason("task_failed", verdict.reason or "the lookup failed", row.case_id)
        elif row.gates and row.passed is not True:
            text = "; ".join(row.failures) or "nothing could be judged"
            yield GateReason("reviewed_case_failed", text, row.case_id, at[row.case_id])
        for name in verdict.invalid_scores:
            yield GateReason("invalid_score", name, row.case_id)


def _of_the_difference(
    report: Report, baseline: Baseline, diff: Difference, at: Stages, max_drop: float, unjudged_limit: float
) -> Iterable[GateReason]:
    if not diff.comparable:
        for field in diff.differing:
            yield GateReason("not_comparable", f"{field}; accept a new baseline with a reason")
        return
    rows = {row.case_id: row for row in report.rows}
    approved = {row.case_id for row in baseline.rows if row.gates and row.passed}
    for change in diff.changes:
        row = rows.get(change.case_id)
        if row is None:
            yield GateReason("case_missing", "the baseline has it, this run does not", change.case_id)
            continue
        if change.case_id in approved and row.passed is not True:
            rule = "labels_incomplete" if change.change is Change.EVAL_INCOMPLETE else "regressed"
            yield GateReason(rule, change.text, change.case_id, at[row.case_id])
        settled = row.counts and not thin_labels(row, report.identity.ks[0], unjudged_limit)
        if row.gates and row.known and settled:
            yield from _dropped(change, at[row.case_id], report.identity.ks, max_drop)


def _dropped(change: CaseChange, at: str | None, ks: tuple[int, ...], max_drop: float) -> Iterable[GateReason]:
    watched = {(stage.value, f"recall@{ks[-1]}") for stage in _DEEP}
    watched |= {(stage.value, f"{name}@{ks[0]}") for stage in _FINAL for name in ("recall", "hit", "ndcg")}
    falls: list[Drop] = [d for d in change.moved if (d.stage, d.metric) in watched and d.delta < -max_drop]
    if falls:
        worst = min(falls, key=lambda drop: drop.delta)
        text = f"{worst.metric} of the {worst.stage} fell from {worst.before:.3f} to {worst.now:.3f}"
        yield GateReason("query_drop", f"{text} (limit {max_drop:g})", change.case_id, at)


def _stages(report: Report, baseline: Baseline | None, diff: Difference | None) -> Stages:
    """Where each case went wrong, in this order of trust: the stage that sent it another way than expected, or than
    in the baseline; the first stage whose metrics fell; the layer of its first loss; what the failed field tells."""
    before = {row.case_id: row for row in baseline.rows} if baseline is not None else {}
    fell = {change.case_id: change.first_stage for change in diff.changes} if diff is not None else {}
    found: dict[str, str | None] = {}
    for row, verdict in zip(report.rows, report.verdicts, strict=True):
        old = before.get(row.case_id)
        way = next((failure.stage for failure in verdict.failures if failure.field in WAY), None)
        if way is None and old is not None and (old.attempt, old.fallback) != (row.attempt, row.fallback):
            way = FALLBACK
        metric = fell.get(row.case_id)
        field = next((failure.stage for failure in verdict.failures if failure.stage), None)
        found[row.case_id] = way or (_NAMES[RankedStage(metric)] if metric else row.loss_layer or field)
    return found
