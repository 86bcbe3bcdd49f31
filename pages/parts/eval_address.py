"""Choices of the Eval page that stand in its address, so that a finding can be sent to somebody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from pages.parts.text import one_line

CASE, MODE, LOSS, TYPE, TAG, SHOW = "case", "mode", "loss", "type", "tag", "show"
RUN, CHANGE, BASIS, METRIC, STAGE, BY = "run", "change", "basis", "metric", "stage", "by"
REVIEW, PAIRS, DRAFT, RECORD = "review", "pairs", "draft", "record"


def asked(name: str) -> str:
    return str(st.query_params.get(name, ""))


def put(**told: str | None) -> None:
    """Writes parameters; None or an empty text takes one away."""
    for name, value in told.items():
        if value:
            st.query_params[name] = value
        else:
            st.query_params.pop(name, None)


def segments(label: str, page: str, name: str, options: Sequence[str], *, words: Callable[[str], str] = str) -> str:
    """One of ``options`` as buttons in a row, the first one by default. Options and words are our own."""
    key, now = _begin(page, name, options)
    st.segmented_control(
        label, options, required=True, key=key, format_func=words, on_change=_chosen, args=(key, name, options[0])
    )
    return now


def pick(label: str, page: str, name: str, options: Sequence[str], *, words: Callable[[str], str] = one_line) -> str:
    """One of ``options`` from a list to be searched; foreign ones are drawn as text. The first one by default."""
    key, now = _begin(page, name, options)
    st.selectbox(label, options, key=key, format_func=words, on_change=_chosen, args=(key, name, options[0]))
    return now


def _begin(page: str, name: str, options: Sequence[str]) -> tuple[str, str]:
    key = f"{page}.{name}"
    now = asked(name) if asked(name) in options else options[0]
    if st.session_state.get(key) != now:
        st.session_state[key] = now
    return key, now


def _chosen(key: str, name: str, default: str) -> None:
    value: Any = st.session_state.get(key)
    put(**{name: value if value and value != default else None})
