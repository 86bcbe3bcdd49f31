"""The record in a real database, and somebody who changes it behind its back."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from core.adapters.sql.audit import SqlLedger
from core.adapters.sql.engine import Database
from core.adapters.sql.tables import INVOCATION, WRITER
from core.audit.verify import ChainReport, Finding, verify
from tests.unit.audit.audit_samples import entry

Tamper = Callable[[sa.Connection], object]


def filled(database: Database, count: int, *, key: str = "") -> SqlLedger:
    """A ledger with ``count`` records, numbered from 1."""
    ledger = SqlLedger(database, key=key)
    ledger.deliver([entry() for _ in range(count)])
    return ledger


def rows(database: Database, table: sa.Table = INVOCATION) -> list[Mapping[str, Any]]:
    key = table.c.seq if "seq" in table.c else table.primary_key.columns[0]
    return database.read(lambda c: [dict(row) for row in c.execute(sa.select(table).order_by(key)).mappings()])


def count(database: Database, table: sa.Table = INVOCATION) -> int:
    return database.read(lambda c: c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def row_at(database: Database, seq: int) -> dict[str, Any]:
    return dict(next(row for row in rows(database) if row["seq"] == seq))


def tamper(database: Database, *statements: Any) -> None:
    def work(connection: sa.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    database.write(work)


def set_row(at: int, **values: Any) -> Any:
    return INVOCATION.update().where(INVOCATION.c.seq == at).values(values)


def remove_row(*seqs: int) -> Any:
    return INVOCATION.delete().where(INVOCATION.c.seq.in_(seqs))


def set_head(**values: Any) -> Any:
    return WRITER.update().values(values)


def found(report: ChainReport) -> set[tuple[str, int, int]]:
    """What is said of rows; what belongs to none is in ``orphans``."""
    return {(f.kind.value, f.first_seq, f.last_seq) for f in report.findings if f.writer}


def orphans(ledger: SqlLedger) -> list[Finding]:
    return [finding for finding in verify(ledger).findings if not finding.writer]


def check(ledger: SqlLedger) -> set[tuple[str, int, int]]:
    report = verify(ledger)
    assert report.ok == (not report.findings)
    return found(report)


STRANGE = (
    *("'abc'", "'[]'", "''", "x'ff00'", "'2026-01-01T00:00:00Z'", "NULL"),
    *("-1", "1.5", "9e999", "-9e999", "9223372036854775807"),
)


def strange_changes(file: Path, table: sa.Table, place: str, names: Iterable[str]) -> Iterator[str]:
    """Puts one strange value after another into each of the columns ``names`` of a row, as somebody with access to the
    file might, and takes it back. Gives the statement while it holds."""
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        row, *kept = raw.execute(f"SELECT rowid, * FROM {table.name} WHERE {place}").fetchone()
        marks = ", ".join("?" * len(kept))
        for name, value in itertools.product(names, STRANGE):
            change = f"UPDATE {table.name} SET {name} = {value} WHERE rowid = {row} AND {name} IS NOT {value}"
            try:
                changed = raw.execute(change).rowcount
            except sqlite3.IntegrityError:
                continue
            if changed:
                yield change
            raw.execute(f"DELETE FROM {table.name} WHERE rowid = {row}")
            raw.execute(f"INSERT INTO {table.name} VALUES ({marks})", kept)
            row = raw.execute("SELECT last_insert_rowid()").fetchone()[0]
