"""Small helpers of the repositories: keys by hash, insert-or-update and insert-if-new on both engines, batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Row, Select, Table
from sqlalchemy.dialects import mysql, sqlite

T = TypeVar("T")
BATCH: Final = 500


def key_hash(text: str) -> str:
    """SHA-256 of an evidence key or document id, which may be longer than an index key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def put(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts ``rows``; a row whose primary key is there replaces the old one."""
    if not rows:
        return
    keys = {column.name for column in table.primary_key.columns}
    names = [name for name in rows[0] if name not in keys]
    if connection.dialect.name == "sqlite":
        lite = sqlite.insert(table)
        statement: Any = lite.on_conflict_do_update(
            index_elements=list(table.primary_key.columns), set_={name: lite.excluded[name] for name in names}
        )
    else:
        other = mysql.insert(table)
        statement = other.on_duplicate_key_update({name: other.inserted[name] for name in names})
    connection.execute(statement, list(rows))


def add_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts the ``rows`` whose key is not there yet."""
    if rows:
        word = "OR IGNORE" if connection.dialect.name == "sqlite" else "IGNORE"
        connection.execute(table.insert().prefix_with(word), list(rows))


def fetch(connection: Connection, query: Select[Any]) -> Sequence[Row[Any]]:
    return connection.execute(query).all()


def batches(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def cut(text: str | None, width: int) -> str:
    """``text`` for a column of ``width`` characters, without halves of surrogate pairs, which no database takes."""
    return (text or "")[:width].encode("utf-8", "replace").decode("utf-8")
