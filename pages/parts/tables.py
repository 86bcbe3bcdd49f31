"""How tall a table is drawn: all of its rows and no empty one under them, up to a limit."""

from __future__ import annotations

from typing import Final

ROW: Final = 35
"""Pixels of a row, the head included."""


def height(rows: int, most: int = 10_000) -> int:
    """Pixels of a table of ``rows`` without an empty row under it, at most ``most``."""
    return min(ROW * (rows + 1) + 3, most)
