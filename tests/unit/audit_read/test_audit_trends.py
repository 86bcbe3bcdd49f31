from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.audit.query import AuditFilter, Bucket, Only, Percentiles, TrendBucket
from core.audit.trends import MEASURED, Counts, borders, drill, fold, grain, readable
from core.errors import BadInput

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def hour(number: float) -> datetime:
    return DAY + timedelta(hours=number)


def row(at: datetime, **values: float) -> Mapping[str, Any]:
    return dict.fromkeys(MEASURED) | {"created_at": at} | values


def test_the_finest_bucket_of_at_most_120_bars_is_chosen() -> None:
    assert readable(timedelta(hours=2)) is Bucket.MINUTE
    assert readable(timedelta(hours=2, seconds=1)) is Bucket.HOUR
    assert readable(timedelta(days=5, seconds=1)) is Bucket.DAY
    assert readable(timedelta(days=121)) is Bucket.WEEK
    assert readable(timedelta(days=9_999)) is Bucket.WEEK


def test_borders_cover_the_time_and_no_more() -> None:
    assert borders(hour(1), hour(3), Bucket.HOUR, "UTC") == (hour(1), hour(2), hour(3))
    assert borders(hour(1.5), hour(2.5), Bucket.HOUR, "UTC") == (hour(1), hour(2), hour(3))
    assert borders(hour(1), hour(1) + timedelta(microseconds=1), Bucket.MINUTE, "UTC") == (
        hour(1),
        hour(1) + timedelta(minutes=1),
    )


def test_case_77_days_and_weeks_begin_at_midnight_of_the_named_zone() -> None:
    days = borders(hour(0), hour(17), Bucket.DAY, "Asia/Shanghai")
    assert [edge.isoformat() for edge in days] == [
        "2026-03-01T00:00:00+08:00",
        "2026-03-02T00:00:00+08:00",
        "2026-03-03T00:00:00+08:00",
    ]
    weeks = borders(hour(0), hour(1), Bucket.WEEK, "UTC")  # the first of March 2026 is a Sunday
    assert weeks == (DAY - timedelta(days=6), DAY + timedelta(days=1))


def test_a_day_of_a_clock_change_has_23_hours() -> None:
    since = datetime(2026, 3, 28, 23, tzinfo=UTC)  # midnight in Berlin
    day, following = borders(since, since + timedelta(hours=20), Bucket.DAY, "Europe/Berlin")
    assert following.astimezone(UTC) - day.astimezone(UTC) == timedelta(hours=23)


def test_more_bars_than_anyone_reads_are_refused() -> None:
    with pytest.raises(BadInput, match="coarser"):
        borders(DAY, DAY + timedelta(minutes=1_001), Bucket.MINUTE, "UTC")
    with pytest.raises(BadInput, match="IANA"):
        borders(DAY, hour(1), Bucket.HOUR, "Nowhere")


@pytest.mark.parametrize(
    ("zone", "minutes"), [("UTC", 60), ("Asia/Shanghai", 60), ("Asia/Kolkata", 10), ("Asia/Kathmandu", 1)]
)
def test_counts_are_taken_as_finely_as_the_borders_of_the_zone_ask(zone: str, minutes: int) -> None:
    assert grain(borders(DAY, hour(30), Bucket.DAY, zone)) == timedelta(minutes=minutes)


def test_counts_are_added_up_into_their_buckets_and_empty_ones_stay() -> None:
    edges = (hour(0), hour(2), hour(4), hour(6))
    counts = [
        Counts(hour(0), 3, 1, 0, 0, 1, 0, 1, 0, precise=1, reference=1, scope_violations=2),
        Counts(hour(1), 2, 0, 1, 1, 0, 1, 0, 1, precise=2),
        Counts(hour(4), 1),
    ]
    buckets, total = fold(edges, counts, [])
    assert [bucket.volume for bucket in buckets] == [3 + 2, 0, 1]
    first = buckets[0]
    assert (first.failures, first.timeouts, first.refused, first.retries) == (1, 1, 1, 1)
    assert (first.zero_results, first.fallbacks, first.degraded, first.scope_violations) == (1, 1, 1, 2)
    assert first.levels == {"PRECISE": 1 + 2, "REFERENCE": 1, "none": 5 - 3 - 1}
    assert buckets[1] == TrendBucket(hour(2), hour(4), levels={"PRECISE": 0, "REFERENCE": 0, "none": 0})
    assert (total.start, total.end, total.volume, total.levels["none"]) == (hour(0), hour(6), 6, 2)
    assert total.rate("failures") == 1 / 6


def test_what_was_written_while_it_was_read_is_not_lost() -> None:
    buckets, _ = fold((hour(0), hour(1), hour(2)), [Counts(hour(-1), 1), Counts(hour(2), 4)], [])
    assert [bucket.volume for bucket in buckets] == [1, 4]


def test_means_and_shares_leave_out_what_has_no_value() -> None:
    rows = [
        row(hour(0), candidate_count=8, overlap_at_10=0.5, stale_count=2, returned_count=3, pack_dropped=1),
        row(hour(0), candidate_count=10, quality_gap=0.25, stale_count=0, returned_count=5, pack_dropped=0),
        row(hour(0)),
    ]
    (bucket,), _ = fold((hour(0), hour(1)), [Counts(hour(0), 3)], rows)
    assert (bucket.candidate_count, bucket.overlap_at_10, bucket.quality_gap) == ((8 + 10) / 2, 0.5, 0.25)
    assert bucket.unique_sources is None
    assert bucket.stale_rate == 2 / (8 + 10 + 2)
    assert bucket.budget_drop_rate == 1 / (3 + 5)


def test_percentiles_are_times_that_were_measured_and_absent_for_stages_that_never_ran() -> None:
    rows = [row(hour(0), total_ms=float(ms)) for ms in range(200, 0, -1)]
    (bucket, empty), total = fold((hour(0), hour(1), hour(2)), [Counts(hour(0), 200)], rows)
    assert bucket.latency == {"total_ms": Percentiles(p50=100, p90=180, p95=190, p99=198, count=200)}
    assert total.latency == bucket.latency
    assert empty.latency == {}
    (one,), _ = fold((hour(0), hour(1)), [], [row(hour(0), rerank_ms=7.0)])
    assert one.latency == {"rerank_ms": Percentiles(7, 7, 7, 7, 1)}


# ------------------------------------------------------------------------------------------------ from a bar to records


def test_a_click_keeps_the_filter_and_adds_the_bar() -> None:
    bucket = TrendBucket(hour(1), hour(2), failures=1)
    where = AuditFilter(origin="agent", only=(Only.TRUNCATED,))
    assert drill(where, bucket, {"status": "error"}) == AuditFilter(
        since=hour(1), until=hour(2), origin="agent", status="error", only=(Only.TRUNCATED,)
    )
    assert drill(where, bucket, {"only": "retried"}).only == (Only.RETRIED, Only.TRUNCATED)
    assert drill(where, bucket, {}) == AuditFilter(since=hour(1), until=hour(2), origin="agent", only=(Only.TRUNCATED,))


def test_a_click_never_widens_the_filter() -> None:
    bucket = TrendBucket(hour(0), hour(24))
    where = AuditFilter(since=hour(3), until=hour(5), fallback="FALLBACK_LOW_QUALITY")
    assert drill(where, bucket, {"fallback": "any"}) == where


def test_a_bar_that_names_no_records_is_refused() -> None:
    with pytest.raises(BadInput, match="status"):
        drill(AuditFilter(), TrendBucket(hour(0), hour(1)), {"status": "latency"})
