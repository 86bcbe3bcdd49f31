"""A strip of facts at a glance: label above, value below."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from pages.parts.status import Fact

PER_ROW = 8


def strip(facts: Iterable[Fact]) -> None:
    """``value`` of a fact without tone may be foreign when it is already ``literal``; everything else is our own."""
    given = list(facts)
    rows = -(-len(given) // PER_ROW)
    size = -(-len(given) // max(1, rows))
    with st.container(border=True, gap="small"):
        for start in range(0, len(given), max(1, size)):
            with st.container(horizontal=True, gap="large"):
                for fact in given[start : start + size]:
                    _one(fact)


def _one(fact: Fact) -> None:
    with st.container(width="content", gap=None):
        st.caption(fact.label, help=fact.help or None)
        st.markdown(f":{fact.tone}[**{fact.value}**]" if fact.tone else f"**{fact.value}**")
