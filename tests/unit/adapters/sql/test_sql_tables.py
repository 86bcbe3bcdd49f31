from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import BigInteger, Boolean, Double, Integer, SmallInteger, String
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from core.adapters.sql.tables import INVOCATION, METADATA
from core.adapters.sql.types import Flag, UtcDateTime
from core.audit.columns import INVOCATION_CHARS, TIMES

MYSQL = mysql.dialect()
FIXED_BYTES = {BigInteger: 8, Integer: 4, SmallInteger: 2, Boolean: 1, Flag: 1, Double: 8, UtcDateTime: 8}


def key_bytes(columns: list) -> int:
    total = 0
    for column in columns:
        kind = column.type
        total += kind.length * 4 if isinstance(kind, String) else FIXED_BYTES[type(kind)]
    return total


@pytest.mark.parametrize("table", METADATA.tables.values(), ids=str)
def test_case_78_every_identifier_and_key_fits_mysql(table) -> None:
    names = [table.name, *(c.name for c in table.columns), *(i.name for i in table.indexes)]
    names += [constraint.name for constraint in table.constraints]
    assert all(names), "every index and constraint has a name of its own"
    assert max(map(len, names)) <= 64
    keys = [list(index.columns) for index in table.indexes] + [list(c.columns) for c in table.constraints]
    assert max(map(key_bytes, keys)) <= 3072
    assert max(map(len, keys)) <= 16
    row = sum(c.type.length * 4 for c in table.columns if isinstance(c.type, String) and c.type.length)
    assert row <= 65_535


@pytest.mark.parametrize("table", METADATA.tables.values(), ids=str)
def test_case_72_every_table_states_its_character_set_itself(table) -> None:
    ddl = str(CreateTable(table).compile(dialect=MYSQL))
    assert "CHARSET=utf8mb4" in ddl
    assert "COLLATE utf8mb4_bin" in ddl
    for index in table.indexes:
        str(CreateIndex(index).compile(dialect=MYSQL))


def test_case_77_times_keep_microseconds_on_both_engines() -> None:
    assert "created_at DATETIME(6)" in str(CreateTable(INVOCATION).compile(dialect=MYSQL))
    bind = UtcDateTime().bind_processor(sqlite.dialect())
    read = UtcDateTime().result_processor(sqlite.dialect(), None)
    moment = datetime(2026, 8, 5, 8, 0, 0, 7, tzinfo=timezone(timedelta(hours=8)))
    assert bind(moment) == "2026-08-05T00:00:00.000007Z"
    assert bind(datetime(2026, 8, 5, tzinfo=UTC)) == "2026-08-05T00:00:00.000000Z"
    assert read(bind(moment)) == moment
    assert read(None) is None


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="tzinfo"):
        UtcDateTime().bind_processor(sqlite.dialect())(datetime(2026, 8, 5))


def test_the_invocation_table_has_the_bounded_columns_and_the_times() -> None:
    widths = {c.name: c.type.length for c in INVOCATION.columns if isinstance(c.type, String) and c.type.length}
    assert {name: widths[name] for name in INVOCATION_CHARS} == dict(INVOCATION_CHARS)
    assert set(TIMES) <= set(INVOCATION.columns.keys())
    assert "audit_ms" not in INVOCATION.columns
