"""Databases for tests: each test of ``sql_url`` or ``database`` runs on SQLite and on MariaDB or MySQL.

The server is ``RAG_TEST_MARIADB_URL`` (default: root without password on 127.0.0.1:3306). Without one these tests are
skipped, except under ``CI=true``, where they fail.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.adapters.sql.engine import Database, connect
from core.adapters.sql.schema import upgrade
from core.adapters.sql.tables import METADATA
from tests.integration.servers import SERVER, run_on_server


@pytest.fixture(params=["sqlite", pytest.param("mariadb", marks=pytest.mark.mariadb)])
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sql_url(engine_name: str, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database without tables."""
    if engine_name == "sqlite":
        yield f"sqlite:///{tmp_path}/console.sqlite3"
        return
    name = f"t_sql_{uuid.uuid4().hex[:12]}"
    run_on_server(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    try:
        yield f"{SERVER}/{name}"
    finally:
        run_on_server(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture(scope="session")
def _prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """One database an engine with the schema in place; MariaDB needs a second to make it."""
    made: dict[str, str] = {}

    def url_of(engine_name: str) -> str:
        if engine_name not in made:
            if engine_name == "sqlite":
                made[engine_name] = f"sqlite:///{tmp_path_factory.mktemp('sql')}/console.sqlite3"
            else:
                name = f"t_sql_{uuid.uuid4().hex[:12]}"
                run_on_server(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
                made[engine_name] = f"{SERVER}/{name}"
            database = connect(made[engine_name])
            upgrade(database)
            database.close()
        return made[engine_name]

    yield url_of
    if "mariadb" in made:
        run_on_server(f"DROP DATABASE IF EXISTS {made['mariadb'].rpartition('/')[2]}")


@pytest.fixture
def database_url(engine_name: str, _prepared: Callable[[str], str]) -> str:
    """The URL of a database with the schema in place and no rows."""
    return _emptied(_prepared(engine_name))


def _emptied(url: str) -> str:
    database = connect(url)
    with database.engine.begin() as connection:
        for table in METADATA.tables.values():
            connection.execute(table.delete())
    database.close()
    return url


@pytest.fixture
def mariadb_url(_prepared: Callable[[str], str]) -> str:
    """Like ``database_url``, for what only a server can do."""
    return _emptied(_prepared("mariadb"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = connect(database_url)
    yield opened
    opened.close()
