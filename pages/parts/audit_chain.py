"""Whether the record is whole: what waits in the outbox, and the chain of hashes over all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from core.errors import RagError
from pages.parts.numbers import count

if TYPE_CHECKING:
    from core.audit.query import AuditFilter
    from core.bootstrap import App


def waiting(app: App) -> None:
    """How many records wait for the database; nothing where none does."""
    try:
        number = app.audit.waiting()
    except RagError:
        st.warning("The outbox cannot be read", icon=":material/outbox:")
        return
    if number:
        unit = "record waits" if number == 1 else "records wait"
        st.warning(f"{count(number)} {unit} in the outbox for the database", icon=":material/outbox:")


def draw(app: App, page: str, zone: str) -> None:
    del app, page, zone


def export(app: App, where: AuditFilter, page: str) -> None:
    del app, where, page
