"""Documents and questions that attack the reader: everything of theirs is text. That no page calls another host is
checked after every test of this folder."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import corpus
from tests.browser.console import (
    Console,
    House,
    ask,
    cells,
    choose,
    excerpts,
    expand,
    open_page,
    pick,
    settled,
    tab,
    table,
)

pytestmark = pytest.mark.browser
QUERY = "CALLOUT-MARKER <img src=x onerror=document.title='OWNED'> ![q](https://kb.example.invalid/q.png) $a$ :material/home:"


def harmless(page: Page) -> None:
    """Nothing of a document became part of the page."""
    assert "OWNED" not in page.title()
    foreign = "[src*='example.invalid'], [href*='example.invalid'], [action*='example.invalid'], [src*='169.254']"
    expect(page.locator(f"{foreign}, [src^='file:'], img[src='x'], .katex")).to_have_count(0)
    expect(page.get_by_test_id("stApp")).to_be_visible()


def words(texts: list[str]) -> str:
    return "\n".join(texts)


def test_case_105_amounts_and_shell_variables_are_no_formulas(console: Console, page: Page) -> None:
    open_page(page, console.url, "Query")
    ask(page, "金额 费用 $114.22")
    assert corpus.DOLLARS in words(excerpts(page))
    assert "金额 $1 与 $2" in words([row["Title"] for row in cells(table(page, "Dense"))])
    expect(tab(page, "Context pack").get_by_text(corpus.DOLLARS).first).to_be_visible()
    harmless(page)


def test_case_114_html_of_a_document_is_text_wherever_it_shows(console: Console, page: Page) -> None:
    open_page(page, console.url, "Query")
    ask(page, "HTML-MARKER")
    read = words(excerpts(page))
    for line in corpus.HTML_LINES:
        assert line in read
    assert corpus.HTML_TITLE in words([row["Title"] for row in cells(table(page, "Dense"))])
    expect(page.get_by_test_id("stPlotlyChart").first.get_by_text("<img src=x").first).to_be_attached()
    choose(table(page, "Dense"), 0)
    expect(page.get_by_text("Chunk hostile/html#chunk-0")).to_be_visible()
    for name in ("Context pack", "Projection", "Query", "Times", "Provenance"):
        tab(page, name)
    harmless(page)


def test_case_115_addresses_in_documents_and_questions_are_never_called(
    console: Console, house: House, page: Page, requests: list[str]
) -> None:
    open_page(page, console.url, "Query")
    trace = ask(page, QUERY)
    read = words(excerpts(page))
    for line in corpus.CALLOUTS:
        assert line in read
    harmless(page)
    page.get_by_role("button", name="Earlier questions").click()
    asked = words([row["Question"] for row in cells(table(page, "Question"))])
    assert "![q](https://kb.example.invalid/q.png)" in asked
    harmless(page)

    open_page(page, f"{console.url}/trace-view?trace={trace}", "Trace")
    expect(page.get_by_test_id("stText").filter(has_text=QUERY)).to_be_visible()
    harmless(page)

    record = house.rows("SELECT invocation_id FROM tool_invocation WHERE trace_id = ?", trace)[0][0]
    open_page(page, f"{console.url}/audit-log?record={record}", "Audit")
    expect(page.get_by_role("link", name="Open its trace")).to_be_visible()
    expand(page, "The record as it is stored")
    harmless(page)
    assert any(url.startswith(console.url) for url in requests)  # the ear was open


def test_a_hostile_document_is_text_in_the_inspector_too(console: Console, page: Page) -> None:
    open_page(page, console.url, "Query")
    box = expand(page, "Inspect a document")
    chooser = box.get_by_role("combobox", name="Document")
    for name, line in (("hostile/html", corpus.HTML_LINES[0]), ("hostile/callout", corpus.CALLOUTS[0])):
        pick(page, chooser, name)
        expect(box.get_by_test_id("stCode").filter(has_text=line).first).to_be_visible()
        settled(page)
        harmless(page)
