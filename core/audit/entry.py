"""What is delivered for one call: the row of the record with all that goes with it, as plain values.

It is redacted already, so it may wait in a file. Every value is a string, a number, a boolean, null or, in
``created_at``, a moment in UTC; each is as wide as its column takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final

Row = Mapping[str, Any]
TIME: Final = "created_at"


@dataclass(frozen=True, slots=True)
class TraceRows:
    """A row of ``rag_query_trace`` and its rows of ``rag_candidate_trace``."""

    trace: Row
    candidates: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """``row`` is a row of ``tool_invocation`` without the columns of the chain, ``settings`` one of
    ``settings_snapshot``."""

    row: Row
    events: tuple[Row, ...] = ()
    trace: TraceRows | None = None
    settings: Row | None = None
    console_query: Row | None = None

    @property
    def invocation_id(self) -> str:
        return str(self.row["invocation_id"])


def columns(rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    """``rows`` of one table column by column, each as long as ``rows``; without columns that are null in all of them.
    A column that a row does not name is null in it."""
    if not rows:
        return {}
    names = rows[0].keys()
    if all(row.keys() == names for row in rows):
        found = {name: [row[name] for row in rows] for name in names}
    else:
        found = {name: [row.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row)}
    return {name: values for name, values in found.items() if values.count(None) < len(values)}


def dump(entry: Entry) -> bytes:
    """``entry`` as one line of JSON, UTF-8."""
    data = {f.name: getattr(entry, f.name) for f in fields(entry)}
    if entry.trace is not None:
        data["trace"] = {"trace": entry.trace.trace, "candidates": entry.trace.candidates}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_moment).encode()


def parse(data: bytes) -> Entry:
    """Reads what ``dump`` wrote. Raises ValueError for anything else."""
    try:
        read = json.loads(data)
        trace = read["trace"]
        return Entry(
            row=_row(read["row"]),
            events=_rows(read["events"]),
            trace=None if trace is None else TraceRows(_row(trace["trace"]), _rows(trace["candidates"])),
            settings=None if read["settings"] is None else _row(read["settings"]),
            console_query=None if read["console_query"] is None else _row(read["console_query"]),
        )
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as exc:
        raise ValueError(f"no record of a call: {type(exc).__name__} {exc}") from exc


def _rows(rows: Sequence[Row]) -> tuple[Row, ...]:
    return tuple(_row(row) for row in rows)


def _row(row: Row) -> Row:
    return {name: _read(value) if name == TIME else value for name, value in row.items()}


def _read(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(f"a time without a zone: {value}")
    return moment.astimezone(UTC)


def _moment(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    raise TypeError(f"a {type(value).__name__} is no part of a record")
