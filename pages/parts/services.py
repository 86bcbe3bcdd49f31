"""The way from the pages to ``core``: one application a process, built once, and the results it has given.

Streamlit's resource cache shares these among sessions and threads. Nothing here searches or audits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.errors import NotFound, RagError
from core.lookup_request import LookupOutcome
from core.settings import Settings, load
from pages.parts import boxes
from pages.parts.shown import View

if TYPE_CHECKING:
    from core.bootstrap import App
    from core.model import LookupResult
    from core.stores import StoredTrace

REMEMBERED = 32
"""Results kept in memory: enough for the tabs of a few operators; older ones are read from the trace store."""
WARMING_SECONDS = 2.0


@st.cache_resource(show_spinner=False)
def settings() -> Settings:
    """Read once a process. Raises InvalidSettings, which is not cached: a mended file is read on the next run."""
    return load()


@st.cache_resource(show_spinner="Opening the stores…")
def app() -> App:
    """The application over the real stores. A failure to build it is not cached: the next run tries again."""
    from core.bootstrap import build

    built = build(settings())
    built.start()
    return built


def settings_or_stop() -> Settings:
    """The settings; with wrong ones the page says which key and ends here."""
    try:
        return settings()
    except RagError as exc:
        boxes.failed("The settings cannot be used", exc)
        st.stop()


def app_or_stop() -> App:
    """The application; when it cannot be built the page says why and ends here."""
    try:
        return app()
    except RagError as exc:
        boxes.failed("The console cannot start", exc)
        st.button("Try again", icon=":material/refresh:", key="services.again")
        st.stop()
    except Exception as exc:  # noqa: BLE001 - the page's last line: one box, no stack trace
        boxes.failed("The console cannot start", exc)
        st.stop()


class Views:
    """A bounded memory of results by trace id, the longest unused one forgotten first. Safe among threads."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._kept: OrderedDict[str, View] = OrderedDict()
        self._lock = Lock()

    def keep(self, view: View) -> View:
        with self._lock:
            self._kept[view.result.trace_id] = view
            self._kept.move_to_end(view.result.trace_id)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return view

    def get(self, trace_id: str) -> View | None:
        with self._lock:
            view = self._kept.get(trace_id)
            if view is not None:
                self._kept.move_to_end(trace_id)
            return view


@st.cache_resource(show_spinner=False)
def views() -> Views:
    return Views()


def fresh(outcome: LookupOutcome) -> View:
    """A lookup made just now, as a view: its texts are at hand."""
    return View(outcome.result, outcome.receipt, {e.evidence_key: e.content for e in outcome.result.evidence})


def view(app: App, trace_id: str) -> View:
    """The result of ``trace_id``: from memory, else from the trace store with the texts that may still be shown. A
    console lookup's question comes from the history. Raises NotFound, or StoreUnavailable."""
    known = views().get(trace_id)
    if known is not None:
        return known
    stored = app.traces.load(trace_id)
    if stored is None:
        raise NotFound(
            "no lookup with this id is recorded: it never was, or it was pruned, or it still waits in the outbox"
        )
    found = app.restored(stored)
    result, asked = found.result, None
    if not result.query:
        asked = app.history.get(trace_id)
        result = _asked(result, asked.query if asked else "")
    return views().keep(View(result, texts=found.texts, note=_not_stored(stored, asked is not None, found.ranks_only)))


def _asked(result: LookupResult, query: str) -> LookupResult:
    """``result`` with its question; the agent's answer repeats it as far as the projection let it through."""
    tool, report = result.tool_result, result.projection
    if tool and report and not tool.query and len(query) == report.query_chars_before:
        tool = replace(tool, query=query[: report.query_chars_after])
    return replace(result, query=query, tool_result=tool)


def _not_stored(stored: StoredTrace, asked: bool, ranks_only: bool) -> str:
    """What a stored trace leaves out, in our own words; empty when it is whole."""
    if stored.cut:
        return "The record was larger than the store takes: long texts and lists are cut."
    if stored.content == "full":
        return ""
    question = (
        "" if asked else f"the question ({stored.query_chars:,} characters, SHA-256 {stored.query_sha256[:12]}…) and "
    )
    shown = "of an agent's lookup ranks only are shown" if ranks_only else "chunks are read back from the index by key"
    return f"audit.content was {stored.content}: {question}texts are not stored; {shown}."


def warming(app: App) -> None:
    """Says so while nothing has been searched yet and the models and the collection are still loading; looks again by
    itself until that is over."""

    @st.fragment(run_every=WARMING_SECONDS if app.lookup.warming else None)
    def notice() -> None:
        if app.lookup.warming:
            st.info("Warming up: the first lookup may take longer than the next ones.", icon=":material/hourglass_top:")

    notice()


def scopes(app: App) -> tuple[str, ...]:
    """The scopes of the indexed documents, sorted; none when they cannot be listed (the form still works)."""
    try:
        return tuple(sorted({document.kb_scope for document in app.documents.all()}))
    except RagError:
        return ()


def call(doing: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``function(*args)``; when it fails the page says so in one box and gets None."""
    try:
        return function(*args, **kwargs)
    except RagError as exc:
        boxes.failed(doing, exc)
    except Exception as exc:  # noqa: BLE001 - the page's last line: one box, no stack trace
        boxes.failed(doing, exc)
    return None
