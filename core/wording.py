"""Numbers with their nouns, for messages."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """``1 document``, ``3 documents``; ``many`` where an s does not do it."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def evidence_pieces(number: int) -> str:
    return counted(number, "piece of evidence", "pieces of evidence")
