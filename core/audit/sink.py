"""``core.ports.AuditSink``: the database within its time, else the outbox; what waits is delivered in the background.

A delivery that was given up may still succeed late. It does no harm: the record that waits in the outbox has the same
``invocation_id`` and is then found to be there. A database that is away, or late three times on end, is left alone
until a delivery from the background has succeeded: an outage costs a few lookups their timeout and the others only the
write to the outbox.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core.audit.entry import Entry
from core.audit.ledger import Ledger
from core.audit.outbox import BATCH, Drained, Outbox
from core.audit.record import build
from core.audit.redaction import Content
from core.errors import Busy, DeadlineExceeded, RagError, Unavailable, redact
from core.ports import AuditReceipt, AuditRecord
from core.workers import Workers

log = logging.getLogger(__name__)
RECORDED: Final = "recorded"
QUEUED: Final = "queued"
FAILED: Final = "failed"
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
LOOK_AGAIN: Final = 30.0
"""Seconds after which an idle process looks whether another one left records behind."""
THREADS: Final = 32
MOST_LATE: Final = 3


class SqlAuditSink:
    """One a process, shared by its threads; ``close`` it at the end.

    ``root``: the folder of all outboxes. ``content``, ``secrets`` and ``console_queries`` as in ``record.build``.
    """

    def __init__(
        self,
        ledger: Ledger,
        root: Path,
        *,
        content: Content | str = Content.REDACTED,
        secrets: tuple[str, ...] = (),
        console_queries: bool = True,
    ) -> None:
        self._ledger = ledger
        self._outbox = Outbox(root, ledger.where)
        self._content = Content(content)
        self._secrets = secrets
        self._console_queries = console_queries
        self._workers = Workers(THREADS, "audit")
        self._away: str | None = None  # why the database is left alone
        self._late = 0
        self._failures = 0
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._counting = threading.Lock()
        self._drainer = threading.Thread(target=self._run, name="audit-outbox", daemon=True)
        self._drainer.start()

    # ---------------------------------------------------------------------------------------- one record

    def record(self, record: AuditRecord, *, timeout: float) -> AuditReceipt:
        """Safe in the database (``recorded``) or on the disk (``queued``) when it returns; ``failed`` only when neither
        took it. ``timeout``: seconds the database may take. Raises only for a record that cannot be one (ValueError).
        """
        began = time.perf_counter()
        entry = build(record, content=self._content, secrets=self._secrets, console_queries=self._console_queries)
        state, reason = self._keep(entry, timeout)
        return AuditReceipt(record.invocation_id, state, (time.perf_counter() - began) * 1000, reason)

    def add(self, entry: Entry, *, timeout: float) -> AuditReceipt:
        """Like ``record``, for an entry that was made already."""
        began = time.perf_counter()
        state, reason = self._keep(entry, timeout)
        return AuditReceipt(entry.invocation_id, state, (time.perf_counter() - began) * 1000, reason)

    def _keep(self, entry: Entry, timeout: float) -> tuple[str, str | None]:
        away = self._away
        if away is None:
            away = self._deliver(entry, timeout)
            if away is None:
                return RECORDED, None
        try:
            self._outbox.put(entry)
        except OSError as exc:
            return self._last_resort(entry, timeout, f"{away}; outbox: {redact(exc, self._secrets)}")
        self._wake.set()
        return QUEUED, away

    def _deliver(self, entry: Entry, timeout: float) -> str | None:
        """Why the database did not take ``entry`` in time, or None."""
        try:
            self._workers.call(lambda: self._ledger.deliver([entry]), timeout, f"database {self._ledger.where}")
        except DeadlineExceeded as exc:
            self._late += 1
            reason = redact(exc, self._secrets)
            if self._late >= MOST_LATE:
                self._away = reason
            return reason
        except (Unavailable, Busy) as exc:
            self._away = redact(exc, self._secrets)
            return self._away
        except Exception as exc:  # noqa: BLE001 - refused or a defect: the outbox sets it aside by name, not lost
            reason = f"{type(exc).__name__}: {redact(exc, self._secrets)}"
            log.error("record %s was refused by the database: %s", entry.invocation_id, reason)
            return reason
        self._late = 0
        return None

    def _last_resort(self, entry: Entry, timeout: float, reason: str) -> tuple[str, str | None]:
        """No disk: the database is asked once more, also while it is left alone."""
        again = self._deliver(entry, timeout)
        if again is None:
            return RECORDED, None
        with self._counting:
            self._failures += 1
        log.critical("record %s is lost: %s", entry.invocation_id, reason)
        return FAILED, reason

    # ---------------------------------------------------------------------------------------- what waits

    def waiting(self) -> int:
        """Records in the outbox of this database. Raises Unavailable when the outbox cannot be read."""
        try:
            return self._outbox.waiting()
        except OSError as exc:
            raise Unavailable(f"outbox {self._outbox.folder} cannot be read ({exc.strerror}); mend its rights") from exc

    def check(self) -> None:
        """Raises Unavailable when a record could not go to the outbox now, should the database be away."""
        try:
            self._outbox.check()
        except OSError as exc:
            said = exc.strerror or exc
            raise Unavailable(f"outbox {self._outbox.folder} cannot be written ({said}); mend its rights") from exc

    def aside(self) -> list[Path]:
        """Files that were set aside because they are damaged or refused: somebody has to look at them."""
        return self._outbox.aside()

    @property
    def failures(self) -> int:
        """Records that this process could keep nowhere."""
        return self._failures

    @property
    def away(self) -> str | None:
        """Why records go to the outbox now; None while the database takes them."""
        return self._away

    def drain(self) -> Drained:
        """Delivers what waits, now and in this thread. Raises StoreUnavailable when the database does not take it."""
        self._ledger.prepare()
        try:
            drained = self._outbox.drain(self._deliver_waiting)
        except OSError as exc:
            raise Unavailable(f"outbox {self._outbox.folder} cannot be emptied ({exc}); mend its rights") from exc
        if drained is None:
            return Drained(waiting=self.waiting())  # another process is delivering them
        if self._away is not None:
            self._ledger.warm()
            self._away, self._late = None, 0
        return drained

    def _deliver_waiting(self, entries: Sequence[Entry]) -> None:
        self._ledger.deliver(entries)
        if len(entries) < BATCH:  # no more were waiting: new records need not queue behind them
            self._away, self._late = None, 0

    def close(self, timeout: float = 2.0) -> None:
        """Ends the background; what waits is tried once more, for ``timeout`` seconds at most. Idempotent."""
        self._closed.set()
        self._wake.set()
        self._drainer.join(timeout)
        self._workers.shutdown()

    # ---------------------------------------------------------------------------------------- the background

    def _run(self) -> None:
        pause = FIRST_PAUSE
        self._warm()
        while True:
            self._wake.clear()
            if self._away is not None or self._waits():
                done = self._pass()
                pause = FIRST_PAUSE if done else min(LONGEST_PAUSE, pause * 2)
            else:
                done = True
            if self._closed.is_set():
                return
            if done:
                self._wake.wait(LOOK_AGAIN)
            else:
                self._closed.wait(pause)

    def _warm(self) -> None:
        """A first connection takes longer than a record may: it is made before the first record comes."""
        try:
            self._ledger.warm()
        except Exception as exc:  # noqa: BLE001 - whatever it is, the next pass meets it again
            self._away = redact(exc, self._secrets)

    def _pass(self) -> bool:
        try:
            drained = self.drain()
        except RagError as exc:
            self._away = redact(exc, self._secrets)
            return False
        except Exception as exc:  # noqa: BLE001 - the background must go on: the next pass may find it mended
            log.error("outbox: %s: %s", type(exc).__name__, redact(exc, self._secrets))
            return False
        if drained.delivered:
            log.info("outbox: %d records delivered", drained.delivered)
        return not drained.waiting

    def _waits(self) -> bool:
        try:
            return self._outbox.waiting() > 0
        except OSError:
            return False
