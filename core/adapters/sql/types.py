"""Column types that mean the same on SQLite and MySQL/MariaDB."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Dialect, Integer, LargeBinary, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator, TypeEngine

UNREADABLE: Final = datetime.fromtimestamp(0, UTC)
"""For a text that is no time: somebody put it there. The row still shows, and its hash does not fit."""


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC with microseconds: ``DATETIME(6)``, on SQLite text of fixed width, so that the order of the texts
    is the order of the moments. Takes and gives values with tzinfo; a naive one is refused (ValueError)."""

    impl = String(27)
    cache_ok = True
    python_type = datetime

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(String(27) if dialect.name == "sqlite" else mysql.DATETIME(fsp=6))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        moment = utc(value)
        moment = moment.replace(tzinfo=None)
        return f"{moment.isoformat(timespec='microseconds')}Z" if dialect.name == "sqlite" else moment

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        del dialect
        if value is None:
            return None
        if isinstance(value, str):
            try:
                return datetime.fromisoformat(value)  # a tenth of the time of strptime
            except ValueError:
                return UNREADABLE
        return value.replace(tzinfo=UTC) if isinstance(value, datetime) else UNREADABLE


class Flag(TypeDecorator[bool]):
    """A boolean; a value that is neither 0 nor 1 comes as it is: somebody put it there, and the row fits no hash."""

    impl = Boolean
    cache_ok = True
    python_type = bool

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        del dialect, coltype
        return _flag


def _flag(value: Any) -> Any:
    return bool(value) if type(value) is int and value in (0, 1) else value


def utc(value: datetime) -> datetime:
    """``value`` in UTC. Raises ValueError for a naive time: nobody knows which moment it means."""
    if value.tzinfo is None:
        raise ValueError("a time without a zone: give it tzinfo")
    return value.astimezone(UTC)


def big_id() -> TypeEngine[Any]:
    """A growing row number; only INTEGER grows by itself on SQLite, where it has 64 bits."""
    return BigInteger().with_variant(Integer(), "sqlite")


def long_text() -> TypeEngine[Any]:
    """JSON and other long text: ``LONGTEXT``, since a plain ``TEXT`` of MySQL ends at 65,535 bytes."""
    return Text().with_variant(mysql.LONGTEXT(), "mysql")


def long_bytes() -> TypeEngine[Any]:
    return LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")
