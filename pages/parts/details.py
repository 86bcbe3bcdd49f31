"""Below the ranks: what the agent reads, the pack, the projection's losses, the rewriting, the times, the provenance."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.model import Candidate, Evidence, EvidenceStatus, PackedSource
from core.stages.evidence import by_document
from core.wording import counted, evidence_pieces
from pages.parts import boxes, look, reading, tables, waterfall
from pages.parts.numbers import NONE, count, score
from pages.parts.shown import View
from pages.parts.text import literal, visible

TEXT_CHARS = 20_000
"""Longest text drawn at once; a longer one is cut with a mark and whole in the download."""


def draw(view: View, page: str) -> None:
    names = ("What the agent reads", "Context pack", "Projection", "Query", "Times", "Provenance")
    agent, pack, projection, query, times, provenance = st.tabs(names)
    with agent:
        _agent(view, page)
    with pack:
        _pack(view, page)
    with projection:
        _projection(view, page)
    with query:
        _query(view)
    with times:
        _times(view, page)
    with provenance:
        _provenance(view, page)


def _documents(evidence: Sequence[Evidence]) -> str:
    """How many documents the evidence comes from: five chunks of one are no five witnesses."""
    return counted(len(by_document(evidence)), "document")


def _agent(view: View, page: str) -> None:
    tool = view.result.tool_result
    if tool is None:
        st.caption("What the agent was given is not stored for this lookup.")
        return
    left, right = st.columns([3, 1], vertical_alignment="center")
    cut = "cut on the way: see Projection" if tool.truncated else "nothing was cut"
    pieces = f"{evidence_pieces(tool.returned_count)} from {_documents(view.result.evidence)}"
    left.caption(f"{tool.evidence_status.value} · {pieces} · {cut}")
    right.download_button(
        "Download JSON",
        reading.json_text(tool),
        file_name="rag-tool-result.json",
        mime="application/json",
        on_click="ignore",
        icon=":material/download:",
        key=f"{page}.download.agent",
    )
    shape = st.segmented_control(
        "Shown as",
        ("Readable", "JSON"),
        default="Readable",
        required=True,
        key=f"{page}.shape",
        label_visibility="collapsed",
    )
    if shape == "JSON":
        st.code(visible(reading.json_text(tool), TEXT_CHARS), language="json", wrap_lines=True)
        return
    if tool.evidence_status is EvidenceStatus.ERROR:
        boxes.empty("No answer", "The agent is told that the lookup failed, not that there is no evidence.")
    elif not tool.evidence:
        boxes.empty("No evidence", "The agent is told so, and to go on with logs, metrics and alerts.")
    others = {piece.evidence_key: piece.also_in for piece in view.result.evidence}
    for number, piece in enumerate(tool.evidence, 1):
        with st.container(border=True):
            st.markdown(f"**{number}.** {literal(piece.title or piece.source)}")
            st.caption(f"{literal(piece.document_id)} · {literal(piece.source)} · {literal(piece.breadcrumb)}")
            if others.get(piece.document_id):
                st.caption(f"the same text also stands in: {literal(', '.join(others[piece.document_id]))}")
            if piece.excerpt:
                st.code(visible(piece.excerpt, TEXT_CHARS), language=None, wrap_lines=True)
            else:
                st.caption("This text is not stored, and not read back: see the remark at the top.")


def _pack(view: View, page: str) -> None:
    pack = view.result.context_pack
    if pack is None:
        st.caption("No pack was made.")
        return
    st.caption(
        f"{count(pack.used_chars)} of {count(pack.char_budget)} characters, strategy {literal(pack.strategy, 40)}"
    )
    st.progress(min(1.0, pack.used_chars / pack.char_budget) if pack.char_budget else 0.0)
    if pack.sources:
        st.dataframe(reading.pack_table(pack), hide_index=True, key=f"{page}.pack")
        _left_out(pack.sources)
    if pack.packed_text:
        st.code(visible(pack.packed_text, TEXT_CHARS), language=None, wrap_lines=True)
    else:
        st.caption("The packed text is empty or not stored.")


def _left_out(sources: tuple[PackedSource, ...]) -> None:
    omitted = sum(source.state == "omitted" for source in sources)
    trimmed = sum(source.state == "trimmed" for source in sources)
    st.caption(f"{len(sources) - omitted} in the pack, {trimmed} of them trimmed; {omitted} left out for the budget.")


def _projection(view: View, page: str) -> None:
    report = view.result.projection
    if report is None:
        st.caption("No projection report is stored for this lookup.")
        return
    st.caption("Every loss on the way to the agent, by bound and by piece of evidence.")
    st.dataframe(reading.bounds_table(report), hide_index=True, key=f"{page}.bounds")
    if report.items:
        st.dataframe(reading.projection_table(report), hide_index=True, key=f"{page}.projection")


def _query(view: View) -> None:
    plan = view.result.retrieval_trace.plan
    if plan is None:
        st.caption("The query was refused before it was rewritten.")
        return
    absent = "none" if plan.original_query else "not stored"
    rows = (
        ("As asked", plan.original_query or view.result.query or absent),
        ("Normalised", plan.normalized_query or absent),
        ("Searched (rewritten)", plan.rewritten_query or absent),
        ("Category filter", plan.l0.category_filter or "none"),
        ("Domain hints", ", ".join(plan.l0.domain_hints) or "none"),
        ("Matched keywords", ", ".join(plan.l0.matched_keywords) or absent),
        ("Entities", ", ".join(plan.l0.entities) or absent),
        ("Aliases", ", ".join(f"{alias} → {term}" for alias, term in plan.l0.aliases) or absent),
        ("Titles", ", ".join(plan.l0.l0_titles) or absent),
        ("L0", plan.l0_status.value + (f": {plan.reason}" if plan.reason else "")),
    )
    _facts(rows)


def _times(view: View, page: str) -> None:
    bars = waterfall.waterfall_bars(view.result.retrieval_trace)
    if not bars:
        st.caption("No times are recorded.")
        return
    st.caption("Stages laid end to end in pipeline order, the two branches side by side.")
    st.plotly_chart(waterfall.waterfall_figure(bars, dark=look.is_dark()), key=f"{page}.times", config=look.CHART)


def _provenance(view: View, page: str) -> None:
    trace = view.result.retrieval_trace
    costs = trace.costs
    cached = {True: "yes", False: "no", None: NONE}[costs.embedding_cache_hit]
    _facts(
        (
            ("Trace", trace.trace_id),
            ("Made at (UTC)", trace.created_at),
            ("Origin", trace.origin.value),
            ("Session", trace.session_id or NONE),
            ("Run", trace.run_id or NONE),
            ("Mode, fusion", f"{trace.mode.value}, {trace.fusion.value}"),
            ("Scope", trace.kb_scope),
            ("Generation, collection", f"{count(trace.generation)}, {trace.collection or NONE}"),
            ("Embedding profile", trace.embedding_profile or NONE),
            ("Reranker", trace.reranker_model or "off"),
            ("Analysis, code", f"{trace.analysis_version or NONE}, {trace.code_version or NONE}"),
            ("Settings fingerprint", trace.fingerprint or NONE),
            ("Corpus snapshot", trace.corpus_snapshot or NONE),
            ("Query vector from cache", cached),
            ("Tokens: embedding, context", f"{count(costs.embedding_tokens)}, {count(costs.context_tokens)}"),
            ("Retries", count(costs.retries)),
        )
    )
    for attempt in trace.attempts:
        for branch in attempt.branches:
            st.caption(f"{attempt.name.value}, {branch.branch.value}: as sent")
            st.code(visible(reading.json_text(branch), TEXT_CHARS), language="json", wrap_lines=True)
    st.download_button(
        "Download the whole result as JSON",
        lambda: reading.json_text(view.result),
        file_name="lookup-result.json",
        mime="application/json",
        on_click="ignore",
        icon=":material/download:",
        key=f"{page}.download.all",
    )


def chunk(view: View, candidate: Candidate) -> None:
    """One candidate: where it came from, its numbers, and its text where it may be shown."""
    with st.container(border=True):
        st.markdown(f"**Chunk** {literal(candidate.evidence_key)}")
        st.caption(f"{literal(candidate.title)} · {literal(candidate.breadcrumb)} · {literal(candidate.source)}")
        quality = f"quality {score(candidate.quality_score)}"
        basis = f" ({candidate.quality_basis.value})" if candidate.quality_basis else ""
        fate = f"dropped: {candidate.drop_reason.value.replace('_', ' ')}" if candidate.drop_reason else "kept"
        same = f", same as {candidate.duplicate_of}" if candidate.duplicate_of else ""
        st.text(visible(f"{quality}{basis} · {fate}{same} · revision {count(candidate.revision)}"))
        text = candidate.content if candidate.content is not None else view.text(candidate.evidence_key)
        if text is None:
            st.caption("The text is no longer in the index as it was then, or may not be shown for this lookup.")
        else:
            st.code(visible(text, TEXT_CHARS), language=None, wrap_lines=True)


def _facts(rows: tuple[tuple[str, str], ...]) -> None:
    table = pd.DataFrame({"": [row[0] for row in rows], "Value": [visible(row[1], 2_000) for row in rows]})
    st.dataframe(
        table,
        hide_index=True,
        height=tables.height(len(rows)),
        column_config={
            "": st.column_config.TextColumn(width="small"),
            "Value": st.column_config.TextColumn(width="large"),
        },
    )
