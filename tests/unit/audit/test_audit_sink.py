"""The sink over a database that can be told to fail, to hang and to come back."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from core.audit.chain import Hasher
from core.audit.entry import Entry
from core.audit.ledger import Delivery
from core.audit.sink import SqlAuditSink
from core.errors import CheckFailed, RagError, StoreUnavailable, Unavailable
from core.model import Origin
from tests.unit.audit.audit_samples import QUERY, failed, unique

SOON = 20.0


class FakeLedger:
    """Keeps entries by id. ``failure`` is raised, ``hold`` is waited for before anything is written."""

    where = "SQLite /x"
    hasher = Hasher()

    def __init__(self) -> None:
        self.kept: dict[str, Entry] = {}
        self.failure: Exception | None = None
        self.hold: threading.Event | None = None
        self.tries = 0
        self.prepared = 0

    def warm(self) -> None:
        if self.failure is not None:
            raise self.failure

    def prepare(self) -> None:
        self.warm()
        self.prepared += 1

    def deliver(self, entries: Sequence[Entry]) -> Delivery:
        self.tries += 1
        hold, failure = self.hold, self.failure
        if hold is not None:
            hold.wait(SOON)
        if failure is not None:
            raise failure
        new = [one for one in entries if one.invocation_id not in self.kept]
        self.kept |= {one.invocation_id: one for one in new}
        return Delivery(len(new), len(entries) - len(new))


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()


@pytest.fixture
def sink(ledger: FakeLedger, tmp_path: Path) -> Iterator[SqlAuditSink]:
    made = SqlAuditSink(ledger, tmp_path / "outbox")  # type: ignore[arg-type]
    yield made
    if ledger.hold is not None:
        ledger.hold.set()
    made.close()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def test_a_record_goes_to_the_database(sink: SqlAuditSink, ledger: FakeLedger) -> None:
    record = unique()
    receipt = sink.record(record, timeout=SOON)
    assert (receipt.invocation_id, receipt.state, receipt.reason) == (record.invocation_id, "recorded", None)
    assert list(ledger.kept) == [record.invocation_id]
    assert (sink.waiting(), sink.failures, sink.away) == (0, 0, None)


def test_case_81_away_it_waits_says_why_and_is_delivered_without_a_restart(
    sink: SqlAuditSink, ledger: FakeLedger
) -> None:
    ledger.failure = StoreUnavailable("database is away")
    records = [unique(), unique(failed("StoreUnavailable", "milvus is away"))]
    receipts = [sink.record(record, timeout=SOON) for record in records]
    assert [receipt.state for receipt in receipts] == ["queued", "queued"]
    assert [receipt.reason for receipt in receipts] == ["database is away"] * 2
    assert sink.waiting() == 2
    ledger.failure = None
    until(lambda: sink.away is None and sink.waiting() == 0)
    assert list(ledger.kept) == [record.invocation_id for record in records]
    assert ledger.kept[records[1].invocation_id].row["error_class"] == "StoreUnavailable"
    assert sink.waiting() == 0
    assert sink.record(unique(), timeout=SOON).state == "recorded"
    assert ledger.prepared > 0  # the schema may not have been there yet


def test_while_it_is_away_no_lookup_asks_it_again(sink: SqlAuditSink, ledger: FakeLedger) -> None:
    until(lambda: sink.record(unique(), timeout=SOON).state == "recorded")
    ledger.hold = threading.Event()  # it hangs
    for _ in range(3):
        assert sink.record(unique(), timeout=0.01).state == "queued"
    assert sink.away is not None
    tries = ledger.tries
    states = {sink.record(unique(), timeout=SOON).state for _ in range(5)}  # one that asked would wait and be recorded
    assert states == {"queued"}
    assert ledger.tries - tries <= 1  # the background's own
    ledger.hold.set()


def test_being_late_once_is_not_being_away(sink: SqlAuditSink, ledger: FakeLedger) -> None:
    until(lambda: sink.record(unique(), timeout=SOON).state == "recorded")
    ledger.hold = threading.Event()
    assert sink.record(unique(), timeout=0.01).state == "queued"
    assert sink.away is None
    ledger.hold.set()
    assert sink.record(unique(), timeout=SOON).state == "recorded"


def test_a_delivery_that_succeeds_late_is_no_second_record(sink: SqlAuditSink, ledger: FakeLedger) -> None:
    ledger.hold = threading.Event()
    record = unique()
    assert sink.record(record, timeout=0.05).state == "queued"
    ledger.hold.set()
    until(lambda: sink.waiting() == 0)
    assert list(ledger.kept) == [record.invocation_id]
    until(lambda: ledger.tries >= 2)


def test_a_record_that_is_refused_waits_to_be_looked_at_and_stops_nobody(
    sink: SqlAuditSink, ledger: FakeLedger
) -> None:
    ledger.failure = CheckFailed("contradicts")
    receipt = sink.record(unique(), timeout=SOON)
    assert receipt.state == "queued"
    assert receipt.reason == "CheckFailed: contradicts"
    ledger.failure = None
    until(lambda: sink.waiting() == 0)
    assert len(sink.aside()) + len(ledger.kept) == 1
    assert sink.record(unique(), timeout=SOON).state == "recorded"


def test_what_an_earlier_process_left_is_delivered_by_the_next(ledger: FakeLedger, tmp_path: Path) -> None:
    ledger.failure = StoreUnavailable("away")
    first = SqlAuditSink(ledger, tmp_path / "outbox")  # type: ignore[arg-type]
    record = unique()
    first.record(record, timeout=SOON)
    first.close()
    ledger.failure = None
    second = SqlAuditSink(ledger, tmp_path / "outbox")  # type: ignore[arg-type]
    until(lambda: list(ledger.kept) == [record.invocation_id])
    second.close()


def test_closing_delivers_what_waits_when_it_can(ledger: FakeLedger, tmp_path: Path) -> None:
    sink = SqlAuditSink(ledger, tmp_path / "outbox")  # type: ignore[arg-type]
    until(lambda: sink.record(unique(), timeout=SOON).state == "recorded")
    ledger.failure = StoreUnavailable("away")
    sink.record(unique(), timeout=SOON)
    ledger.failure = None
    sink.close(SOON)
    assert (len(ledger.kept), sink.waiting()) == (2, 0)
    sink.close()


def test_without_a_disk_the_database_is_asked_once_more_and_a_loss_is_counted(
    ledger: FakeLedger, tmp_path: Path
) -> None:
    (tmp_path / "outbox").write_text("a file where the folder should be")
    sink = SqlAuditSink(ledger, tmp_path / "outbox")  # type: ignore[arg-type]
    until(lambda: sink.record(unique(), timeout=SOON).state == "recorded")
    ledger.failure = StoreUnavailable("away")
    receipt = sink.record(unique(), timeout=SOON)
    assert receipt.state == "failed"
    assert receipt.reason is not None
    assert receipt.reason.startswith("away; outbox: ")
    assert sink.failures == 1
    ledger.failure = None
    assert sink.record(unique(), timeout=SOON).state == "recorded"  # although it is still called away, or not any more
    sink.close()


def test_an_outbox_that_cannot_be_read_is_said_so(sink: SqlAuditSink, ledger: FakeLedger, tmp_path: Path) -> None:
    ledger.failure = StoreUnavailable("away")
    sink.record(unique(), timeout=SOON)
    folder = next((tmp_path / "outbox").iterdir())
    shutil.rmtree(folder)
    folder.write_text("a file where the folder should be")
    with pytest.raises(Unavailable, match="cannot be read"):
        sink.waiting()
    folder.unlink()
    assert sink.waiting() == 0


def test_content_and_secrets_are_those_of_the_settings(ledger: FakeLedger, tmp_path: Path) -> None:
    sink = SqlAuditSink(ledger, tmp_path, content="full", secrets=("canary",), console_queries=False)  # type: ignore[arg-type]
    record = unique(failed("StoreUnavailable", "no canary"), origin=Origin.CONSOLE)
    until(lambda: sink.record(record, timeout=SOON).state == "recorded")
    kept = ledger.kept[record.invocation_id]
    assert (kept.row["query_text"], kept.row["error_message"], kept.console_query) == (QUERY, "no ***", None)
    sink.close()


def test_a_defect_at_the_start_does_not_end_the_background(ledger: FakeLedger, tmp_path: Path) -> None:
    ledger.failure = TypeError("a defect")
    sink = SqlAuditSink(ledger, tmp_path)  # type: ignore[arg-type]
    until(lambda: sink.away == "a defect")
    ledger.failure = None
    until(lambda: sink.record(unique(), timeout=SOON).state == "recorded")
    sink.close()


def test_draining_by_hand_says_what_was_done_or_why_not(sink: SqlAuditSink, ledger: FakeLedger) -> None:
    assert sink.drain().delivered == 0
    ledger.failure = StoreUnavailable("away")
    with pytest.raises(RagError, match="away"):
        sink.drain()
