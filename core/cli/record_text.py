"""What was recorded, as text for a terminal: a trace with its rank ladder, a list of records, a session in order of time.

Times are shown in a named zone; what is not there is a dash, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from core.audit.query import AuditPage, AuditRow, zone_info
from core.model import AttemptTrace, Candidate, LookupResult
from core.stores import DiagnosisEvent, StoredTrace

_NONE: Final = "–"
_LADDER: Final = (
    ("dense", "dense_rank"),
    ("bm25", "bm25_rank"),
    ("rrf", "rrf_rank"),
    ("rerank", "rerank_rank"),
    ("order", "original_rank"),
    ("evid", "evidence_rank"),
    ("pack", "pack_rank"),
    ("proj", "projection_rank"),
)


def moment(at: datetime, zone: str) -> str:
    return f"{at.astimezone(zone_info(zone)):%Y-%m-%d %H:%M:%S.%f} {zone}"


def line(text: object, width: int = 200) -> str:
    """``text`` on one line of at most ``width`` characters."""
    joined = " ".join(str(text).split())
    return joined if len(joined) <= width else joined[: width - 1] + "…"


# --------------------------------------------------------------------------------------------- one trace


def trace_text(stored: StoredTrace, query: str, invocation_id: str | None, zone: str) -> str:
    """The lookup at a glance, then each attempt with the rank of every candidate at each stage."""
    result, trace = stored.result, stored.result.retrieval_trace
    asked = line(query, 400) if query else _unstored(stored)
    evidence = f"{result.returned_count} of {result.candidate_count} candidates"
    head = [
        f"trace    {result.trace_id}   {moment(stored.created_at, zone)}",
        f"record   {invocation_id or 'none: the lookup was stored without an audit record'}",
        f"query    {asked}",
        f"result   {result.evidence_status}, level {_or(result.relevance_level)}, top quality {_number(result.top_quality)}, "
        f"{evidence}, {_ms(trace.timings.total_ms)}",
        f"way      {_or(trace.selected_attempt)}, fallback {_or(trace.fallback_reason)}, {trace.mode}, "
        f"scope {_or(trace.kb_scope)}, generation {_or(trace.generation)}",
        f"context  session {_or(trace.session_id)}, run {_or(trace.run_id)}, origin {trace.origin}, "
        f"settings {_or(trace.fingerprint[:12])}",
    ]
    if result.error_class:
        head.append(f"error    {result.error_class}: {line(result.message)}")
    head += [f"degraded {line(reason)}" for reason in trace.degraded]
    if trace.what_if:
        head.append("what-if  " + line(", ".join(f"{name} = {value}" for name, value in trace.what_if.items())))
    parts = ["\n".join(head), *(_attempt(attempt) for attempt in trace.attempts), _stages(result)]
    if stored.content != "full":
        parts.append(f"Texts of evidence are not stored (audit.content was {stored.content}): ranks and keys only.")
    if stored.cut:
        parts.append("The record was larger than the store takes: lists or long texts are shortened.")
    return "\n\n".join(parts)


def _unstored(stored: StoredTrace) -> str:
    digest = stored.query_sha256[:12]
    return f"not stored (audit.content was {stored.content}): {stored.query_chars} characters, SHA-256 {digest}…"


def _attempt(attempt: AttemptTrace) -> str:
    basis = f" ({attempt.top_quality_basis})" if attempt.top_quality_basis else ""
    low = {True: "low quality", False: "good enough", None: "not judged"}[attempt.low_quality]
    category = f", category {line(attempt.category_filter)}" if attempt.category_filter else ""
    head = f"{attempt.name}: {attempt.status}, {low}, top quality {_number(attempt.top_quality)}{basis}{category}"
    branches = ", ".join(f"{b.branch} {b.status} {_or(b.hits)} hits {_ms(b.ms)}" for b in attempt.branches)
    header = ("", *(name for name, _ in _LADDER), "quality", "")
    rows = [header, *(_rung(candidate) for candidate in attempt.candidates)]
    more = "\n  more candidates than are stored" if attempt.candidates_truncated else ""
    return "\n".join([head, f"  {branches}", *table(rows)]) + more


def _rung(candidate: Candidate) -> tuple[str, ...]:
    ranks = tuple(_or(getattr(candidate, name)) for _, name in _LADDER)
    dropped = f"{candidate.drop_reason} at {_or(candidate.drop_stage)}" if candidate.drop_reason else ""
    return (line(candidate.evidence_key, 60), *ranks, _number(candidate.quality_score), dropped)


def _stages(result: LookupResult) -> str:
    every = [*result.retrieval_trace.stages]
    for attempt in result.retrieval_trace.attempts:
        every += attempt.stages
    told = [f"{s.stage} {s.status} {_ms(s.ms)}" for s in every]
    return "stages   " + ", ".join(told)


# --------------------------------------------------------------------------------------------- lists


def page_text(page: AuditPage, zone: str) -> str:
    if not page.rows:
        return "no record fits"
    rows = [("time", "status", "evidence", "level", "attempt", "fallback", "ms", "scope", "record", "trace")]
    rows += [
        (
            moment(row.created_at, zone),
            row.status + (" degraded" if row.degraded else ""),
            row.evidence_status,
            _or(row.relevance_level),
            _or(row.selected_attempt),
            _or(row.fallback_reason),
            _or(None if row.total_ms is None else f"{row.total_ms:.0f}"),
            line(_or(row.kb_scope), 30),
            row.invocation_id,
            _or(row.trace_id),
        )
        for row in page.rows
    ]
    unit = "record" if page.total == 1 else "records"
    total = f"{'' if page.total_exact else 'more than '}{page.total} {unit}"
    return "\n".join([*table(rows), total])


def timeline(rows: Iterable[AuditRow], events: Iterable[DiagnosisEvent], zone: str) -> str:
    """Calls and their events in order of time; a call stands before what happened in it."""
    told = [((row.created_at, 0, 0), _call(row, zone)) for row in rows]
    told += [((event.created_at, 1, event.sequence), _event(event, zone)) for event in events]
    return "\n".join(text for _, text in sorted(told))


def _call(row: AuditRow, zone: str) -> str:
    return (
        f"{moment(row.created_at, zone)}  {row.tool_name} {row.status} {row.evidence_status} "
        f"level {_or(row.relevance_level)}, {_or(row.selected_attempt)}, fallback {_or(row.fallback_reason)}, "
        f"{_ms(row.total_ms)}, trace {_or(row.trace_id)}"
    )


def _event(event: DiagnosisEvent, zone: str) -> str:
    counts = (
        "" if event.count_in is None and event.count_out is None else f" {_or(event.count_in)} → {_or(event.count_out)}"
    )
    parts = (event.attempt, event.stage, event.status)
    return f"{moment(event.created_at, zone)}    {event.event_type} {' '.join(p for p in parts if p)}{counts} {_ms(event.ms)}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width, the first row as header."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _or(value: Any) -> str:
    return _NONE if value is None or value == "" else str(value)


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _ms(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1f} ms"
