"""The state of the index, drawn: the active generation, what changed on disk since, what was left out, the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import NotFound
from core.knowledge.rebuild.values import Drift, IndexStatus
from core.stores import RebuildRun
from pages.parts import boxes, dry_run, facts, index_state, pace, reading, result, runs, services, tables
from pages.parts.numbers import count, moment
from pages.parts.status import Fact
from pages.parts.text import literal, visible

if TYPE_CHECKING:
    from core.bootstrap import App

SHOWN: Final = 50
ADDRESS: Final = "rebuild"
"""Name of the run in the address of the page."""


def active(status: IndexStatus, zone: str) -> None:
    """What is active, and whatever is wrong with it."""
    if status.active is None:
        boxes.empty("No index yet", "Nothing can be looked up before the first rebuild: type REBUILD below.")
    else:
        facts.strip(index_state.status_facts(status, zone))
    for held in status.held:
        st.markdown(f":blue[**Held**] generation {index_state.generation_words(held, zone)}: proven, not in use.")
    for problem in status.problems:
        st.text(visible(f"⚠ {problem}", 1_000))


def drift(app: App, page: str, *, busy: bool) -> None:
    """What changed on disk since the active generation was built, and the button of the dry run."""
    found: Drift | None = services.call("The files on disk cannot be compared", app.rebuild.drift)
    st.subheader(
        "On disk", anchor=False, help="By size, time and hash of each file; cheap, so it is done on each visit."
    )
    if found is not None:
        words = index_state.drift_words(found)
        if found.current:
            st.success(words, icon=":material/check_circle:")
        else:
            st.warning(words, icon=":material/sync_problem:")
        for reason in found.demands:
            st.text(visible(f"⚠ A rebuild is demanded: {reason}", 1_000))
        changes = len(found.added) + len(found.changed) + len(found.removed)
        if changes and found.generation is not None:
            table = index_state.changes_table(found.added, found.changed, found.removed)
            st.dataframe(table, hide_index=True, height=tables.height(len(table), 220), key=f"{page}.drift")
        if found.source:
            st.caption(f"Source: {literal(found.source)}")
    dry_run.button(page, busy=busy)


def left_out(status: IndexStatus, page: str) -> None:
    """Files that the active generation does not hold, each with its reason, and warnings apart from them."""
    if status.rejected:
        st.subheader(f"Rejected files: {count(len(status.rejected))}", anchor=False)
        st.dataframe(
            index_state.rejected_table(status.rejected),
            hide_index=True,
            placeholder="–",
            height=tables.height(len(status.rejected), 300),
            key=f"{page}.rejected",
            column_config=index_state.REJECTED_COLUMNS,
        )
    if status.kept:
        st.text(
            visible(f"{len(status.kept):,} of them keep their earlier version: {', '.join(status.kept[:20])}", 1_000)
        )
    if status.warnings:
        with st.expander(f"Warnings: {count(len(status.warnings))}"):
            st.code(visible("\n".join(status.warnings[:500]), 50_000), language=None, wrap_lines=True)


def last(run: RebuildRun, zone: str) -> None:
    """How the last job ended, in one line: what every browser shows when a job is over."""
    words = f"Last job: {literal(run.kind)} by {literal(run.who, 60)}, {runs.state_words(run)}"
    st.markdown(f"{words} at {moment(run.finished_at, zone)} after {pace.took(run)}")
    error = run.outcome.get("error")
    if error:
        st.text(visible(f"⚠ {error}", 1_000))


def history(app: App, found: Sequence[RebuildRun] | None, page: str) -> None:
    """Past work, newest first (None: it could not be read), and the run that the address names, whole."""
    st.subheader("History", anchor=False)
    if found is not None and not found:
        boxes.empty("Nothing was done yet", "Every rebuild, roll-back, switch, upload and removal is listed here.")
    elif found is not None:
        key = f"{page}.history"
        st.dataframe(
            runs.history_table(found, app.settings.audit.timezone),
            key=key,
            hide_index=True,
            placeholder="–",
            height=tables.height(len(found), 320),
            on_select=lambda: _open(st.session_state.get(key), found),
            selection_mode="single-cell",
            column_config={
                "Started": st.column_config.TextColumn(width=215),
                "Difference": st.column_config.TextColumn(width=230),
                "Why": st.column_config.TextColumn(width=200),
                "Holder": st.column_config.TextColumn(width=120),
                "Run": st.column_config.TextColumn(width=120),
            },
        )
        if not st.query_params.get(ADDRESS):
            st.caption("Choose a cell to read that run and its log.")
    wanted = st.query_params.get(ADDRESS, "")
    if wanted:
        one(app, wanted, page)


def _open(event: Any, rows: Sequence[RebuildRun]) -> None:
    at = result.place(event)
    if at is not None and at < len(rows):
        st.query_params[ADDRESS] = rows[at].run_id


def one(app: App, run_id: str, page: str) -> None:
    """One run whole: facts, outcome, log."""
    run: RebuildRun | None = services.call("This run cannot be shown", _run, app, run_id)
    if run is None:
        return
    zone = app.settings.audit.timezone
    with st.container(border=True):
        st.markdown(f"**{literal(run.kind)}** {literal(run.run_id)}")
        facts.strip(run_facts(run, zone))
        for label, value in (
            ("Why", run.why),
            ("Error", run.outcome.get("error")),
            ("Last word", run.message),
            ("Took over from", run.took_over),
        ):
            if value:
                st.text(visible(f"{label}: {value}", 1_000))
        if run.log:
            st.caption(f"Log, times in {literal(zone)}")
            st.code(runs.log_text(run, zone), language=None, height=min(24 * len(run.log) + 34, 320))
        if run.outcome:
            with st.expander("Outcome as recorded"):
                st.code(visible(reading.json_text(dict(run.outcome)), 50_000), language="json", wrap_lines=True)
    st.button("Close", key=f"{page}.run.close", on_click=_close)


def _run(app: App, run_id: str) -> RebuildRun:
    run = app.rebuild.run(run_id)
    if run is None:
        raise NotFound("no run of this id is recorded: choose one from the history")
    return run


def _close() -> None:
    st.query_params.pop(ADDRESS, None)


def run_facts(run: RebuildRun, zone: str) -> tuple[Fact, ...]:
    return (
        Fact("State", run.state, tone=runs.TONES.get(run.state, "")),
        Fact("Generation", count(run.generation)),
        Fact("Started", moment(run.started_at, zone)),
        Fact("Took", pace.took(run)),
        Fact("Documents", count(runs.many(run.outcome.get("documents")))),
        Fact("Chunks", count(runs.many(run.outcome.get("chunks")))),
        Fact("Embedded", count(runs.many(run.outcome.get("embedded"))), "The others came from the cache."),
        Fact("Difference", runs.difference(run) or "–"),
        Fact("By", literal(run.who, 60), f"On {literal(run.holder, 120)}"),
        Fact("Cancelled by", literal(run.cancelled_by, 60)) if run.cancel_requested else Fact("Cancelled by", "–"),
    )
