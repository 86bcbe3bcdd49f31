"""Counts and measured rows of the record for ``core.audit.trends``.

Counts come from the index of the list alone. Means and percentiles need the rows themselves: of a large set a sample is
read, drawn by a hash of the row number so that no rhythm of the numbers (two writers taking turns) favours anyone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, String, case, func, select, true, type_coerce

from core.adapters.sql.audit_places import places
from core.adapters.sql.audit_where import LIST, Path, matching, path_of
from core.adapters.sql.tables import INVOCATION
from core.audit.columns import Status
from core.audit.query import AuditFilter, Bucket, Only, Trends
from core.audit.trends import MEASURED, Counts, borders, fold, grain, readable, too_many
from core.model import EvidenceStatus, RelevanceLevel

SAMPLE: Final = 10_000
_C: Final = INVOCATION.c
_PRIME, _FACTOR = 10_007, 7_919
_INSTANT: Final = timedelta(microseconds=1)
_PREFIX: Final = {timedelta(hours=1): 13, timedelta(minutes=10): 15, timedelta(minutes=1): 16}
_MISSING: Final = "0000-01-01T00:00"
_COUNTED: Final[Mapping[str, ColumnElement[bool]]] = {
    "failures": _C.status == Status.ERROR.value,
    "timeouts": _C.status == Status.TIMEOUT.value,
    "refused": _C.status == Status.REFUSED.value,
    "retries": _C.retries > 0,
    "zero_results": _C.evidence_status == EvidenceStatus.NO_EVIDENCE.value,
    "fallbacks": _C.fallback_reason.is_not(None),
    "degraded": _C.degraded.is_(true()),
    "precise": _C.relevance_level == RelevanceLevel.PRECISE.value,
    "reference": _C.relevance_level == RelevanceLevel.REFERENCE.value,
}


def read_trends(connection: Connection, where: AuditFilter, bucket: Bucket | None, zone: str) -> Trends:
    first, last = places(connection, where, 1, upwards=True), places(connection, where, 1)
    if not first or not last:
        return Trends((), None, bucket or Bucket.HOUR, zone)
    held = first[0].created_at, last[0].created_at + _INSTANT
    since, until = where.since or held[0], where.until or held[1]
    chosen = bucket or readable(until - since)
    if too_many(until - since, chosen):  # an open-ended interval: show the part that has records
        since, until = max(since, held[0]), min(until, held[1])
        chosen = bucket or readable(until - since)
    edges = borders(since, until, chosen, zone)
    bounded = replace(where, since=since, until=until)
    counts = _counts(connection, bounded, grain(edges))
    rows = _measured(connection, bounded, sum(one.volume for one in counts))
    buckets, total = fold(edges, counts, rows)
    return Trends(buckets, total, chosen, zone, measured=len(rows))


def _counts(connection: Connection, where: AuditFilter, width: timedelta) -> list[Counts]:
    stretch = _stretch(connection, width).label("stretch")
    sums = [func.sum(case((condition, 1), else_=0)).label(name) for name, condition in _COUNTED.items()]
    query = matching(select(stretch, func.count().label("volume"), *sums), where, connection, path=_counting(where))
    query = query.group_by(stretch)
    found = {row.stretch: dict(row._mapping) for row in connection.execute(query)}
    for row in connection.execute(_violations(connection, where, stretch)):
        found.setdefault(row.stretch, {})["scope_violations"] = row.violations
    return [
        Counts(at, **{name: _whole(value) for name, value in sums.items() if name != "stretch"})
        for text, sums in found.items()
        if (at := _moment(text))
    ]


def _counting(where: AuditFilter) -> Path:
    """The list's index, which holds everything that is counted, unless the filter names few rows."""
    narrow = where.trace or where.session or where.run or Only.SCOPE_VIOLATION in where.only
    return path_of(where) if narrow else Path(LIST)


def _violations(connection: Connection, where: AuditFilter, stretch: ColumnElement[str]) -> Any:
    some = replace(where, only=tuple(sorted({*where.only, Only.SCOPE_VIOLATION})))
    hits = func.sum(_C.scope_violations).label("violations")
    return matching(select(stretch, hits), some, connection).group_by(stretch)


def _measured(connection: Connection, where: AuditFilter, volume: int) -> Sequence[Mapping[str, Any]]:
    query = matching(select(_C.created_at, *(_C[name] for name in MEASURED)), where, connection)
    if volume > SAMPLE:
        query = query.where((_C.id * _FACTOR) % _PRIME < _PRIME * SAMPLE // volume)
    return [dict(row._mapping) for row in connection.execute(query)]


def _stretch(connection: Connection, width: timedelta) -> ColumnElement[str]:
    """The beginning of the time as text, as long as ``width`` is fine."""
    if connection.dialect.name == "sqlite":
        return func.substr(type_coerce(_C.created_at, String), 1, _PREFIX[width])
    return func.left(func.date_format(_C.created_at, "%Y-%m-%dT%H:%i"), _PREFIX[width])


def _whole(total: Any) -> int:
    """0 where somebody's values add up to no number."""
    return int(total) if math.isfinite(total) else 0


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text + _MISSING[len(text) :]).replace(tzinfo=UTC)
