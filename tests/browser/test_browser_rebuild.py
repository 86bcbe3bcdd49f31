"""The Rebuild page in two browsers: the typed word, a job that outlives a reload, one document in and out again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser import corpus
from tests.browser.conftest import NewContext
from tests.browser.console import (
    Console,
    House,
    ask,
    cells,
    excerpts,
    open_page,
    pick,
    settled,
    table,
)
from tests.browser.endpoint import BATCH, Endpoint, with_endpoint

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
TERM = "ZEBRA-90210"
UPLOAD = (
    f"---\ntitle: Switchover of the metering gateway\ncategory: metering\n---\n\nMarker {TERM}: call the duty desk.\n"
)


@pytest.fixture
def slow(browser: Browser, tmp_path: Path) -> Iterator[tuple[House, Console, Endpoint]]:
    """An installation of its own whose model answers for passages only when the test lets it."""
    del browser
    with with_endpoint(tmp_path, {"kafka/lag.md": corpus.LAG, "kafka/rebalance.md": corpus.REBALANCE}) as made:
        yield made


def runs(house: House) -> list[tuple[str, str]]:
    return [(kind, state) for kind, state in house.rows("SELECT kind, state FROM rebuild_run ORDER BY started_at")]


def active(house: House) -> int:
    found = house.rows("SELECT number FROM knowledge_generation WHERE active_alias IS NOT NULL")
    return int(found[0][0])


def chunks(house: House) -> int:
    return int(house.rows("SELECT chunks FROM knowledge_generation WHERE active_alias IS NOT NULL")[0][0])


def over(house: House) -> bool:
    return not house.rows("SELECT 1 FROM rebuild_run WHERE finished_at IS NULL")


def job(page: Page, kind: str) -> Locator:
    """The line that says who does what since when, in every browser the same."""
    expect(page.get_by_text(f"{kind} under way").first).to_be_visible()
    return page.get_by_test_id("stCaptionContainer").filter(has_text="since").first


def press(page: Page, word: str, why: str) -> None:
    page.get_by_role("textbox", name="Type REBUILD to confirm").fill(word)
    page.get_by_role("textbox", name="Why (kept with the run)").fill(why)
    page.get_by_role("button", name="Rebuild the index").click()


@pytest.mark.parametrize("word", ["rebuild", "REBUILD now"])
def test_any_other_word_changes_nothing_and_says_so(console: Console, house: House, page: Page, word: str) -> None:
    before = (runs(house), active(house))
    open_page(page, f"{console.url}/index", "Rebuild")
    press(page, word, "a wrong word")
    expect(page.get_by_text("Not rebuilt").first).to_be_visible()
    expect(page.get_by_test_id("stText").filter(has_text="REBUILD")).to_be_visible()
    settled(page)
    assert (runs(house), active(house)) == before


def test_a_document_is_uploaded_found_by_its_rare_term_and_removed_again(
    console: Console, house: House, page: Page
) -> None:
    before, generation = runs(house), active(house)
    open_page(page, f"{console.url}/index", "Rebuild")
    page.get_by_role("radio", name="Add a document").click()
    page.locator("input[type=file]").set_input_files(
        {"name": "gateway.md", "mimeType": "text/markdown", "buffer": UPLOAD.encode()}
    )
    expect(page.get_by_text("gateway.md").first).to_be_visible()
    page.get_by_role("textbox", name="Folder").fill("metering")
    page.get_by_role("button", name="Add or replace").click()
    expect(page.get_by_text("Last job: upload by local, ACTIVE").first).to_be_visible()
    assert active(house) == generation + 1

    query = page.context.new_page()
    open_page(query, f"{console.url}/lookup", "Query")
    ask(query, TERM)
    assert TERM in excerpts(query)[0]

    page.get_by_role("radio", name="Remove a document").click()
    pick(page, page.get_by_role("combobox", name="Document"), "metering/gateway")
    page.get_by_role("button", name="Remove the document").click()
    expect(page.get_by_text("Last job: remove by local, ACTIVE").first).to_be_visible()
    ask(query, f"{TERM} duty desk")
    assert TERM not in "".join(excerpts(query))
    assert runs(house) == [*before, ("upload", "ACTIVE"), ("remove", "ACTIVE")]


def test_case_107_and_109_a_rebuild_survives_a_reload_is_the_same_in_every_browser_and_happens_once(
    slow: tuple[House, Console, Endpoint], new_context: NewContext
) -> None:
    house, console, endpoint = slow
    before, generation, recorded = runs(house), active(house), house.recorded()
    page, second = new_context().new_page(), new_context().new_page()
    for browser in (page, second):
        open_page(browser, f"{console.url}/index", "Rebuild")
    endpoint.let(0)
    corpus.write(house.source, corpus.more())
    press(page, "REBUILD", "seen from two browsers")
    expect(page.get_by_text("The rebuild has begun").first).to_be_visible()
    told = job(page, "rebuild").inner_text()
    assert "seen from two browsers" in told
    expect(page.get_by_role("progressbar").first).to_be_visible()
    whole = chunks(house) + len(corpus.more())
    expect(page.get_by_text(re.compile(rf"^0 of {whole}")).first).to_be_visible()
    endpoint.let(1)
    first = re.compile(rf"^{chunks(house) + BATCH} of {whole}")
    expect(page.get_by_text(first).first).to_be_visible()

    page.reload()
    for browser in (page, second):
        assert job(browser, "rebuild").inner_text() == told
        expect(browser.get_by_text(first).first).to_be_visible()
        expect(browser.get_by_role("button", name="Rebuild the index")).to_be_disabled()
        expect(browser.get_by_role("textbox", name="Type REBUILD to confirm")).to_be_disabled()
    second.close()
    asking = new_context().new_page()
    open_page(asking, f"{console.url}/lookup", "Query")
    ask(asking, "kafka consumer lag")
    assert house.recorded() == recorded + 1
    assert (active(house), over(house)) == (generation, False)

    endpoint.let()
    third = new_context().new_page()
    open_page(third, f"{console.url}/index", "Rebuild")
    for browser in (page, third):
        expect(browser.get_by_text("Last job: rebuild by local, ACTIVE").first).to_be_visible()
        expect(browser.get_by_role("button", name="Rebuild the index")).to_be_enabled()
        settled(browser)
    assert runs(house) == [*before, ("rebuild", "ACTIVE")]
    assert active(house) == generation + 1
    listed = cells(table(third, "Work"))
    assert [row["Why"] for row in listed] == ["seen from two browsers", "first"]
