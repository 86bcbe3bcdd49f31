"""Every page in the dark: nothing breaks, and pictures are drawn for dark paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from pages.parts import look
from tests.browser.conftest import NewContext
from tests.browser.console import Console, ask, choose, open_page, settled, table

pytestmark = pytest.mark.browser


def rgb(colour: str) -> str:
    return f"rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:7], 16)})"


def dark(page: Page, pictures: Path, name: str) -> None:
    settled(page)
    paper = page.get_by_test_id("stApp").evaluate("element => getComputedStyle(element).backgroundColor")
    assert max(int(part) for part in paper.removeprefix("rgb(").rstrip(")").split(",")[:3]) < 60, paper
    words = page.locator("svg.main-svg text")
    if words.count():
        inks = words.evaluate_all("found => found.map(element => getComputedStyle(element).fill)")
        assert rgb(look.ink(dark=False)) not in inks
    page.screenshot(path=pictures / f"{name}.png", full_page=True)


def test_every_page_is_drawn_in_the_dark(console: Console, new_context: NewContext, tmp_path: Path) -> None:
    page = new_context(color_scheme="dark").new_page()
    open_page(page, f"{console.url}/lookup", "Query")
    trace = ask(page, "Redis 连接池耗尽怎么办")
    choose(table(page, "Dense"), 0)
    dark(page, tmp_path, "query")
    for address, heading in (
        (f"trace-view?trace={trace}", "Trace"),
        ("audit-log", "Audit"),
        ("audit-log?view=trends", "Audit"),
        ("audit-log?view=chain", "Audit"),
        ("index", "Rebuild"),
        ("eval-desk", "Eval"),
    ):
        open_page(page, f"{console.url}/{address}", heading)
        dark(page, tmp_path, address.partition("?")[0] + address.partition("view=")[2])
    expect(page.get_by_test_id("stException")).to_have_count(0)
