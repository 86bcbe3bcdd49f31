"""Who is looking: every page calls ``require`` before anything else.

The check stands here and not in ``app.py``, because Streamlit can be made to run a page's file without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import streamlit as st

from core.settings import AuthSettings
from pages.parts import boxes, services
from pages.parts.text import one_line


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class User:
    """``name`` is what the audit keeps as the actor."""

    name: str
    role: Role

    @property
    def is_operator(self) -> bool:
        return self.role is Role.OPERATOR


def identify(auth: AuthSettings, headers: Mapping[str, str]) -> User | None:
    """The user behind a request, or None when nobody may look.

    ``local``: whoever reaches the loopback console is the operator. ``header``: the proxy in front names the user in
    ``auth.user_header``; operators and viewers are listed in the settings (no viewers listed: every named user is one).
    """
    if auth.mode == "local":
        return User("local", Role.OPERATOR)
    wanted = auth.user_header.lower()
    values = [value.strip() for name, value in headers.items() if name.lower() == wanted]
    name = values[0] if len(values) == 1 else ""
    if not name:
        return None
    if name in auth.operators:
        return User(name, Role.OPERATOR)
    return User(name, Role.VIEWER) if not auth.viewers or name in auth.viewers else None


def require(role: Role = Role.VIEWER) -> User:
    """The user, when they have at least ``role``; otherwise the page shows why not and ends here."""
    settings = services.settings_or_stop()
    user = identify(settings.auth, st.context.headers)
    if user is None:
        boxes.denied(
            "Nobody is signed in, or this name is on no list.",
            f"The proxy in front of the console must send {settings.auth.user_header}, and auth.operators or "
            "auth.viewers must hold that name.",
        )
        st.stop()
    if role is Role.OPERATOR and not user.is_operator:
        boxes.denied(
            f"{one_line(user.name, 80)} may look, but not do this.",
            "Ask for the operator role: auth.operators in settings.toml.",
        )
        st.stop()
    return user
