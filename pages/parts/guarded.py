"""Forms for work that changes the index. A press is one callback that starts a job and returns; the job does the work.

The typed word goes to ``core`` as it is: ``core`` refuses anything but the word in full, before it touches anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages.parts import job, notice
from pages.parts.access import User


@dataclass(frozen=True, slots=True)
class Guard:
    """``word`` must be typed to confirm; ``label`` stands on the button; ``done`` and ``refused`` title the notice."""

    name: str
    word: str
    label: str
    done: str
    refused: str
    icon: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What the form held when it was pressed."""

    word: str
    why: str
    options: dict[str, bool]


def form(
    guard: Guard,
    user: User,
    page: str,
    start: Callable[[Confirmed], Any],
    *,
    busy: bool,
    options: dict[str, tuple[str, str]] | None = None,
) -> None:
    """The word, the reason, ``options`` (name: label and help) as boxes to tick, and the button, disabled while a job
    runs. ``start`` gets what was typed and must return at once."""
    key = f"{page}.{guard.name}"
    with st.form(f"{key}.form", clear_on_submit=True, border=False):
        left, right = st.columns([2, 3])
        left.text_input(
            f"Type {guard.word} to confirm", key=f"{key}.word", disabled=busy, autocomplete="off", max_chars=40
        )
        right.text_input("Why (kept with the run)", key=f"{key}.why", disabled=busy, max_chars=500)
        for name, (label, hint) in (options or {}).items():
            st.checkbox(label, key=f"{key}.{name}", help=hint, disabled=busy)
        st.form_submit_button(
            guard.label,
            type="primary",
            icon=guard.icon,
            disabled=busy,
            key=f"{key}.press",
            on_click=_pressed,
            args=(guard, user, page, start, tuple(options or ())),
        )


def _pressed(guard: Guard, user: User, page: str, start: Callable[[Confirmed], Any], options: tuple[str, ...]) -> None:
    key = f"{page}.{guard.name}"
    typed = Confirmed(
        str(st.session_state.get(f"{key}.word") or ""),
        str(st.session_state.get(f"{key}.why") or "").strip(),
        {name: bool(st.session_state.get(f"{key}.{name}")) for name in options},
    )

    def work() -> None:
        job.allow(user)
        start(typed)

    notice.act(page, guard.done, guard.refused, work)
