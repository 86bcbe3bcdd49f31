"""The run against the baseline: the gate's verdict with its reasons, every case that moved, and a new baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pandas as pd
import streamlit as st

from core.errors import NotAllowed
from core.evaluation.baseline import Baseline, refusals
from core.evaluation.difference import CaseChange, Change, Difference
from core.evaluation.gate import GateResult
from core.evaluation.markdown import diff_markdown
from core.wording import counted
from pages.parts import boxes, eval_address, eval_cases, eval_services, notice, result, tables
from pages.parts.access import User
from pages.parts.eval_services import Run
from pages.parts.numbers import NONE, moment
from pages.parts.text import cell, literal, visible

if TYPE_CHECKING:
    from core.evaluation.report import Report

MOVED: Final = "moved"
ORDER: Final = (Change.REGRESSED, Change.UNKNOWN, Change.EVAL_INCOMPLETE, Change.IMPROVED, Change.EQUAL)
SHOWN: Final = 500


def draw(run: Run, user: User, page: str, zone: str) -> None:
    """Gate, difference, history, and the form for a new baseline."""
    if run.problem is not None:
        boxes.failed("The baseline cannot be read", run.problem)
    if run.gate is not None:
        _gate(run.gate, page)
        if run.gate.difference is None:
            boxes.empty(
                "No baseline yet",
                "Look through the failures, then accept this run below with a reason: from then on every change is seen.",
            )
        else:
            _difference(run, run.gate.difference, page)
    _accept(run, user, page)
    if run.baseline is not None:
        st.subheader("Accepted before", anchor=False)
        st.dataframe(history_table(run.baseline, zone), hide_index=True, key=f"{page}.history")


def _gate(gate: GateResult, page: str) -> None:
    if gate.passed:
        st.success("The gate passes: everything was checked, nothing is wrong.", icon=":material/check_circle:")
        return
    reasons = counted(len(gate.reasons), "reason")
    stages = ", ".join(f"{name} {number}" for name, number in gate.stages)
    st.error(f"The gate is closed: {reasons}" + (f" ({stages})" if stages else ""), icon=":material/block:")
    st.dataframe(
        gate_table(gate),
        hide_index=True,
        placeholder=NONE,
        height=tables.height(len(gate.reasons), 260),
        key=f"{page}.reasons",
        on_select=lambda: _open(f"{page}.reasons", [reason.case_id for reason in gate.reasons]),
        selection_mode="single-cell",
    )


def _open(key: str, ids: Sequence[str | None]) -> None:
    at = result.place(st.session_state.get(key))
    if at is not None and at < len(ids) and ids[at]:
        eval_address.put(case=ids[at])


def gate_table(gate: GateResult) -> pd.DataFrame:
    """One row a reason."""
    listed = gate.reasons[:SHOWN]
    return pd.DataFrame(
        {
            "Rule": [reason.rule.replace("_", " ") for reason in listed],
            "Case": [cell(reason.case_id or "", 120) for reason in listed],
            "Stage": [reason.stage or "" for reason in listed],
            "Why": [cell(reason.text, 400) for reason in listed],
        }
    )


def _difference(run: Run, found: Difference, page: str) -> None:
    st.subheader("Since the baseline", anchor=False)
    if not found.comparable:
        st.warning("Not comparable: nothing is said about better or worse", icon=":material/difference:")
        for field in found.differing:
            st.text(visible(str(field), 600))
        return
    for field in found.under_test:
        st.caption(f"Under test: {literal(str(field))}")
    counts = found.counts()
    st.markdown(" · ".join(f"**{counts[change.value]}** {change.value.replace('_', ' ')}" for change in ORDER))
    names = (MOVED, *(change.value for change in ORDER))
    show = eval_address.segments("Show", page, eval_address.CHANGE, names, words=lambda name: name.replace("_", " "))
    changes = chosen_changes(found, show)
    ids = [change.case_id for change in changes]
    if not changes:
        st.caption("No case.")
    else:
        key = f"{page}.changes.{show}"
        st.dataframe(
            change_table(changes),
            key=key,
            hide_index=True,
            placeholder=NONE,
            height=tables.height(len(changes), 360),
            on_select=lambda: _open(key, ids),
            selection_mode="single-cell",
            column_config={"Case": st.column_config.TextColumn(width=170, pinned=True)},
        )
    eval_cases.open_case(run, ids, page)
    st.download_button(
        "Difference as Markdown",
        lambda: diff_markdown(found),
        "baseline-diff.md",
        "text/markdown",
        icon=":material/download:",
        key=f"{page}.diff.md",
        on_click="ignore",
    )


def chosen_changes(found: Difference, show: str) -> tuple[CaseChange, ...]:
    """The changes of one kind, or every one but the equal ones, the worst kind first."""
    kinds = [change for change in ORDER if change is not Change.EQUAL] if show == MOVED else [Change(show)]
    return tuple(change for kind in kinds for change in found.only(kind))


def change_table(changes: Sequence[CaseChange]) -> pd.DataFrame:
    """One row a case, in the given order."""
    return pd.DataFrame(
        {
            "Case": [cell(change.case_id, 120) for change in changes],
            "Change": [change.change.value.replace("_", " ") for change in changes],
            "Reviewed": ["yes" if change.gates else "" for change in changes],
            "First stage that fell": [change.first_stage or "" for change in changes],
            "What": [cell(change.text, 400) for change in changes],
            "Metrics that moved": [
                cell("; ".join(f"{d.metric} {d.stage} {d.delta:+.3f}" for d in change.moved), 400) for change in changes
            ],
        }
    )


def history_table(baseline: Baseline, zone: str) -> pd.DataFrame:
    """Every accepted run of this mode, newest first."""
    entries = tuple(reversed(baseline.history))
    return pd.DataFrame(
        {
            "When": [moment(entry.when, zone) for entry in entries],
            "Who": [cell(entry.who, 80) for entry in entries],
            "Why": [cell(entry.reason, 400) for entry in entries],
            "Reviewed cases that passed": [f"{entry.passed} of {entry.total}" for entry in entries],
            "Report": [entry.report[:12] for entry in entries],
        }
    )


def _accept(run: Run, user: User, page: str) -> None:
    st.subheader("Accept this run as the baseline", anchor=False)
    if run.live:
        st.caption("Only frozen lookups can become the baseline: take a snapshot, then accept that run.")
        return
    against = refusals(run.report)
    for refusal in against:
        st.text(visible(f"Refused: {refusal}", 600))
    if not user.is_operator:
        st.caption("Accepting needs the operator role.")
        return
    with st.form(f"{page}.accept.form", clear_on_submit=True, border=False):
        st.text_input("Why the new baseline is right (kept with it)", key=f"{page}.accept.why", max_chars=500)
        st.form_submit_button(
            "Accept",
            icon=":material/verified:",
            key=f"{page}.accept.press",
            disabled=bool(against),
            on_click=_pressed,
            args=(run.report, run, user, page),
        )


def _pressed(report: Report, run: Run, user: User, page: str) -> None:
    why = str(st.session_state.get(f"{page}.accept.why") or "")

    def work() -> None:
        if not user.is_operator:
            raise NotAllowed("accepting a baseline needs the operator role: auth.operators in settings.toml")
        at = eval_services.desk()
        at.accept(report, who=user.name, reason=why, mode=run.mode)
        at.write(report, run.mode)

    notice.act(page, "This run is the baseline now", "Not accepted", work)
