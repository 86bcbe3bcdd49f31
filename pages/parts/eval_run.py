"""The top of the Eval page: which run is looked at, how it stands at a glance, and what must be mended first."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from core.evaluation.difference import Change
from core.evaluation.judge import CaseStatus, Share
from core.evaluation.markdown import report_csv, report_markdown
from core.evaluation.report import report_data, to_json
from pages.parts import facts, tables
from pages.parts.eval_services import Run
from pages.parts.numbers import NONE, count, ms
from pages.parts.status import Fact
from pages.parts.text import cell, literal

FEW: Final = 200


def words(share: Share) -> str:
    """``7 of 8``; a dash with nothing to count."""
    return f"{count(share.count)} of {count(share.total)}" if share.total else NONE


def strip(run: Run) -> None:
    """How the run stands, and where it comes from."""
    facts.strip(run_facts(run))
    who = run.report.identity
    st.caption(
        f"{'Live run' if run.live else 'Frozen lookups'} · generation {literal(who.generation, 60)} · "
        f"profile {literal(who.profile, 80)} · settings {literal(who.settings[:12], 60)} · "
        f"scope {literal(who.kb_scope, 60)} · judged in {ms(run.report.elapsed_ms)}"
    )


def run_facts(run: Run) -> tuple[Fact, ...]:
    """The strip. Green stands only where everything was checked: a share of all cases never is by itself."""
    judged, report = run.report.judgement, run.report
    unknown = judged.total - judged.scored
    lost = sum(len(ids) for code, ids in report.loss_counts.items() if code != "EVAL_INCOMPLETE")
    thin = len(report.loss_counts.get("EVAL_INCOMPLETE", ()))
    gating = judged.gating_pass_rate
    whole = gating.total > 0 and gating.count == gating.total
    return (
        Fact("Gate", *_gate(run)),
        Fact(
            "Reviewed cases that pass",
            words(gating),
            "Only cases that a person has reviewed gate.",
            "green" if whole else "red" if gating.total else "orange",
        ),
        Fact("All cases that pass", words(judged.pass_rate), "Drafts included."),
        Fact(
            "Scored",
            f"{count(judged.scored)} of {count(judged.total)}",
            ", ".join(f"{name} {n}" for name, n in judged.by_status.items() if n),
            "orange" if unknown else "",
        ),
        Fact("Against the baseline", *_moved(run)),
        Fact("Case recall", words(judged.case_recall), "Strong and medium hits of the cases that expect a document."),
        Fact("Keywords", words(judged.keyword_coverage), "Expected keywords that the agent reads."),
        Fact("First evidence loss", count(lost), "Cases whose evidence was lost on the way.", "orange" if lost else ""),
        Fact("Labels too thin", count(thin), "EVAL_INCOMPLETE: out of every count.", "orange" if thin else ""),
    )


def _gate(run: Run) -> tuple[str, str, str]:
    if run.gate is None:
        return "unknown", "The baseline cannot be read.", "orange"
    if run.gate.passed:
        return "passed", "Nothing is wrong, and everything was checked.", "green"
    return f"closed, {len(run.gate.reasons)}", "The reasons stand under Baseline.", "red"


def _moved(run: Run) -> tuple[str, str, str]:
    found = run.gate.difference if run.gate else None
    if found is None:
        return "no baseline", "A first run has to be accepted with a reason.", "orange"
    if not found.comparable:
        return "not comparable", "; ".join(str(field.field) for field in found.differing), "orange"
    counts = found.counts()
    better, worse = counts[Change.IMPROVED], counts[Change.REGRESSED]
    told = f"+{better} −{worse}" + (f", {counts[Change.UNKNOWN]} unknown" if counts[Change.UNKNOWN] else "")
    return told, ", ".join(f"{n} {name}" for name, n in counts.items()), "red" if worse else ""


def doubts(run: Run, page: str) -> None:
    """Labels that point to nothing and fixtures that no longer belong: every number below leans on them."""
    report = run.report
    if report.unresolved:
        st.error(f"{len(report.unresolved)} labels point to nothing: mend these first", icon=":material/link_off:")
        st.dataframe(unresolved_table(run), hide_index=True, height=tables.height(len(report.unresolved), 220))
    if report.stale:
        st.warning(f"{len(report.stale)} fixtures are stale: take the snapshot again", icon=":material/update:")
        table = pd.DataFrame(
            {
                "Case": [cell(item.case_id, 120) for item in report.stale[:FEW]],
                "Why": [cell(item.reason) for item in report.stale[:FEW]],
            }
        )
        st.dataframe(table, hide_index=True, height=tables.height(len(table), 220), key=f"{page}.stale")
    failed = report.judgement.by_status[CaseStatus.FAILED.value]
    if failed:
        st.warning(f"{count(failed)} lookups failed: they count as not passed, not as not found.")


def unresolved_table(run: Run) -> pd.DataFrame:
    """One row a label, with the line of its case."""
    listed = run.report.unresolved[:FEW]
    return pd.DataFrame(
        {
            "Where": [cell(item.where, 120) for item in listed],
            "Case": [cell(item.case_id, 120) for item in listed],
            "Field": [item.field for item in listed],
            "Label": [cell(item.value) for item in listed],
            "Why": [cell(item.reason) for item in listed],
        }
    )


def exports(run: Run, page: str) -> None:
    """The report as it is on the screen, in three forms. Nothing is run again for it."""
    name = f"evaluation-{run.mode.value}{'-live' if run.live else ''}"
    report = run.report
    forms = (
        ("JSON", "json", "application/json", lambda: to_json(report_data(report))),
        ("Markdown", "md", "text/markdown", lambda: report_markdown(report)),
        ("CSV", "csv", "text/csv", lambda: report_csv(report)),
    )
    with st.popover("Export", icon=":material/download:", width="stretch"):
        for label, suffix, mime, make in forms:
            st.download_button(
                label, make, f"{name}.{suffix}", mime, key=f"{page}.export.{suffix}", on_click="ignore", width="stretch"
            )
