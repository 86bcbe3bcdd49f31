"""A real installation, its console and a browser, once for all tests of this folder; nothing is left running."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser import corpus
from tests.browser.console import PATIENCE, Console, House

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
HINT: Final = "no Chromium on this machine: apt-get install chromium fonts-noto-cjk"
OUTSIDE_IS: Final = ("http:", "https:", "ws:", "wss:", "file:", "ftp:")

NewContext = Callable[..., BrowserContext]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Skipped without Chromium, except under ``CI=true``, where that is a failure."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(HINT)
        pytest.skip(HINT)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def house(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The runbooks of ``corpus``, indexed from the command line."""
    del browser  # without one nothing is built
    made = House(tmp_path_factory.mktemp("house")).build(corpus.documents())
    yield made
    made.close()


@pytest.fixture(scope="session")
def console(house: House) -> Iterator[Console]:
    """The console that most tests share."""
    made = Console(house).start()
    yield made
    made.stop()


@pytest.fixture
def requests() -> list[str]:
    """Addresses that any page of the test asked for."""
    return []


@pytest.fixture
def new_context(browser: Browser, requests: list[str]) -> Iterator[NewContext]:
    """Makes browsers that know nothing of each other. Whatever a test does: no page calls another host, and no script of
    a page breaks."""
    contexts: list[BrowserContext] = []
    broken: list[str] = []

    def make(**options: Any) -> BrowserContext:
        context = browser.new_context(**{"viewport": {"width": 1500, "height": 1000}, **options})
        context.set_default_timeout(PATIENCE * 1000)
        context.on("request", lambda request: requests.append(request.url))
        context.on("weberror", lambda error: broken.append(str(error.error)))
        context.on("page", lambda page: page.on("websocket", lambda socket: requests.append(socket.url)))
        contexts.append(context)
        return context

    expect.set_options(timeout=PATIENCE * 1000)
    yield make
    for context in contexts:
        context.close()
    assert not broken
    assert [url for url in requests if outside(url)] == []


@pytest.fixture
def page(new_context: NewContext) -> Page:
    return new_context().new_page()


def outside(url: str) -> bool:
    """Whether ``url`` leads off this machine (or into its files). Data and blob addresses lead nowhere."""
    return url.startswith(OUTSIDE_IS) and not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:"))
