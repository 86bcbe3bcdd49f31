"""What a page of the record costs among a million: the last page beside the first, by filter, on each engine.

Figures are milliseconds of a page of 50 records with its total, first and last page read turn about. MariaDB is the
server of ``RAG_TEST_MARIADB_URL`` (default: root without password on 127.0.0.1:3306), in a database of its own that is
dropped afterwards; without one its lines are left out. ``RAG_BENCH_ROWS`` sets another number of rows.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from benchmarks.audit_rows import START, STEP, fill
from core.adapters.sql.audit_log import SqlAuditLog
from core.adapters.sql.engine import Database, connect
from core.adapters.sql.schema import upgrade
from core.audit.query import AuditFilter, Only

ROWS: Final = int(os.environ.get("RAG_BENCH_ROWS", "1000000"))
TIMES: Final = 60
SERVER: Final = os.environ.get("RAG_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1:3306").rstrip("/")
RATIO, P95 = 1.5, 150.0
_MIDDLE: Final = START + STEP * (ROWS // 2)
_QUARTER: Final = {"since": _MIDDLE, "until": _MIDDLE + STEP * (ROWS // 4)}
HELD: Final = {
    "no filter": AuditFilter(),
    "time": AuditFilter(**_QUARTER),
    "time + status + level": AuditFilter(**_QUARTER, status="ok", relevance_level="PRECISE"),
    "time + status + no level": AuditFilter(**_QUARTER, status="error", relevance_level="none"),
    "status": AuditFilter(status="timeout"),
    "fallback": AuditFilter(fallback="FALLBACK_LOW_QUALITY"),
    "session": AuditFilter(session="session-7"),
}
"""Filters with an index of their own, for which the goals hold."""
SHOWN: Final = {
    "origin + language": AuditFilter(origin="eval", language="en"),
    "degraded + model": AuditFilter(degraded=True, model="none"),
    "text": AuditFilter(text="session-77 "),
    "stale": AuditFilter(only=(Only.STALE,)),
}
TRENDS: Final = {"trends of a day": timedelta(days=1), "of 30 days": timedelta(days=30), "of all": None}


@contextmanager
def sqlite() -> Iterator[Database]:
    folder = Path(tempfile.mkdtemp(prefix="audit-pages-"))
    database = connect(f"sqlite:///{folder}/console.sqlite3")
    try:
        yield database
    finally:
        database.close()
        shutil.rmtree(folder)


@contextmanager
def mariadb() -> Iterator[Database]:
    server = sa.create_engine(SERVER, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 3})
    name = f"bench_{uuid.uuid4().hex[:12]}"
    with server.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} CHARACTER SET utf8mb4"))
    database = connect(f"{SERVER}/{name}", read_timeout=600)
    try:
        yield database
    finally:
        database.close()
        with server.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE {name}"))
        server.dispose()


def timed(*works: Callable[[], object], times: int = TIMES) -> list[list[float]]:
    """Milliseconds of each work, done turn about after one round that is not counted."""
    taken: list[list[float]] = [[] for _ in works]
    for number in range(times + 1):
        for work, list_ in zip(works, taken, strict=True):
            began = time.perf_counter()
            work()
            if number:
                list_.append((time.perf_counter() - began) * 1000)
    return taken


def p95(values: list[float]) -> float:
    return sorted(values)[-(-len(values) * 95 // 100) - 1]


def measure(engine: str, database: Database) -> None:
    log = SqlAuditLog(database)
    for name, where in (HELD | SHOWN).items():
        first, last = timed(
            lambda: log.page(where),  # noqa: B023 - called before the next turn
            lambda: log.page(where, oldest=True),  # noqa: B023
            times=TIMES if name in HELD else 3,
        )
        a, b, worst = statistics.median(first), statistics.median(last), max(p95(first), p95(last))
        kept = "" if name not in HELD else "  ok" if b / a <= RATIO and worst < P95 else "  MISSED"
        print(
            f"{engine}: {name:<26} first {a:7.1f}, last {b:7.1f}, ratio {b / a:4.2f}, p95 {worst:7.1f}{kept}",
            flush=True,
        )
    (facets,) = timed(log.facets, times=3)
    print(f"{engine}: facets {statistics.median(facets):.0f}", end="")
    for name, span in TRENDS.items():
        where = AuditFilter(since=_MIDDLE, until=_MIDDLE + span) if span else AuditFilter()
        (taken,) = timed(lambda: log.trends(where), times=2)  # noqa: B023
        print(f", {name} {statistics.median(taken):.0f}", end="")
    print()


def main() -> None:
    load, cores = os.getloadavg()[0], os.cpu_count()
    print(
        f"{ROWS:,} rows; goals: last page at most {RATIO} of the first, p95 below {P95:.0f} ms; "
        f"load of the machine {load:.1f} on {cores} cores"
    )
    for engine, opened in (("SQLite", sqlite), ("MariaDB", mariadb)):
        try:
            with opened() as database:
                upgrade(database)
                began = time.perf_counter()
                fill(database, ROWS)
                print(f"{engine}: filled in {time.perf_counter() - began:.0f} s", flush=True)
                measure(engine, database)
        except sa.exc.OperationalError:
            print(f"{engine}: no server at {SERVER.rpartition('@')[2]}")


if __name__ == "__main__":
    main()
