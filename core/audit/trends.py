"""Trends out of counts and measured rows: bars over time in a named zone, means, percentiles, and what a click on one
asks for. Pure; the store reads the counts and the rows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from core.audit.columns import TIMES
from core.audit.query import NONE, AuditFilter, Bucket, Percentiles, TrendBucket, zone_info
from core.errors import BadInput
from core.model import RelevanceLevel

MAX_BUCKETS: Final = 1_000
MEANS: Final = ("candidate_count", "overlap_at_10", "quality_gap", "unique_sources")
SHARES: Final = ("candidate_count", "stale_count", "returned_count", "pack_dropped")
MEASURED: Final = tuple(dict.fromkeys((*MEANS, *SHARES, *TIMES)))
"""Columns of a measured row, beside ``created_at``."""
LEVELS: Final = (*(level.value for level in RelevanceLevel), NONE)
_LENGTHS: Final = {
    Bucket.MINUTE: timedelta(minutes=1),
    Bucket.HOUR: timedelta(hours=1),
    Bucket.DAY: timedelta(days=1),
    Bucket.WEEK: timedelta(weeks=1),
}
_READABLE: Final = 120


@dataclass(frozen=True, slots=True)
class Counts:
    """Calls of one stretch of time that begins at ``at``; ``precise`` and so on are levels."""

    at: datetime
    volume: int = 0
    failures: int = 0
    timeouts: int = 0
    refused: int = 0
    retries: int = 0
    zero_results: int = 0
    fallbacks: int = 0
    degraded: int = 0
    precise: int = 0
    reference: int = 0
    scope_violations: int = 0


def readable(span: timedelta) -> Bucket:
    """The finest bucket that makes at most 120 bars of ``span``."""
    return next((b for b in Bucket if span / _LENGTHS[b] <= _READABLE), Bucket.WEEK)


def too_many(span: timedelta, bucket: Bucket) -> bool:
    return span / _LENGTHS[bucket] > MAX_BUCKETS


def borders(since: datetime, until: datetime, bucket: Bucket, zone: str) -> tuple[datetime, ...]:
    """Borders in ``zone`` of the buckets that cover ``[since, until)``, one more than there are buckets.

    Days and weeks begin at local midnight, so a day of a clock change has 23 or 25 hours. Raises BadInput for an unknown
    zone and for more than 1,000 buckets.
    """
    local = zone_info(zone)
    if too_many(until - since, bucket):
        raise BadInput(f"bucket: {bucket} makes more than {MAX_BUCKETS} bars of this time; take a coarser one")
    first = since.astimezone(local)
    if bucket in {Bucket.MINUTE, Bucket.HOUR}:
        start = first.replace(minute=first.minute if bucket is Bucket.MINUTE else 0, second=0, microsecond=0)
        step, edge = _LENGTHS[bucket], start.astimezone(UTC)
        edges = [edge]
        while edges[-1] < until:
            edges.append(edges[-1] + step)
        return tuple(edge.astimezone(local) for edge in edges)
    days = 7 if bucket is Bucket.WEEK else 1
    day = first.date() - timedelta(days=first.weekday() if bucket is Bucket.WEEK else 0)
    edges = [_midnight(day, local)]
    while edges[-1].astimezone(UTC) < until:
        day += timedelta(days=days)
        edges.append(_midnight(day, local))
    return tuple(edges)


def grain(edges: Sequence[datetime]) -> timedelta:
    """The longest of 1 hour, 10 minutes and 1 minute, counted in UTC, that no border falls into."""
    minutes = {edge.astimezone(UTC).minute for edge in edges}
    if minutes <= {0}:
        return timedelta(hours=1)
    return timedelta(minutes=10) if all(minute % 10 == 0 for minute in minutes) else timedelta(minutes=1)


def fold(
    edges: Sequence[datetime], counts: Iterable[Counts], rows: Iterable[Mapping[str, Any]]
) -> tuple[tuple[TrendBucket, ...], TrendBucket]:
    """The buckets between ``edges``, empty ones too, and all of them as one. ``rows`` have ``created_at`` and the
    columns of ``MEASURED``."""
    moments = [edge.astimezone(UTC) for edge in edges]
    size = len(edges) - 1
    counted: list[list[Counts]] = [[] for _ in range(size)]
    measured: list[list[Mapping[str, Any]]] = [[] for _ in range(size)]
    for one in counts:
        counted[_place(moments, one.at)].append(one)
    for row in rows:
        measured[_place(moments, row["created_at"])].append(row)
    buckets = [_bucket(edges[i], edges[i + 1], counted[i], measured[i]) for i in range(size)]
    every = _bucket(edges[0], edges[-1], [c for cs in counted for c in cs], [r for rs in measured for r in rs])
    return tuple(buckets), every


def drill(where: AuditFilter, bucket: TrendBucket, conditions: Mapping[str, str]) -> AuditFilter:
    """The filter of the records behind a bar: ``where`` within the time of ``bucket``, and ``conditions`` as in an
    address. Never wider than ``where``: what it asks for already stays. Raises BadInput for a bad condition."""
    wanted = AuditFilter.from_params(conditions)
    since = max(filter(None, (where.since, bucket.start.astimezone(UTC))))
    until = min(filter(None, (where.until, bucket.end.astimezone(UTC))))
    new = {name: getattr(wanted, name) for name in conditions if getattr(where, name) is None}
    only = tuple(sorted({*where.only, *wanted.only}))
    return replace(where, **new | {"since": since, "until": until, "only": only})


# --------------------------------------------------------------------------------------------- inside


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone)


def _place(moments: Sequence[datetime], at: datetime) -> int:
    """The bucket of a moment; what was written between two reads and lies outside belongs to the nearest."""
    return min(max(bisect_right(moments, at) - 1, 0), len(moments) - 2)


_SUMMED: Final = tuple(f.name for f in fields(Counts) if f.name not in {"at", "precise", "reference"})


def _bucket(start: datetime, end: datetime, counts: Sequence[Counts], rows: Sequence[Mapping[str, Any]]) -> TrendBucket:
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in counts) for name in _SUMMED}
    precise, reference = sum(c.precise for c in counts), sum(c.reference for c in counts)
    levels = dict(zip(LEVELS, (precise, reference, sums["volume"] - precise - reference), strict=True))
    means: dict[str, Any] = {name: _mean(_values(rows, name)) for name in MEANS}
    candidates, stale, returned, left_out = (sum(_values(rows, name)) for name in SHARES)
    latency = {name: _percentiles(values) for name in TIMES if (values := sorted(_values(rows, name)))}
    return TrendBucket(
        start,
        end,
        **sums,
        levels=levels,
        **means,
        stale_rate=_share(stale, candidates + stale),
        budget_drop_rate=_share(left_out, returned),
        latency=latency,
    )


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """What is a number: a row that somebody changed may hold anything."""
    found = (row[name] for row in rows)
    return [value for value in found if isinstance(value, int | float) and math.isfinite(value)]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _percentiles(values: Sequence[float]) -> Percentiles:
    def at(share: float) -> float:
        return values[max(0, math.ceil(share * len(values)) - 1)]

    return Percentiles(at(0.50), at(0.90), at(0.95), at(0.99), len(values))
