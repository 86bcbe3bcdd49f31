"""Trends read from both engines."""

from datetime import timedelta

import pytest

from core.adapters.sql import audit_trends
from core.adapters.sql.audit_log import SqlAuditLog
from core.adapters.sql.engine import Database
from core.audit.query import AuditFilter, Bucket, Trends
from core.audit.trends import drill
from core.errors import BadInput
from tests.integration.audit_read.records import NOON, at, record, write

HOUR = 3_600
SERIES = {
    "failures": {"status": "error"},
    "timeouts": {"status": "timeout"},
    "refused": {"status": "refused"},
    "retries": {"retries": 1},
    "zero_results": {"evidence_status": "NO_EVIDENCE"},
    "fallbacks": {"fallback_reason": "FALLBACK_LOW_QUALITY"},
    "degraded": {"degraded": True},
    "REFERENCE": {"relevance_level": "REFERENCE"},
    "none": {"relevance_level": None},
}
CLICKS = {
    "failures": {"status": "error"},
    "timeouts": {"status": "timeout"},
    "refused": {"status": "refused"},
    "retries": {"only": "retried"},
    "zero_results": {"evidence_status": "NO_EVIDENCE"},
    "fallbacks": {"fallback": "any"},
    "degraded": {"degraded": "yes"},
    "REFERENCE": {"relevance_level": "REFERENCE"},
    "none": {"relevance_level": "none"},
}


def test_without_a_record_there_is_no_trend(database: Database) -> None:
    log = SqlAuditLog(database)
    assert log.trends() == Trends((), None, Bucket.HOUR, "UTC")
    write(database, record(1))
    assert log.trends(AuditFilter(status="error"), Bucket.DAY, zone="Asia/Shanghai") == Trends(
        (), None, Bucket.DAY, "Asia/Shanghai"
    )


def test_every_series_counts_its_records_and_a_click_finds_them(database: Database) -> None:
    marked = [record(number, seconds=HOUR, **columns) for number, columns in enumerate(SERIES.values(), 1)]
    write(database, record(0), *marked, record(99, seconds=3 * HOUR))
    log = SqlAuditLog(database)
    trends = log.trends(bucket=Bucket.HOUR)
    assert [bucket.volume for bucket in trends.buckets] == [1, len(SERIES), 0, 1]
    second = trends.buckets[1]
    assert {name: second.levels.get(name) or getattr(second, name, None) for name in SERIES} == dict.fromkeys(SERIES, 1)
    for number, name in enumerate(SERIES, 1):
        behind = drill(AuditFilter(), second, CLICKS[name])
        assert [row.invocation_id for row in log.page(behind).rows] == [f"i{number}"]


def test_scope_violations_are_added_up_whatever_else_is_asked(database: Database) -> None:
    write(database, record(1, scope_violations=2), record(2, scope_violations=3), record(3), record(4, origin="eval"))
    write(database, record(5, scope_violations=7, origin="eval"))
    trends = SqlAuditLog(database).trends(AuditFilter(origin="agent"))
    assert trends.total is not None
    assert (trends.total.volume, trends.total.scope_violations) == (3, 2 + 3)


def test_case_77_a_record_belongs_to_the_day_of_the_named_zone(database: Database) -> None:
    write(database, record(1, seconds=3.9 * HOUR), record(2, seconds=4.1 * HOUR))  # 15:54 and 16:06 UTC
    log = SqlAuditLog(database)
    assert [b.volume for b in log.trends(bucket=Bucket.DAY).buckets] == [2]
    shanghai = log.trends(bucket=Bucket.DAY, zone="Asia/Shanghai")
    assert [(b.start.isoformat(), b.volume) for b in shanghai.buckets] == [
        ("2026-03-01T00:00:00+08:00", 1),
        ("2026-03-02T00:00:00+08:00", 1),
    ]
    kolkata = log.trends(bucket=Bucket.DAY, zone="Asia/Kolkata")  # midnight is 18:30 UTC
    assert [b.volume for b in kolkata.buckets] == [2]
    write(database, record(3, seconds=6.49 * HOUR), record(4, seconds=6.6 * HOUR))
    assert [b.volume for b in log.trends(bucket=Bucket.DAY, zone="Asia/Kolkata").buckets] == [3, 1]


def test_the_filter_bounds_the_trend_and_its_empty_time_is_shown(database: Database) -> None:
    write(database, *(record(number, seconds=number * HOUR, total_ms=float(number)) for number in range(6)))
    where = AuditFilter(since=at(-2 * HOUR), until=at(3 * HOUR))
    trends = SqlAuditLog(database).trends(where, Bucket.HOUR)
    assert [bucket.volume for bucket in trends.buckets] == [0, 0, 1, 1, 1, 0]  # half-open: hour 3 itself is out
    assert trends.total is not None
    assert (trends.total.latency["total_ms"].p99, trends.measured) == (2.0, 3)


def test_an_open_interval_far_from_every_record_shows_where_they_are(database: Database) -> None:
    write(database, record(1), record(2, seconds=HOUR))
    trends = SqlAuditLog(database).trends(AuditFilter(since=NOON - timedelta(days=9_000)), Bucket.HOUR)
    assert [bucket.volume for bucket in trends.buckets] == [1, 1]


def test_too_many_bars_are_refused(database: Database) -> None:
    write(database, record(1), record(2, seconds=24 * HOUR))
    with pytest.raises(BadInput, match="coarser"):
        SqlAuditLog(database).trends(bucket=Bucket.MINUTE)


def test_a_large_set_is_measured_by_a_sample_and_counted_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_trends, "SAMPLE", 100)
    write(database, *(record(number, seconds=number, total_ms=float(number % 2)) for number in range(1_000)))
    trends = SqlAuditLog(database).trends()
    assert trends.total is not None
    assert trends.total.volume == 1_000
    assert 50 < trends.measured < 200
    assert trends.total.latency["total_ms"].count == trends.measured
    assert (trends.total.latency["total_ms"].p50, trends.total.latency["total_ms"].p99) in {(0.0, 1.0), (1.0, 1.0)}
