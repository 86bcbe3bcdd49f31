"""The Audit page: its filters in the address, its pages, one record whole, trends that lead to their records."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.audit.chain import Head
from core.audit.export import Format
from core.audit.query import AuditFilter, AuditPage, AuditRecordView, Facets, Only
from core.audit.trends import drill
from core.audit.verify import ChainReport, Finding, Kind
from core.errors import BadInput, StoreUnavailable
from core.settings import AuditSettings, Settings
from core.stores import Cursor
from pages.parts import audit_chain, audit_export, audit_filters, audit_list, audit_record, trend_figures
from pages.parts.numbers import share
from tests.unit.pages.fake_app import FakeApp
from tests.unit.pages.fake_audit import AT, bucket, row, trends
from tests.unit.pages.test_page_query import drawn
from tests.unit.pages.test_page_rebuild import press

OpenPage = Callable[..., AppTest]
PATH = "pages/audit.py"


def asked(fake: FakeApp) -> AuditFilter:
    return fake.audit_log.asked[-1][0]


# ---------------------------------------------------------------- filters and the address


def test_an_empty_record_says_so_and_a_filter_that_fits_nothing_says_something_else(
    open_page: OpenPage, fake: FakeApp
) -> None:
    assert "Nothing is recorded yet" in drawn(open_page(PATH))
    assert asked(fake) == AuditFilter()
    assert "No record fits these filters" in drawn(open_page(PATH, status="error"))


def test_the_filters_of_an_address_reach_the_record_and_fill_the_widgets(open_page: OpenPage, fake: FakeApp) -> None:
    fake.settings = Settings(audit=AuditSettings(timezone="Asia/Shanghai"))
    address = {
        "status": "error",
        "fallback": "any",
        "scope": "prod",
        "only": "retried,stale",
        "min_ms": "100",
        "text": "连接池",
        "since": "2026-03-01T00:15:30.5Z",
    }
    at = open_page(PATH, **address)
    since = datetime(2026, 3, 1, 0, 15, 30, 500_000, tzinfo=UTC)
    assert asked(fake) == AuditFilter(
        since=since,
        status="error",
        fallback="any",
        scope="prod",
        only=(Only.RETRIED, Only.STALE),
        min_ms=100,
        text="连接池",
    )
    assert at.selectbox(key="audit.status").value == "error"
    assert at.selectbox(key="audit.scope").value == "prod"
    assert at.multiselect(key="audit.only").value == ["retried", "stale"]
    assert at.text_input(key="audit.text").value == "连接池"
    assert at.datetime_input(key="audit.since").value == datetime(2026, 3, 1, 8, 15)
    assert "From (Asia/Shanghai)" in [d.label for d in at.datetime_input]
    assert "More filters (3 set)" in [e.label for e in at.expander]


def test_a_touched_filter_becomes_the_address_and_begins_at_the_newest_page(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit_log.rows = [row("i-1")]
    at = open_page(PATH, before="2026-03-01T08:15:30.123456Z~7", record="i-1")
    at.selectbox(key="audit.status").set_value("timeout").run()
    at.multiselect(key="audit.only").set_value(["stale"]).run()
    assert not at.exception
    assert at.query_params == {"status": "timeout", "only": "stale", "record": "i-1"}
    assert asked(fake) == AuditFilter(status="timeout", only=(Only.STALE,))
    at.selectbox(key="audit.status").set_value(None).run()
    assert asked(fake) == AuditFilter(only=(Only.STALE,))


def test_a_moment_of_the_address_keeps_its_seconds_when_another_filter_is_touched(
    open_page: OpenPage, fake: FakeApp
) -> None:
    at = open_page(PATH, since="2026-03-01T08:15:30.5Z")
    at.selectbox(key="audit.status").set_value("ok").run()
    assert asked(fake).since == datetime(2026, 3, 1, 8, 15, 30, 500_000, tzinfo=UTC)
    at.datetime_input(key="audit.since").set_value(datetime(2026, 3, 1, 9, 0)).run()
    assert asked(fake).since == datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def test_an_end_before_the_start_is_refused_and_the_list_stays(open_page: OpenPage, fake: FakeApp) -> None:
    at = open_page(PATH, since="2026-03-01T08:00:00Z")
    at.datetime_input(key="audit.until").set_value(datetime(2026, 2, 1, 9, 0)).run()
    assert "since must be before until" in drawn(at)
    assert asked(fake) == AuditFilter(since=datetime(2026, 3, 1, 8, tzinfo=UTC))
    at.datetime_input(key="audit.until").set_value(datetime(2026, 4, 1, 9, 0)).run()
    assert "since must be before until" not in drawn(at)
    assert asked(fake).until == datetime(2026, 4, 1, 9, tzinfo=UTC)


def test_an_address_that_is_no_filter_is_one_box_and_asks_nothing(open_page: OpenPage, fake: FakeApp) -> None:
    at = open_page(PATH, relevance_level="EXCELLENT")
    assert [e.value for e in at.error] == ["This address holds no filter: this input cannot be used"]
    assert fake.audit_log.asked == []
    press(at, "audit.clear")
    assert not at.error
    assert asked(fake) == AuditFilter()


def test_a_quick_range_is_a_fixed_moment_and_keeps_the_other_filters(open_page: OpenPage, fake: FakeApp) -> None:
    at = press(open_page(PATH, status="ok", until="2026-03-01"), "audit.range.24 h")
    since = asked(fake).since
    assert since is not None
    assert abs(datetime.now(UTC) - timedelta(days=1) - since) < timedelta(minutes=2)
    assert (asked(fake).status, asked(fake).until) == ("ok", None)
    at.run()
    assert asked(fake).since == since


def test_boxes_offer_what_the_record_has_and_still_hold_what_it_has_not(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit_log.offered = Facets(tool=("lookup_knowledge",), generation=(3, 4))
    at = open_page(PATH, tool="gone_tool")
    assert at.selectbox(key="audit.tool").options == ["lookup_knowledge", "gone_tool"]
    assert at.selectbox(key="audit.generation").options == ["3", "4"]


def test_every_condition_of_the_record_has_a_widget() -> None:
    drawn_names = {f.name for f in (*audit_filters.FIRST, *audit_filters.MORE)} | {"since", "until", "text"}
    assert drawn_names == set(audit_filters.NAMES)


# ---------------------------------------------------------------- the list


def test_case_111_the_list_is_paged_with_a_total(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit_log.rows = [row(f"i-{n}") for n in range(audit_list.SHOWN * 2 + 3)]
    at = open_page(PATH)
    assert "**103 records**" in drawn(at)
    assert (at.button(key="audit.newer").disabled, at.button(key="audit.older").disabled) == (True, False)
    press(at, "audit.older")
    assert at.dataframe[0].value["Record"].iloc[0] == "i-50"
    press(at, "audit.older")
    assert list(at.dataframe[0].value["Record"]) == ["i-100", "i-101", "i-102"]
    assert at.button(key="audit.oldest").disabled
    press(at, "audit.newer")
    assert at.dataframe[0].value["Record"].iloc[0] == "i-50"
    press(at, "audit.oldest")
    assert at.query_params == {"oldest": "yes"}
    press(at, "audit.newest")
    assert at.query_params == {}
    assert at.dataframe[0].value["Record"].iloc[0] == "i-0"


def test_a_total_that_was_not_counted_to_the_end_says_so() -> None:
    assert audit_list.total_words(AuditPage((), 10_000, False, None, None)) == "at least 10,000 records"
    assert audit_list.total_words(AuditPage((), 1, True, None, None)) == "1 record"
    assert audit_list.total_words(AuditPage((), 0, False, None, None)) == "not counted to the end"
    assert audit_list.total_words(AuditPage((), 0, True, None, None)) == "0 records"


def test_a_page_without_a_record_that_leads_on_does_not_say_that_there_is_none(
    open_page: OpenPage, fake: FakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = AuditPage((), 0, False, None, Cursor(AT, "7"))
    monkeypatch.setattr(fake.audit_log, "page", lambda *_, **__: page)
    at = open_page(PATH, text="rare")
    assert "press Older to search on" in drawn(at)
    assert "No record fits" not in drawn(at)
    assert not at.button(key="audit.older").disabled


def test_an_address_that_names_no_place_is_one_box(open_page: OpenPage) -> None:
    at = open_page(PATH, before="<b>~x")
    assert [e.value for e in at.error] == ["The records cannot be read: this input cannot be used"]


def test_a_dead_database_is_named_not_shown_as_empty_and_the_outbox_still_counts(
    open_page: OpenPage, fake: FakeApp
) -> None:
    fake.audit_log.error = StoreUnavailable("mysql+pymysql://kb:S3cr3t-CANARY@db:3306/x: connection refused")
    fake.audit.number = 3
    at = open_page(PATH)
    assert [e.value for e in at.error] == ["The records cannot be read: a store or a model cannot be used now"]
    assert [w.value for w in at.warning] == ["3 records wait in the outbox for the database"]
    assert "Nothing is recorded" not in drawn(at)
    assert "S3cr3t-CANARY" not in drawn(at)


def test_an_outbox_that_cannot_be_read_is_not_an_empty_one(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit.error = StoreUnavailable("disk full")
    assert [e.value.split(":")[0] for e in open_page(PATH).error] == ["The outbox cannot be read"]


def test_records_that_are_not_in_the_database_are_counted_by_what_became_of_them(
    open_page: OpenPage, fake: FakeApp
) -> None:
    assert audit_chain.outbox_lines(0, 0, 0) == []
    assert audit_chain.outbox_lines(1, 0, 0) == ["1 record waits in the outbox for the database"]
    fake.audit.set_aside, fake.audit.failures, fake.audit.away = 2, 1, "refused <b>"
    at = open_page(PATH)
    assert "2 records were set aside" in at.error[0].value
    assert "1 record was kept nowhere" in at.error[0].value
    assert "does not take records now: `refused <b>`" in drawn(at)


def test_case_77_times_stand_in_the_named_zone_and_formulas_are_disarmed() -> None:
    rows = [row(tool_name="=HYPERLINK(1)", query_text="@SUM(1) 连接池", total_ms=float("nan"), generation=None)]
    table = audit_list.record_table(rows, "Asia/Shanghai")
    assert table.iloc[0]["Time"] == "2026-03-01 16:15:30.123 CST"
    assert table.iloc[0]["Tool"].startswith("'=")
    assert table.iloc[0]["Query"].startswith("'@")
    assert table["Total, ms"].isna().all()
    assert table["Generation"].isna().all()
    assert len(audit_list.record_table([], "UTC")) == 0


def test_a_redacted_question_is_named_by_its_length_and_hash_and_marks_tell_what_is_unusual() -> None:
    assert audit_list.query_words(row()) == "12 characters, SHA-256 ababababab…"
    assert audit_list.query_words(row(query_sha256="")) == ""
    assert audit_list.marks(row()) == ""
    assert audit_list.marks(row(degraded=True, retries=1, stale_count=2)) == "degraded, retried, stale"


# ---------------------------------------------------------------- one record


def test_a_record_of_the_address_is_shown_whole_with_the_ways_on(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit_log.rows = [row("i-1"), row("i-2", error_message="<b>$x$</b>", status="error"), row("i-3")]
    fake.audit_log.columns = {"id": 7, "seq": 9, "row_hash": "ff", "agent_result": None}
    at = open_page(PATH, record="i-2")
    words = drawn(at)
    assert "Failed:  <b>$x$</b>" in words
    assert "The question is not stored (content redacted): 12 characters" in words
    assert "Not stored: the content of this record is redacted." in words
    assert '"row_hash": "ff"' in words
    press(at, "audit.record.newer")
    assert at.query_params["record"] == "i-1"
    assert at.button(key="audit.record.newer").disabled
    press(at, "audit.record.older")
    press(at, "audit.record.older")
    assert at.query_params["record"] == "i-3"
    press(at, "audit.record.close")
    assert "record" not in at.query_params


def test_a_record_leads_to_its_trace(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit_log.rows = [row("i-1")]
    at = open_page(PATH, record="i-1")
    (link,) = at.get("page_link")
    assert (link.proto.page, link.proto.query_string) == ("trace-view", "trace=tr-i-1")


def test_an_address_of_no_record_is_one_box_over_the_list(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit_log.rows = [row("i-1")]
    at = open_page(PATH, record="pruned")
    assert [e.value for e in at.error] == ["This record cannot be shown: this input cannot be used"]
    assert len(at.dataframe) == 1
    press(at, "audit.record.close")
    assert not at.error


def test_the_raw_record_holds_every_column_and_stored_json_as_data() -> None:
    columns: dict[str, Any] = {
        "id": 1,
        "seq": 2,
        "created_at": AT,
        "agent_result": '{"a": "连接池"}',
        "details": "{broken",
    }
    told = json.loads(audit_record.raw_json(AuditRecordView(row(), columns)))
    assert set(told) == set(columns)
    assert told["agent_result"] == {"a": "连接池"}
    assert told["details"] == {"unreadable": "{broken"}
    assert next(iter(told)) == "seq"


def test_a_stage_that_did_not_run_has_a_dash_and_no_zero() -> None:
    table = audit_record.times_table(row(dense_ms=11.0, bm25_ms=None)).set_index("Stage")["Time taken"]
    assert (table["dense"], table["bm25"]) == ("11 ms", "–")


# ---------------------------------------------------------------- export


def test_an_export_holds_all_records_of_the_filter_and_not_only_the_page(fake: FakeApp) -> None:
    fake.audit_log.rows = [row(f"i-{n}", tool_name="=SUM(1)") for n in range(audit_list.SHOWN + 5)]
    where = AuditFilter(tool="=SUM(1)")
    text = audit_export.content(fake, where, Format.CSV, "Asia/Shanghai").decode("utf-8-sig")  # type: ignore[arg-type]
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [line["invocation_id"] for line in lines] == [one.invocation_id for one in fake.audit_log.rows]
    assert lines[0]["tool_name"] == "'=SUM(1)"
    assert lines[0]["shown_at"].startswith("2026-03-01 16:15:30.123456")
    assert fake.audit_log.exported == [where]


def test_an_export_of_whole_records_is_one_object_a_line(fake: FakeApp) -> None:
    fake.audit_log.rows, fake.audit_log.columns = [row("i-1")], {"seq": 3, "agent_result": '{"a": "连接池"}'}
    data = audit_export.content(fake, AuditFilter(), Format.JSONL, "UTC")  # type: ignore[arg-type]
    assert [json.loads(line) for line in data.splitlines()] == [{"seq": 3, "agent_result": {"a": "连接池"}}]


def test_an_export_that_is_too_large_is_refused_and_never_cut(fake: FakeApp) -> None:
    fake.audit_log.rows = [row(f"i-{n}") for n in range(9)]
    with pytest.raises(BadInput, match="narrow the filters"):
        audit_export.content(fake, AuditFilter(), Format.CSV, "UTC", most=2_000)  # type: ignore[arg-type]


def test_an_unexpected_failure_of_an_export_tells_its_class_only(
    fake: FakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(where: AuditFilter) -> None:
        raise ZeroDivisionError(f"secret words {where}")

    monkeypatch.setattr(fake.audit_log, "export", broken)
    with pytest.raises(RuntimeError, match=r"^the export failed: ZeroDivisionError$"):
        audit_export.content(fake, AuditFilter(), Format.CSV, "UTC")  # type: ignore[arg-type]


def test_both_exports_stand_below_the_list(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit_log.rows = [row("i-1")]
    at = open_page(PATH)
    assert [b.proto.label for b in at.get("download_button")] == ["Export CSV", "Export JSONL"]
    assert fake.audit_log.exported == []


# ---------------------------------------------------------------- trends


def test_trends_are_read_only_when_chosen_and_by_the_same_filters(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit_log.trend = trends()
    at = open_page(PATH, tool="lookup_knowledge")
    assert [place for _, place in fake.audit_log.asked] == [{}]
    at.segmented_control(key="audit.view").set_value("trends").run()
    assert not at.exception
    assert at.query_params["view"] == "trends"
    assert fake.audit_log.asked[-1] == (AuditFilter(tool="lookup_knowledge"), {"bucket": None, "zone": "UTC"})
    assert "**8**" in drawn(at)
    assert "p50 10 ms · p90 20 ms · p95 30 ms · p99 40 ms of 4 measured" in drawn(at)
    at.segmented_control(key="audit.view").set_value("records").run()
    assert "view" not in at.query_params


def test_trends_of_nothing_say_so(open_page: OpenPage) -> None:
    assert "nothing to draw a trend of" in drawn(open_page(PATH, view="trends"))


def test_a_sample_behind_the_means_is_named(open_page: OpenPage, fake: FakeApp) -> None:
    fake.audit_log.trend = trends()
    assert "drawn evenly" not in drawn(open_page(PATH, view="trends"))
    fake.audit_log.trend = trend = trends()
    object.__setattr__(trend, "measured", 5)
    assert "of 5 records, drawn evenly from 8" in drawn(open_page(PATH, view="trends"))


def test_a_click_on_a_bar_narrows_the_filter_to_its_time_and_its_meaning() -> None:
    inside = AT.replace(hour=8, minute=30)
    where = AuditFilter(since=inside, tool="t", only=(Only.RETRIED,))
    found = drill(where, bucket(8), {"only": "stale"})
    assert found == AuditFilter(
        since=inside, until=datetime(2026, 3, 1, 9, tzinfo=UTC), tool="t", only=(Only.RETRIED, Only.STALE)
    )
    levels = [drill(AuditFilter(), bucket(8), s.filters).relevance_level for s in trend_figures.LEVELS]
    assert levels == ["PRECISE", "REFERENCE", "none"]


def test_every_series_that_can_be_clicked_makes_a_filter() -> None:
    every = (*trend_figures.LEVELS, *trend_figures.RATES, *(one for one, _, _ in trend_figures.MEASURES.values()))
    for one in every:
        drill(AuditFilter(), bucket(8), one.filters)
    assert all(one.filters for one in (*trend_figures.LEVELS, *trend_figures.RATES))


def test_case_113_an_hour_without_lookups_is_a_gap_in_a_rate_and_a_zero_among_the_bars() -> None:
    figure = trend_figures.lines(trends(), trend_figures.RATES[:1], share, dark=False)
    assert list(figure.data[0].y) == [1 / 4, None, 1 / 4]
    assert figure.data[0].connectgaps is False
    assert figure.layout.xaxis.type == "linear"
    stack = trend_figures.bars(trends(), trend_figures.LEVELS, dark=True)
    assert [list(one.y) for one in stack.data] == [[2, 0, 2], [1, 0, 1], [1, 0, 1]]
    assert list(stack.layout.xaxis.ticktext) == ["03-01 08:00", "03-01 09:00", "03-01 10:00"]


def test_a_long_time_axis_has_few_labels() -> None:
    many = trends()
    object.__setattr__(many, "buckets", tuple(bucket(8) for _ in range(100)))
    figure = trend_figures.bars(many, trend_figures.LEVELS, dark=False)
    assert len(figure.layout.xaxis.tickvals) <= trend_figures.LABELS


@pytest.mark.parametrize("name", ["view", "record", "since", "until", "status"])
def test_a_foreign_address_is_never_drawn_as_markup(open_page: OpenPage, name: str) -> None:
    at = open_page(PATH, **{name: "<script>alert(1)</script> ![x](https://kb.example.invalid/x.png)"})
    for element in (*at.markdown, *at.caption, *at.error, *at.warning):
        outside = "".join(str(element.value).split("`")[::2])
        assert "<script" not in outside
        assert "](" not in outside


# ---------------------------------------------------------------- the chain


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What a verification finds, and the ledgers that it read."""
    told = SimpleNamespace(report=None, read=[])

    def verify(ledger: str) -> ChainReport:
        told.read.append(ledger)
        if isinstance(told.report, Exception):
            raise told.report
        return told.report

    monkeypatch.setattr(audit_chain, "verify", verify)
    return told


def test_the_chain_is_read_on_a_press_only_and_once(open_page: OpenPage, fake: FakeApp, chain: SimpleNamespace) -> None:
    chain.report = ChainReport(True, 1200, (), 0, (Head("main", 1200, "cd" * 32, "s", ""),), pruned=30)
    at = open_page(PATH, view="chain")
    assert "Not verified yet" in drawn(at)
    assert (chain.read, fake.audit_log.asked) == ([], [])
    press(at, "audit.verify")
    at.run()
    assert chain.read == [fake.ledger]
    assert [s.value for s in at.success] == ["The record is whole: 1,200 rows read, 30 pruned"]
    assert "whoever can write to the database can also compute a whole new chain" in drawn(at)
    assert at.dataframe[-1].value.to_numpy().tolist() == [["main", 1200, "cd" * 32, "none"]]
    press(at, "audit.verify")
    assert chain.read == [fake.ledger] * 2


def test_a_broken_chain_names_every_row(open_page: OpenPage, chain: SimpleNamespace) -> None:
    findings = (
        Finding(Kind.REMOVED, "main", 4, 6, "missing"),
        Finding(Kind.CHANGED, "main", 9, 9, "the content does not fit its hash", "i-9"),
    )
    chain.report = ChainReport(False, 12, findings, 5, (), keyed=True, unkeyed=3)
    at = press(open_page(PATH, view="chain"), "audit.verify")
    assert [e.value for e in at.error] == ["The record is not as it was written: 5 findings, 12 rows read, 0 pruned"]
    assert "The first 2 are listed." in drawn(at)
    table = at.dataframe[0].value
    assert table[["Kind", "First row", "Last row", "Record"]].to_numpy().tolist() == [
        ["removed", 4, 6, ""],
        ["changed", 9, 9, "i-9"],
    ]
    assert "Hashes are keyed" in drawn(at)
    assert "3 rows from before it have no key." in drawn(at)


def test_a_chain_that_cannot_be_read_is_no_broken_one(open_page: OpenPage, chain: SimpleNamespace) -> None:
    chain.report = StoreUnavailable("database: connection refused")
    at = press(open_page(PATH, view="chain"), "audit.verify")
    assert [e.value for e in at.error] == ["The chain cannot be verified: a store or a model cannot be used now"]


def test_what_belongs_to_no_row_has_no_row_numbers() -> None:
    table = audit_chain.finding_table([Finding(Kind.INSERTED, "", 0, 0, "events without a record", "inv-1")])
    assert table["First row"].isna().all()
    assert table["Last row"].isna().all()
    assert table["Record"].tolist() == ["inv-1"]
