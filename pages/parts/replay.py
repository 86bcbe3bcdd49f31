"""Replay on the Trace page: the recorded question asked again, what moved, and what moved it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import streamlit as st

from core.difference import Change, Moved
from core.replay import Cause, Replay
from core.stores import StoredTrace
from pages.parts import boxes, services
from pages.parts.frame import TRACE
from pages.parts.numbers import NONE
from pages.parts.text import cell, visible

if TYPE_CHECKING:
    from core.bootstrap import App

REMEMBERED: Final = 16
_SHOWN: Final = ("dense", "bm25", "rrf", "rerank", "evidence")
_CAUSE: Final = {
    Cause.NOTHING: ":green-badge[same]",
    Cause.INDEX: ":orange-badge[the index]",
    Cause.SETTINGS: ":orange-badge[settings, model or code]",
    Cause.BOTH: ":orange-badge[index and settings]",
    Cause.UNKNOWN: ":gray-badge[cause open]",
}


@st.cache_resource(show_spinner=False, max_entries=REMEMBERED)
def _kept(trace_id: str, actor: str) -> dict[str, Replay]:
    """The last replay of a trace by this operator: touching a widget must not ask again."""
    del trace_id, actor
    return {}


def draw(app: App, trace_id: str, actor: str, page: str) -> None:
    """The button, the box for a question that is not stored, and the last replay of this trace."""
    st.subheader("Replay", anchor=False, help="Asks the same question today and says why the answer differs.")
    stored = services.call("The recorded lookup cannot be read", app.traces.load, trace_id)
    if stored is None:
        return
    kept = _kept(trace_id, actor)
    with st.form(f"{page}.replay.{trace_id}", border=False):
        typed = "" if _known(app, stored) else _ask(stored, page)
        if st.form_submit_button(
            "Replay now", icon=":material/replay:", help="Audited like any lookup, as tool replay."
        ):
            with st.spinner("Asking again…"):
                found = services.call("Not replayed", app.replayer.replay, stored, typed=typed, actor=actor)
            if found is not None:
                kept["last"] = found
    if "last" in kept:
        _show(kept["last"], page)


def _known(app: App, stored: StoredTrace) -> bool:
    if stored.result.query:
        return True
    return services.call("The history cannot be read", app.history.get, stored.result.trace_id) is not None


def _ask(stored: StoredTrace, page: str) -> str:
    return st.text_input(
        "The question, exactly as it was asked",
        key=f"{page}.replay.typed.{stored.result.trace_id}",
        help="It is not stored. What you type is checked against its SHA-256.",
    )


def _show(replay: Replay, page: str) -> None:
    with st.container(border=True):
        st.markdown(_CAUSE[replay.cause])
        st.text(replay.sentence)
        if replay.note:
            st.caption("About the recorded generation:")
            st.text(visible(replay.note, 400))
        now = replay.now.trace_id
        st.page_link(TRACE.path, label="Today's answer", query_params={"trace": now}, icon=":material/open_in_new:")
    found = replay.comparison
    if found.outcome:
        st.caption("Outcome")
        st.dataframe(change_table(found.outcome), hide_index=True, key=f"{page}.replay.outcome")
    if found.evidence:
        st.caption("Evidence, then and now")
        st.dataframe(moved_table(found.evidence), hide_index=True, placeholder=NONE, key=f"{page}.replay.evidence")
    if found.causes:
        st.caption("What is not as it was")
        st.dataframe(change_table(found.causes), hide_index=True, key=f"{page}.replay.causes")
    elif not found.same:
        boxes.empty(
            "Nothing else differs", "Index, settings, model and code are as they were: look at the branches' own ranks."
        )


def change_table(changes: Sequence[Change]) -> pd.DataFrame:
    """One row a change, in the given order."""
    return pd.DataFrame(
        {
            "Kind": [change.kind for change in changes],
            "What": [cell(change.name) for change in changes],
            "Then": [cell(change.then) for change in changes],
            "Now": [cell(change.now) for change in changes],
        }
    )


def moved_table(rows: Sequence[Moved]) -> pd.DataFrame:
    """One row a chunk: its place among the evidence then and now, the reason, and its ranks in the stages before."""
    table: dict[str, Any] = {
        "Chunk": [cell(row.evidence_key, 120) for row in rows],
        "Then": pd.array([row.evidence_then for row in rows], dtype="Int64"),
        "Now": pd.array([row.evidence_now for row in rows], dtype="Int64"),
        "Why": [cell(row.why) for row in rows],
    }
    for stage in _SHOWN[:-1]:
        if any(row.then[stage] or row.now[stage] for row in rows):
            table[stage.upper() if stage != "dense" else "Dense"] = [
                f"{_rank(row.then[stage])} → {_rank(row.now[stage])}" for row in rows
            ]
    return pd.DataFrame(table)


def _rank(rank: int | None) -> str:
    return NONE if rank is None else str(rank)
