"""Values for columns: text within a width in code points, numbers that both engines give back as they got them, JSON
that is shortened as data, so that what is stored always parses."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from core.audit.columns import JSON_BYTES
from core.codec import to_json

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LARGEST: Final = 2**31 - 1
_STEPS: Final = ((20_000, 1_000), (4_000, 200), (1_000, 100), (200, 40), (60, 10), (20, 0), (0, 0))
"""Characters a string and items a list, tried one after the other."""


def clean(text: str) -> str:
    """``text`` that any database takes: each half of a surrogate pair is U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def cut(text: str | None, width: int) -> str | None:
    """At most ``width`` characters; null stays null."""
    return None if text is None else clean(text[:width])


def number(value: float | None) -> float | None:
    """A finite float, or null: NaN and the infinities are no number to a database."""
    return float(value) + 0.0 if value is not None and math.isfinite(value) else None  # + 0.0: there is no -0.0


def whole(value: int | None) -> int | None:
    """An integer that fits 32 bits, the nearest one where it does not."""
    if value is None or -_LARGEST <= value <= _LARGEST:
        return value
    return _LARGEST if value > 0 else -_LARGEST


def bounded_json(value: Any, limit: int = JSON_BYTES) -> tuple[str, bool]:
    """``value`` as JSON of at most ``limit`` bytes, and whether something was left out.

    Long strings lose their end and lists their last items, evenly and only as much as is needed; keys stay, so the
    data reads back into the same frozen value. Only data that is too large without any string or list becomes
    ``{"cut": true, "bytes": n}``.
    """
    text = to_json(value)
    size = len(text.encode())
    if size <= limit:
        return text, False
    data = json.loads(text)
    for chars, items in _STEPS:
        shorter = json.dumps(_shortened(data, chars, items), ensure_ascii=False, separators=(",", ":"))
        if len(shorter.encode()) <= limit:
            return shorter, True
    return json.dumps({"cut": True, "bytes": size}), True


def _shortened(data: Any, chars: int, items: int) -> Any:
    if isinstance(data, str):
        return data[:chars]
    if isinstance(data, list):
        return [_shortened(item, chars, items) for item in data[:items]]
    if isinstance(data, dict):
        return {key: _shortened(value, chars, items) for key, value in data.items()}
    return data
