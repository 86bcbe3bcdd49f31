import pytest
import sqlalchemy as sa

from core.adapters.sql.bulk import insert
from core.adapters.sql.engine import Database
from core.adapters.sql.tables import EVENT, SETTINGS
from core.errors import BadInput, CheckFailed
from tests.integration.audit.audit_world import count, rows
from tests.unit.audit.audit_samples import AT

ROW = {"fingerprint": "a", "settings": "{}", "created_at": AT}


def put(database: Database, table: sa.Table, *values: dict[str, object], ignore: bool = False) -> None:
    database.write(lambda c: insert(c, table, values, ignore=ignore))


def test_rows_are_read_back_as_they_were_given(database: Database) -> None:
    put(database, SETTINGS, ROW, ROW | {"fingerprint": "b"})
    assert rows(database, SETTINGS) == [ROW, ROW | {"fingerprint": "b"}]


def test_no_rows_are_no_statement(database: Database) -> None:
    put(database, SETTINGS)
    assert count(database, SETTINGS) == 0


def test_rows_need_not_name_the_same_columns(database: Database) -> None:
    base = {"invocation_id": "i", "event_type": "x", "created_at": AT, "attributes": "{}"}
    put(
        database,
        EVENT,
        base | {"sequence": 1},
        base | {"sequence": 2, "ms": 1.5},
        base | {"sequence": 3, "stage": "fuse"},
    )
    kept = [(row["sequence"], row["ms"], row["stage"]) for row in rows(database, EVENT)]
    assert kept == [(1, None, None), (2, 1.5, None), (3, None, "fuse")]


def test_what_is_there_already_is_refused_or_left(database: Database) -> None:
    put(database, SETTINGS, ROW)
    put(database, SETTINGS, ROW | {"settings": "[]"}, ROW | {"fingerprint": "b"}, ignore=True)
    assert [row["settings"] for row in rows(database, SETTINGS)] == ["{}", "{}"]
    with pytest.raises(CheckFailed):
        put(database, SETTINGS, ROW)


def test_a_column_that_is_not_there_is_named(database: Database) -> None:
    with pytest.raises(BadInput, match="flavour"):
        put(database, SETTINGS, ROW | {"flavour": 1})
