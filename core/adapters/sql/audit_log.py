"""``core.audit.query.AuditLog``: the record read page by page, whole, as a stream and as trends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Row, func, select

from core.adapters.sql.audit_places import Found, counted, cursor, look
from core.adapters.sql.audit_trends import read_trends
from core.adapters.sql.audit_where import matching
from core.adapters.sql.engine import Database
from core.adapters.sql.tables import INVOCATION
from core.audit.query import (
    AuditFilter,
    AuditPage,
    AuditRecordView,
    AuditRow,
    Bucket,
    Facets,
    Neighbours,
    Trends,
    shown,
)
from core.errors import BadInput, NotFound
from core.stores import Cursor

T = TypeVar("T")
MAX_LIMIT: Final = 1_000
COUNTED: Final = 10_000
"""Up to here a total is exact; beyond, counting costs more than it tells: a page that matches one record in thirty would
read the index of a million to its end."""
LISTED_CHARS: Final = 300
BATCH: Final = 1_000
WHOLE_BATCH: Final = 20
"""Of records that are read whole: each may hold some megabytes."""
FACET_ROWS: Final = 20_000
_EVERYTHING: Final = AuditFilter()
_C: Final = INVOCATION.c
_NAMES: Final = tuple(f.name for f in fields(AuditRow))
_LISTED: Final = [
    func.substr(_C.query_text, 1, LISTED_CHARS + 1).label("query_text") if name == "query_text" else _C[name]
    for name in _NAMES
]
_FACETS: Final = (
    "status",
    "error_class",
    "tool_name",
    "origin",
    "kb_scope",
    "language",
    "generation",
    "embedding_profile",
    "reranker_model",
)


class SqlAuditLog:
    def __init__(self, database: Database) -> None:
        self._db = database

    def page(
        self,
        where: AuditFilter = _EVERYTHING,
        *,
        limit: int = 50,
        before: Cursor | None = None,
        after: Cursor | None = None,
        oldest: bool = False,
    ) -> AuditPage:
        if not 1 <= limit <= MAX_LIMIT:
            raise BadInput(f"limit: {limit} rows; give 1 to {MAX_LIMIT}")
        if (before is not None) + (after is not None) + oldest > 1:
            raise BadInput("a page lies before one place or after one, or is the oldest: give one of them")

        def work(connection: Connection) -> AuditPage:
            upwards = oldest or after is not None
            found = look(connection, where, limit, before=before, after=after, upwards=upwards)
            if after is not None and found.on is None:  # the top was reached: the newest page, full
                found = look(connection, where, limit)
                return _page(connection, where, found, limit, newer=None, older=found.on)
            if upwards:
                found = Found(found.rows[::-1], found.on)
                older = cursor(found.rows[-1]) if found.rows and after is not None else after
                return _page(connection, where, found, limit, newer=found.on, older=older)
            newer = cursor(found.rows[0]) if found.rows and before is not None else before
            return _page(connection, where, found, limit, newer=newer, older=found.on)

        return self._db.read(work)

    def get(self, invocation_id: str) -> AuditRecordView | None:
        query = select(INVOCATION).where(_C.invocation_id == invocation_id)
        row = self._db.read(lambda c: c.execute(query).first())
        return _record(row) if row else None

    def neighbours(self, where: AuditFilter, invocation_id: str) -> Neighbours:
        query = select(_C.created_at, _C.id).where(_C.invocation_id == invocation_id)

        def work(connection: Connection) -> Neighbours:
            place = connection.execute(query).first()
            if place is None:
                raise NotFound(f"there is no record {invocation_id[:80]!r}; it may have been pruned")
            newer = look(connection, where, 1, after=cursor(place), upwards=True).rows
            older = look(connection, where, 1, before=cursor(place)).rows
            named = _named(connection, [row.id for row in (*newer, *older)])
            return Neighbours(*(named.get(rows[0].id) if rows else None for rows in (newer, older)))

        return self._db.read(work)

    def trends(self, where: AuditFilter = _EVERYTHING, bucket: Bucket | None = None, *, zone: str = "UTC") -> Trends:
        return self._db.read(lambda connection: read_trends(connection, where, bucket, zone))

    def export(self, where: AuditFilter = _EVERYTHING) -> Iterator[AuditRow]:
        columns = [_C[name] for name in _NAMES]
        return self._stream(where, lambda c, found: _ordered(c, columns, found), _row, at_once=BATCH)

    def export_records(self, where: AuditFilter = _EVERYTHING) -> Iterator[AuditRecordView]:
        return self._stream(where, lambda c, found: _ordered(c, list(_C), found), _record, at_once=WHOLE_BATCH)

    def facets(self) -> Facets:
        latest = select(*(_C[name] for name in _FACETS)).order_by(_C.created_at.desc(), _C.id.desc()).limit(FACET_ROWS)

        def work(connection: Connection) -> Sequence[Row[*tuple[Any, ...]]]:
            inner = matching(latest, _EVERYTHING, connection).subquery()
            return connection.execute(select(*inner.c, func.count().label("rows")).group_by(*inner.c)).all()

        return _facets(self._db.read(work))

    def _stream(
        self,
        where: AuditFilter,
        read: Callable[[Connection, Sequence[Row[*tuple[Any, ...]]]], Sequence[Row[*tuple[Any, ...]]]],
        make: Callable[[Row[*tuple[Any, ...]]], T],
        *,
        at_once: int,
    ) -> Iterator[T]:
        """Batch by batch, each in a short transaction of its own: a slow reader holds nothing up."""
        before: Cursor | None = None

        def batch(connection: Connection) -> tuple[Cursor | None, Sequence[Row[*tuple[Any, ...]]]]:
            found = look(connection, where, at_once, before=before)
            return found.on, read(connection, found.rows)

        while True:
            on, rows = self._db.read(batch)
            yield from map(make, rows)
            if on is None:
                return
            before = on


def _page(
    connection: Connection, where: AuditFilter, found: Found, limit: int, *, newer: Cursor | None, older: Cursor | None
) -> AuditPage:
    if newer is None and (older is None or len(found.rows) < limit):  # what could be counted stands on the page
        total, exact = len(found.rows), older is None
    else:
        total, exact = counted(connection, where, COUNTED)
    rows = tuple(_row(row, listed=True) for row in _ordered(connection, _LISTED, found.rows))
    return AuditPage(rows, total, exact, newer, older)


def _ordered(
    connection: Connection, columns: Sequence[Any], found: Sequence[Row[*tuple[Any, ...]]]
) -> Sequence[Row[*tuple[Any, ...]]]:
    """The rows of these places, in their order."""
    ids = [place.id for place in found]
    rows = connection.execute(select(*columns, _C.id.label("_place")).where(_C.id.in_(ids))).all() if ids else ()
    by_id = {row._mapping["_place"]: row for row in rows}
    return [by_id[row] for row in ids if row in by_id]


def _named(connection: Connection, ids: Sequence[int]) -> Mapping[int, str]:
    query = select(_C.id, _C.invocation_id).where(_C.id.in_(ids))
    return {row.id: row.invocation_id for row in connection.execute(query)} if ids else {}


def _row(row: Row[*tuple[Any, ...]], *, listed: bool = False) -> AuditRow:
    data = {name: _sound(name, value) for name, value in row._mapping.items() if name in _KNOWN}
    text = data["query_text"]
    if listed and text is not None and len(text) > LISTED_CHARS:
        data["query_text"] = text[:LISTED_CHARS] + "…"
    return AuditRow(**data)


def _sound(name: str, value: Any) -> Any:
    """``value``, or where somebody put one of another type: its text, no number, true. The record as it is stored
    (``AuditRecordView.columns``) and the verification show what stands there."""
    kind, default = _KNOWN[name]
    if value is None or (type(value) is kind and (kind is not float or math.isfinite(value))):
        return value
    if kind is str:
        return str(shown(value))
    return bool(value) if kind is bool else default


def _record(row: Row[*tuple[Any, ...]]) -> AuditRecordView:
    return AuditRecordView(_row(row), {name: value for name, value in row._mapping.items() if name != "_place"})


_KNOWN: Final = {f.name: (_C[f.name].type.python_type, None if f.default is None else 0) for f in fields(AuditRow)}


def _facets(rows: Sequence[Row[*tuple[Any, ...]]]) -> Facets:
    def of(name: str, kind: type = str) -> tuple[Any, ...]:
        """Values of the column's own type: a row that somebody changed may hold others."""
        return tuple(sorted({v for row in rows if isinstance(v := row._mapping[name], kind) and v != ""}))

    return Facets(
        status=of("status"),
        error=of("error_class"),
        tool=of("tool_name"),
        origin=of("origin"),
        scope=tuple(sorted({scope for listed in of("kb_scope") for scope in listed.split(",")})),
        language=of("language"),
        generation=of("generation", int),
        model=of("embedding_profile"),
        reranker=of("reranker_model"),
        rows=sum(row._mapping["rows"] for row in rows),
    )
