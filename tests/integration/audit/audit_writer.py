"""A process that records and says so after each record, until it is killed."""

from __future__ import annotations

import threading
from multiprocessing.connection import Connection
from pathlib import Path

from core.adapters.sql.audit import SqlLedger
from core.adapters.sql.engine import connect
from core.audit.sink import FAILED, SqlAuditSink
from tests.unit.audit.audit_samples import unique


def write_on(url: str, outbox: str, timeout: float, said: Connection) -> None:
    sink = SqlAuditSink(SqlLedger(connect(url)), Path(outbox))
    lock = threading.Lock()

    def records() -> None:
        while True:
            receipt = sink.record(unique(), timeout=timeout)
            if receipt.state != FAILED:
                with lock:
                    said.send_bytes(receipt.invocation_id.encode())

    threads = [threading.Thread(target=records) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
