"""Nothing is lost and nothing doubled, whoever is killed."""

import multiprocessing
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.adapters.sql.audit import SqlLedger
from core.adapters.sql.engine import connect
from core.adapters.sql.schema import upgrade
from core.audit.sink import QUEUED, RECORDED, SqlAuditSink
from core.audit.verify import verify
from tests.integration.audit.audit_world import count, rows
from tests.integration.audit.audit_writer import write_on
from tests.integration.audit.private_server import PrivateServer
from tests.unit.audit.audit_samples import unique
from tests.unit.lookup_world import row, world

MOMENTS = 50
LOOKUPS, THREADS = 200, 4
PATIENCE = 60.0


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def killed_while_writing(url: str, outbox: Path, chance: random.Random) -> list[str]:
    """Ids that a process had acknowledged when it was killed, at a moment that nobody can know."""
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.integration.audit.audit_writer"])
    heard, said = context.Pipe(duplex=False)
    patience = chance.choice((0.0005, 0.005, 0.05))  # the shorter ones send records to the outbox, some of them late
    process = context.Process(target=write_on, args=(url, str(outbox), patience, said), daemon=True)
    process.start()
    said.close()
    assert heard.poll(PATIENCE), "the writer never began"
    time.sleep(chance.uniform(0, 0.06))
    process.kill()
    process.join(PATIENCE)
    acknowledged = []
    try:
        while True:
            acknowledged.append(heard.recv_bytes().decode())
    except EOFError:
        heard.close()
    process.close()
    return acknowledged


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_killed_at_any_moment_takes_no_acknowledged_record_with_it(database_url: str, tmp_path: Path) -> None:
    chance, outbox = random.Random(7), tmp_path / "outbox"
    acknowledged = [name for _ in range(MOMENTS) for name in killed_while_writing(database_url, outbox, chance)]
    database = connect(database_url)
    ledger = SqlLedger(database)
    sink = SqlAuditSink(ledger, outbox)
    until(lambda: sink.waiting() == 0, "the next process did not deliver what was left")
    recorded = Counter(row["invocation_id"] for row in rows(database))
    assert len(acknowledged) > MOMENTS
    assert set(acknowledged) - set(recorded) == set()
    assert max(recorded.values()) == 1
    assert sink.aside() == []
    report = verify(ledger)
    assert report.ok, report.findings
    sink.close()
    database.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[PrivateServer]:
    server = PrivateServer(tmp_path / "server")
    server.start()
    yield server
    server.kill()


@pytest.mark.slow
@pytest.mark.mariadb
@pytest.mark.timeout(600)
def test_case_81_a_server_killed_and_restarted_under_lookups_misses_none(
    own_server: PrivateServer, tmp_path: Path
) -> None:
    database = connect(own_server.url, connect_timeout=1)
    upgrade(database)
    ledger = SqlLedger(database)
    sink = SqlAuditSink(ledger, tmp_path / "outbox")
    made = world([row("a", "redis pool is empty", words="redis pool", distance=0.1)], audit=sink)  # type: ignore[arg-type]
    outcomes: list[Any] = []

    def asked() -> Any:
        outcomes.append(made.ask())
        return outcomes[-1]

    def lookups() -> None:
        for _ in range(LOOKUPS // THREADS):
            asked()
            time.sleep(0.005)

    until(lambda: asked().receipt.state == "recorded", "nothing is recorded")
    threads = [threading.Thread(target=lookups) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    until(lambda: len(outcomes) >= LOOKUPS * 0.3, "the lookups did not begin")
    own_server.kill()
    until(lambda: len(outcomes) >= LOOKUPS * 0.6, "the lookups did not go on without the server")
    assert sink.waiting() > 0
    own_server.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert len(outcomes) > LOOKUPS
    assert all(outcome.result.found for outcome in outcomes)
    assert {outcome.receipt.state for outcome in outcomes} == {"recorded", "queued"}
    until(lambda: sink.waiting() == 0 and sink.away is None, "what waited was not delivered")
    every = sorted(outcome.receipt.invocation_id for outcome in outcomes)
    assert sorted(row["invocation_id"] for row in rows(database)) == every
    report = verify(ledger)
    assert (report.ok, report.rows) == (True, len(outcomes)), report.findings
    until(lambda: asked().receipt.state == "recorded", "it does not record any more")
    sink.close()
    made.service.close()
    database.close()


def test_case_81_a_lookup_that_fails_is_recorded_with_its_error(database_url: str, tmp_path: Path) -> None:
    database = connect(database_url)
    sink = SqlAuditSink(SqlLedger(database), tmp_path / "outbox")
    made = world([], audit=sink, warm=False)  # type: ignore[arg-type]
    refused = made.ask("🙂")
    assert refused.error is not None
    until(lambda: sink.waiting() == 0, "what waited was not delivered")
    (kept,) = rows(database)
    assert (kept["status"], kept["error_class"], kept["evidence_status"]) == ("refused", "InvalidQuery", "ERROR")
    assert kept["error_message"] == str(refused.error)
    sink.close()
    made.service.close()
    database.close()


def test_a_database_file_that_is_taken_away_takes_no_record_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    database = connect(f"sqlite:///{folder}/console.sqlite3")
    upgrade(database)
    ledger = SqlLedger(database)
    sink = SqlAuditSink(ledger, tmp_path / "outbox")
    assert sink.record(unique(), timeout=10).state == RECORDED
    folder.rename(tmp_path / "elsewhere")
    assert sink.record(unique(), timeout=10).state == QUEUED
    (tmp_path / "elsewhere").rename(folder)
    until(lambda: sink.away is None and not sink.waiting(), "the file is back, and the record still waits")
    assert sink.record(unique(), timeout=10).state == RECORDED
    sink.close()
    assert (count(database), sink.waiting(), verify(ledger).ok) == (3, 0, True)
    database.close()
