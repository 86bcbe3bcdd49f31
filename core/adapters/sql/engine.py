"""One way to a database: SQLite by file, MySQL or MariaDB by URL.

A transaction is one call: ``read`` and ``write`` take a function of the connection, end the transaction after it and
give the connection back, so nobody keeps an old snapshot or a lock. A dropped connection is tried once more.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import InvalidatePoolError, SQLAlchemyError

from core.adapters.sql.failures import hung, mark_unconnected, translated, translating, worth_another_try
from core.adapters.sql.urls import DatabaseParts, parse
from core.errors import InvalidSettings, StoreUnavailable, redact

T = TypeVar("T")
BUSY_SECONDS: Final = 5.0
SPARED_SECONDS: Final = 5.0
"""For so long a server that let a connection hang is not asked again: a lookup waits for it once, not at each step."""
WAL_PAUSE: Final = 0.01
"""Seconds between two tries to turn a new file to WAL mode while another process does."""
_FILE: Final = "rag_file"
_WRITE: Final = "rag_write"
_SQLITE_PRAGMAS: Final = (
    f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8000",
)
_MYSQL_SESSION: Final = (
    "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_BACKSLASH_ESCAPES', innodb_lock_wait_timeout = 5"
)
"""Without backslash escapes the driver only doubles the quotes of a text: 4 ms less for the JSON of one lookup."""


def connect(
    url: str | DatabaseParts,
    *,
    connect_timeout: float = 3.0,
    read_timeout: float = 15.0,
    secrets: tuple[str, ...] = (),
) -> Database:
    """A database that is not contacted before its first use.

    ``url``: ``sqlite:///FILE`` (absolute, or relative to the working folder; the parent folder is made),
    ``mysql+pymysql://user:password@host:port/name``, or the parts of one. ``connect_timeout`` and ``read_timeout`` are
    seconds, for MySQL. ``secrets`` are literal values that no message may show. Raises InvalidSettings for a URL that
    cannot be read and for a missing driver.
    """
    parsed = parse(url)
    hidden = (*secrets, *((str(parsed.password),) if parsed.password else ()))
    if parsed.get_backend_name() == "sqlite":
        engine = _sqlite(parsed)
    else:
        engine = _mysql(parsed, connect_timeout, read_timeout, hidden)
    return Database(engine, hidden)


class Database:
    """An engine with its habits. Thread-safe; ``close`` gives every connection back."""

    def __init__(self, engine: Engine, secrets: tuple[str, ...] = ()) -> None:
        self.engine = engine
        self.secrets = secrets
        self.sqlite = engine.dialect.name == "sqlite"
        # SQLite has one writer: waiting here is fair and wakes at once, its own busy wait sleeps.
        self._spared: tuple[float, str] | None = None  # until when it is spared, and what is said meanwhile
        self._writer: Any = threading.Lock() if self.sqlite else nullcontext()

    @property
    def where(self) -> str:
        """Engine, host and database name, for messages; never a password."""
        url = self.engine.url
        if self.sqlite:
            return f"SQLite {url.database}"
        return redact(
            f"{url.get_backend_name()} {url.host or 'localhost'}:{url.port or 3306}/{url.database or ''}", self.secrets
        )

    def read(self, work: Callable[[Connection], T]) -> T:
        """``work`` in a read transaction that ends with the call. Tried once more on a dropped connection.

        Raises StoreUnavailable (away, locked, too slow) and other RagErrors; what ``work`` raises of ours passes.
        """
        return self._again(lambda: self._read_once(work), again=True)

    def write(self, work: Callable[[Connection], T], *, again: bool = True) -> T:
        """``work`` in a write transaction, committed at the end, rolled back on any error.

        ``again``: the work may run a second time after a dropped connection or a deadlock. Only for work that is the
        same done twice, since a commit whose answer was lost may have happened.
        """
        return self._again(lambda: self._write_once(work), again=again)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction for rows that are streamed; kept as short as the stream."""
        with translating(self.where, self.secrets), self.engine.connect() as connection:
            yield connection

    def now(self, connection: Connection) -> datetime:
        """The clock that all processes share: the server's, or the machine's for a file."""
        if self.sqlite:
            return datetime.now(UTC)
        moment: datetime = connection.execute(text("SELECT UTC_TIMESTAMP(6)")).scalar_one()
        return moment.replace(tzinfo=UTC)

    def health(self) -> str:
        """Kind and version in one line, or raises StoreUnavailable."""
        query = "SELECT sqlite_version()" if self.sqlite else "SELECT VERSION()"
        version = self.read(lambda connection: str(connection.execute(text(query)).scalar_one()))
        return f"{'SQLite' if self.sqlite else 'MySQL/MariaDB'} {version}"

    def check(self, *, seconds: float) -> str | None:
        """What is wrong with the file of an SQLite database, as far as can be looked in ``seconds``; None where nothing
        is. Raises StoreUnavailable for a database that cannot be written."""
        self.write(lambda _connection: None)
        return self.read(partial(_damage, seconds=seconds)) if self.sqlite else None

    def close(self) -> None:
        self.engine.dispose()

    def _read_once(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            return work(connection)

    def _write_once(self, work: Callable[[Connection], T]) -> T:
        with self._writer, self.engine.connect() as connection:
            connection = connection.execution_options(**{_WRITE: True})
            with connection.begin():
                return work(connection)

    def _again(self, once: Callable[[], T], *, again: bool) -> T:
        spared = self._spared
        if spared is not None and time.monotonic() < spared[0]:
            raise StoreUnavailable(spared[1])
        with translating(self.where, self.secrets):
            try:
                return once()
            except SQLAlchemyError as exc:
                self._note(exc)
                if not (again and worth_another_try(exc)):
                    raise
            return once()

    def _note(self, exc: SQLAlchemyError) -> None:
        if hung(exc):
            self._spared = (time.monotonic() + SPARED_SECONDS, str(translated(exc, self.where, self.secrets)))


def _damage(connection: Connection, *, seconds: float) -> str | None:
    raw: Any = connection.connection.dbapi_connection
    end = time.monotonic() + seconds
    raw.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        said = str(raw.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None
    finally:
        raw.set_progress_handler(None, 0)
    return None if said == "ok" else " ".join(said.split())


def _begin(connection: Connection) -> None:
    """How SQLite begins: a transaction that will write says so at once, or it fails when it turns into a writer."""
    write = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _sqlite(url: URL) -> Engine:
    file = Path(str(url.database))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise InvalidSettings(
            f"database.url: folder {file.parent} cannot be made ({exc.strerror}); name another"
        ) from exc
    engine = create_engine(
        url, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS}, pool_size=10, max_overflow=40
    )

    held: set[tuple[int, int] | None] = set()

    @event.listens_for(engine, "do_connect")
    def _still_there(_dialect: Any, _record: Any, _positional: Any, _named: Any) -> None:
        if held and not file.exists():  # an empty one in its place would look like a record without records
            raise sqlite3.OperationalError("its file is gone: put it back, or start again to begin an empty one")

    @event.listens_for(engine, "connect")
    def _prepare(raw: Any, record: Any) -> None:
        raw.isolation_level = None  # the driver begins nothing by itself
        _use_wal(raw)
        for pragma in _SQLITE_PRAGMAS:
            raw.execute(pragma).close()
        record.info[_FILE] = _identity(file)
        held.add(record.info[_FILE])

    @event.listens_for(engine, "checkout")
    def _same_file(_raw: Any, record: Any, _proxy: Any) -> None:
        if record.info[_FILE] != _identity(file):  # what is written into a deleted file is lost without a word
            raise InvalidatePoolError("the file is another one than before")

    event.listen(engine, "begin", _begin)
    return engine


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _use_wal(raw: sqlite3.Connection) -> None:
    """The file stays in WAL mode; processes that turn to it at the same moment are refused without SQLite's own wait."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(WAL_PAUSE)


def _mysql(url: URL, connect_timeout: float, read_timeout: float, secrets: tuple[str, ...]) -> Engine:
    arguments: dict[str, Any] = {
        "connect_timeout": max(1, round(connect_timeout)),
        "read_timeout": connect_timeout,
        "write_timeout": connect_timeout,
        "charset": "utf8mb4",
        "init_command": _MYSQL_SESSION,
        "binary_prefix": True,
    }
    if url.password:
        arguments["password"] = str(url.password).encode()  # the driver would encode text as Latin-1
    query = {key: value for key, value in url.query.items() if key != "charset"}
    try:
        engine = create_engine(
            url.set(query=query),
            hide_parameters=True,
            connect_args=arguments,
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            pool_recycle=1800,
            pool_reset_on_return=None,  # read and write end their transactions themselves: one question less
            pool_size=10,
            max_overflow=40,
            pool_timeout=5,
        )
    except (ImportError, TypeError, ValueError) as exc:
        raise InvalidSettings(
            f"database.url: {redact(exc, secrets)}; use mysql+pymysql://… and install PyMySQL"
        ) from exc

    @event.listens_for(engine, "do_connect")
    def _connect(dialect: Any, _record: Any, positional: Any, named: Any) -> Any:
        try:
            return dialect.connect(*positional, **named)
        except Exception as exc:
            mark_unconnected(exc)
            raise

    # The greeting and the ping come at once or not at all; a statement may take its time.
    @event.listens_for(engine, "checkout")
    def _patient(raw: Any, _record: Any, _proxy: Any) -> None:
        raw._read_timeout = raw._write_timeout = read_timeout

    @event.listens_for(engine, "checkin")
    def _brief(raw: Any, _record: Any) -> None:
        if raw is not None:
            raw._read_timeout = raw._write_timeout = connect_timeout

    return engine
