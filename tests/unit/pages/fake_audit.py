"""A record for page tests: hand-made rows, newest first, and a note of what was asked of it. It does not filter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.audit.query import (
    AuditFilter,
    AuditPage,
    AuditRecordView,
    AuditRow,
    Bucket,
    Facets,
    Neighbours,
    Percentiles,
    TrendBucket,
    Trends,
)
from core.errors import NotFound, RagError
from core.stores import Cursor

AT = datetime(2026, 3, 1, 8, 15, 30, 123456, tzinfo=UTC)


def row(name: str = "i-1", **values: Any) -> AuditRow:
    plain: dict[str, Any] = {
        "created_at": AT,
        "tool_name": "lookup_knowledge",
        "origin": "agent",
        "status": "ok",
        "evidence_status": "READY",
        "relevance_level": "PRECISE",
        "selected_attempt": "UNFILTERED_VECTOR",
        "trace_id": f"tr-{name}",
        "candidate_count": 20,
        "returned_count": 5,
        "top_quality": 0.81,
        "total_ms": 52.0,
        "dense_ms": 11.0,
        "content": "redacted",
        "query_sha256": "ab" * 32,
        "query_chars": 12,
    }
    return AuditRow(name, **{**plain, **values})


def bucket(number: int, **values: Any) -> TrendBucket:
    start = datetime(2026, 3, 1, number, tzinfo=UTC)
    return TrendBucket(start, start + timedelta(hours=1), **values)


def trends() -> Trends:
    """Three hours, the middle one empty."""
    slow = Percentiles(10.0, 20.0, 30.0, 40.0, 4)
    full = {
        "volume": 4,
        "failures": 1,
        "fallbacks": 2,
        "levels": {"PRECISE": 2, "REFERENCE": 1, "none": 1},
        "candidate_count": 20.0,
        "overlap_at_10": 0.25,
        "latency": {"dense_ms": slow, "total_ms": slow},
    }
    buckets = (bucket(8, **full), bucket(9), bucket(10, **full))
    return Trends(buckets, bucket(8, **{**full, "volume": 8}), Bucket.HOUR, "UTC", measured=8)


@dataclass
class FakeAuditLog:
    rows: list[AuditRow] = field(default_factory=list)
    total: int | None = None
    exact: bool = True
    columns: dict[str, Any] = field(default_factory=dict)
    trend: Trends = field(default_factory=lambda: Trends((), None, Bucket.HOUR, "UTC"))
    offered: Facets = field(default_factory=Facets)
    error: RagError | None = None
    asked: list[tuple[AuditFilter, dict[str, Any]]] = field(default_factory=list)
    exported: list[AuditFilter] = field(default_factory=list)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def _at(self, name: str) -> int:
        return next((n for n, one in enumerate(self.rows) if one.invocation_id == name), -1)

    def page(self, where: AuditFilter, *, limit: int, **place: Any) -> AuditPage:
        """A cursor's id is a place in ``rows``."""
        self._check()
        self.asked.append((where, place))
        begin = 0
        if "before" in place:
            begin = int(place["before"].id) + 1
        elif "after" in place:
            begin = max(0, int(place["after"].id) - limit)
        elif place.get("oldest"):
            begin = max(0, len(self.rows) - limit)
        shown = tuple(self.rows[begin : begin + limit])
        end = begin + len(shown)
        return AuditPage(
            shown,
            len(self.rows) if self.total is None else self.total,
            self.exact,
            Cursor(AT, str(begin)) if begin else None,
            Cursor(AT, str(end - 1)) if end < len(self.rows) else None,
        )

    def get(self, invocation_id: str) -> AuditRecordView | None:
        self._check()
        at = self._at(invocation_id)
        return AuditRecordView(self.rows[at], self.columns) if at >= 0 else None

    def neighbours(self, where: AuditFilter, invocation_id: str) -> Neighbours:
        del where
        at = self._at(invocation_id)
        if at < 0:
            raise NotFound("no such record")
        names = [None, *(one.invocation_id for one in self.rows), None]
        return Neighbours(names[at], names[at + 2])

    def trends(self, where: AuditFilter, bucket: Bucket | None = None, *, zone: str) -> Trends:
        self._check()
        self.asked.append((where, {"bucket": bucket, "zone": zone}))
        return self.trend

    def export(self, where: AuditFilter) -> Iterator[AuditRow]:
        self.exported.append(where)
        yield from self.rows

    def export_records(self, where: AuditFilter) -> Iterator[AuditRecordView]:
        self.exported.append(where)
        yield from (AuditRecordView(one, self.columns) for one in self.rows)

    def facets(self) -> Facets:
        self._check()
        return self.offered


@dataclass
class FakeOutbox:
    number: int = 0
    set_aside: int = 0
    failures: int = 0
    away: str | None = None
    error: RagError | None = None

    def aside(self) -> list[Path]:
        return [Path("x")] * self.set_aside

    def waiting(self) -> int:
        if self.error is not None:
            raise self.error
        return self.number
