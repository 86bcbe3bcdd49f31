"""The list of the Audit page: one page of records with its total, and the way to newer and older ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import streamlit as st

from core.audit.query import AuditFilter, AuditPage, AuditRow, cursor_from_param, cursor_to_param
from core.stores import Cursor
from pages.parts import audit_filters, boxes, result, services, tables
from pages.parts.numbers import count, finite, moment
from pages.parts.text import cell

if TYPE_CHECKING:
    from core.bootstrap import App

SHOWN: Final = 50
RECORD: Final = "record"
"""Name of the open record in the address of the page."""


def draw(app: App, where: AuditFilter, page: str, zone: str) -> None:
    """The page of the list that the address names."""
    found: AuditPage | None = services.call("The records cannot be read", _read, app, where)
    if found is None:
        return
    _pager(found, page)
    if not found.rows:
        if found.older is not None:
            boxes.empty("None among the records searched so far", "There are older ones: press Older to search on.")
        elif where == AuditFilter():
            boxes.empty("Nothing is recorded yet", "Every lookup is, whoever makes it: on the Query page, by an agent.")
        else:
            boxes.empty("No record fits these filters", "Take one away, or press Clear all.")
        return
    key = f"{page}.list.{found.rows[0].invocation_id}.{len(found.rows)}"
    st.dataframe(
        record_table(found.rows, zone),
        key=key,
        hide_index=True,
        placeholder="–",
        height=tables.height(len(found.rows), 430),
        on_select=lambda: _open(st.session_state.get(key), found.rows),
        selection_mode="single-cell",
        column_config={
            "Time": st.column_config.TextColumn(width=215, pinned=True),
            "Level": st.column_config.TextColumn(width=100),
            "Attempt": st.column_config.TextColumn(width=215),
            "Fallback": st.column_config.TextColumn(width=195),
            "Query": st.column_config.TextColumn(width=230),
            "Marks": st.column_config.TextColumn(width=120),
            "Total, ms": st.column_config.NumberColumn(format="%.1f"),
            "Top quality": st.column_config.NumberColumn(format="%.3f"),
        },
    )


def _read(app: App, where: AuditFilter) -> AuditPage:
    address = st.query_params
    places: dict[str, Any] = {
        name: cursor_from_param(address[name], name) for name in ("before", "after") if address.get(name)
    }
    if not places and address.get("oldest"):
        places = {"oldest": True}
    return app.audit_log.page(where, limit=SHOWN, **places)


def _pager(found: AuditPage, page: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        steps: tuple[tuple[str, str, str, bool, dict[str, str]], ...] = (
            ("newest", "Newest", ":material/first_page:", found.newer is None, {}),
            ("newer", "Newer", ":material/chevron_left:", found.newer is None, _place("after", found.newer)),
            ("older", "Older", ":material/chevron_right:", found.older is None, _place("before", found.older)),
            ("oldest", "Oldest", ":material/last_page:", found.older is None, {"oldest": "yes"}),
        )
        for name, label, icon, off, told in steps:
            st.button(label, icon=icon, key=f"{page}.{name}", disabled=off, on_click=_turn, args=(told,))
        st.markdown(f"**{total_words(found)}**", width="content")


def _place(name: str, cursor: Cursor | None) -> dict[str, str]:
    return {} if cursor is None else {name: cursor_to_param(cursor)}


def _turn(told: dict[str, str]) -> None:
    kept = {k: v for k, v in st.query_params.to_dict().items() if k not in audit_filters.PLACES}
    st.query_params.from_dict({**kept, **told})


def total_words(found: AuditPage) -> str:
    """How many records fit the filter, and whether that was counted to the end."""
    if not found.total and not found.total_exact:
        return "not counted to the end"
    unit = "record" if found.total == 1 and found.total_exact else "records"
    return f"{'' if found.total_exact else 'at least '}{count(found.total)} {unit}"


def _open(event: Any, rows: Sequence[AuditRow]) -> None:
    at = result.place(event)
    if at is not None and at < len(rows):
        st.query_params[RECORD] = rows[at].invocation_id


def record_table(rows: Sequence[AuditRow], zone: str) -> pd.DataFrame:
    """One row a record, in the given order. Times in ``zone``; a number that is not there stays empty."""
    return pd.DataFrame(
        {
            "Time": [moment(row.created_at, zone) for row in rows],
            "Status": [cell(row.status) for row in rows],
            "Evidence": [row.evidence_status for row in rows],
            "Level": [row.relevance_level or "" for row in rows],
            "Attempt": [row.selected_attempt or "" for row in rows],
            "Fallback": [row.fallback_reason or "" for row in rows],
            "Query": [query_words(row) for row in rows],
            "Total, ms": pd.array([finite(row.total_ms) for row in rows], dtype="Float64"),
            "Returned": pd.array([row.returned_count for row in rows], dtype="Int64"),
            "Candidates": pd.array([row.candidate_count for row in rows], dtype="Int64"),
            "Top quality": pd.array([finite(row.top_quality) for row in rows], dtype="Float64"),
            "Marks": [marks(row) for row in rows],
            "Tool": [cell(row.tool_name) for row in rows],
            "Origin": [row.origin for row in rows],
            "Scope": [cell(row.kb_scope or "") for row in rows],
            "Language": [row.language for row in rows],
            "Generation": pd.array([row.generation for row in rows], dtype="Int64"),
            "Session": [cell(row.session_id or "", 80) for row in rows],
            "Run": [cell(row.run_id or "", 80) for row in rows],
            "Error": [cell(row.error_class or "", 80) for row in rows],
            "Record": [row.invocation_id for row in rows],
        }
    )


def query_words(row: AuditRow) -> str:
    """The question where it is stored, else what stands for it."""
    if row.query_text:
        return cell(row.query_text, 120)
    return f"{count(row.query_chars)} characters, SHA-256 {row.query_sha256[:10]}…" if row.query_sha256 else ""


def marks(row: AuditRow) -> str:
    """What makes a record other than a plain one."""
    told = {
        "degraded": row.degraded,
        "truncated": row.truncated,
        "what-if": row.what_if,
        "retried": bool(row.retries),
        "scope violation": bool(row.scope_violations),
        "stale": bool(row.stale_count),
        "pack drop": bool(row.pack_dropped),
    }
    return ", ".join(name for name, holds in told.items() if holds)
