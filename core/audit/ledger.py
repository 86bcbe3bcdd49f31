"""The protocol between the record and the database that keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from core.audit.chain import Hasher, Head
from core.audit.entry import Entry, TraceRows

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of entries: ``new`` were written, ``known`` had been written before."""

    new: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class Pruned:
    """Rows ``first_seq`` to ``last_seq`` of a writer were removed on purpose, as record ``invocation_id`` says.

    ``prev_hash`` is the hash before the first of them, ``last_hash`` that of the last.
    """

    writer: str
    first_seq: int
    last_seq: int
    prev_hash: str
    last_hash: str
    invocation_id: str


@dataclass(frozen=True, slots=True)
class Attached:
    """What belongs to records, by ``trace_id`` and by ``invocation_id``; absent where there is none."""

    traces: Mapping[str, TraceRows]
    events: Mapping[str, tuple[Row, ...]]


class Ledger(Protocol):
    """The chained record in one database. Raises StoreUnavailable when the database is away."""

    @property
    def where(self) -> str:
        """Engine, host and name, without credentials."""

    @property
    def hasher(self) -> Hasher: ...

    def warm(self) -> None:
        """Connects and asks for what a delivery begins with. Raises when the database would not take one."""

    def prepare(self) -> None:
        """Brings the schema up to date where nobody has: the database may have been away when the program started."""

    def deliver(self, entries: Sequence[Entry]) -> Delivery:
        """Writes ``entries`` in their order and in one transaction: rows, events, traces, settings, console queries,
        and the head. An ``invocation_id`` that is there already is left as it is. Raises BadInput or CheckFailed for an entry that it refuses."""

    def heads(self) -> list[Head]: ...

    def writers(self) -> list[str]:
        """Names that stand in rows, sorted."""

    def rows(self, writer: str) -> Iterator[list[Row]]:
        """Every row of a writer by ``seq``, in batches."""

    def has_hash(self, writer: str, row_hash: str) -> bool:
        """Whether some row of the writer has this hash."""

    def pruned(self) -> list[Pruned]:
        """By writer and ``first_seq``."""

    def record(self, invocation_id: str) -> Row | None: ...

    def attached(self, rows: Sequence[Row]) -> Attached:
        """What belongs to ``rows``."""

    def orphans(self) -> Iterator[tuple[str, str]]:
        """What belongs to no record: ``trace``, ``candidates`` or ``events``, and the id that they name."""

    def older_than(self, writer: str, before: datetime, limit: int) -> list[Row]:
        """The first rows of a writer, by ``seq``, that were created before ``before``."""

    def prune(self, rows: Sequence[Row], ranges: Sequence[Pruned], entry: Entry, *, before: datetime, who: str) -> None:
        """In one transaction: removes ``rows`` with all that belongs to them, remembers ``ranges`` in the place of what
        was remembered as pruned before, and delivers ``entry``, the record of it. Raises Busy when other rows are gone
        than these."""

    def drop_stray_traces(self, before: datetime) -> int:
        """Removes traces created before ``before`` that no record goes with; how many."""
