"""One record of the audit whole: what was asked and given, where the time went, the row as it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd
import streamlit as st

from core.audit.columns import TIMES
from core.audit.query import AuditFilter, AuditRecordView, AuditRow, Neighbours, shown
from core.errors import NotFound
from pages.parts import audit_list, facts, frame, reading, services
from pages.parts.numbers import NONE, count, moment, ms, score
from pages.parts.status import Fact
from pages.parts.text import literal, visible

if TYPE_CHECKING:
    from core.bootstrap import App

TEXT_CHARS: Final = 100_000
CHAIN: Final = ("writer", "seq", "prev_hash", "row_hash", "hash_version", "recorded_at")
_TONES: Final = {
    "ok": "green",
    "refused": "orange",
    "timeout": "red",
    "error": "red",
    "READY": "green",
    "NO_EVIDENCE": "orange",
    "ERROR": "red",
    "PRECISE": "green",
    "REFERENCE": "orange",
}


def draw(app: App, where: AuditFilter, invocation_id: str, page: str, zone: str) -> None:
    """The record with the ways to the ones beside it in the list of ``where``."""
    found = services.call("This record cannot be shown", _read, app, where, invocation_id)
    with st.container(border=True):
        _head(found, page)
        if found is None:
            return
        view, _ = found
        facts.strip(record_facts(view.row, zone))
        for remark in remarks(view.row):
            st.text(visible(remark, 2_000))
        left, right = st.columns([2, 3], gap="large")
        with left:
            st.caption("Where the time went")
            st.dataframe(times_table(view.row), hide_index=True, key=f"{page}.record.times")
        with right:
            _given(view, page)
        with st.expander("The record as it is stored", key=f"{page}.record.raw"):
            st.code(visible(raw_json(view), TEXT_CHARS), language="json", wrap_lines=True, height=420)


def _read(app: App, where: AuditFilter, invocation_id: str) -> tuple[AuditRecordView, Neighbours]:
    view = app.audit_log.get(invocation_id)
    if view is None:
        raise NotFound("no record of this id: it never was, or it was pruned, or it still waits in the outbox")
    return view, app.audit_log.neighbours(where, invocation_id)


def _head(found: tuple[AuditRecordView, Neighbours] | None, page: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if found is not None:
            view, beside = found
            for name, label, icon, target in (
                ("newer", "Newer record", ":material/arrow_upward:", beside.newer),
                ("older", "Older record", ":material/arrow_downward:", beside.older),
            ):
                st.button(
                    label,
                    icon=icon,
                    key=f"{page}.record.{name}",
                    disabled=target is None,
                    on_click=_show,
                    args=(target,),
                )
            if view.row.trace_id:
                st.page_link(
                    frame.TRACE.path,
                    label="Open its trace",
                    icon=":material/account_tree:",
                    query_params={"trace": view.row.trace_id},
                    width="content",
                )
        st.button("Close", icon=":material/close:", key=f"{page}.record.close", on_click=_show, args=(None,))
        if found is not None:
            st.markdown(_name(found[0].row.invocation_id), width="content")


def _show(invocation_id: str | None) -> None:
    if invocation_id is None:
        st.query_params.pop(audit_list.RECORD, None)
    else:
        st.query_params[audit_list.RECORD] = invocation_id


def record_facts(row: AuditRow, zone: str) -> tuple[Fact, ...]:
    """The strip of a record."""
    return (
        Fact("Time", moment(row.created_at, zone)),
        Fact("Status", _name(row.status) if row.status not in _TONES else row.status, tone=_tone(row.status)),
        Fact("Evidence", row.evidence_status, "What the agent was told.", _tone(row.evidence_status)),
        Fact("Level", row.relevance_level or "none", tone=_tone(row.relevance_level)),
        Fact("Attempt", row.selected_attempt or "none", f"{count(row.attempt_count)} made"),
        Fact("Fallback", row.fallback_reason or "none"),
        Fact("Returned", f"{count(row.returned_count)} of {count(row.candidate_count)}"),
        Fact("Top quality", score(row.top_quality), f"Gap to the second: {score(row.quality_gap)}, no confidence."),
        Fact("Total", ms(row.total_ms)),
        Fact("Tool", _name(row.tool_name), f"Origin {_name(row.origin)}, asked by {_name(row.actor)}"),
        Fact("Scope", _name(row.kb_scope), f"Category filter: {_name(row.category_filter)}"),
        Fact("Generation", count(row.generation), f"Model {_name(row.embedding_profile)}"),
        Fact("Session", _name(row.session_id), f"Run {_name(row.run_id)}"),
    )


def _name(value: str | None) -> str:
    return literal(value or "", 60)


def _tone(value: str | None) -> str:
    return _TONES.get(value or "", "")


def remarks(row: AuditRow) -> tuple[str, ...]:
    """Lines that are shown as text, foreign ones among them."""
    lines = []
    if row.query_text:
        lines.append(f"Question: {row.query_text}")
    else:
        lines.append(
            f"The question is not stored (content {row.content}): {count(row.query_chars)} characters, "
            f"SHA-256 {row.query_sha256}"
        )
    if row.error_class or row.error_message:
        lines.append(f"Failed: {row.error_class or ''} {row.error_message or ''}".rstrip())
    if row.degraded_reasons:
        lines.append(f"Degraded: {row.degraded_reasons}")
    if told := audit_list.marks(row):
        lines.append(f"Marks: {told}")
    return tuple(lines)


def times_table(row: AuditRow) -> pd.DataFrame:
    """One row a stage; a stage that did not run shows a dash, never 0."""
    return pd.DataFrame(
        {
            "Stage": [name.removesuffix("_ms").replace("_", " ") for name in TIMES],
            "Time taken": [ms(getattr(row, name)) for name in TIMES],
        }
    )


def _given(view: AuditRecordView, page: str) -> None:
    """What the agent got, as stored: whole, or as hashes and lengths, or not at all."""
    st.caption("What the agent was given, as stored")
    data = view.json("agent_result")
    if data is None:
        st.text(visible(f"Not stored: the content of this record is {view.row.content or NONE}.", 200))
    else:
        st.code(visible(reading.json_text(data), TEXT_CHARS), language="json", wrap_lines=True, height=320)
    del page


def raw_json(view: AuditRecordView) -> str:
    """Every column under its own name, JSON columns as data, the chain's columns first."""
    parsed = {name: view.json(name) for name in ("agent_result", "raw_result", "details") if name in view.columns}
    whole = {name: shown(value) for name, value in {**view.columns, **parsed}.items()}
    first = {name: whole.pop(name) for name in CHAIN if name in whole}
    return reading.json_text({**first, **whole})
