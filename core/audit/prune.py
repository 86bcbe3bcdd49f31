"""Retention: removes old records on purpose, so that the chain still proves what is left."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from core.audit.chain import Hasher, Head
from core.audit.ledger import Ledger, Pruned, Row
from core.audit.prune_record import backed, prune_entry
from core.audit.redaction import Content
from core.errors import BadInput, CheckFailed
from core.model import Origin

AT_ONCE: Final = 2_000


@dataclass(frozen=True, slots=True)
class PruneOutcome:
    """``rows`` records went with their traces, events and console queries, and ``traces`` that no record went with.
    ``records``: the invocation ids of the records of this pruning, one a step."""

    rows: int
    traces: int
    before: datetime
    records: tuple[str, ...] = ()


def prune(
    ledger: Ledger,
    before: datetime,
    who: str,
    *,
    origin: Origin = Origin.CLI,
    content: Content | str = Content.REDACTED,
    force: bool = False,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    progress: Callable[[int], None] | None = None,
) -> PruneOutcome:
    """Removes what was created before ``before``, in steps that each leave the chain whole and are recorded in it.

    A row that is not as it was written is evidence: CheckFailed names it and that step is not done, unless ``force``.
    Gaps that somebody else made stay gaps. Raises BadInput for a moment without a zone or in the future, Busy when
    somebody else prunes at the same time, and StoreUnavailable; what was removed until then stays removed.
    """
    if before.tzinfo is None:
        raise BadInput("before: a time without a zone; write 2026-01-31T00:00:00+00:00")
    if before > now():
        raise BadInput("before: lies in the future; only what is past can be pruned")
    records: list[str] = []
    gone = 0
    for head in ledger.heads():
        while rows := ledger.older_than(head.writer, before, AT_ONCE):
            if not force:
                _refuse_changed(rows, head, ledger.hasher)
            invocation_id = uuid.uuid4().hex
            before_now = [r for r in ledger.pruned() if backed(r, ledger.record(r.invocation_id))]
            ranges = _merged([*before_now, *map(_range, rows)], invocation_id)
            entry = prune_entry(
                invocation_id,
                ranges,
                rows=len(rows),
                before=before,
                who=who,
                now=now(),
                content=Content(content).value,
                origin=origin,
            )
            ledger.prune(rows, ranges, entry, before=before, who=entry.row["actor"] or "")
            records.append(invocation_id)
            gone += len(rows)
            if progress is not None:
                progress(gone)
    return PruneOutcome(gone, ledger.drop_stray_traces(before), before, tuple(records))


def _refuse_changed(rows: Sequence[Row], head: Head, hasher: Hasher) -> None:
    judge = hasher if head.key_id else Hasher()
    checked = judge.key_id == head.key_id  # of rows kept with another key only their order can be judged
    last: Row | None = None
    for row in rows:
        follows = last is None or last["seq"] + 1 != row["seq"] or last["row_hash"] == row["prev_hash"]
        if not follows or (checked and judge.row(row) != row["row_hash"]):
            raise CheckFailed(
                f"row {row['seq']} of {head.writer} ({row['invocation_id']}) was changed: see `python -m core audit "
                "verify`; it is evidence and not pruned unless you force it"
            )
        last = row


def _range(row: Row) -> Pruned:
    return Pruned(row["writer"], row["seq"], row["seq"], row["prev_hash"], row["row_hash"], "")


def _merged(ranges: Sequence[Pruned], invocation_id: str) -> list[Pruned]:
    """``ranges`` by writer and number, neighbours joined, each said by the record ``invocation_id``."""
    joined: list[Pruned] = []
    for r in sorted(ranges, key=lambda r: (r.writer, r.first_seq)):
        last = joined[-1] if joined else None
        if last is not None and last.writer == r.writer and last.last_seq + 1 == r.first_seq:
            first: Any = last
            joined[-1] = Pruned(r.writer, first.first_seq, r.last_seq, first.prev_hash, r.last_hash, invocation_id)
        else:
            joined.append(Pruned(r.writer, r.first_seq, r.last_seq, r.prev_hash, r.last_hash, invocation_id))
    return joined
