"""The Eval page with nothing frozen, and with the lookups that ship with the project."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from core.settings import ROOT
from tests.browser.console import Console, House, open_page, settled

pytestmark = pytest.mark.browser
VIEWS = ("Cases", "Losses", "Metrics", "Behaviour", "Baseline", "Compare", "Calibration")
SHIPPED = ROOT / "eval" / "rag-retrieval"


def every_view(page: Page) -> None:
    for name in VIEWS:
        page.get_by_role("radio", name=name, exact=True).click()
        expect(page.get_by_role("radio", name=name, exact=True)).to_be_checked()
        settled(page)
        expect(page.get_by_text("an unexpected error")).to_have_count(0)


def test_without_cases_and_fixtures_every_view_says_what_to_do(console: Console, page: Page) -> None:
    open_page(page, f"{console.url}/eval-desk", "Eval")
    expect(page.get_by_text("No golden cases yet")).to_be_visible()
    every_view(page)


@pytest.fixture
def shipped(house: House) -> Iterator[Console]:
    assert (SHIPPED / "fixtures").is_dir(), "no fixtures are shipped: `python -m core eval snapshot` makes them"
    console = Console(House(house.root, {"RAG__EVALUATION__FOLDER": str(SHIPPED)})).start()
    yield console
    console.stop()


def test_the_shipped_run_opens_in_every_view_and_from_its_address(shipped: Console, page: Page) -> None:
    open_page(page, f"{shipped.url}/eval-desk", "Eval")
    expect(page.get_by_text("Reviewed cases that pass")).to_be_visible()
    every_view(page)
    open_page(page, f"{shipped.url}/eval-desk?view=metrics&mode=dense", "Eval")
    expect(page.get_by_role("radio", name="Metrics", exact=True)).to_be_checked()
    expect(page.get_by_role("radio", name="dense", exact=True)).to_be_checked()
