"""Earlier questions of the console, newest first: choosing one opens its stored result. Nothing is searched again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from pages.parts import services
from pages.parts.numbers import moment, ms
from pages.parts.text import cell

if TYPE_CHECKING:
    from core.bootstrap import App

SHOWN = 50


def draw(app: App, page: str) -> None:
    """A closed list that reads the store only when it is opened."""
    box = st.expander("Earlier questions", icon=":material/history:", on_change="rerun", key=f"{page}.history.open")
    if not box.open:
        return
    with box:
        entries = services.call("The history cannot be read", app.history.recent, SHOWN)
        if not entries:
            if entries is not None:
                st.caption("None yet, or audit.console_queries is off.")
            return
        key = f"{page}.history"
        st.dataframe(
            table(entries, app.settings.audit.timezone),
            key=key,
            hide_index=True,
            height=min(36 * (len(entries) + 1) + 2, 300),
            on_select=lambda: _open(st.session_state.get(key), entries),
            selection_mode=["single-row", "single-cell"],
        )


def table(entries: Sequence[Any], zone: str) -> pd.DataFrame:
    """One row a question."""
    return pd.DataFrame(
        {
            "Time": [moment(entry.created_at, zone) for entry in entries],
            "Question": [cell(entry.query) for entry in entries],
            "Evidence": [str(entry.evidence_status or "") for entry in entries],
            "Level": [str(entry.relevance_level or "") for entry in entries],
            "Total": [ms(entry.total_ms) for entry in entries],
        }
    )


def _open(event: Any, entries: Sequence[Any]) -> None:
    selection = event["selection"] if event else {}
    places = [*selection.get("rows", []), *(place[0] for place in selection.get("cells", []))]
    if places and places[-1] < len(entries):
        st.query_params["trace"] = entries[places[-1]].trace_id
