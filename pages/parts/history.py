"""Earlier questions of the console, newest first: choosing one opens its stored result. Nothing is searched again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from pages.parts import result, services, tables
from pages.parts.numbers import moment
from pages.parts.text import cell

if TYPE_CHECKING:
    from core.bootstrap import App
    from core.stores import ConsoleQuery

SHOWN = 50
WIDTH = 960
"""Pixels: a list inside a popover does not widen it by itself, and would show its first column only."""


def draw(app: App, page: str) -> None:
    """A closed list that reads the store only when it is opened."""
    label, key = "Earlier questions", f"{page}.history.open"
    box = st.popover(label, icon=":material/history:", on_change="rerun", key=key, width="stretch")
    if not box.open:
        return
    with box:
        found = services.call("The history cannot be read", app.history.recent, limit=SHOWN)
        entries = found.rows if found else ()
        if not entries:
            if found is not None:
                st.caption("None yet, or audit.console_queries is off.")
            return
        key = f"{page}.history"
        st.dataframe(
            table(entries, app.settings.audit.timezone),
            key=key,
            hide_index=True,
            width=WIDTH,
            height=tables.height(len(entries), 300),
            on_select=lambda: _open(st.session_state.get(key), entries),
            selection_mode="single-cell",
        )


def table(entries: Sequence[ConsoleQuery], zone: str) -> pd.DataFrame:
    """One row a question."""
    return pd.DataFrame(
        {
            "Time": [moment(entry.created_at, zone) for entry in entries],
            "Question": [cell(entry.query) for entry in entries],
            "Evidence": [entry.evidence_status for entry in entries],
            "Level": [entry.relevance_level or "" for entry in entries],
            "Scope": [cell(entry.kb_scope) for entry in entries],
            "What-if": [
                cell(", ".join(f"{name} = {value}" for name, value in entry.what_if.items())) for entry in entries
            ],
            "Asked by": [cell(entry.actor) for entry in entries],
        }
    )


def _open(event: Any, entries: Sequence[ConsoleQuery]) -> None:
    at = result.place(event)
    if at is not None and at < len(entries):
        st.query_params["trace"] = entries[at].trace_id
