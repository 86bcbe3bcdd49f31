"""Where the rows of a filter are, in the order of the list, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, func, literal, select

from core.adapters.sql.audit_where import indexed, matching, parts_of, path_of
from core.adapters.sql.tables import INVOCATION
from core.audit.query import AuditFilter
from core.stores import Cursor

LOOKED_AT: Final = 50_000
"""Rows that one call reads whole to find those that no index knows."""
Place = Row[*tuple[Any, ...]]
_KEYS: Final = (INVOCATION.c.created_at, INVOCATION.c.id)


def places(
    connection: Connection,
    where: AuditFilter,
    limit: int,
    *,
    before: Cursor | None = None,
    after: Cursor | None = None,
    upwards: bool = False,
) -> Sequence[Place]:
    """``(created_at, id)`` of the next rows, read from the index alone wherever it holds what is filtered by."""
    order = _KEYS if upwards else tuple(key.desc() for key in _KEYS)
    found: list[Place] = []
    parts = parts_of(where)
    for part in parts:
        query = matching(select(*_KEYS), part, connection, before=before, after=after)
        found += connection.execute(query.order_by(*order).limit(limit)).all()
    if len(parts) > 1:
        found = sorted(found, key=lambda row: (row.created_at, row.id), reverse=not upwards)[:limit]
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """At most as many rows as asked for, in the direction of reading. ``on``: where reading goes on, None at the end."""

    rows: Sequence[Place]
    on: Cursor | None


def look(
    connection: Connection,
    where: AuditFilter,
    limit: int,
    *,
    before: Cursor | None = None,
    after: Cursor | None = None,
    upwards: bool = False,
) -> Found:
    """The next rows, looked for no further than ``LOOKED_AT`` rows away where no index can tell them."""
    edge = _edge(connection, where, before=before, after=after, upwards=upwards)
    if edge is not None:
        before, after = (edge.beyond, after) if upwards else (before, edge.beyond)
    rows = places(connection, where, limit + 1, before=before, after=after, upwards=upwards)
    if len(rows) > limit:
        return Found(rows[:limit], cursor(rows[limit - 1]))
    return Found(rows, edge.last if edge is not None else None)


def counted(connection: Connection, where: AuditFilter, most: int) -> tuple[int, bool]:
    """How many rows there are, and whether these are all: counting stops at ``most``, and at ``LOOKED_AT`` rows."""
    edge = _edge(connection, where)
    count = 0
    for part in parts_of(where):
        one = select(literal(1).label("one")).select_from(INVOCATION)
        some = matching(one, part, connection, after=edge.beyond if edge else None).limit(most + 1 - count).subquery()
        count += int(connection.execute(select(func.count()).select_from(some)).scalar_one())
        if count > most:
            break
    return min(count, most), count <= most and edge is None


def cursor(place: Place) -> Cursor:
    return Cursor(place.created_at, str(place.id))


@dataclass(frozen=True, slots=True)
class _Edge:
    """The last row that is looked at, and the first beyond."""

    last: Cursor
    beyond: Cursor


def _edge(
    connection: Connection,
    where: AuditFilter,
    *,
    before: Cursor | None = None,
    after: Cursor | None = None,
    upwards: bool = False,
) -> _Edge | None:
    rest = indexed(where)
    if rest is None:
        return None
    order = _KEYS if upwards else tuple(key.desc() for key in _KEYS)
    path = path_of(where)
    query = matching(select(*_KEYS), rest, connection, path=path, before=before, after=after).order_by(*order)
    rows = connection.execute(query.offset(LOOKED_AT - 1).limit(2)).all()
    return _Edge(cursor(rows[0]), cursor(rows[1])) if len(rows) == 2 else None
