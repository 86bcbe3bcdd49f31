"""Numbers as read by people: a missing or impossible one is a dash, never 0."""

from __future__ import annotations

import math
from datetime import datetime
from zoneinfo import ZoneInfo

NONE = "–"


def finite(value: float | None) -> float | None:
    """``value``, or None where there is none or it is NaN or infinite."""
    return value if value is not None and math.isfinite(value) else None


def score(value: float | None, digits: int = 3) -> str:
    value = finite(value)
    return NONE if value is None else f"{value:.{digits}f}"


def count(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def ms(value: float | None) -> str:
    """Milliseconds with a precision that fits their size."""
    value = finite(value)
    if value is None:
        return NONE
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def share(value: float | None) -> str:
    value = finite(value)
    return NONE if value is None else f"{value * 100:.1f} %"


def moment(value: datetime | str | None, zone: str = "UTC") -> str:
    """A stored UTC time in ``zone``, with the zone's name and milliseconds: ``2026-03-01 08:15:30.123 UTC``."""
    if value is None or value == "":
        return NONE
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return NONE
    time = (time if time.tzinfo else time.replace(tzinfo=ZoneInfo("UTC"))).astimezone(ZoneInfo(zone))
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d} {time.tzname()}"
