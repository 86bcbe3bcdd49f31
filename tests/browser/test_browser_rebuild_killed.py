"""Rebuilds that are killed with the console open, and three that are asked for at one moment."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from core.adapters.milvus import MilvusIndex
from core.settings import ROOT
from tests.browser import corpus
from tests.browser.conftest import NewContext
from tests.browser.console import PATIENCE, Console, House, ask, excerpts, open_page, settled, until
from tests.browser.endpoint import BATCH, Endpoint, with_endpoint
from tests.browser.test_browser_rebuild import active, over, press, runs

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1800)]
KILLS: Final = int(os.environ.get("RAG_TEST_KILLS", "2"))
DOCUMENTS: Final = 5 * BATCH


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[tuple[House, Console, Endpoint]]:
    """An installation whose model takes no time, or as long as a test wants."""
    del browser
    with with_endpoint(tmp_path, edition(0)) as made:
        yield made


def edition(number: int) -> dict[str, str]:
    texts = {}
    for n in range(DOCUMENTS):
        texts[f"gateway/page{n:02}.md"] = (
            f"---\ntitle: Gateway {n}\ncategory: gateway\n---\n\nmetering gateway {n}: see edition{number:04}x.\n"
        )
    return texts


def command(house: House, why: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "core", "rebuild", "--confirm", "REBUILD", "--why", why],
        cwd=ROOT,
        env=house.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def editions(page: Page, console: Console) -> set[str]:
    """The editions that an answer of the Query page shows."""
    open_page(page, f"{console.url}/lookup", "Query")
    ask(page, "metering gateway")
    return set(re.findall(r"edition\d+x", "".join(excerpts(page))))


def leftovers(house: House) -> set[str]:
    """Collections without a generation that serves or served, and rows of generations without a collection."""
    index = MilvusIndex(str(house.root / "milvus.db"))
    try:
        stored = {info.name for info in index.collections("", timeout=PATIENCE)}
    finally:
        index.close()
    kept = {
        str(name)
        for (name,) in house.rows("SELECT collection FROM knowledge_generation WHERE state IN ('ACTIVE', 'RETIRED')")
    }
    rows = {
        f"biz_g{number}"
        for kind in ("knowledge_chunk", "api_document")
        for (number,) in house.rows(f"SELECT DISTINCT generation FROM {kind}")
    }
    return (stored - kept) | (rows - stored)


def killed(house: House, why: str, longest: float) -> None:
    """A rebuild of the command line that is killed at some moment within ``longest`` seconds of its begin."""
    begun = len(runs(house))
    child = command(house, why)
    until(lambda: len(runs(house)) > begun or child.poll() is not None, "the rebuild begins")
    time.sleep(random.uniform(0.0, longest))
    child.kill()
    child.communicate()
    assert len(runs(house)) == begun + 1


def rebuild_on_the_page(house: House, page: Page, console: Console, why: str) -> None:
    begun = len(runs(house))
    open_page(page, f"{console.url}/index", "Rebuild")
    press(page, "REBUILD", why)
    until(lambda: len(runs(house)) > begun and over(house), "the rebuild ends")
    expect(page.get_by_text("Last job: rebuild by local, ACTIVE").first).to_be_visible()
    settled(page)
    assert runs(house)[begun:] == [("rebuild", "ACTIVE")]


def test_kill_9_at_random_moments_with_the_page_reopened_each_time(
    opened: tuple[House, Console, Endpoint], page: Page
) -> None:
    house, console, _endpoint = opened
    began = time.monotonic()
    house.run("rebuild", "--confirm", "REBUILD", "--why", "how long it takes")
    longest = time.monotonic() - began
    for kill in range(1, KILLS + 1):
        before, meant, after = (f"edition{number:04}x" for number in (2 * kill - 2, 2 * kill - 1, 2 * kill))
        corpus.write(house.source, edition(2 * kill - 1))
        killed(house, f"kill {kill}", longest / 2)
        open_page(page, f"{console.url}/index", "Rebuild")
        expect(page.get_by_role("button", name="Rebuild the index")).to_be_enabled()
        assert editions(page, console) in ({before}, {meant}), "an answer of two generations, or of none"
        corpus.write(house.source, edition(2 * kill))
        rebuild_on_the_page(house, page, console, f"after kill {kill}")
        assert editions(page, console) == {after}
        assert leftovers(house) == set()


@pytest.mark.parametrize("head_start", [0.0, 1.0])  # the pages are first, or the command may be
def test_two_pages_and_a_command_line_press_at_once(
    opened: tuple[House, Console, Endpoint], new_context: NewContext, head_start: float
) -> None:
    house, console, endpoint = opened
    generation, before = active(house), runs(house)
    pages = [new_context().new_page(), new_context().new_page()]
    for page in pages:
        open_page(page, f"{console.url}/index", "Rebuild")
        page.get_by_role("textbox", name="Type REBUILD to confirm").fill("REBUILD")
        page.get_by_role("textbox", name="Why (kept with the run)").fill("all at once")
        settled(page)
    endpoint.let(0)
    corpus.write(house.source, edition(1))
    child = command(house, "all at once")
    at = time.time() + head_start + 0.5
    for page in pages:
        page.evaluate(CLICK_AT, at * 1000)
    until(lambda: len(runs(house)) > len(before), "one begins")
    ((holder,),) = house.rows("SELECT holder FROM rebuild_run WHERE finished_at IS NULL")
    command_holds = f" pid {child.pid} " in holder
    outcomes = [told(page) for page in pages]
    assert [outcome for outcome in outcomes if outcome == BEGUN] == ([] if command_holds else [BEGUN])
    for page, outcome in zip(pages, outcomes, strict=True):
        if outcome == REFUSED:
            expect(page.get_by_test_id("stText").filter(has_text=holder)).to_be_visible()
        elif outcome == WAIT:  # the page knew before the press, and its button was off
            expect(page.get_by_test_id("stCaptionContainer").filter(has_text="all at once").first).to_be_visible()
    if not command_holds:
        _out, error = child.communicate(timeout=PATIENCE)
        assert child.returncode == 1
        assert holder in error
    endpoint.let()
    until(lambda: over(house), "the one rebuild ends")
    if command_holds:
        out, error = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0, out + error
    assert runs(house) == [*before, ("rebuild", "ACTIVE")]
    assert active(house) == generation + 1
    assert editions(pages[0], console) == {"edition0001x"}


BEGUN, REFUSED, WAIT = "The rebuild has begun", "Not rebuilt", "A job is under way"
CLICK_AT: Final = """at => setTimeout(() => [...document.querySelectorAll("button")]
    .find(button => button.innerText.includes("Rebuild the index")).click(), at - Date.now())"""


def told(page: Page) -> str:
    """What became of the press."""
    settled(page)
    said = page.get_by_text(re.compile(f"^({BEGUN}|{REFUSED}|{WAIT})"))
    expect(said.first).to_be_visible()
    found = " ".join(said.all_inner_texts())
    return next(word for word in (BEGUN, REFUSED, WAIT) if word in found)
