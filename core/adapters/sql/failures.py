"""Errors of the driver and of SQLAlchemy as ours: redacted, with the database's name, saying what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import exc as sa

from core.errors import BadInput, CheckFailed, RagError, StoreUnavailable, redact

# Codes of MySQL and MariaDB: gone away, lost during query, killed, shutdown in progress; deadlock, lock wait timeout.
_DROPPED: Final = {2006, 2013, 1927, 1053, 4031}
_COLLIDED: Final = {1205, 1213}
_NO_TABLE: Final = 1146
_MARK: Final = "while_connecting"
_HUNG: Final = "it takes connections and does not answer: look at the server, or at the proxy before it"
_HINTS: Final = {
    1044: "grant the user its rights on that database",
    1045: "check database user and password",
    1049: "create it: CREATE DATABASE … CHARACTER SET utf8mb4",
    _NO_TABLE: "run `python -m core prepare`, which brings the schema up to date",
    2003: "start it, or correct host and port",
    2005: "correct the host",
}


def code_of(exc: BaseException) -> int | None:
    """The server's error number, or None."""
    original: Any = getattr(exc, "orig", exc)
    arguments = getattr(original, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None


def worth_another_try(exc: BaseException) -> bool:
    """True for a connection that was dropped and for a transaction that lost against another one; not where none could
    be made."""
    if not isinstance(exc, sa.DBAPIError) or unconnected(exc):
        return False
    return bool(exc.connection_invalidated) or code_of(exc) in _DROPPED | _COLLIDED


def unconnected(exc: BaseException) -> bool:
    """True when no connection could be made: nothing was asked, and none was lost. SQLAlchemy reports both alike, so
    whoever connects marks the driver's error (``mark_unconnected``)."""
    return bool(getattr(getattr(exc, "orig", None), _MARK, False))


def mark_unconnected(exc: BaseException) -> None:
    setattr(exc, _MARK, True)


def hung(exc: BaseException) -> bool:
    """True when a server took the connection, or the first packet, and then said nothing until the time was up."""
    return unconnected(exc) and "timed out" in str(getattr(exc, "orig", ""))


def duplicate(exc: BaseException) -> bool:
    """True when a unique key refused the row."""
    return isinstance(exc, sa.IntegrityError) and (code_of(exc) == 1062 or "UNIQUE" in str(exc.orig).upper())


@contextmanager
def translating(where: str, secrets: tuple[str, ...]) -> Iterator[None]:
    """Errors of SQLAlchemy inside the block leave it as RagErrors that name the database ``where``."""
    try:
        yield
    except sa.SQLAlchemyError as exc:
        ours = translated(exc, where, secrets)
        if ours is None:
            raise
        raise ours from exc


def translated(exc: sa.SQLAlchemyError, where: str, secrets: tuple[str, ...]) -> RagError | None:
    """``exc`` as a RagError; None for a defect of the program.

    Only the driver's own words are passed on: SQLAlchemy's would add the statement.
    """
    original = getattr(exc, "orig", None)
    said = redact(original if original is not None else exc.args[0] if exc.args else exc, secrets)[:300]
    if isinstance(exc, sa.DataError):
        return BadInput(f"database {where}: a value does not fit ({said})")
    if isinstance(exc, sa.IntegrityError):
        return CheckFailed(f"database {where}: contradicts what is stored ({said})")
    code = _NO_TABLE if "no such table" in said else code_of(exc) or 0
    if not isinstance(exc, sa.DBAPIError | sa.TimeoutError):
        return None
    if isinstance(exc, sa.ProgrammingError) and code not in _HINTS and not exc.connection_invalidated:
        return None
    hint = _HUNG if hung(exc) else _HINTS.get(code, "see `python -m core doctor`")
    return StoreUnavailable(f"database {where} cannot be used: {said}; {hint}")
