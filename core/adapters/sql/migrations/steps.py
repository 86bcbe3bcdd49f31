"""What migrations are made of. Each step may be done again: MySQL commits every statement by itself, so a process that
dies in the middle leaves a part behind, and the next one finishes it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op


def create_table(name: str, *parts: Any) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *parts, mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate="utf8mb4_bin")


def create_index(name: str, table: str, columns: list[str], *, unique: bool = False) -> None:
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, columns, unique=unique)
