"""Inserts for the path that a lookup waits for: the statement is made once a table, values go to the driver in order.

The same as ``table.insert()``, at a third of its time for the sixty rows of one lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Boolean, Connection, Dialect, Table
from sqlalchemy.dialects import mysql, sqlite

from core.errors import BadInput

Processor = Callable[[Any], Any]
_DIALECTS = {"sqlite": sqlite.dialect, "mysql": mysql.dialect}


def insert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *, ignore: bool = False) -> None:
    """Inserts ``rows``; a column that a row does not name is null. ``ignore``: rows whose key is there already are left
    out. Raises BadInput for a column that the table has not."""
    if not rows:
        return
    known = rows[0].keys()
    if any(row.keys() != known for row in rows):
        every = dict.fromkeys(name for row in rows for name in row)
        rows = [{**every, **row} for row in rows]
        known = every.keys()
    names = tuple(name for name in known if any(row[name] is not None for row in rows))
    unknown = [name for name in names if name not in table.c]
    if unknown:
        raise BadInput(
            f"{table.name} has no column {unknown[0]}: the record was made by another version of the program"
        )
    values: list[Any] = list(map(itemgetter(*names), rows)) if len(names) > 1 else [(row[names[0]],) for row in rows]
    processors = _processors(connection.dialect, table, names)
    if processors:
        values = [_processed(row, processors) for row in values]
    connection.exec_driver_sql(_statement(connection.dialect.name, table, names, ignore), values)


def _processed(row: Sequence[Any], processors: Sequence[tuple[int, Processor]]) -> tuple[Any, ...]:
    values = list(row)
    for place, process in processors:
        values[place] = process(values[place])
    return tuple(values)


@lru_cache(maxsize=256)
def _statement(engine: str, table: Table, names: tuple[str, ...], ignore: bool) -> str:
    if engine == "sqlite":
        word, mark = "OR IGNORE " if ignore else "", "?"
    else:
        word, mark = "IGNORE " if ignore else "", "%s"
    quote = _DIALECTS["sqlite" if engine == "sqlite" else "mysql"]().identifier_preparer.quote
    columns = ", ".join(quote(table.c[name].name) for name in names)
    return f"INSERT {word}INTO {quote(table.name)} ({columns}) VALUES ({', '.join([mark] * len(names))})"


@lru_cache(maxsize=256)
def _processors(dialect: Dialect, table: Table, names: tuple[str, ...]) -> tuple[tuple[int, Processor], ...]:
    """Columns whose values are not given to the driver as they are; both drivers know what a boolean is."""
    found = [
        None if isinstance(kind := table.c[name].type, Boolean) else kind.dialect_impl(dialect).bind_processor(dialect)
        for name in names
    ]
    return tuple((place, process) for place, process in enumerate(found) if process is not None)
