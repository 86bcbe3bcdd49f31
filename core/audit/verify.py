"""Whether the record is what was written: every row, its trace and its events, from the first to the last.

What it can say depends on the key (``core.audit.chain``). A row that was changed and given a new, fitting hash is found
by the hash that the next row, or the head, holds of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from core.audit.chain import GENESIS, Hasher, Head, rows_hash, writer_of
from core.audit.ledger import Ledger, Pruned
from core.audit.prune_record import backed
from core.audit.trace_rows import trace_hash

MOST: Final = 1_000
AT_ONCE: Final = 200
MOST_DOUBTS: Final = 100
"""Rows beside a changed one that are looked into closer, each for the price of a search through the whole chain."""
Row = Mapping[str, Any]


class Kind(StrEnum):
    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    UNCHECKED = "unchecked"  # kept with another key


@dataclass(frozen=True, slots=True)
class Finding:
    """Rows ``first_seq`` to ``last_seq`` of a writer, and what is wrong with them in words. Without a writer: what
    belongs to no row, by the id that it names."""

    kind: Kind
    writer: str
    first_seq: int
    last_seq: int
    what: str
    invocation_id: str | None = None

    def __str__(self) -> str:
        if not self.writer:
            return f"{self.invocation_id}: {self.kind.value}: {self.what}"
        rows = f"row {self.first_seq}" if self.first_seq == self.last_seq else f"rows {self.first_seq}–{self.last_seq}"
        named = f" ({self.invocation_id})" if self.invocation_id else ""
        return f"{self.writer} {rows}{named}: {self.kind.value}: {self.what}"


@dataclass(frozen=True, slots=True)
class ChainReport:
    """``findings``: the first thousand of ``count``. ``heads``, noted elsewhere, prove later that the database was not
    set back to an older copy. ``pruned`` rows were removed on purpose. ``keyed``: there is a key now; ``unkeyed`` of the
    ``rows`` are chained without one."""

    ok: bool
    rows: int
    findings: tuple[Finding, ...]
    count: int
    heads: tuple[Head, ...]
    pruned: int = 0
    keyed: bool = False
    unkeyed: int = 0


def verify(ledger: Ledger, *, deep: bool = True, progress: Callable[[int], None] | None = None) -> ChainReport:
    """Reads the whole record. ``deep``: traces and events too, which are most of the bytes. ``progress`` is told how
    many rows are done. Raises StoreUnavailable."""
    heads = {head.writer: head for head in ledger.heads()}
    pruned = [r for r in ledger.pruned() if backed(r, ledger.record(r.invocation_id))]
    state = _State(ledger, deep, progress)
    for writer in sorted({*heads, *ledger.writers()}, key=str):
        if writer in heads:
            _Chain(state, heads[writer], [r for r in pruned if r.writer == writer]).check()
        else:
            _without_head(state, writer)
    if deep:
        for part, name in ledger.orphans():
            state.orphan(part, name)
    return ChainReport(
        ok=not state.count,
        rows=state.rows,
        findings=tuple(state.findings),
        count=state.count,
        heads=tuple(heads[name] for name in sorted(heads, key=str)),
        pruned=sum(r.last_seq - r.first_seq + 1 for r in pruned),
        keyed=bool(ledger.hasher.key_id),
        unkeyed=state.unkeyed,
    )


@dataclass(slots=True)
class _State:
    ledger: Ledger
    deep: bool
    progress: Callable[[int], None] | None
    rows: int = 0
    unkeyed: int = 0
    count: int = 0
    findings: list[Finding] = field(default_factory=list)

    def found(self, kind: Kind, writer: str, first: int, last: int, what: str, row: Row | None = None) -> None:
        self.count += 1
        if len(self.findings) < MOST:
            named = None if row is None else str(row["invocation_id"])
            self.findings.append(Finding(kind, str(writer), first, last, what, named))

    def orphan(self, part: str, name: str) -> None:
        self.count += 1
        if len(self.findings) < MOST:
            what = f"{part} without a record: the record was removed, or they were put there"
            self.findings.append(Finding(Kind.INSERTED, "", 0, 0, what, name))

    def done(self, rows: int) -> None:
        self.rows += rows
        if self.progress is not None:
            self.progress(self.rows)


def _without_head(state: _State, writer: str) -> None:
    for batch in state.ledger.rows(writer):
        for row in batch:
            what = "no chain of this name was ever begun, or its head was removed"
            state.found(Kind.INSERTED, writer, _number(row), _number(row), what, row)
        state.done(len(batch))


class _Chain:
    """One writer's rows, each held against the row before it, the row after it and, at the end, the head."""

    def __init__(self, state: _State, head: Head, pruned: list[Pruned]) -> None:
        self._state = state
        self._head = head
        self._writer = head.writer
        self._pruned = {r.first_seq: r for r in pruned}
        self._hasher = state.ledger.hasher if head.key_id else Hasher()
        self._checked = head.key_id == self._hasher.key_id
        self._next = 1
        self._hash: str | None = GENESIS  # what the next row must name; None after a gap
        self._anchored = True  # that hash stands in no row: the chain begins here, or rows before it were pruned
        self._sound: list[Row] = []
        self._doubts = 0

    def check(self) -> None:
        head, found = self._head, self._state.found
        if not self._checked:
            what = f"kept with key {head.key_id}: give that one as audit.hmac_key"
            found(Kind.UNCHECKED, self._writer, 1, head.seq, what)
        elif writer_of(self._hasher) != self._writer or not self._hasher.fits(head):
            found(Kind.CHANGED, self._writer, head.seq, head.seq, "the head of the chain does not fit its own seal")
        rows = chain.from_iterable(self._state.ledger.rows(self._writer))
        for row, following in _with_next(rows):
            self._row(row, following)
            if len(self._sound) >= AT_ONCE:
                self._attached()
            self._state.done(1)
            self._state.unkeyed += not self._head.key_id
        self._attached()
        self._gap(head.seq + 1)

    def _row(self, row: Row, following: Row | None) -> None:
        seq, found = row["seq"], self._state.found
        if type(seq) is not int:
            found(Kind.CHANGED, self._writer, 0, 0, f"its number is {seq!r:.40}", row)
            return
        if seq < self._next or seq > self._head.seq:
            where = "behind the end of the chain" if seq > self._head.seq else "where the chain has no such row"
            found(Kind.INSERTED, self._writer, seq, seq, where, row)
            return
        self._gap(seq)
        if self._next in self._pruned:
            found(Kind.INSERTED, self._writer, seq, seq, "this row had been pruned", row)
            return
        self._next = seq + 1
        own, named = self._fits(row), self._named(row, following)
        strange = named is not None and named != row["row_hash"]
        if strange and named == self._hash:
            found(Kind.INSERTED, self._writer, seq, seq, "the row after it follows the one before it", row)
            return
        if not own:
            found(Kind.CHANGED, self._writer, seq, seq, "the content does not fit its hash", row)
        elif strange:
            found(Kind.CHANGED, self._writer, seq, seq, "not the row whose hash was handed on", row)
        elif self._anchored and row["prev_hash"] != self._hash:
            found(Kind.CHANGED, self._writer, seq, seq, "does not follow on what was before it", row)
        elif self._state.deep:
            self._sound.append(row)
        self._hash, self._anchored = row["row_hash"], False

    def _fits(self, row: Row) -> bool:
        return not self._checked or self._hasher.row(row) == row["row_hash"]

    def _named(self, row: Row, following: Row | None) -> str | None:
        """The hash that whatever comes after ``row`` holds of it; None where nothing can be said."""
        seq = row["seq"]
        if seq == self._head.seq:
            return self._head.row_hash
        if seq + 1 in self._pruned:
            return self._pruned[seq + 1].prev_hash
        if following is None or following["seq"] != seq + 1:
            return None
        named: str = following["prev_hash"]
        if named == row["row_hash"] or self._fits(following):
            return named
        # The next row is not as it was either. A row that fits a key's hash is genuine, whatever others say of it; so
        # is one that the next row would fit, were only its own copy of this hash put right; and a next row that names
        # another row of the chain was moved here.
        mended = self._hasher.row({**following, "prev_hash": row["row_hash"]}) == following["row_hash"]
        if mended or self._hasher.key_id or self._doubts >= MOST_DOUBTS:
            return None
        self._doubts += 1
        return None if self._state.ledger.has_hash(self._writer, named) else named

    def _gap(self, seq: int) -> None:
        """Steps on to ``seq``: over rows that were pruned, and over missing ones, which are reported."""
        while self._next < seq:
            pruned = self._pruned.get(self._next)
            if pruned is None:
                end = min((first for first in self._pruned if self._next < first < seq), default=seq)
                self._state.found(Kind.REMOVED, self._writer, self._next, end - 1, "missing")
                self._next, self._hash, self._anchored = end, None, False
            elif pruned.last_seq < seq:
                self._next, self._hash, self._anchored = pruned.last_seq + 1, pruned.last_hash, True
            else:
                return

    def _attached(self) -> None:
        """Holds traces and events against the hashes in the rows that they belong to, which are as they were."""
        if not self._sound:
            return
        attached = self._state.ledger.attached(self._sound)
        for row in self._sound:
            trace, events = attached.traces.get(row["trace_id"]), attached.events.get(row["invocation_id"], ())
            self._part(row, "trace", None if trace is None else trace_hash(trace), row["trace_sha256"])
            self._part(row, "events", rows_hash(events) if events else None, row["events_sha256"])
        self._sound = []

    def _part(self, row: Row, name: str, found: str | None, wanted: str | None) -> None:
        if found == wanted or (wanted is None and name == "trace"):
            return
        kind = Kind.REMOVED if found is None else Kind.INSERTED if wanted is None else Kind.CHANGED
        self._state.found(kind, self._writer, row["seq"], row["seq"], f"its {name}", row)


def _number(row: Row) -> int:
    seq = row["seq"]
    return seq if type(seq) is int else 0


def _with_next(rows: Iterable[Row]) -> Iterator[tuple[Row, Row | None]]:
    iterator = iter(rows)
    row = next(iterator, None)
    while row is not None:
        following = next(iterator, None)
        yield row, following
        row = following
