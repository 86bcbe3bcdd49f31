from datetime import UTC, datetime, timedelta, timezone

import pytest

from core.audit.query import AuditFilter, Only, TrendBucket, cursor_from_param, cursor_to_param
from core.errors import BadInput
from core.stores import Cursor

MOMENT = datetime(2026, 3, 1, 8, 15, 30, 123456, tzinfo=UTC)
WHOLE = {
    "since": "2026-03-01T00:00:00.000001Z",
    "until": "2026-03-02T00:00:00.000000Z",
    "status": "timeout",
    "error": "StoreUnavailable",
    "relevance_level": "none",
    "evidence_status": "NO_EVIDENCE",
    "attempt": "UNFILTERED_VECTOR_RETRY",
    "fallback": "any",
    "degraded": "no",
    "only": "budget_drop,retried",
    "tool": "lookup_knowledge",
    "origin": "agent",
    "session": "会话 1",
    "run": "run=2&x",
    "trace": "ab" * 16,
    "scope": "团队 a",
    "language": "zh",
    "generation": "12",
    "model": "e5:384",
    "reranker": "bge",
    "min_ms": "0.1",
    "max_ms": "1000.0",
    "text": "redis 连接池 %_\\",
}


def test_every_condition_survives_the_way_through_an_address() -> None:
    where = AuditFilter.from_params(WHOLE)
    assert where.to_params() == WHOLE
    assert AuditFilter.from_params(where.to_params()) == where
    assert (where.degraded, where.generation, where.min_ms, where.only) == (
        False,
        12,
        0.1,
        (Only.BUDGET_DROP, Only.RETRIED),
    )


def test_no_parameters_empty_ones_and_those_of_others_are_no_condition() -> None:
    assert AuditFilter.from_params({}) == AuditFilter()
    assert AuditFilter.from_params({"status": " ", "text": "", "record": "x", "page": "2"}) == AuditFilter()
    assert AuditFilter().to_params() == {}


def test_names_of_enumerations_are_read_in_any_case() -> None:
    where = AuditFilter.from_params({"relevance_level": "precise", "origin": "CONSOLE", "degraded": "True"})
    assert (where.relevance_level, where.origin, where.degraded) == ("PRECISE", "console", True)


def test_case_77_a_time_without_offset_is_one_of_the_named_zone() -> None:
    shanghai = AuditFilter.from_params({"since": "2026-03-01T08:00:00.5"}, zone="Asia/Shanghai")
    assert shanghai.since == datetime(2026, 3, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    given = AuditFilter.from_params({"since": "2026-03-01T08:00:00.5+01:00"}, zone="Asia/Shanghai")
    assert given.since == datetime(2026, 3, 1, 7, 0, 0, 500_000, tzinfo=UTC)
    assert AuditFilter.from_params({"since": "2026-03-01"}, "Asia/Shanghai").to_params() == {
        "since": "2026-02-28T16:00:00.000000Z"
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("since", "yesterday"),
        ("until", "2026-13-01"),
        ("since", "0001-01-01T00:00:00+14:00"),
        ("status", "x" * 17),
        ("session", "a\nb"),
        ("relevance_level", "good"),
        ("evidence_status", "none"),
        ("attempt", "first"),
        ("fallback", "LOW"),
        ("degraded", "maybe"),
        ("only", "retried,everything"),
        ("origin", "somebody"),
        ("scope", "a\u200bb"),
        ("generation", "-1"),
        ("generation", "１"),
        ("min_ms", "nan"),
        ("max_ms", "-1"),
        ("max_ms", "fast"),
        ("text", "x" * 201),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_parameter(name: str, value: str) -> None:
    with pytest.raises(BadInput, match=name):
        AuditFilter.from_params({name: value})


def test_an_empty_interval_is_refused() -> None:
    with pytest.raises(BadInput, match="since must be before until"):
        AuditFilter(since=MOMENT, until=MOMENT)
    with pytest.raises(BadInput, match="min_ms"):
        AuditFilter.from_params({"min_ms": "2", "max_ms": "1"})
    with pytest.raises(BadInput, match="zone"):
        AuditFilter(since=datetime(2026, 3, 1))
    with pytest.raises(BadInput, match="IANA"):
        AuditFilter.from_params({"since": "2026-03-01"}, zone="Mars/Olympus")


def test_a_cursor_survives_the_way_through_an_address() -> None:
    cursor = Cursor(MOMENT.astimezone(timezone(timedelta(hours=8))), "42")
    assert cursor_to_param(cursor) == "2026-03-01T08:15:30.123456Z~42"
    assert cursor_from_param(cursor_to_param(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "42", "2026-03-01T08:15:30Z~", "2026-03-01T08:15:30Z~4x", "~4", "x~4"])
def test_a_cursor_that_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="before"):
        cursor_from_param(text, "before")


def test_a_rate_of_nothing_is_no_number() -> None:
    assert TrendBucket(MOMENT, MOMENT, volume=4, failures=1).rate("failures") == 1 / 4
    assert TrendBucket(MOMENT, MOMENT).rate("failures") is None
