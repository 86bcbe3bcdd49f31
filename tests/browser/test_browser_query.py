"""One question on the Query page: what is seen, and that looking at it is no second question."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewContext
from tests.browser.console import (
    Console,
    House,
    ask,
    cells,
    choose,
    excerpts,
    expand,
    open_page,
    settled,
    tab,
    table,
)

pytestmark = pytest.mark.browser
QUESTION = "Redis 连接池耗尽怎么办"


def ladder(page: Page) -> list[dict[str, str]]:
    shown = cells(table(page, "Dense"))
    return [{name: row[name] for name in ("Title", "Dense", "BM25", "RRF", "Evidence", "Dropped by")} for row in shown]


def test_case_108_a_question_shows_ladder_level_and_evidence_and_its_address_the_same_with_one_record(
    console: Console, house: House, new_context: NewContext
) -> None:
    before = house.recorded()
    page = new_context().new_page()
    open_page(page, console.url, "Query")
    expect(page.get_by_text("No question yet").first).to_be_visible()
    trace = ask(page, QUESTION)

    first = ladder(page)
    assert first[0] == {
        "Title": "Redis 连接池耗尽排查",
        "Dense": "1",
        "BM25": "1",
        "RRF": "1",
        "Evidence": "1",
        "Dropped by": "",
    }
    assert {row["Title"] for row in first} >= {"Redis 连接泄漏排查", "Redis 2.x 连接池耗尽排查（旧版）"}
    chart = page.get_by_test_id("stPlotlyChart").first
    for words in ("Dense", "BM25", "RRF", "Evidence", "Pack", "Projection", "Redis 连接池耗尽排查"):
        expect(chart.locator("svg.main-svg").get_by_text(words).first).to_be_visible()
    for word in ("READY", "PRECISE", "recorded"):
        expect(page.get_by_text(word, exact=True).first).to_be_visible()
    read = excerpts(page)
    assert "连接池耗尽时先看 maxTotal" in read[0]

    # Whatever is touched: the result stays, nothing is asked again.
    with page.expect_download() as caught:
        page.get_by_role("button", name="Download JSON").click()
    given = json.loads(caught.value.path().read_text(encoding="utf-8"))
    assert [piece["excerpt"] for piece in given["evidence"]] == read
    for name in ("Context pack", "Projection", "Query", "Times", "Provenance", "What the agent reads"):
        tab(page, name)
    page.get_by_role("radio", name="JSON", exact=True).click()
    expect(page.get_by_text('"evidence_status": "READY"').first).to_be_visible()
    page.get_by_role("radio", name="Readable", exact=True).click()
    choose(table(page, "Dense"), 1)
    expect(page.get_by_text("Chunk redis/").first).to_be_visible()
    expand(page, "What-if knobs")
    expand(page, "Inspect a document")
    settled(page)
    assert (ladder(page), excerpts(page)) == (first, read)
    assert trace in page.url

    other = new_context().new_page()
    open_page(other, page.url, "Query")
    expect(other.get_by_role("heading", name="Rank ladder").first).to_be_visible()
    settled(other)
    assert (ladder(other), excerpts(other)) == (first, read)
    expect(other.get_by_role("textbox", name="Question", exact=True)).to_have_value(QUESTION)
    assert house.recorded() == before + 1


@pytest.mark.parametrize("nothing", ["？？？！", "x" * 8_001], ids=["symbols", "too long"])
def test_a_question_that_cannot_be_searched_gets_a_clear_message_and_the_page_stays_usable(
    console: Console, page: Page, nothing: str
) -> None:
    open_page(page, console.url, "Query")
    box = page.get_by_role("textbox", name="Question", exact=True)
    box.fill(nothing)
    box.press("Enter")
    expect(page.get_by_text("The lookup failed (InvalidQuery)").first).to_be_visible()
    expect(page.get_by_test_id("stText").filter(has_text=re.compile("^the query"))).to_be_visible()
    settled(page)
    ask(page, "kafka consumer lag")
    expect(page.get_by_text("The lookup failed")).to_have_count(0)
    assert "produce rate" in "".join(excerpts(page))


def test_the_question_is_reached_and_sent_by_keyboard_alone(console: Console, page: Page) -> None:
    open_page(page, console.url, "Query")
    box = page.get_by_role("textbox", name="Question", exact=True)
    for _ in range(20):
        if box.evaluate("element => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(box).to_be_focused()
    page.keyboard.type("KubePodCrashLooping")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Rank ladder").first).to_be_visible()
    settled(page)
    assert "exit code: 137" in excerpts(page)[0]
