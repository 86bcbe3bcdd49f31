"""Conditions and places as text, for addresses and command lines: read with a reason for every refusal, and written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from core.audit.columns import INVOCATION_CHARS, Status
from core.errors import BadInput
from core.filters import clean_filter_value
from core.model import AttemptName, EvidenceStatus, FallbackReason, Origin, RelevanceLevel
from core.stores import Cursor

NONE: Final = "none"
"""Of level, attempt and fallback: the records that have none."""
ANY: Final = "any"
"""Of fallback: the records that have one, whatever the reason."""
TEXT_CHARS: Final = 200


class Only(StrEnum):
    """Records in which something happened that most do not have."""

    RETRIED = "retried"  # a store call was repeated
    SCOPE_VIOLATION = "scope_violation"
    STALE = "stale"  # a hit of an older revision was dropped
    BUDGET_DROP = "budget_drop"  # evidence did not fit into the context pack
    TRUNCATED = "truncated"  # the agent got less than there was
    WHAT_IF = "what_if"
    CUT = "cut"  # the record itself was too long and was shortened


def cursor_to_param(cursor: Cursor) -> str:
    return f"{written(cursor.at)}~{cursor.id}"


def cursor_from_param(text: str, name: str = "cursor") -> Cursor:
    """Raises BadInput for what ``cursor_to_param`` did not write."""
    at, _, row = text.partition("~")
    if not (row.isascii() and row.isdigit() and len(row) <= 19):
        raise BadInput(f"{name}: {text[:60]!r} names no place in the list; begin at its first page")
    return Cursor(read_moment(name, at, "UTC"), row)


# --------------------------------------------------------------------------------------------- reading values


def zone_info(name: str) -> ZoneInfo:
    """Raises BadInput for what is no IANA name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:
        raise BadInput(f"{name[:60]!r} is no time zone; write an IANA name such as Asia/Shanghai") from exc


def read_moment(name: str, text: str, zone: str) -> datetime:
    local = zone_info(zone)
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=local)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise BadInput(f"{name}: {text[:60]!r} is no time; write 2026-11-30 or 2026-11-30T08:15:00+08:00") from exc


def _name(name: str, text: str) -> str:
    width = INVOCATION_CHARS[_WIDTHS[name]]
    if len(text) > width or not text.isprintable():
        raise BadInput(f"{name}: give one printable line of at most {width} characters")
    return text


def _text(name: str, text: str) -> str:
    if len(text) > TEXT_CHARS or "\x00" in text:
        raise BadInput(f"{name}: at most {TEXT_CHARS} characters can be looked for")
    return text


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    by_folded = {value.casefold(): value for value in allowed}

    def read(name: str, text: str) -> str:
        if text.casefold() not in by_folded:
            raise BadInput(f"{name}: {text[:60]!r} is none of {', '.join(allowed)}")
        return by_folded[text.casefold()]

    return read


def _several(name: str, text: str) -> tuple[Only, ...]:
    read = _one_of(*Only)
    return tuple(sorted({Only(read(name, part.strip())) for part in text.split(",") if part.strip()}))


def _yes_or_no(name: str, text: str) -> bool:
    known = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if text.casefold() not in known:
        raise BadInput(f"{name}: {text[:60]!r} is neither yes nor no")
    return known[text.casefold()]


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadInput(f"{name}: {text[:60]!r} is no number of a generation")
    return int(text)


def _ms(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise BadInput(f"{name}: {text[:60]!r} is no number of milliseconds")
    return value


def _scope(name: str, text: str) -> str:
    return clean_filter_value(text, name)


TIMES: Final = ("since", "until")
_WIDTHS: Final = {
    "error": "error_class",
    "tool": "tool_name",
    "session": "session_id",
    "run": "run_id",
    "trace": "trace_id",
    "language": "language",
    "model": "embedding_profile",
    "reranker": "reranker_model",
}
READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    **dict.fromkeys(_WIDTHS, _name),
    "status": _one_of(*Status),
    "relevance_level": _one_of(*RelevanceLevel, NONE),
    "evidence_status": _one_of(*EvidenceStatus),
    "attempt": _one_of(*AttemptName, NONE),
    "fallback": _one_of(*FallbackReason, ANY, NONE),
    "degraded": _yes_or_no,
    "only": _several,
    "origin": _one_of(*Origin),
    "scope": _scope,
    "generation": _whole,
    "min_ms": _ms,
    "max_ms": _ms,
    "text": _text,
}


def written(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)
