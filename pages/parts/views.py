"""A choice between the views of a page, kept in its address, so that only the chosen one is read and drawn."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

ADDRESS = "view"


def choose(page: str, names: Sequence[str]) -> str:
    """The view that the address names, else the first; touching the control writes the address."""
    key, asked = f"{page}.{ADDRESS}", st.query_params.get(ADDRESS, "")
    now = asked if asked in names else names[0]
    if st.session_state.get(key) != now:
        st.session_state[key] = now
    st.segmented_control(
        "View",
        names,
        required=True,
        key=key,
        format_func=str.capitalize,
        label_visibility="collapsed",
        on_change=_chosen,
        args=(key, names[0]),
    )
    return now


def _chosen(key: str, first: str) -> None:
    name = st.session_state[key]
    if name and name != first:
        st.query_params[ADDRESS] = name
    else:
        st.query_params.pop(ADDRESS, None)
