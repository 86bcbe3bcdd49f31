"""What the record costs a lookup: the same lookups with and without it, turn about in one run, on each engine.

Lookups as in ``lookup_overhead``: a store and a model that take no time, 20 hits a branch. MariaDB is the server of
``RAG_TEST_MARIADB_URL`` (default: root without password on 127.0.0.1:3306), in a database of its own that is dropped
afterwards; without one its line is left out.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import sqlalchemy as sa

from benchmarks.corpus import documents_of, queries, rows
from benchmarks.lookup_overhead import DEADLINE, DIMENSION, Known, NoAudit, Recorded, ask, generation, service
from core.adapters.sql.audit import SqlLedger
from core.adapters.sql.engine import Database, connect
from core.adapters.sql.schema import upgrade
from core.audit.outbox import Outbox
from core.audit.record import build
from core.audit.sink import RECORDED, SqlAuditSink
from core.knowledge.l0 import DocumentL0
from core.lookup import LookupService
from core.model import EmbeddingProfile
from core.ports import AuditReceipt, AuditRecord, Snapshot

PAIRS: Final = 800
SERVER: Final = os.environ.get("RAG_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1:3306").rstrip("/")
GOALS: Final = {"SQLite": 3.0, "MariaDB": 6.0}


class Timed:
    """A sink that remembers how long each record took, and the last record itself."""

    def __init__(self, sink: SqlAuditSink) -> None:
        self._sink = sink
        self.receipts: list[AuditReceipt] = []
        self.last: AuditRecord | None = None

    def record(self, record: AuditRecord, *, timeout: float) -> AuditReceipt:
        self.last = record
        self.receipts.append(self._sink.record(record, timeout=timeout))
        return self.receipts[-1]


def lookups() -> tuple[LookupService, list[str]]:
    stored = list(rows(250, 4, DIMENSION))
    vector = np.random.default_rng(3).standard_normal(DIMENSION).astype(np.float32)
    profile = EmbeddingProfile("bench/384", "bench", DIMENSION)
    built, index = generation(profile), Recorded()
    index.create(built, timeout=DEADLINE)
    index.insert(built, stored, timeout=DEADLINE)
    snapshot = Snapshot(built, DocumentL0(documents_of(stored)), {r.chunk.doc_id: 1 for r in stored})
    made, questions = service(index, Known(profile, vector / np.linalg.norm(vector)), snapshot), queries(25)
    for question in questions:
        ask(made, question)
    return made, questions


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, Database]]:
    found = {"SQLite": connect(f"sqlite:///{folder}/console.sqlite3")}
    name = f"bench_audit_{uuid.uuid4().hex[:8]}"
    engine = sa.create_engine(SERVER, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 3})
    try:
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name} CHARACTER SET utf8mb4"))
        found["MariaDB"] = connect(f"{SERVER}/{name}")
    except sa.exc.OperationalError:
        print("MariaDB: no server, left out")
    try:
        yield found
    finally:
        for database in found.values():
            database.close()
        if "MariaDB" in found:
            with engine.connect() as connection:
                connection.execute(sa.text(f"DROP DATABASE {name}"))
        engine.dispose()


def measure(name: str, database: Database, folder: Path, made: LookupService, questions: list[str]) -> AuditRecord:
    upgrade(database)
    sink = SqlAuditSink(SqlLedger(database), folder / "outbox")
    timed, none = Timed(sink), NoAudit()
    with_record: list[float] = []
    without: list[float] = []
    processor = 0.0
    for number in range(PAIRS + 20):
        question = questions[number % len(questions)]
        for audit, taken in ((none, without), (timed, with_record)):
            made.audit = audit
            began, began_processor = time.perf_counter(), time.process_time()
            ask(made, question)
            taken.append((time.perf_counter() - began) * 1000)
            if number >= 20 and audit is timed:
                processor += time.process_time() - began_processor
            elif number >= 20:
                processor -= time.process_time() - began_processor
    receipts = timed.receipts[20:]  # the first ones connect and compile
    bare, whole = statistics.median(without[20:]), statistics.median(with_record[20:])
    ms = [receipt.ms for receipt in receipts]
    in_time = sum(receipt.state == RECORDED for receipt in receipts)
    print(
        f"{name}: a lookup of {bare:.2f} ms takes {whole:.2f} ms with its record: +{whole - bare:.2f} ms, "
        f"ratio {whole / bare:.2f} (goal: at most +{GOALS[name]:g} ms)"
    )
    print(
        f"  the record alone: median {statistics.median(ms):.2f} ms, p95 {np.percentile(ms, 95):.2f} ms, processor time "
        f"{processor / PAIRS * 1000:.2f} ms, {in_time} of {len(receipts)} within their 50 ms"
    )
    sink.close()
    if timed.last is None:
        raise RuntimeError("nothing was recorded")
    return timed.last


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-audit-"))
    made, questions = lookups()
    try:
        with databases(folder) as found:
            for name, database in found.items():
                last = measure(name, database, folder, made, questions)
        building, putting = [], []
        box = Outbox(folder / "alone", "nothing")
        for _ in range(100):
            began = time.perf_counter()
            entry = build(last, content="redacted")
            building.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            box.put(entry)
            putting.append((time.perf_counter() - began) * 1000)
        print(
            f"of it: making the record {statistics.median(building):.2f} ms; instead of the database the outbox, safe on "
            f"the disk: median {statistics.median(putting):.2f} ms, p95 {np.percentile(putting, 95):.2f} ms"
        )
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
