"""What came of the last press, kept until it is dismissed or the next press: a page that polls itself would wipe it off.

Presses are answered in callbacks, which run whole before the page is drawn: the work and its note are never split by
another click, and the page below already shows the new state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.errors import RagError, redact
from pages.parts.text import visible


@dataclass(frozen=True, slots=True)
class Notice:
    """``title`` is our own words; ``detail`` may be foreign and is drawn as text."""

    good: bool
    title: str
    detail: str = ""


def act(page: str, done: str, refused: str, work: Callable[[], Any]) -> Any:
    """``work()`` with a notice of how it ended: ``done`` or ``refused`` as the title. None when it was refused."""
    try:
        result = work()
    except RagError as exc:
        put(page, Notice(False, refused, redact(exc)))
    except Exception as exc:  # noqa: BLE001 - a press must end in one box, whatever happened
        put(page, Notice(False, refused, f"an unexpected error: {type(exc).__name__}; details are in the log"))
    else:
        put(page, Notice(True, done))
        return result
    return None


def put(page: str, notice: Notice) -> None:
    st.session_state[_slot(page)] = notice


def draw(page: str, *, over: bool = False) -> None:
    """The notice of this session, if there is one. ``over``: what a good notice said has come to its end."""
    notice: Notice | None = st.session_state.get(_slot(page))
    if notice is None:
        return
    if over and notice.good:
        clear(page)
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        with st.container(width="stretch", gap="xxsmall"):
            if notice.good:
                st.success(notice.title, icon=":material/check_circle:")
            else:
                st.error(notice.title, icon=":material/block:")
            if notice.detail:
                st.text(visible(notice.detail, 2_000))
        st.button("Dismiss", key=f"{page}.notice.dismiss", on_click=clear, args=(page,))


def clear(page: str) -> None:
    """Forgets the notice of this session."""
    st.session_state.pop(_slot(page), None)


def _slot(page: str) -> str:
    return f"{page}.notice"
