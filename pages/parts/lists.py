"""Lists of the Trace page: the latest lookups, those of a session or run, and the events of either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from pages.parts import boxes, result, services, tables
from pages.parts.numbers import moment, ms
from pages.parts.text import cell

if TYPE_CHECKING:
    from core.bootstrap import App
    from core.stores import DiagnosisEvent, TraceSummary

SHOWN = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for. At most one of the three counts: trace before session before run."""

    trace: str = ""
    session: str = ""
    run: str = ""


def search_box(page: str) -> Wanted:
    """Three boxes that stand in the address (``?trace=``, ``?session=``, ``?run=``) as they are typed."""
    trace, session, run = st.columns(3)
    boxes_ = ((trace, "Trace id", "trace"), (session, "Session", "session"), (run, "Run", "run"))
    values = {}
    for column, label, name in boxes_:
        key = f"{page}.{name}"
        if key not in st.session_state or st.query_params.get(name, "") != st.session_state[key]:
            st.session_state[key] = st.query_params.get(name, "")
        values[name] = column.text_input(label, key=key, on_change=_to_address, args=(page, name)).strip()
    return Wanted(**values)


def _to_address(page: str, name: str) -> None:
    value = st.session_state[f"{page}.{name}"].strip()
    if value:
        st.query_params[name] = value
    elif name in st.query_params:
        del st.query_params[name]


def recent(app: App, wanted: Wanted, page: str) -> None:
    """The latest lookups, of the session or run where one is asked for; choosing one opens it."""
    found = services.call(
        "The list of lookups cannot be read",
        app.traces.list,
        session_id=wanted.session or None,
        run_id=wanted.run or None,
        limit=SHOWN,
    )
    if found is None:
        return
    st.subheader("Lookups", anchor=False)
    if not found.rows:
        boxes.empty("None recorded", "Look something up on the Query page, or with `python -m core lookup`.")
        return
    key = f"{page}.recent"
    st.dataframe(
        trace_table(found.rows, app.settings.audit.timezone),
        key=key,
        hide_index=True,
        placeholder="–",
        height=tables.height(len(found.rows), 420),
        on_select=lambda: _open(st.session_state.get(key), found.rows),
        selection_mode="single-cell",
    )
    if found.cursor is not None:
        st.caption(f"The latest {len(found.rows)}; older ones are on the Audit page.")


def _open(event: Any, rows: Sequence[TraceSummary]) -> None:
    at = result.place(event)
    if at is not None and at < len(rows):
        st.query_params["trace"] = rows[at].trace_id


def trace_table(rows: Sequence[TraceSummary], zone: str) -> pd.DataFrame:
    """One row a lookup, newest first."""
    return pd.DataFrame(
        {
            "Time": [moment(row.created_at, zone) for row in rows],
            "Evidence": [row.evidence_status for row in rows],
            "Level": [row.relevance_level or "" for row in rows],
            "Attempt": [row.selected_attempt or "" for row in rows],
            "Fallback": [row.fallback_reason or "" for row in rows],
            "Mode": [row.mode for row in rows],
            "Scope": [cell(row.kb_scope) for row in rows],
            "Generation": pd.array([row.generation for row in rows], dtype="Int64"),
            "Total": [ms(row.total_ms) for row in rows],
            "Session": [cell(row.session_id or "") for row in rows],
            "Run": [cell(row.run_id or "") for row in rows],
            "Trace": [row.trace_id for row in rows],
        }
    )


def events(app: App, wanted: Wanted, page: str) -> None:
    """Every event of a session or run in order of time: metadata only, as it is stored."""
    found = services.call(
        "The events cannot be read",
        app.traces.events,
        session_id=wanted.session or None,
        run_id=None if wanted.session else wanted.run,
    )
    if found is None:
        return
    st.subheader("Events in order of time", anchor=False)
    if not found:
        boxes.empty("No events", "Nothing is recorded under this session or run.")
        return
    st.dataframe(
        event_table(found, app.settings.audit.timezone), hide_index=True, placeholder="–", key=f"{page}.events"
    )


def event_table(rows: Sequence[DiagnosisEvent], zone: str) -> pd.DataFrame:
    """One row an event, in the given order."""
    return pd.DataFrame(
        {
            "Time": [moment(row.created_at, zone) for row in rows],
            "Event": [row.event_type for row in rows],
            "Attempt": [row.attempt or "" for row in rows],
            "Stage": [row.stage or "" for row in rows],
            "Status": [row.status or "" for row in rows],
            "In": pd.array([row.count_in for row in rows], dtype="Int64"),
            "Out": pd.array([row.count_out for row in rows], dtype="Int64"),
            "Time taken": [ms(row.ms) for row in rows],
            "Trace": [row.trace_id or "" for row in rows],
        }
    )
