"""The record in the browser: filtered, paged, followed to its trace and back, and taken along as a file."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewContext
from tests.browser.console import Console, House, cells, choose, expand, open_page, pick, settled, table

pytestmark = pytest.mark.browser
SESSION = "shift-7"
ANSWERED = ("Redis 连接池耗尽", "kafka consumer lag", "DUTY-007", "MySQL 死锁")
REFUSED = 50
SHOWN = 50
"""Records on one page of the list."""


@pytest.fixture(scope="module")
def recorded(house: House, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Lookups of one session, all but a few refused: they are the cheapest. How many there are."""
    batch: Path = tmp_path_factory.mktemp("batch") / "queries.jsonl"
    queries = [*ANSWERED, *(["???"] * REFUSED)]
    rows = [json.dumps({"query_id": str(n), "query": query}) for n, query in enumerate(queries)]
    batch.write_text("\n".join(rows), encoding="utf-8")
    house.run("lookup", "--batch", str(batch), "--out", str(batch.with_name("out.jsonl")), "--session", SESSION, code=1)
    return len(queries)


def total(page: Page, count: int) -> None:
    expect(page.get_by_text(f"{count} record{'' if count == 1 else 's'}", exact=True).first).to_be_visible()
    settled(page)


def test_a_filter_typed_and_chosen_stands_in_the_address_and_the_list_has_pages(
    console: Console, recorded: int, page: Page
) -> None:
    open_page(page, f"{console.url}/audit-log", "Audit")
    more = expand(page, "More filters")
    box = more.get_by_role("textbox", name="Session")
    box.fill(SESSION)
    box.press("Enter")
    total(page, recorded)
    assert f"session={SESSION}" in page.url

    page.get_by_role("button", name="Older", exact=True).click()
    expect(page).to_have_url(re.compile("[?&]before="))
    expect(page.get_by_role("button", name="Older", exact=True)).to_be_disabled()
    settled(page)
    expect(table(page, "Status").locator("tbody tr")).to_have_count(recorded - SHOWN)
    page.get_by_role("button", name="Newest", exact=True).click()
    expect(page.get_by_role("button", name="Newest", exact=True)).to_be_disabled()

    pick(page, page.get_by_role("combobox", name="Status"), "ok")
    expect(page).to_have_url(re.compile("[?&]status=ok"))
    total(page, len(ANSWERED))
    assert {row["Status"] for row in cells(table(page, "Status"))} == {"ok"}


def test_a_record_leads_to_its_trace_and_the_browsers_back_button_to_the_record_and_its_list(
    console: Console, house: House, recorded: int, page: Page
) -> None:
    del recorded
    list_ = f"{console.url}/audit-log?session={SESSION}&status=ok"
    open_page(page, list_, "Audit")
    choose(table(page, "Status"), 0)
    expect(page.get_by_role("link", name="Open its trace").first).to_be_visible()
    settled(page)
    record = re.search(r"[?&]record=([^&]+)", page.url)
    assert record
    newest = (
        "SELECT invocation_id, trace_id FROM tool_invocation WHERE session_id = ? AND status = 'ok' ORDER BY seq DESC"
    )
    invocation, trace = house.rows(newest, SESSION)[0]
    assert record[1] == invocation

    page.get_by_role("link", name="Open its trace").click()
    expect(page.get_by_role("heading", name="Trace", exact=True).first).to_be_visible()
    expect(page).to_have_url(f"{console.url}/trace-view?trace={trace}")
    expect(page.get_by_role("heading", name="Rank ladder").first).to_be_visible()
    settled(page)

    page.go_back()
    expect(page.get_by_role("heading", name="Audit", exact=True).first).to_be_visible()
    expect(page.get_by_role("link", name="Open its trace").first).to_be_visible()
    assert f"record={invocation}" in page.url
    total(page, len(ANSWERED))
    page.go_back()
    expect(page.get_by_role("link", name="Open its trace")).to_have_count(0)
    total(page, len(ANSWERED))


def test_the_export_equals_the_screen(console: Console, recorded: int, new_context: NewContext) -> None:
    del recorded
    page = new_context(viewport={"width": 3600, "height": 1200}).new_page()  # every column is on the screen
    open_page(page, f"{console.url}/audit-log?session={SESSION}&status=ok", "Audit")
    total(page, len(ANSWERED))
    shown = cells(table(page, "Status"))
    with page.expect_download() as caught:
        page.get_by_role("button", name="Export CSV").click()
    with caught.value.path().open(encoding="utf-8-sig", newline="") as file:
        given = list(csv.DictReader(file))
    assert len(shown) == len(given) == len(ANSWERED)
    for row, line in zip(shown, given, strict=True):
        assert row["Record"] == line["invocation_id"]
        assert row["Time"][:19] == line["shown_at"][:19]
        for column, name in (
            ("Status", "status"),
            ("Evidence", "evidence_status"),
            ("Level", "relevance_level"),
            ("Attempt", "selected_attempt"),
            ("Returned", "returned_count"),
            ("Candidates", "candidate_count"),
            ("Session", "session_id"),
            ("Scope", "kb_scope"),
        ):
            assert row[column] == line[name], column
        assert float(row["Total, ms"]) == pytest.approx(float(line["total_ms"]), abs=0.051)
