"""One installation in a temporary folder, its consoles, and what a person does with a page of theirs."""

from __future__ import annotations

import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from core.adapters import milvus_server
from core.settings import ROOT
from tests.browser import corpus

PATIENCE: Final = 60.0
"""Seconds that a page or a server may take on a machine that is busy with other things."""
ROW: Final = 35
"""Height in pixels of a row of Streamlit's table, and of its head."""


@dataclass
class House:
    """The files and stores of an installation. Deadlines are wide: a busy machine is no failure here."""

    root: Path
    changes: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith(("RAG_", "STREAMLIT_"))},
            "RAG__MILVUS__URI": str(self.root / "milvus.db"),
            "RAG__MILVUS__IDLE_SECONDS": "300",
            "RAG__DATABASE__URL": f"sqlite:///{self.root}/console.sqlite3",
            "RAG__EMBEDDING__PROVIDER": "use",
            "RAG__EMBEDDING__CALIBRATION": str(self.root / "calibration.json"),
            "RAG__EMBEDDING__TIMEOUT": "60",
            "RAG__RETRIEVAL__BRANCH_TIMEOUT": "30",
            "RAG__RETRIEVAL__LOOKUP_TIMEOUT": "55",
            "RAG__KNOWLEDGE__SOURCE": str(self.source),
            "RAG__KNOWLEDGE__UPLOADS": str(self.root / "uploads"),
            "RAG__KNOWLEDGE__SHIPPED_VECTORS": str(self.root / "no-vectors"),
            "RAG__AUDIT__OUTBOX": str(self.root / "outbox"),
            "RAG__AUDIT__TIMEOUT": "30",
            "RAG__EVALUATION__FOLDER": str(self.root / "evaluation"),
            **self.changes,
        }

    def build(self, texts: dict[str, str]) -> House:
        """Writes the runbooks and indexes them from the command line."""
        corpus.write(self.source, texts)
        self.run("rebuild", "--confirm", "REBUILD", "--why", "first")
        return self

    def close(self) -> None:
        """Ends the store's server, whoever started it."""
        self.run("serve", "--stop")
        assert not milvus_server.status(self.root / "milvus.db").running

    @property
    def source(self) -> Path:
        return self.root / "runbooks"

    def run(self, *args: str, code: int = 0) -> str:
        """The standard output of one command."""
        done = subprocess.run(
            [sys.executable, "-m", "core", *args],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE * 2,
            check=False,
        )
        assert done.returncode == code, f"exit {done.returncode}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *args: str) -> Any:
        return json.loads(self.run(*args, "--json"))

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What the database holds, read past the console."""
        connection = sqlite3.connect(f"file:{self.root}/console.sqlite3?mode=ro", uri=True, timeout=PATIENCE)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    def recorded(self) -> int:
        """Audit rows, those that still wait in the outbox included."""
        return int(self.rows("SELECT count(*) FROM tool_invocation")[0][0]) + len(
            [path for path in (self.root / "outbox").rglob("*.json*") if path.is_file()]
        )


@dataclass
class Console:
    """One server of the console on a free port of the loopback."""

    house: House
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Console:
        """Serves when this returns; no page was asked for yet."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        with (self.house.root / f"console-{self.port}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "pages.parts.launch",
                    "--server.port",
                    str(self.port),
                    "--server.headless",
                    "true",
                ],
                cwd=ROOT,
                env=self.house.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until(self._healthy, "the console serves")
        return self

    def _healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the console ended: {self.log}"
        try:
            with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    @property
    def log(self) -> str:
        return (self.house.root / f"console-{self.port}.log").read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def until(holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Waits for a condition outside the browser."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.1)


# ---------------------------------------------------------------- what a person does


def open_page(page: Page, address: str, heading: str) -> None:
    """Goes to ``address`` and waits until the page with this heading is drawn whole."""
    page.goto(address)
    expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    settled(page)


def settled(page: Page) -> None:
    """Waits until the script of the page has run to its end, and nothing went wrong in it."""
    app = page.get_by_test_id("stApp")
    expect(app).to_have_attribute("data-test-connection-state", "CONNECTED")
    expect(app).to_have_attribute("data-test-script-state", "notRunning")
    expect(page.locator("[data-stale=true]")).to_have_count(0)
    sane(page)


def sane(page: Page) -> None:
    """No exception box, no stack trace, no dialog of Streamlit's own."""
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_text("Page not found")).to_have_count(0)
    assert "Traceback" not in page.locator("body").inner_text()


def ask(page: Page, question: str) -> str:
    """Types ``question``, presses Enter and waits for its result; the trace id in the address."""
    before = trace_of(page)
    box = page.get_by_role("textbox", name="Question", exact=True)
    box.fill(question)
    box.press("Enter")
    expect(page).to_have_url(re.compile(rf"[?&]trace=(?!{before or 'none'}\b)[0-9a-zA-Z-]+"))
    expect(page.get_by_role("heading", name="Rank ladder")).to_have_count(1)  # two, while an earlier result goes
    expect(page.get_by_role("tab", name="Provenance")).to_have_count(1)
    settled(page)
    return trace_of(page)


def trace_of(page: Page) -> str:
    found = re.search(r"[?&]trace=([0-9a-zA-Z-]+)", page.url)
    return found[1] if found else ""


def excerpts(page: Page) -> list[str]:
    """The evidence on the screen, as the agent reads it, in order."""
    panel = page.get_by_role("tabpanel", name="What the agent reads")
    told = re.search(r"(\d+) pieces? of evidence", panel.get_by_test_id("stCaptionContainer").first.inner_text())
    assert told
    codes = panel.get_by_test_id("stCode").locator("code")
    for _ in range(50):  # a page that is drawn anew takes its boxes away between a count and a look
        expect(codes).to_have_count(int(told[1]))
        texts = codes.all_inner_texts()
        if len(texts) == int(told[1]) and all(texts):
            return texts
        page.wait_for_timeout(100)
    raise AssertionError(f"the evidence did not come to rest: {codes.all_inner_texts()}")


def tab(page: Page, name: str) -> Locator:
    """Opens a tab of the result and gives its panel."""
    page.get_by_role("tab", name=name, exact=True).click()
    panel = page.get_by_role("tabpanel", name=name, exact=True)
    expect(panel).to_be_visible()
    return panel


def expand(page: Page, name: str) -> Locator:
    """Opens a closed box of the page and gives it."""
    box = page.get_by_test_id("stExpander").filter(has_text=name)
    box.locator("summary").click()
    expect(box.locator("details")).to_have_attribute("open", "")
    return box


def pick(page: Page, chooser: Locator, words: str) -> None:
    """Types into a select box and takes the option with these words. A list that the page closed under the mouse, since it
    was being drawn anew, is opened again."""
    option = page.get_by_role("option").filter(has_text=words)

    def picked() -> bool:
        settled(page)
        chooser.click()
        chooser.fill(words)
        try:
            option.first.click(timeout=3_000)
        except PlaywrightTimeout:
            page.keyboard.press("Escape")
            return False
        return True

    until(picked, f"the option {words}")


def table(page: Page, column: str) -> Locator:
    """The table on the screen that has this column."""
    head = page.locator("th", has_text=re.compile(rf"^{re.escape(column)}$"))
    return page.get_by_test_id("stDataFrame").filter(has=head).first


def cells(grid: Locator) -> list[dict[str, str]]:
    """What a table shows, one dict a row, by the names of its columns. Only what is scrolled into view is there."""
    expect(grid.locator("canvas").first).to_be_attached()
    heads = [head.strip() for head in grid.locator("thead th").all_text_contents()]
    rows = grid.locator("tbody tr")
    return [dict(zip(heads, rows.nth(n).locator("td").all_text_contents(), strict=True)) for n in range(rows.count())]


def choose(grid: Locator, row: int) -> None:
    """Clicks the first cell of a row (from 0) of a table until it is chosen: a table is painted, not made of elements, and
    takes a click only when it has settled under the mouse."""
    chosen = grid.locator("tbody tr").nth(row).locator("td[aria-selected=true]")
    canvas = grid.locator(".dvn-scroller")
    canvas.scroll_into_view_if_needed()

    def clicked() -> bool:
        canvas.click(position={"x": 60, "y": ROW * (row + 1) + ROW / 2})
        try:
            expect(chosen).to_have_count(1, timeout=1_000)
        except AssertionError:
            return False
        return True

    until(clicked, "the cell is chosen")
