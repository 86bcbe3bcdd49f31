"""The states of a page that are no result: empty, failed, denied, warming. One box each, never a stack trace."""

from __future__ import annotations

import streamlit as st

from core.errors import RagError, redact
from pages.parts.text import visible


def problem(title: str, detail: object, *, remedy: str = "") -> None:
    """A failure in one box. ``title`` and ``remedy`` are our own words; ``detail`` is foreign and drawn as text."""
    with st.container(border=True):
        st.error(title, icon=":material/error:")
        st.text(visible(redact(detail), 2_000))
        if remedy:
            st.caption(remedy)


def failed(doing: str, error: Exception) -> None:
    """What went wrong while ``doing`` something. Our own errors speak for themselves; of others only the class is
    shown, since their text may hold anything."""
    if isinstance(error, RagError):
        problem(f"{doing}: {_kind(error)}", error)
    else:
        problem(
            f"{doing}: an unexpected error",
            type(error).__name__,
            remedy="Details are in the log. `doctor` checks every store.",
        )


def _kind(error: RagError) -> str:
    return {2: "this input cannot be used", 3: "a store or a model cannot be used now"}.get(error.exit_code, "refused")


def empty(title: str, hint: str) -> None:
    """Nothing to show, and what to do about it (our own words both)."""
    with st.container(border=True):
        st.markdown(f"**{title}**")
        st.caption(hint)


def denied(title: str, hint: str) -> None:
    with st.container(border=True):
        st.warning("Not allowed", icon=":material/lock:")
        st.text(visible(title, 400))
        st.text(visible(hint, 400))
