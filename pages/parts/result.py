"""One lookup, drawn: what the Query page and the Trace page show alike, from the same value.

Nothing here searches, stores or audits. The only state is the chosen chunk, kept by its evidence key.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.model import AttemptTrace, LookupResult
from pages.parts import attempts, boxes, bump, details, funnel, gate, ladder, look, status, tables
from pages.parts.shown import View
from pages.parts.text import visible

_NUMBERS = ("Quality", "Distance²", "BM25 score", "RRF score", "Rerank score")


def draw(view: View, *, page: str) -> None:
    """The whole result. ``page`` prefixes the keys of widgets, so that two pages never share one."""
    strip(view)
    trace = view.result.retrieval_trace
    if view.result.error_class:
        boxes.problem(f"The lookup failed ({view.result.error_class})", view.result.message)
    if not trace.attempts:
        boxes.empty("Nothing was searched", "The lookup ended before the first attempt, so there are no ranks to show.")
    else:
        ranks(view, page)
    details.draw(view, page)


def strip(view: View) -> None:
    """Level, status, attempt, fallback and time at a glance, and whatever makes this lookup less than a plain one."""
    with st.container(horizontal=True, gap="large", border=True):
        for fact in status.status_facts(view.result, view.receipt):
            with st.container(width="content", gap=None):
                st.caption(fact.label, help=fact.help or None)
                st.markdown(f":{fact.tone}[**{fact.value}**]" if fact.tone else f"**{fact.value}**")
    st.caption(status.made_with(view.result))
    remarks = (*status.remarks(view.result), *((view.note,) if view.note else ()))
    if remarks:
        with st.container(border=True, gap="xxsmall"):
            for remark in remarks:
                st.text(visible(f"⚠ {remark}", 1_000))
    if not view.result.found and not view.result.error_class:
        st.text(visible(view.result.message, 1_000))


@st.fragment
def ranks(view: View, page: str) -> None:
    """The ladder with funnel and gate beside it, its table, and the chosen chunk. Reruns alone when one is chosen."""
    trace = view.result.retrieval_trace
    attempt = _attempt(view.result, page)
    rows, columns = ladder.ladder_rows(attempt), ladder.ladder_columns(attempt)
    slot = f"{page}.chosen"
    keys = [row.key for row in rows]
    chosen = st.session_state.get(slot)
    chosen = chosen if chosen in keys else None
    left, right = st.columns([13, 7], gap="medium")
    with left:
        st.subheader(
            "Rank ladder", anchor=False, help="Up is better. A line ends in × at the stage that dropped the chunk."
        )
        if rows:
            figure = bump.ladder_figure(
                rows, columns, states=ladder.ladder_states(attempt), dark=look.is_dark(), chosen=chosen
            )
            chart = f"{page}.ladder.{trace.trace_id}.{attempt.name.value}"
            st.plotly_chart(
                figure,
                key=chart,
                config=look.CHART,
                on_select=lambda: _choose(slot, _clicked(st.session_state.get(chart))),
                selection_mode="points",
                alt="Rank of each chunk at each stage; the table below holds the same numbers.",
            )
        else:
            boxes.empty("No candidates", "Neither branch returned a chunk inside this scope and filter.")
    with right:
        st.subheader(
            "Funnel", anchor=False, help="Chunks into and out of each stage, and what the others were dropped for."
        )
        steps = funnel.funnel_rows(trace, attempt)
        st.plotly_chart(funnel.funnel_figure(steps, dark=look.is_dark()), key=f"{page}.funnel", config=look.CHART)
        for step in steps:
            if step.reason:
                st.text(visible(f"{ladder.LABELS[step.stage]}: {step.reason}", 400))
        st.subheader("Gate", anchor=False, help="Quality is a measure; it never changes the order.")
        if trace.gate:
            st.text(gate.gate_words(attempt, trace.gate))
            if rows:
                picture = gate.gate_figure(attempt, trace.gate, dark=look.is_dark(), chosen=chosen)
                st.plotly_chart(picture, key=f"{page}.gate", config=look.CHART)
        else:
            st.caption("No gate is recorded for this lookup.")
    if rows:
        table = f"{page}.table.{trace.trace_id}.{attempt.name.value}"
        st.dataframe(
            ladder.ladder_table(rows, columns),
            key=table,
            hide_index=True,
            placeholder="–",
            height=tables.height(len(rows), 420),
            on_select=lambda: _choose(slot, _picked(st.session_state.get(table), keys)),
            selection_mode="single-cell",
            column_config={
                "Title": st.column_config.TextColumn(width=260, pinned=True),
                "Chunk": st.column_config.TextColumn(width=300),
                **{name: st.column_config.NumberColumn(format="%.4f") for name in _NUMBERS},
            },
        )
        if chosen is None:
            st.caption("Choose a cell, or click a line above, to follow one chunk and read it.")
        else:
            details.chunk(view, next(c for c in attempt.candidates if c.evidence_key == chosen))
    if len(trace.attempts) > 1:
        _side_by_side(view.result, page)


def _attempt(result: LookupResult, page: str) -> AttemptTrace:
    """The attempt to show: the only one, or the one chosen."""
    trace = result.retrieval_trace
    names = [attempt.name for attempt in trace.attempts]
    selected = trace.selected_attempt if trace.selected_attempt in names else names[-1]
    if len(names) == 1:
        return trace.attempts[0]
    st.text(attempts.fallback_words(trace.attempts[0], trace.attempts[-1]))
    picked = st.segmented_control(
        "Attempt shown below",
        names,
        default=selected,
        required=True,
        format_func=lambda name: f"{name.value.replace('_', ' ').lower()}{' (selected)' if name is selected else ''}",
        key=f"{page}.attempt.{trace.trace_id}",
    )
    return next(attempt for attempt in trace.attempts if attempt.name is (picked or selected))


def _side_by_side(result: LookupResult, page: str) -> None:
    trace = result.retrieval_trace
    with st.expander("Both attempts, side by side", expanded=True):
        st.dataframe(attempts.attempt_facts(trace.attempts), hide_index=True, key=f"{page}.facts")
        moves = attempts.attempt_moves(trace.attempts[0], trace.attempts[-1])
        st.dataframe(
            moves,
            hide_index=True,
            placeholder="–",
            height=tables.height(len(moves), 260),
            key=f"{page}.moves",
            column_config={
                f"Quality {side}": st.column_config.NumberColumn(format="%.3f") for side in ("before", "after")
            },
        )


def _choose(slot: str, key: str | None) -> None:
    # A chart forgets its selection when its figure changes and then reports an empty one: that chooses nothing.
    if key is not None:
        st.session_state[slot] = key


def _clicked(event: Any) -> str | None:
    """The evidence key of the point that was clicked."""
    points = event["selection"]["points"] if event else []
    data = points[0].get("customdata") if points else None
    return str(data[0]) if data else None


def _picked(event: Any, keys: list[str]) -> str | None:
    """The evidence key of the row in which a cell was chosen."""
    at = place(event)
    return keys[at] if at is not None and at < len(keys) else None


def place(event: Any) -> int | None:
    """The row of the chosen cell, by mouse or arrow keys. (Boxes for whole rows would keep an older choice beside a
    newer one, with no telling which came last.)"""
    cells = event["selection"]["cells"] if event else []
    return int(cells[-1][0]) if cells else None
