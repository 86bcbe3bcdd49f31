"""Where the rows of a filter are, in the order of the list, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, func, literal, select

from core.adapters.sql.audit_where import matching, parts_of
from core.adapters.sql.tables import INVOCATION
from core.audit.query import AuditFilter
from core.stores import Cursor

_KEYS: Final = (INVOCATION.c.created_at, INVOCATION.c.id)


def places(
    connection: Connection,
    where: AuditFilter,
    limit: int,
    *,
    before: Cursor | None = None,
    after: Cursor | None = None,
    upwards: bool = False,
) -> Sequence[Row[*tuple[Any, ...]]]:
    """``(created_at, id)`` of the next rows, read from the index alone wherever it holds what is filtered by."""
    order = _KEYS if upwards else tuple(key.desc() for key in _KEYS)
    found: list[Row[*tuple[Any, ...]]] = []
    parts = parts_of(where)
    for part in parts:
        query = matching(select(*_KEYS), part, connection, before=before, after=after)
        found += connection.execute(query.order_by(*order).limit(limit)).all()
    if len(parts) > 1:
        found = sorted(found, key=lambda row: (row.created_at, row.id), reverse=not upwards)[:limit]
    return found


def counted(connection: Connection, where: AuditFilter, most: int) -> int:
    """How many rows there are; counting stops at ``most``."""
    count = 0
    for part in parts_of(where):
        one = select(literal(1).label("one")).select_from(INVOCATION)
        some = matching(one, part, connection).limit(most - count).subquery()
        count += int(connection.execute(select(func.count()).select_from(some)).scalar_one())
        if count >= most:
            break
    return count
