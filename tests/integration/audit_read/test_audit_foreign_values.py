"""Rows that somebody with access to the file changed are still read: an operator who looks into it must see them."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from core.adapters.sql.audit_log import SqlAuditLog
from core.adapters.sql.engine import Database, connect
from core.adapters.sql.schema import upgrade
from core.adapters.sql.tables import CANDIDATE_TRACE, EVENT, INVOCATION, QUERY_TRACE
from core.adapters.sql.traces import SqlTraces
from core.audit.export import Format, export
from core.audit.query import AuditFilter
from core.errors import RagError
from pages.parts.audit_record import raw_json
from tests.integration.audit.audit_world import filled, rows, strange_changes

TABLES = [(INVOCATION, "seq = 2"), (EVENT, "id = 3"), (QUERY_TRACE, "rowid = 2"), (CANDIDATE_TRACE, "rowid = 2")]


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[tuple[Database, Path]]:
    file = tmp_path / "a.sqlite3"
    database = connect(f"sqlite:///{file}")
    upgrade(database)
    filled(database, 3)
    yield database, file
    database.close()


def readings(database: Database) -> list[Callable[[], object]]:
    log, traces, everything = SqlAuditLog(database), SqlTraces(database), AuditFilter()
    found = rows(database)
    ids = [str(row["invocation_id"]) for row in found]
    named = [str(row["trace_id"]) for row in found]
    return [
        log.page,
        log.trends,
        log.facets,
        traces.list,
        lambda: list(export(log, everything, Format.CSV)),
        lambda: list(export(log, everything, Format.JSONL)),
        lambda: [raw_json(view) for name in ids if (view := log.get(name))],
        lambda: [log.neighbours(everything, name) for name in ids],
        lambda: [traces.load(name) for name in named],
        lambda: [traces.events(trace_id=name) for name in named],
    ]


@pytest.mark.parametrize(("table", "place"), TABLES, ids=lambda value: getattr(value, "name", ""))
def test_whatever_stands_in_a_column_is_read_or_refused_in_words(
    recorded: tuple[Database, Path], table: sa.Table, place: str
) -> None:
    database, file = recorded
    asked = readings(database)
    for _change in strange_changes(
        file, table, place, [column.name for column in table.columns if column.name != "id"]
    ):
        for read in asked:
            with contextlib.suppress(RagError):
                read()


def test_json_that_is_none_is_shown_as_what_it_is(recorded: tuple[Database, Path]) -> None:
    database, file = recorded
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("UPDATE tool_invocation SET details = 'no json', agent_result = x'ff00' WHERE seq = 2")
        raw.commit()
    log = SqlAuditLog(database)
    view = log.get(str(rows(database)[1]["invocation_id"]))
    assert view is not None
    assert view.json("details") == {"unreadable": "no json"}
    assert view.json("agent_result") == {"unreadable": "bytes ff00"}
    lines = "".join(export(log, AuditFilter(), Format.JSONL)).splitlines()
    assert len(lines) == 3
    assert '"details":{"unreadable":"no json"}' in lines[1]


def test_a_listed_row_has_values_of_its_columns_types(recorded: tuple[Database, Path]) -> None:
    database, file = recorded
    with closing(sqlite3.connect(file)) as raw:
        raw.execute(
            "UPDATE tool_invocation SET total_ms = 'abc', dense_ms = 9e999, query_chars = 'abc', generation = 1.5, "
            "found = 'abc', status = x'ff00' WHERE seq = 2"
        )
        raw.commit()
    row = SqlAuditLog(database).page().rows[1]
    assert (row.total_ms, row.dense_ms, row.query_chars, row.generation) == (None, None, 0, None)
    assert (row.found, row.status) == (True, "bytes ff00")
