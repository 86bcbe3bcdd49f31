"""Colours that hold on light and dark paper alike, which of the two is on, and how charts behave."""

from __future__ import annotations

from typing import Final

import streamlit as st

LINES: Final = ("#2a7ab9", "#d9822b", "#3a9b6b", "#b5519c", "#7d6bd0", "#b0803f", "#2f9aa8", "#c0504d")
"""Eight hues of middle lightness, distinct also for the commonest colour blindnesses by order and label."""

DROPPED: Final = "#8a8f98"
FADED: Final = 0.25
GOOD: Final = "#3a9b6b"
FAIR: Final = "#d9a02b"
BAD: Final = "#d1495b"

CHART: Final = {"displayModeBar": False, "doubleClick": False, "scrollZoom": False}
"""Of every Plotly chart: a page scrolls past it, and a double click resets nothing."""


def is_dark() -> bool:
    return st.context.theme.type == "dark"


def ink(dark: bool) -> str:
    return "#e6e6e6" if dark else "#31333f"


def paper(dark: bool) -> str:
    return "rgba(14,17,23,0.8)" if dark else "rgba(255,255,255,0.8)"
