"""A strip of facts at a glance: label above, value below."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from pages.parts.status import Fact


def strip(facts: Iterable[Fact]) -> None:
    """``value`` of a fact without tone may be foreign when it is already ``literal``; everything else is our own."""
    with st.container(horizontal=True, gap="large", border=True):
        for fact in facts:
            with st.container(width="content", gap=None):
                st.caption(fact.label, help=fact.help or None)
                st.markdown(f":{fact.tone}[**{fact.value}**]" if fact.tone else f"**{fact.value}**")
