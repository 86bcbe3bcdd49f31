"""The one metadata and the habits of every table: InnoDB, utf8mb4 with binary collation (so keys, paths and hashes
compare by their bytes as on SQLite), and a name of its own for every index and constraint."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Column, MetaData, String, Table

METADATA: Final = MetaData()
ALIAS: Final = 64
HASH: Final = 64


def table(name: str, *parts: Any) -> Table:
    return Table(name, METADATA, *parts, mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate="utf8mb4_bin")


def chars(name: str, width: int, *, null: bool = False, default: str | None = None) -> Column[Any]:
    """Text of at most ``width`` characters."""
    return Column(name, String(width), nullable=null, server_default=default)
