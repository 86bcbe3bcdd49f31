"""The question of an operator: the form, and the one lookup that a press of its button makes.

The press is answered in one go: between the lookup (which audits itself) and the note of its trace id no Streamlit
call may stand, since any of them can end the run when another widget is touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import streamlit as st

from core.lookup_request import LookupOutcome, LookupRequest, WhatIf
from core.model import ALL_SCOPES, LookupResult, Origin
from core.settings import Settings
from pages.parts import knobs, services
from pages.parts.shown import View
from pages.parts.text import visible

SAME_PRESS_SECONDS: Final = 1.0
"""A press of the same question within this time of its answer came while the answer was on its way."""


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    scopes: tuple[str, ...]
    what_if: WhatIf | None


@dataclass(slots=True)
class Slot:
    """What one session keeps between runs: the id of its last result, the press it answered, and the id of the result
    whose question stands in the box. No result."""

    trace_id: str | None = None
    question: Question | None = None
    answered_at: float = 0.0
    shown: str | None = None


def slot() -> Slot:
    return st.session_state.setdefault("lookup.slot", Slot())


def prefill(result: LookupResult, page: str) -> None:
    """Puts the question of a result that was opened by its address into the box, once, before the box is drawn."""
    mine = slot()
    if result.trace_id != mine.shown:
        mine.shown = result.trace_id
        if result.query:
            st.session_state[f"{page}.question"] = visible(result.query, 8_000)


def form(settings: Settings, scopes: tuple[str, ...], page: str) -> Question | None:
    """The question box, its scope and its knobs; a Question in the run that follows a press, else None."""
    with st.form(f"{page}.form", border=False):
        left, middle, right = st.columns([8, 3, 1.2], vertical_alignment="bottom")
        text = left.text_input(
            "Question",
            placeholder="redis 连接池耗尽怎么排查, or an alert name: KubePodCrashLooping",
            key=f"{page}.question",
        )
        configured = settings.retrieval.kb_scope or "default"
        chosen = middle.multiselect(
            "Scope",
            [*scopes, ALL_SCOPES],
            format_func=lambda name: "all scopes (*)" if name == ALL_SCOPES else name,
            placeholder=f"configured: {configured if isinstance(configured, str) else ', '.join(configured)}",
            help="An access boundary for every branch and the retry. Empty: the configured scope, never all.",
            key=f"{page}.scopes",
        )
        pressed = right.form_submit_button("Look up", type="primary", width="stretch", icon=":material/search:")
        with st.expander("What-if knobs", icon=":material/tune:"):
            what_if = knobs.draw(settings, page)
    return Question(text, tuple(chosen), what_if) if pressed else None


def answer(
    question: Question,
    lookup: Callable[[LookupRequest], LookupOutcome],
    *,
    actor: str,
    clock: Callable[[], float] = time.monotonic,
) -> View:
    """Looks ``question`` up once; a second press of the same question that came while the first was under way gets
    the first one's result. Raises what the lookup raises."""
    mine, memory = slot(), services.views()
    if question == mine.question and mine.trace_id and clock() - mine.answered_at < SAME_PRESS_SECONDS:
        earlier = memory.get(mine.trace_id)
        if earlier is not None:
            return earlier
    outcome = lookup(
        LookupRequest(
            query=question.text,
            kb_scope=question.scopes or None,
            origin=Origin.CONSOLE,
            what_if=question.what_if,
            actor=actor,
        )
    )
    view = memory.keep(services.fresh(outcome))
    mine.trace_id = mine.shown = outcome.result.trace_id
    mine.question, mine.answered_at = question, clock()
    return view
