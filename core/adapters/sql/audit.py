"""``core.audit.ledger.Ledger``: the chained record in SQL.

Every delivery first locks the head of the chain, so processes and threads write one after the other. A single record
goes behind the head that this process left: the statement that moves the head tells whether it still stands there, and
locks it in the same breath.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, and_, bindparam, exists, func, or_, select
from sqlalchemy.exc import IntegrityError

from core.adapters.sql.bulk import Prepared, insert
from core.adapters.sql.engine import Database
from core.adapters.sql.rows import batches
from core.adapters.sql.schema import upgrade
from core.adapters.sql.tables import (
    CANDIDATE_TRACE,
    CITATION,
    CLAIM,
    CONSOLE_QUERY,
    EVENT,
    INVOCATION,
    PRUNE,
    QUERY_TRACE,
    SETTINGS,
    WRITER,
)
from core.adapters.sql.traces import write_trace
from core.audit.chain import GENESIS, Hasher, Head, link, writer_of
from core.audit.entry import Entry, TraceRows
from core.audit.ledger import Attached, Delivery, Pruned, Row
from core.errors import Busy, CheckFailed

BATCH: Final = 200
SPAN: Final = 20_000
"""Rows that one statement looks through for orphans: a few tenths of a second."""
_PRUNED: Final = ("writer", "first_seq", "last_seq", "prev_hash", "last_hash", "invocation_id")
_HEAD: Final = Prepared(
    select(WRITER.c.writer, WRITER.c.seq, WRITER.c.row_hash, WRITER.c.seal, WRITER.c.key_id)
    .where(WRITER.c.writer == bindparam("name"))
    .with_for_update()
)
_KNOWN: Final = Prepared(select(INVOCATION.c.invocation_id).where(INVOCATION.c.invocation_id == bindparam("name")))
_MOVE: Final = Prepared(
    WRITER.update()
    .where(WRITER.c.writer == bindparam("name"))
    .where(WRITER.c.seq == bindparam("before"), WRITER.c.row_hash == bindparam("hash_before"))
    .values(seq=bindparam("to"), row_hash=bindparam("last"), seal=bindparam("sealed"), changed_at=bindparam("now"))
)
_OWNED: Final = (
    ("trace", QUERY_TRACE.c.trace_id, INVOCATION.c.trace_id),
    ("candidates", CANDIDATE_TRACE.c.trace_id, QUERY_TRACE.c.trace_id),
    ("events", EVENT.c.invocation_id, INVOCATION.c.invocation_id),
)
_EVENT: Final = [column for column in EVENT.columns if column.name != "id"]


class SqlLedger:
    """``key``: the HMAC key of the chain, ``""`` for none. ``clock`` gives the moment of recording, in UTC."""

    def __init__(self, database: Database, *, key: str = "", clock: Callable[[], datetime] | None = None) -> None:
        self._db = database
        self._hasher = Hasher(key)
        self._writer = writer_of(self._hasher)
        self._prepared = False
        self._settings: frozenset[str] = frozenset()  # fingerprints whose settings are in the database
        self._left: Head | None = None  # the head after our last delivery
        self._clock = clock or (lambda: datetime.now(UTC))

    @property
    def where(self) -> str:
        return self._db.where

    @property
    def hasher(self) -> Hasher:
        return self._hasher

    # ---------------------------------------------------------------------------------------- writing

    def warm(self) -> None:
        def work(connection: Connection) -> None:
            _HEAD.run(connection, name=self._writer).first()
            _recorded(connection, [""])

        self._db.read(work)

    def prepare(self) -> None:
        self._settings = frozenset()  # the database may be another one than before
        if not self._prepared:
            upgrade(self._db)
            self._prepared = True

    def deliver(self, entries: Sequence[Entry]) -> Delivery:
        try:
            delivery, self._left = self._db.write(lambda c: self._deliver(c, entries))
        except CheckFailed as exc:
            if not isinstance(exc.__cause__, IntegrityError):
                raise
            delivery, self._left = self._db.write(lambda c: self._deliver(c, entries, careful=True))
        new = {str(entry.settings["fingerprint"]) for entry in entries if entry.settings is not None}
        if not new <= self._settings:
            self._settings |= new
        return delivery

    def prune(self, rows: Sequence[Row], ranges: Sequence[Pruned], entry: Entry, *, before: datetime, who: str) -> None:
        def work(connection: Connection) -> None:
            self._head(connection)
            if _delete(connection, INVOCATION.c.id, [row["id"] for row in rows]) != len(rows):
                raise Busy("the record was pruned by somebody else at this moment; nothing was done, try again")
            _delete(connection, EVENT.c.invocation_id, [row["invocation_id"] for row in rows])
            traces = [row["trace_id"] for row in rows if row["trace_id"] is not None]
            _delete_traces(connection, traces)
            _delete(connection, CONSOLE_QUERY.c.trace_id, traces)
            connection.execute(PRUNE.delete())
            now = self._clock()
            remembered = [
                {**{name: getattr(r, name) for name in _PRUNED}, "older_than": before, "pruned_at": now, "who": who}
                for r in ranges
            ]
            insert(connection, PRUNE, remembered)
            self._deliver(connection, [entry])

        self._db.write(work)

    def drop_stray_traces(self, before: datetime) -> int:
        recorded = exists().where(INVOCATION.c.trace_id == QUERY_TRACE.c.trace_id)
        stray = select(QUERY_TRACE.c.trace_id).where(QUERY_TRACE.c.created_at < before, ~recorded).limit(BATCH)

        def work(connection: Connection) -> int:
            found = list(connection.execute(stray).scalars())
            _delete_traces(connection, found)
            return len(found)

        dropped = 0
        while count := self._db.write(work):
            dropped += count
        return dropped

    def _deliver(
        self, connection: Connection, entries: Sequence[Entry], *, careful: bool = False
    ) -> tuple[Delivery, Head]:
        """What was written, and the head after it. ``careful``: after a refusal. A single record is taken for new and
        refused by its key when it is not; rows that somebody put behind the head are stepped over, for verification to
        find."""
        by_id: dict[str, Entry] = {}
        for entry in entries:
            by_id.setdefault(entry.invocation_id, entry)
        alone = len(by_id) == 1 and not careful
        head = self._left if alone and self._left is not None else self._head(connection)
        recorded = set() if alone else _recorded(connection, list(by_id))
        fresh = [entry for name, entry in by_id.items() if name not in recorded]
        if not fresh:
            return Delivery(0, len(entries)), head
        seq = head.seq
        if careful:
            last = select(func.max(INVOCATION.c.seq)).where(INVOCATION.c.writer == self._writer)
            seq = max(seq, connection.execute(last).scalar_one() or 0)
        rows, after = self._linked(fresh, head, seq)
        if not _moved(connection, head, after, rows[-1]["recorded_at"]):  # somebody else has written since
            head = self._head(connection)
            rows, after = self._linked(fresh, head, head.seq)
            _moved(connection, head, after, rows[-1]["recorded_at"])
        insert(connection, INVOCATION, rows)
        self._beside(connection, fresh)
        return Delivery(len(fresh), len(entries) - len(fresh)), after

    def _linked(self, fresh: Sequence[Entry], head: Head, seq: int) -> tuple[list[Row], Head]:
        """Rows from ``seq`` + 1 on behind ``head``, and the head after them."""
        now, prev_hash = self._clock(), head.row_hash
        rows: list[Row] = []
        for entry in fresh:
            seq += 1
            row = {**entry.row, "recorded_at": now}
            rows.append(link(row, writer=self._writer, seq=seq, prev_hash=prev_hash, hasher=self._hasher))
            prev_hash = rows[-1]["row_hash"]
        return rows, replace(head, seq=seq, row_hash=prev_hash, seal=self._hasher.seal(self._writer, seq, prev_hash))

    def _beside(self, connection: Connection, fresh: Sequence[Entry]) -> None:
        insert(connection, EVENT, [event for entry in fresh for event in entry.events])
        for entry in fresh:
            if entry.trace is not None:
                write_trace(connection, entry.trace)
        settings = {entry.settings["fingerprint"]: entry.settings for entry in fresh if entry.settings is not None}
        new = [row for fingerprint, row in settings.items() if fingerprint not in self._settings]
        insert(connection, SETTINGS, new, ignore=True)
        questions = [entry.console_query for entry in fresh if entry.console_query is not None]
        insert(connection, CONSOLE_QUERY, questions, ignore=True)

    def _head(self, connection: Connection) -> Head:
        """The head, locked until the transaction ends; made with the first row."""
        row = _HEAD.run(connection, name=self._writer).first()
        if row is None:
            now = self._clock()
            first = {
                "writer": self._writer,
                "seq": 0,
                "row_hash": GENESIS,
                "seal": self._hasher.seal(self._writer, 0, GENESIS),
                "key_id": self._hasher.key_id,
                "created_at": now,
                "changed_at": now,
            }
            insert(connection, WRITER, [first], ignore=True)
            row = _HEAD.run(connection, name=self._writer).one()
        return Head(row.writer, row.seq, row.row_hash, row.seal, row.key_id)

    # ---------------------------------------------------------------------------------------- reading

    def heads(self) -> list[Head]:
        rows = self._db.read(lambda c: c.execute(select(WRITER).order_by(WRITER.c.writer)).all())
        return [Head(row.writer, _whole(row.seq), row.row_hash, row.seal, row.key_id) for row in rows]

    def writers(self) -> list[str]:
        query = select(INVOCATION.c.writer).distinct().order_by(INVOCATION.c.writer)
        return self._scalars(query)

    def rows(self, writer: str) -> Iterator[list[Row]]:
        seq, row = INVOCATION.c.seq, INVOCATION.c.id
        query = select(INVOCATION).where(INVOCATION.c.writer == writer).order_by(seq, row).limit(BATCH)
        batch = self._rows(query)
        while batch:
            yield batch
            at = batch[-1]  # two rows of one number are somebody's work, and must not hide each other
            after = and_(seq >= at["seq"], or_(seq > at["seq"], row > at["id"]))
            batch = self._rows(query.where(after)) if len(batch) == BATCH else []

    def has_hash(self, writer: str, row_hash: str) -> bool:
        row = INVOCATION.c
        return bool(self._rows(select(row.id).where(row.writer == writer, row.row_hash == row_hash).limit(1)))

    def pruned(self) -> list[Pruned]:
        query = select(*(PRUNE.c[name] for name in _PRUNED)).order_by(PRUNE.c.writer, PRUNE.c.first_seq)
        return [Pruned(**row) for row in self._rows(query)]

    def record(self, invocation_id: str) -> Row | None:
        found = self._rows(select(INVOCATION).where(INVOCATION.c.invocation_id == invocation_id))
        return found[0] if found else None

    def attached(self, rows: Sequence[Row]) -> Attached:
        traces: dict[str, TraceRows] = {}
        events: dict[str, list[Row]] = defaultdict(list)
        trace_ids = [row["trace_id"] for row in rows if row["trace_id"] is not None]
        candidates: dict[str, list[Row]] = defaultdict(list)
        for row in self._of(CANDIDATE_TRACE, CANDIDATE_TRACE.c.trace_id, trace_ids):
            candidates[row["trace_id"]].append(row)
        for row in self._of(QUERY_TRACE, QUERY_TRACE.c.trace_id, trace_ids):
            traces[row["trace_id"]] = TraceRows(row, tuple(candidates[row["trace_id"]]))
        ids = [row["invocation_id"] for row in rows]
        for row in self._rows(
            select(*_EVENT).where(EVENT.c.invocation_id.in_(ids)).order_by(EVENT.c.invocation_id, EVENT.c.sequence)
        ):
            events[row["invocation_id"]].append(row)
        return Attached(traces, {key: tuple(found) for key, found in events.items()})

    def orphans(self) -> Iterator[tuple[str, str]]:
        for what, key, owner in _OWNED:
            low: str | None = None
            while True:
                ahead = [] if low is None else [key > low]
                end = select(key).where(*ahead).order_by(key).offset(SPAN - 1).limit(1)
                high = next(iter(self._scalars(end)), None)
                span = ahead if high is None else [*ahead, key <= high]
                lost = select(key).where(*span, ~exists().where(owner == key)).distinct().order_by(key)
                for name in self._scalars(lost):
                    yield what, str(name)
                if high is None:
                    break
                low = high

    def older_than(self, writer: str, before: datetime, limit: int) -> list[Row]:
        older = select(INVOCATION).where(INVOCATION.c.writer == writer, INVOCATION.c.created_at < before)
        return self._rows(older.order_by(INVOCATION.c.seq).limit(limit))

    def _of(self, table: Table, column: Column[Any], values: Sequence[str]) -> list[Row]:
        return self._rows(select(table).where(column.in_(values))) if values else []

    def _scalars(self, query: Any) -> list[Any]:
        return self._db.read(lambda c: list(c.execute(query).scalars()))

    def _rows(self, query: Any) -> list[Row]:
        def work(connection: Connection) -> list[Row]:
            found: list[Row] = [dict(row) for row in connection.execute(query).mappings()]
            return found

        return self._db.read(work)


def _moved(connection: Connection, head: Head, after: Head, now: datetime) -> bool:
    """Puts ``after`` in the place of ``head`` and keeps it locked; False when another head stands there."""
    values = {"to": after.seq, "last": after.row_hash, "sealed": after.seal, "now": now}
    before = {"name": head.writer, "before": head.seq, "hash_before": head.row_hash}
    return _MOVE.run(connection, **before, **values).rowcount == 1


def _whole(seq: Any) -> int:
    """A number that somebody made into something else is before every row: its seal does not fit."""
    return seq if type(seq) is int else 0


def _recorded(connection: Connection, invocation_ids: Sequence[str]) -> set[str]:
    if len(invocation_ids) == 1:
        return set(_KNOWN.run(connection, name=invocation_ids[0]).scalars())
    known = select(INVOCATION.c.invocation_id).where(INVOCATION.c.invocation_id.in_(invocation_ids))
    return set(connection.execute(known).scalars())


def _delete(connection: Connection, column: Column[Any], values: Sequence[Any]) -> int:
    gone = 0
    for batch in batches(values):
        gone += connection.execute(column.table.delete().where(column.in_(batch))).rowcount
    return gone


def _delete_traces(connection: Connection, trace_ids: Sequence[str]) -> None:
    for table in (CITATION, CLAIM, CANDIDATE_TRACE, QUERY_TRACE):
        _delete(connection, table.c.trace_id, trace_ids)
