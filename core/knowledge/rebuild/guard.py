"""The words that guard work on the index. They are compared as typed: nothing is trimmed or folded."""

from __future__ import annotations

from enum import StrEnum

from core.errors import NotConfirmed


class Word(StrEnum):
    REBUILD = "REBUILD"
    ROLLBACK = "ROLLBACK"
    SWITCH = "SWITCH"


def confirm(typed: object, word: Word) -> None:
    """Raises NotConfirmed unless ``typed`` is ``word`` exactly. Called before anything is read or written."""
    if typed != word.value or not isinstance(typed, str):
        raise NotConfirmed(f"not confirmed: type {word.value} in full, in capitals; nothing was changed")
