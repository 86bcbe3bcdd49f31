"""Reports as Markdown: failures first, numbers with what they can be trusted for beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from core.evaluation.difference import Change, Difference
from core.evaluation.judge import CaseStatus, Share
from core.evaluation.metrics import DEFINITIONS, Mean
from core.evaluation.report import CaseRow, Report
from core.evaluation.stages import RankedStage
from core.evaluation.tables import csv_text, markdown_cell, markdown_table

CSV_HEADER = (
    "case", "query_type", "tags", "status", "passed", "gates", "hit_level", "first_expected_rank", "attempt",
    "fallback", "level", "first_loss", "recall", "ndcg", "judged", "fact_coverage", "failures",
)  # fmt: skip


class Acceptance(Protocol):
    @property
    def who(self) -> str: ...
    @property
    def when(self) -> str: ...
    @property
    def reason(self) -> str: ...


def report_markdown(report: Report, accepted: Acceptance | None = None) -> str:
    """The report as one Markdown page. Every text from a case, a document or an error is escaped."""
    lines = [f"# Evaluation, {markdown_cell(report.identity.mode)}", ""]
    if accepted is not None:
        words = markdown_cell(f"{accepted.when} by {accepted.who}: {accepted.reason}")
        lines += [f"Accepted as the baseline {words}", ""]
    lines += [*_unresolved(report), *_summary(report), *_failures(report), *_stages(report), *_behaviour(report)]
    lines += [*_losses(report), *_cases(report), *_definitions(report)]
    return "\n".join(lines) + "\n"


def diff_markdown(diff: Difference) -> str:
    """The difference as one Markdown page; not comparable has no table and no mark."""
    lines = ["# Difference from the baseline", ""]
    if not diff.comparable:
        lines += ["**Not comparable.** These fields differ, so nothing is said about better or worse:", ""]
        return "\n".join(lines + [f"- {markdown_cell(str(field))}" for field in diff.differing]) + "\n"
    if diff.under_test:
        lines += ["Under test: " + "; ".join(markdown_cell(str(field)) for field in diff.under_test), ""]
    lines += [", ".join(f"{count} {name}" for name, count in diff.counts().items()), ""]
    order = (Change.REGRESSED, Change.UNKNOWN, Change.EVAL_INCOMPLETE, Change.IMPROVED)
    rows = [(c.case_id, c.change.value, c.first_stage, c.text) for kind in order for c in diff.only(kind)]
    if rows:
        lines += markdown_table(("case", "change", "first stage that fell", "what"), rows)
    return "\n".join(lines) + "\n"


def report_csv(report: Report) -> str:
    """One row a case, safe to open in a spreadsheet."""
    k = report.identity.ks[0]
    return csv_text(CSV_HEADER, (_csv_row(row, k) for row in report.rows))


def _csv_row(row: CaseRow, k: int) -> tuple[Any, ...]:
    evidence = row.metrics.get("evidence", {})
    return (
        row.case_id, row.query_type, " ".join(row.tags), row.status.value, row.passed, row.gates, row.hit_level,
        row.first_expected_rank, row.attempt, row.fallback, row.level, row.loss, evidence.get(f"recall@{k}"),
        evidence.get(f"ndcg@{k}"), evidence.get(f"judged@{k}"), row.fact_coverage, "; ".join(row.failures),
    )  # fmt: skip


def _unresolved(report: Report) -> list[str]:
    lines: list[str] = []
    if report.unresolved:
        lines += ["## Labels that point to nothing", "", "Mend these first: every number below leans on them.", ""]
        rows = [(item.where, item.case_id, item.field, item.value, item.reason) for item in report.unresolved]
        lines += [*markdown_table(("where", "case", "field", "label", "why"), rows), ""]
    if report.stale:
        lines += [
            "## Stale fixtures",
            "",
            *markdown_table(("case", "why"), [(s.case_id, s.reason) for s in report.stale]),
        ]
        lines.append("")
    return lines


def _summary(report: Report) -> list[str]:
    judged, who = report.judgement, report.identity
    rows: list[tuple[str, Any]] = [
        ("passed", share_text(judged.pass_rate)),
        ("reviewed cases passed", share_text(judged.gating_pass_rate)),
        ("scored", f"{judged.scored} of {judged.total}"),
        *((status.value, count) for status in CaseStatus if (count := judged.by_status[status.value])),
        ("case recall (strong + medium)", share_text(judged.case_recall)),
        ("keyword coverage", share_text(judged.keyword_coverage)),
        ("hit levels", ", ".join(f"{name} {count}" for name, count in judged.hit_levels.items())),
        ("cases", f"{who.case_count}, {who.cases[:12]}"),
        ("corpus, profile", f"{who.corpus[:12]}, {who.profile}"),
        ("settings, generation", f"{who.settings[:12]}, {who.generation}"),
        ("label coverage", ", ".join(f"{c.label} {c.count}/{c.total}" for c in report.coverage)),
    ]
    return ["## Summary", "", *markdown_table(("what", "value"), rows), ""]


def _failures(report: Report) -> list[str]:
    bad = [row for row in report.rows if row.passed is not True]
    bad.sort(key=lambda row: not row.gates)
    rows = [
        (row.case_id, "reviewed" if row.gates else "draft", row.status.value, "; ".join(row.failures), row.loss)
        for row in bad
    ]
    if not rows:
        return ["## Failures", "", "None.", ""]
    return ["## Failures", "", *markdown_table(("case", "review", "status", "what failed", "first loss"), rows), ""]


def _stages(report: Report) -> list[str]:
    lines = ["## Metrics by stage", ""]
    ran = [table for table in report.stages if table.status == "complete"]
    names = list(dict.fromkeys(mean.name for table in ran for mean in table.overall))
    rows = [[name, *(_mean_text(table.overall, name) for table in ran)] for name in names]
    if rows:
        lines += markdown_table(("metric", *(table.stage.value for table in ran)), rows)
        scored = [mean for table in ran for mean in table.overall if mean.name.startswith("recall@")]
        total = max((mean.total for mean in scored), default=0)
        lines += [
            "",
            f"Over {total} cases with gold; failed lookups count as 0, diagnostics (judged …) leave them out.",
        ]
    empty = report.stage(RankedStage.EVIDENCE).without_results
    if empty:
        names = [markdown_cell(case_id) for case_id in empty]
        lines += ["", f"Without any result, counted as 0: {len(empty)} ({', '.join(names)})."]
    absent = [table.stage.value for table in report.stages if table.status != "complete"]
    if absent:
        lines += ["", f"Not run: {', '.join(absent)}."]
    return [*lines, ""]


def _behaviour(report: Report) -> list[str]:
    seen, context = report.behaviour, report.context
    gate, fallback = seen.gate, seen.fallback
    rows: list[tuple[str, Any]] = [
        ("fallback triggered", share_text(fallback.triggered)),
        ("fallback as expected", share_text(fallback.correct)),
        (
            "fallback helped / hurt / neutral",
            f"{len(fallback.helped)} / {len(fallback.hurt)} / {len(fallback.neutral)}",
        ),
        ("filter misfires", f"{len(seen.filter_misfires)} of {seen.filtered}"),
        ("gate accuracy", gate.accuracy),
        ("unanswerable, accepted", gate.unanswerable_accepted),
        ("answerable, refused", gate.answerable_refused),
        ("levels", ", ".join(f"{name} {count}" for name, count in seen.levels.items())),
        ("scope violations", seen.scope_violations),
        ("stale evidence", seen.stale_evidence),
        ("fact coverage of the context", context.fact_coverage),
        ("duplicate ratio of the context", context.duplicate_ratio),
        ("useful of all context tokens", context.useful_share),
    ]
    if seen.branches is not None:
        b = seen.branches
        rows += [
            (f"dense-only hits at {b.k}", share_text(b.dense_only_hit)),
            (f"bm25-only hits at {b.k}", share_text(b.bm25_only_hit)),
            (f"intersection rate at {b.k}", b.intersection_rate),
            (f"RRF incremental recall at {b.k}", b.rrf_incremental_recall),
            ("reranker rescue / damage", f"{share_text(b.reranker_rescue)} / {share_text(b.reranker_damage)}"),
        ]
    lines = ["## Behaviour", "", *markdown_table(("what", "value"), rows), ""]
    times = [(name, time.p50, time.p95, time.count) for name, time in seen.latency.items()]
    return [*lines, *(markdown_table(("time", "p50 ms", "p95 ms", "lookups"), times) if times else []), ""]


def _losses(report: Report) -> list[str]:
    rows = [(code, len(ids), ", ".join(ids[:8])) for code, ids in report.loss_counts.items()]
    body = markdown_table(("code", "cases", "which"), rows) if rows else ["Nothing was lost."]
    return ["## First evidence loss", "", *body, ""]


def _cases(report: Report) -> list[str]:
    k = report.identity.ks[0]
    rows = [
        (r.case_id, r.status.value, r.passed, r.hit_level, r.first_expected_rank, r.attempt, r.level,
         r.metrics.get("evidence", {}).get(f"recall@{k}"), r.metrics.get("evidence", {}).get(f"judged@{k}"))
        for r in report.rows
    ]  # fmt: skip
    header = ("case", "status", "passed", "hit", "first rank", "attempt", "level", f"recall@{k}", f"judged@{k}")
    return ["## Cases", "", *markdown_table(header, rows), ""]


def _definitions(report: Report) -> list[str]:
    rows = [("unjudged results", report.identity.unjudged_rule), *DEFINITIONS.items()]
    return ["## How to read the numbers", "", *markdown_table(("name", "definition"), rows)]


def share_text(share: Share) -> str:
    """``7 of 8 (87.5 %)``; without anything to count only ``0 of 0``."""
    rate = share.rate
    return f"{share.count} of {share.total}" + (f" ({rate:.1%})" if rate is not None else "")


def _mean_text(means: Sequence[Mean] | Iterable[Mean], name: str) -> str:
    mean = next((m for m in means if m.name == name), None)
    if mean is None or mean.mean is None:
        return ""
    text = f"{mean.mean:.3f}"
    if mean.failed and mean.mean_scored is not None:
        text += f" (scored {mean.scored} of {mean.total}: {mean.mean_scored:.3f})"
    return text + (f" (ceiling {mean.ceiling:.2f})" if mean.ceiling is not None else "")
