"""Live runs on record: what any console on this database found, long after its process has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from core.evaluation.live_jobs import RECORD
from core.stores import EvalCaseResult, EvalRun, EvalStore
from pages.parts import boxes, eval_address, result, services, tables
from pages.parts.numbers import NONE, count, moment
from pages.parts.text import cell

SHOWN: Final = 20


def draw(store: EvalStore, page: str, zone: str) -> None:
    """The latest runs, and the cases of the one that the address names."""
    found = services.call("The record of live runs cannot be read", store.list, kind=RECORD, limit=SHOWN)
    if found is None or not found.rows:
        return
    st.subheader("On record", anchor=False, help="The latest live runs of any console on this database.")
    rows: Sequence[EvalRun] = found.rows
    key = f"{page}.live.record.{rows[0].run_id}.{len(rows)}"
    st.dataframe(
        run_table(rows, zone),
        key=key,
        hide_index=True,
        placeholder=NONE,
        height=tables.height(len(rows), 260),
        on_select=lambda: _chosen(st.session_state.get(key), rows),
        selection_mode="single-cell",
    )
    wanted = eval_address.asked(eval_address.RECORD)
    if not wanted:
        st.caption("Choose a cell to see the cases of a run.")
        return
    cases: Sequence[EvalCaseResult] | None = services.call("The cases of this run cannot be read", store.cases, wanted)
    if cases is not None and not cases:
        boxes.empty("No such run", "It was removed, or the address is of another database.")
    elif cases:
        st.dataframe(
            case_table(cases),
            hide_index=True,
            placeholder=NONE,
            height=tables.height(len(cases), 400),
            key=f"{page}.live.record.cases",
        )
        st.caption(f"{count(len(cases))} cases, failures first. A trace id opens on the Trace page.")


def _chosen(event: Any, rows: Sequence[EvalRun]) -> None:
    at = result.place(event)
    if at is not None and at < len(rows):
        eval_address.put(record=rows[at].run_id)


def run_table(rows: Sequence[EvalRun], zone: str) -> pd.DataFrame:
    """One row a recorded run, in the given order."""
    return pd.DataFrame(
        {
            "Started": [moment(row.created_at, zone) for row in rows],
            "Mode": [row.mode for row in rows],
            "By": [cell(row.label, 80) for row in rows],
            "Cases": [row.cases for row in rows],
            "Reviewed cases that pass": [f"{row.passed} of {row.passed + row.failed}" for row in rows],
            "Generation": pd.array([row.generation for row in rows], dtype="Int64"),
            "Profile": [cell(row.embedding_profile, 80) for row in rows],
            "Settings": [row.fingerprint[:12] for row in rows],
        }
    )


def case_table(cases: Sequence[EvalCaseResult]) -> pd.DataFrame:
    """One row a case: what failed first, then what is unknown, then what passed."""
    order = {False: 0, None: 1, True: 2}
    words = {False: "fails", None: "unknown", True: "passes"}
    listed = sorted(cases, key=lambda case: (order[case.passed], case.case_id))
    return pd.DataFrame(
        {
            "Case": [cell(case.case_id, 120) for case in listed],
            "Outcome": [words[case.passed] for case in listed],
            "Status": [case.status for case in listed],
            "Failed expectations": [cell("; ".join(map(str, case.data.get("failures", ())))) for case in listed],
            "First loss": [case.primary_failure or "" for case in listed],
            "Hit": [case.hit_level or "" for case in listed],
            "First rank": pd.array([case.first_rank for case in listed], dtype="Int64"),
            "Trace": [case.trace_id or "" for case in listed],
        }
    )
