"""The Trace page: one lookup by its address, lists, and the events of a session or run."""

from __future__ import annotations

from collections.abc import Callable

from streamlit.testing.v1 import AppTest

from core.errors import StoreUnavailable
from core.stores import Cursor, DiagnosisEvent, TraceSummary
from pages.parts import lists
from tests.unit.pages import samples
from tests.unit.pages.fake_app import NOW, FakeApp
from tests.unit.pages.test_page_query import drawn

OpenPage = Callable[..., AppTest]
PATH = "pages/trace.py"


def summary(trace_id: str, **values: object) -> TraceSummary:
    plain: dict[str, object] = {
        "session_id": "s-1",
        "run_id": None,
        "kb_scope": "default",
        "status": "complete",
        "evidence_status": "READY",
        "relevance_level": "PRECISE",
        "selected_attempt": "UNFILTERED_VECTOR",
        "fallback_reason": None,
        "mode": "hybrid",
        "generation": 3,
        "total_ms": 52.0,
        "query_sha256": "ab" * 32,
    }
    return TraceSummary(trace_id, NOW, **{**plain, **values})  # type: ignore[arg-type]


def test_without_an_address_the_page_says_what_to_do(open_page: OpenPage) -> None:
    at = open_page(PATH)
    assert "No trace chosen" in drawn(at)
    assert "None recorded" in drawn(at)


def test_an_address_shows_the_same_pictures_as_the_query_page(open_page: OpenPage, fake: FakeApp) -> None:
    fake.traces.stored["tr-found"] = samples.found()
    at = open_page(PATH, trace="tr-found")
    headings = [s.value for s in at.subheader]
    assert [h for h in headings if h in ("Rank ladder", "Funnel", "Gate")] == ["Rank ladder", "Funnel", "Gate"]
    assert at.text_input(key="trace.trace").value == "tr-found"
    assert fake.lookup.requests == []


def test_a_typed_id_becomes_the_address(open_page: OpenPage, fake: FakeApp) -> None:
    fake.traces.stored["tr-found"] = samples.found()
    at = open_page(PATH)
    at.text_input(key="trace.trace").set_value(" tr-found ").run()
    assert not at.exception
    assert at.query_params["trace"] == "tr-found"
    assert "PRECISE" in drawn(at)
    at.text_input(key="trace.trace").set_value("").run()
    assert "trace" not in at.query_params


def test_a_session_shows_its_events_and_lookups(open_page: OpenPage, fake: FakeApp) -> None:
    fake.traces.rows = [summary("tr-1")]
    fake.traces.stream = [
        DiagnosisEvent("i-1", 1, "stage", NOW, stage="dense", status="complete", count_out=20, ms=14.2)
    ]
    at = open_page(PATH, session="s-1")
    assert "Events in order of time" in [s.value for s in at.subheader]
    assert fake.traces.asked == {"session_id": "s-1", "run_id": None}
    assert len(at.dataframe) == 2


def test_a_dead_store_is_named_and_not_shown_as_empty(open_page: OpenPage, fake: FakeApp) -> None:
    fake.traces.error = StoreUnavailable("database: connection refused")
    at = open_page(PATH, trace="tr-1")
    assert [e.value for e in at.error] == [
        "This trace cannot be shown: a store or a model cannot be used now",
        "The list of lookups cannot be read: a store or a model cannot be used now",
    ]
    assert "None recorded" not in drawn(at)


def test_case_77_the_list_shows_times_in_the_named_zone_with_milliseconds() -> None:
    table = lists.trace_table([summary("tr-1", generation=None, total_ms=None)], "Asia/Shanghai")
    assert table.iloc[0]["Time"] == "2026-03-01 16:15:30.123 CST"
    assert table["Generation"].isna().all()
    assert table.iloc[0]["Total"] == "–"


def test_lists_of_nothing_are_empty_tables() -> None:
    assert len(lists.trace_table([], "UTC")) == 0
    assert len(lists.event_table([], "UTC")) == 0


def test_a_cut_list_says_that_there_is_more(open_page: OpenPage, fake: FakeApp) -> None:
    fake.traces.rows, fake.traces.cursor = [summary("tr-1")], Cursor(NOW, 1)
    assert "The latest 1; older ones are on the Audit page." in drawn(open_page(PATH))
