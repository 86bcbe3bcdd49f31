"""What lists have in common: keyset pages ordered by time, and looking for text without regard to case."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, func, or_

from core.errors import BadInput
from core.stores import Cursor

_LOWER = "rag_lower"


def newest_first(query: Select[Any], table: Table, *, limit: int, before: Cursor | None) -> Select[Any]:
    """``query`` newest first from ``before`` on, with one row more than ``limit``, which tells whether more follow."""
    if limit < 1:
        raise BadInput(f"limit: {limit} rows; give at least 1")
    if before is not None:
        query = query.where(older_than(table, before))
    return query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit + 1)


def older_than(table: Table, place: Cursor) -> ColumnElement[bool]:
    # The first condition says the same as the second and is what both engines find the place in the index by.
    at, row = table.c.created_at, int(place.id)
    return and_(at <= place.at, or_(at < place.at, table.c.id < row))


def newer_than(table: Table, place: Cursor) -> ColumnElement[bool]:
    at, row = table.c.created_at, int(place.id)
    return and_(at >= place.at, or_(at > place.at, table.c.id > row))


def holds(connection: Connection, column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """``text`` stands in ``column``, upper and lower case alike in every script; no character of it is a wildcard."""
    if connection.dialect.name != "sqlite":
        return func.instr(func.lower(column), text.lower()) > 0
    # SQLite's own lower() knows ASCII only
    raw: Any = connection.connection.driver_connection
    raw.create_function(_LOWER, 1, _lower, deterministic=True)
    condition: ColumnElement[bool] = func.instr(getattr(func, _LOWER)(column), text.lower()) > 0
    return condition


def _lower(value: str | None) -> str | None:
    return None if value is None else value.lower()
