"""Two tools beside a result: where a named document stands in every stage, and the chunks of a document as indexed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from core.model import Document, LookupResult
from core.probe import probe_expected
from pages.parts import ladder, services
from pages.parts.details import TEXT_CHARS
from pages.parts.numbers import NONE, count
from pages.parts.shown import View
from pages.parts.text import cell, literal, one_line, visible

if TYPE_CHECKING:
    from core.bootstrap import App


def expected_table(result: LookupResult, doc_id: str) -> pd.DataFrame:
    """Every candidate of ``doc_id`` in every attempt of ``result``, with its rank at each stage and its fate. Empty
    when the document is no candidate at all."""
    records: list[dict[str, Any]] = []
    for attempt in result.retrieval_trace.attempts:
        columns = ladder.ladder_columns(attempt)
        for row in ladder.ladder_rows(attempt):
            if row.doc_id == doc_id:
                ranks = {ladder.LABELS[stage]: row.ranks[stage] for stage in columns}
                fate = (row.drop_reason or "").replace("_", " ") or (
                    "reached the agent" if row.reached_agent else "kept"
                )
                records.append(
                    {
                        "Attempt": attempt.name.value,
                        "Chunk": cell(row.key, 120),
                        **ranks,
                        "Fate": fate,
                        "Quality": row.quality,
                    }
                )
    table = pd.DataFrame(records)
    for label in ladder.LABELS.values():
        if label in table:
            table[label] = table[label].astype("Int64")
    return table


def expected(app: App, view: View, page: str) -> None:
    """The expected document: its ranks in this result, and on demand a deeper probe that is no lookup and no audit."""
    st.subheader("Expected document", anchor=False, help="Name what should have come, and see where it was lost.")
    doc_id = _document(app, f"{page}.expected")
    if doc_id is None:
        return
    table = expected_table(view.result, doc_id)
    if len(table):
        st.dataframe(table, hide_index=True, placeholder=NONE, key=f"{page}.expected.table")
    else:
        st.text("It is not among the candidates of this lookup.")
    asked, this = f"{page}.probed", (view.result.trace_id, doc_id)
    if st.button(
        "Probe deeper", icon=":material/manage_search:", key=f"{page}.probe", help="Searches past the window."
    ):
        st.session_state[asked] = this
    if st.session_state.get(asked) == this:
        for line in services.call("The probe failed", _probed, *this, app, view.result) or ():
            st.text(visible(line, 1_000))


@st.cache_data(ttl=600, max_entries=64, show_spinner="Searching past the window …")
def _probed(trace_id: str, doc_id: str, _app: App, _result: LookupResult) -> tuple[str, ...]:
    """Kept for a while: what else is touched on the page asks the store nothing again."""
    del trace_id  # with the document it names the answer
    return tuple(probe_expected(_app.lookup, _result, doc_id, _app.documents.all()).lines)


def inspector(app: App, page: str) -> None:
    """A document as it is indexed: its chunks with text and search tokens. Closed until it is wanted."""
    box = st.expander("Inspect a document", icon=":material/description:", on_change="rerun", key=f"{page}.inspector")
    if not box.open:
        return
    with box:
        doc_id = _document(app, f"{page}.inspected")
        chunks = services.call("The document cannot be read", app.documents.chunks, doc_id) if doc_id else None
        if not chunks:
            return
        at = 0
        if len(chunks) > 1:
            at = st.selectbox(
                "Chunk",
                range(len(chunks)),
                format_func=lambda n: one_line(f"{chunks[n].chunk_index}: {chunks[n].breadcrumb}", 100),
                key=f"{page}.inspected.chunk.{doc_id}",
            )
        one = chunks[at]
        st.caption(
            f"{literal(one.evidence_key)} · revision {count(one.revision)} · {count(len(one.content))} characters"
        )
        st.code(visible(one.content, TEXT_CHARS), language=None, wrap_lines=True)
        st.caption("Search tokens, as BM25 sees them")
        st.code(visible(one.tokens, TEXT_CHARS), language=None, wrap_lines=True)


def _document(app: App, key: str) -> str | None:
    documents: Sequence[Document] = services.call("The documents cannot be listed", app.documents.all) or ()
    titles = {document.doc_id: document.title for document in documents}
    return st.selectbox(
        "Document",
        list(titles),
        index=None,
        placeholder=f"one of {count(len(titles))} documents: type a part of its name or title",
        format_func=lambda doc_id: one_line(f"{doc_id} — {titles.get(doc_id, '')}", 120),
        key=key,
    )
