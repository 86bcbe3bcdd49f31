"""A rebuild that is only thought through: what it would add, change and remove, and how long it would take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.knowledge.rebuild.values import Plan
from pages.parts import facts, index_state, services, tables
from pages.parts.numbers import count, moment
from pages.parts.text import visible

if TYPE_CHECKING:
    from core.bootstrap import App

KEPT_SECONDS: Final = 900


@st.cache_data(ttl=KEPT_SECONDS, max_entries=16, show_spinner="Reading every file…")
def _plan(_app: App, pressed_at: str) -> Plan:
    """One plan a press: ``pressed_at`` tells presses apart, so that other clicks on the page keep what is shown."""
    del pressed_at
    return _app.rebuild.dry_run()


def button(page: str, *, busy: bool) -> None:
    st.button(
        "Dry run",
        icon=":material/troubleshoot:",
        key=f"{page}.dry",
        disabled=busy,
        on_click=_pressed,
        args=(page,),
        help="Reads and cuts every file, but embeds and changes nothing.",
    )


def _pressed(page: str) -> None:
    st.session_state[f"{page}.dry.at"] = datetime.now(UTC).isoformat()


def draw(app: App, page: str) -> None:
    """The plan of the last press of this session, or nothing."""
    pressed_at = st.session_state.get(f"{page}.dry.at")
    if not pressed_at:
        return
    plan: Plan | None = services.call("The dry run failed", _plan, app, pressed_at)
    if plan is None:
        return
    st.subheader("Dry run", anchor=False, help="What a rebuild would do. Nothing was changed.")
    st.caption(f"As the files were at {moment(pressed_at, app.settings.audit.timezone)}")
    facts.strip(index_state.plan_facts(plan))
    for remark in index_state.plan_remarks(plan):
        st.text(visible(f"⚠ {remark}", 1_000))
    left, right = st.columns(2)
    changes = len(plan.added) + len(plan.changed) + len(plan.removed) + len(plan.kept)
    with left:
        st.caption(f"Documents that differ: {count(changes)}" + _cut(changes))
        if changes:
            table = index_state.changes_table(plan.added, plan.changed, plan.removed, plan.kept)
            st.dataframe(table, hide_index=True, height=tables.height(len(table), 300), key=f"{page}.dry.changes")
    with right:
        bad = len(plan.rejected) + len(plan.skipped)
        st.caption(f"Files that would not be in the index: {count(bad)}")
        if bad:
            st.dataframe(
                index_state.rejected_table(plan.rejected, plan.skipped),
                hide_index=True,
                placeholder="–",
                height=tables.height(bad, 300),
                key=f"{page}.dry.rejected",
                column_config=index_state.REJECTED_COLUMNS,
            )


def _cut(changes: int) -> str:
    return f" (the first {count(index_state.ROWS)} are listed)" if changes > index_state.ROWS else ""
