"""The gate: whether a change may go on. Every reason names its rule, its case and, where known, the stage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from core.evaluation.baseline import Baseline, diff_baseline
from core.evaluation.difference import CaseChange, Difference, Drop, thin_labels
from core.evaluation.judge import CaseStatus
from core.evaluation.loss import UNJUDGED_LIMIT
from core.evaluation.report import CaseRow, Report
from core.evaluation.stages import RankedStage

MAX_DROP: Final = 0.4
_DEEP = (RankedStage.FUSED,)
_FINAL = (RankedStage.EVIDENCE, RankedStage.CONTEXT, RankedStage.PROJECTED)


@dataclass(frozen=True, slots=True)
class GateReason:
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
    reasons = [*_of_the_run(report), *_of_the_cases(report)]
    diff = None
    if baseline is None:
        reasons.append(GateReason("missing_baseline", "there is no baseline; review this run and accept it"))
    else:
        diff = diff_baseline(report, baseline, unjudged_limit)
        reasons += _of_the_difference(report, baseline, diff, max_drop, unjudged_limit)
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
            yield GateReason("duplicate_in_run", f"{count} keys stand twice", case_id, table.stage.value)


def _of_the_cases(report: Report) -> Iterable[GateReason]:
    if not any(row.gates for row in report.rows):
        yield GateReason("nothing_reviewed", "no case is reviewed, so nothing is guarded; review some")
    for row, verdict in zip(report.rows, report.verdicts, strict=True):
        if row.status is CaseStatus.NOT_RUN:
            yield GateReason("case_missing", "it has no fixture: take a snapshot", row.case_id)
        elif row.status is CaseStatus.FAILED and row.passed is not True:
            yield GateReason("task_failed", verdict.reason or "the lookup failed", row.case_id)
        elif row.gates and row.passed is not True:
            text = "; ".join(row.failures) or "nothing could be judged"
            yield GateReason("reviewed_case_failed", text, row.case_id, _stage_of(row))
        for name in verdict.invalid_scores:
            yield GateReason("invalid_score", name, row.case_id)


def _of_the_difference(
    report: Report, baseline: Baseline, diff: Difference, max_drop: float, unjudged_limit: float
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
            yield GateReason("regressed", change.text, change.case_id, change.first_stage or _stage_of(row))
        if row.gates and row.known and not thin_labels(row, report.identity.ks[0], unjudged_limit):
            yield from _dropped(change, report.identity.ks, max_drop)


def _dropped(change: CaseChange, ks: tuple[int, ...], max_drop: float) -> Iterable[GateReason]:
    watched = {(stage.value, f"recall@{ks[-1]}") for stage in _DEEP}
    watched |= {(stage.value, f"{name}@{ks[0]}") for stage in _FINAL for name in ("recall", "hit", "ndcg")}
    falls: list[Drop] = [d for d in change.moved if (d.stage, d.metric) in watched and d.delta < -max_drop]
    if falls:
        worst = min(falls, key=lambda drop: drop.delta)
        text = f"{worst.metric} of the {worst.stage} fell from {worst.before:.3f} to {worst.now:.3f}"
        yield GateReason(
            "query_drop", f"{text} (limit {max_drop:g})", change.case_id, change.first_stage or worst.stage
        )


def _stage_of(row: CaseRow) -> str | None:
    """Where a failing case went wrong: the way it took (attempt, fallback), else the layer of its first loss."""
    if any(text.startswith(("expectedSelectedAttempt", "expectedFallbackReason")) for text in row.failures):
        return "fallback"
    return row.loss_layer
