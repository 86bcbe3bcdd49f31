"""What the tables of the Eval page share."""

from __future__ import annotations

from typing import Final

ROW: Final = 35
"""Pixels of a row, the head included."""


def height(rows: int, most: int) -> int:
    """Pixels of a table of ``rows`` without an empty row under it, at most ``most``."""
    return min(ROW * (rows + 1) + 3, most)
