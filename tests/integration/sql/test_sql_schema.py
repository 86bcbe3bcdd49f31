import multiprocessing
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from core.adapters.sql.engine import connect
from core.adapters.sql.schema import current, newest, problems, tables_of, upgrade
from core.adapters.sql.tables import METADATA
from core.errors import StoreUnavailable
from tests.integration.servers import SERVER, run_on_server


def test_the_history_makes_exactly_the_tables_of_the_metadata(sql_url: str) -> None:
    database = connect(sql_url)
    assert current(database) is None
    assert upgrade(database) == newest() == current(database)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "target_metadata": METADATA})
        assert compare_metadata(context, METADATA) == []
    assert tables_of(database) == {*METADATA.tables, "alembic_version"}
    assert problems(database) == []
    database.close()


def test_an_empty_database_is_reported_with_its_mend(sql_url: str) -> None:
    database = connect(sql_url)
    (line,) = problems(database)
    assert "python -m core prepare" in line
    database.close()


def _upgrade(url: str) -> str:
    database = connect(url)
    try:
        return upgrade(database)
    finally:
        database.close()


def test_two_processes_that_start_at_once_do_not_collide(sql_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(_upgrade, [sql_url, sql_url]) == [newest(), newest()]


def test_threads_that_start_at_once_do_not_collide(sql_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(_upgrade, [sql_url] * 4)) == {newest()}


def test_a_history_that_was_broken_off_is_finished(sql_url: str) -> None:
    database = connect(sql_url)
    METADATA.tables["knowledge_generation"].create(database.engine)  # what a crash between two statements leaves
    METADATA.tables["tool_invocation"].create(database.engine)
    assert upgrade(database) == newest()
    database.close()


def test_a_schema_newer_than_this_version_is_refused(sql_url: str) -> None:
    database = connect(sql_url)
    upgrade(database)
    database.write(lambda c: c.execute(sa.text("UPDATE alembic_version SET version_num = '9999_later'")))
    with pytest.raises(StoreUnavailable, match="9999_later"):
        upgrade(database)
    database.close()


@pytest.mark.mariadb
def test_case_72_a_three_byte_default_is_told_apart_and_does_no_harm() -> None:
    name = f"t_sql_{uuid.uuid4().hex[:12]}"
    run_on_server(f"CREATE DATABASE {name} CHARACTER SET utf8mb3")
    try:
        database = connect(f"{SERVER}/{name}")
        upgrade(database)
        (line,) = problems(database)
        assert "utf8mb3" in line
        assert "ALTER DATABASE" in line
        queries = METADATA.tables["settings_snapshot"]
        text = "断路器🔥报警 𠮷 📅"
        moment = sa.text("UTC_TIMESTAMP(6)")
        database.write(lambda c: c.execute(queries.insert().values(fingerprint="🔥", settings=text, created_at=moment)))
        assert database.read(lambda c: c.execute(sa.select(queries.c.fingerprint, queries.c.settings)).one()) == (
            "🔥",
            text,
        )
        database.close()
    finally:
        run_on_server(f"DROP DATABASE {name}")
