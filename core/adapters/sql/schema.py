"""The schema's history, brought up to date by whoever starts first, and what a start-up check has to say about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from filelock import FileLock, Timeout
from sqlalchemy import Connection, inspect, text

from core.adapters.sql.engine import Database
from core.adapters.sql.failures import translating
from core.errors import StoreUnavailable

LOCK_SECONDS: Final = 60
_HISTORY: Final = Path(__file__).parent / "migrations"


def newest() -> str:
    """The revision that this code needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise StoreUnavailable("the schema's history is missing from the installation: install it again")
    return head


def current(database: Database) -> str | None:
    """The revision that the database has; None for an empty one."""
    return database.read(lambda connection: MigrationContext.configure(connection).get_current_revision())


def upgrade(database: Database) -> str:
    """Brings the schema to ``newest`` and gives it back. Several processes may call it at once: one works, the others
    wait. Raises StoreUnavailable when the database is away or its schema is newer than this code."""
    wanted = newest()
    if current(database) == wanted:
        return wanted
    with _one_at_a_time(database):
        found = current(database)
        if found == wanted:
            return wanted
        if found is not None and found not in _known():
            raise StoreUnavailable(
                f"database {database.where} has schema {found}, which this version does not know: update the program"
            )
        with translating(database.where, database.secrets), database.engine.connect() as connection:
            # A migration may take longer than any other statement.
            _allow(connection, seconds=3600)
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, wanted)
            connection.commit()
            connection.invalidate()  # its time limit goes with it
    return wanted


def problems(database: Database) -> list[str]:
    """What is wrong with the schema or the server's defaults, each a line with its mend; empty when nothing is."""
    found, wanted = current(database), newest()
    lines = []
    if found != wanted:
        lines.append(f"schema is at {found or 'nothing'}, this version needs {wanted}: run `python -m core prepare`")
    if not database.sqlite:
        lines += database.read(_character_sets)
    return lines


def _character_sets(connection: Connection) -> list[str]:
    lines = []
    default, name = connection.execute(text("SELECT @@character_set_database, DATABASE()")).one()
    if default != "utf8mb4":
        lines.append(
            f"database {name} has the default character set {default}: our tables say utf8mb4 themselves, tables of "
            f"others would lose emoji; ALTER DATABASE `{name}` CHARACTER SET utf8mb4"
        )
    session = connection.execute(text("SELECT @@character_set_client")).scalar_one()
    if session != "utf8mb4":
        lines.append(f"the connection speaks {session}, not utf8mb4: remove init_connect from the server's settings")
    wrong = connection.execute(
        text(
            "SELECT table_name, column_name, character_set_name FROM information_schema.columns "
            "WHERE table_schema = DATABASE() AND character_set_name IS NOT NULL AND character_set_name <> 'utf8mb4'"
        )
    ).all()
    ours = {"alembic_version", *_tables()}
    lines += [
        f"column {table}.{column} has character set {charset}: ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 "
        "COLLATE utf8mb4_bin"
        for table, column, charset in wrong
        if table in ours and table != "alembic_version"
    ]
    return lines


def _tables() -> set[str]:
    from core.adapters.sql.tables import METADATA

    return set(METADATA.tables)


def tables_of(database: Database) -> set[str]:
    return set(database.read(lambda connection: inspect(connection).get_table_names()))


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_HISTORY).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _known() -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


@contextmanager
def _one_at_a_time(database: Database) -> Iterator[None]:
    late = f"database {database.where}: another process has been changing the schema for {LOCK_SECONDS} s; try again"
    if database.sqlite:
        try:
            with FileLock(f"{database.engine.url.database}.schema.lock", timeout=LOCK_SECONDS):
                yield
        except Timeout as exc:
            raise StoreUnavailable(late) from exc
        return
    with translating(database.where, database.secrets), database.engine.connect() as connection:
        _allow(connection, seconds=LOCK_SECONDS + 5)
        name = {"name": "rag_schema", "seconds": LOCK_SECONDS}
        lock = text("SELECT GET_LOCK(CONCAT(DATABASE(), ':', :name), :seconds)")
        if connection.execute(lock, name).scalar_one() != 1:
            raise StoreUnavailable(late)
        try:
            yield
        finally:
            connection.invalidate()  # the server gives the lock back with the connection


def _allow(connection: Connection, *, seconds: float) -> None:
    """Lets statements of this connection take ``seconds``."""
    raw: Any = connection.connection.dbapi_connection
    if hasattr(raw, "_read_timeout"):
        raw._read_timeout = seconds
