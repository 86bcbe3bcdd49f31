"""Addresses that are opened first on a console that nobody has visited yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewContext
from tests.browser.console import Console, House, ask, excerpts, open_page

pytestmark = pytest.mark.browser
QUESTION = "consumer group 反复 rebalance"
ADDRESSES = {"lookup": "Query", "audit-log": "Audit", "index": "Rebuild", "eval-desk": "Eval", "trace-view": "Trace"}


@pytest.fixture(scope="module")
def unvisited(house: House) -> Iterator[dict[str, Console]]:
    """One console an address, started side by side."""
    made = {address: Console(house) for address in ("lookup", "audit-log", "trace-view")}
    with ThreadPoolExecutor() as several:
        list(several.map(Console.start, made.values()))
    yield made
    for console in made.values():
        console.stop()


def framed(page: Page) -> None:
    """The page stands in the frame: the navigation with every page, no dialog."""
    names = page.get_by_role("navigation", name="App pages").get_by_role("link").all_inner_texts()
    assert [name.strip() for name in names] == ["Query", "Trace", "Audit", "Rebuild", "Eval"]
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_shared_result_is_the_first_address_of_a_fresh_console_and_its_evidence_the_same(
    console: Console, unvisited: dict[str, Console], new_context: NewContext
) -> None:
    page = new_context().new_page()
    open_page(page, console.url, "Query")
    trace = ask(page, QUESTION)
    read = excerpts(page)
    assert any("max.poll.interval.ms" in text for text in read)
    for address in ("lookup", "trace-view"):
        other = new_context().new_page()
        open_page(other, f"{unvisited[address].url}/{address}?trace={trace}", ADDRESSES[address])
        framed(other)
        assert excerpts(other) == read
        expect(other.get_by_test_id("stPlotlyChart").first).to_be_visible()


def test_a_page_is_the_first_address_of_a_fresh_console_and_the_others_follow(
    unvisited: dict[str, Console], page: Page
) -> None:
    fresh = unvisited["audit-log"]
    for address in ("audit-log", "index", "eval-desk"):
        open_page(page, f"{fresh.url}/{address}?status=refused", ADDRESSES[address])
        framed(page)
        assert re.search(rf"/{address}\?", page.url)


def test_the_bare_address_becomes_the_query_page_and_keeps_its_parameters(console: Console, page: Page) -> None:
    open_page(page, f"{console.url}/?trace=nowhere", "Query")
    expect(page).to_have_url(f"{console.url}/lookup?trace=nowhere")
    expect(page.get_by_text("This result cannot be shown")).to_be_visible()
    framed(page)
