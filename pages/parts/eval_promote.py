"""From a lookup to a draft case at one press."""

from __future__ import annotations

import streamlit as st

from core.errors import NotAllowed
from core.evaluation.collection import Collection
from core.model import EVAL_SCOPE, LookupResult
from pages.parts import eval_services, notice
from pages.parts.access import User


def draw(user: User, result: LookupResult, page: str) -> None:
    """The button that makes a draft of ``result``, whose expectations a person fills in on the Eval page, and what came
    of the last press. Nothing for a viewer, and nothing while the lookup no longer holds its question."""
    notice.draw(page)
    if not user.is_operator or not result.query.strip():
        return
    st.button(
        "Make a draft case",
        icon=":material/playlist_add:",
        key=f"{page}.promote",
        on_click=pressed,
        args=(user, result, page),
        help="Kept under Eval, Review. What should happen is filled in by a person; drafts gate nothing.",
    )


def pressed(user: User, result: LookupResult, page: str) -> None:
    """The press, with a note of how it ended."""

    def work() -> None:
        if not user.is_operator:
            raise NotAllowed("a draft case needs the operator role: auth.operators in settings.toml")
        Collection(eval_services.desk().places).promote(result, who=user.name, kb_scope=EVAL_SCOPE)

    notice.act(page, "A draft case waits under Eval, Review", "No draft was made", work)
