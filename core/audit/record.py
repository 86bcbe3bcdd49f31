"""A call as the pipeline hands it over → what is delivered to the database (DESIGN 3.11), redacted and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from core import errors
from core.audit.bounds import bounded_json, clean, cut, number, whole
from core.audit.chain import rows_hash
from core.audit.columns import INVOCATION_CHARS, QUERY_CHARS, SEARCH_CHARS, TIMES, Status, fold
from core.audit.entry import Entry
from core.audit.events import events
from core.audit.language import language
from core.audit.redaction import Content, described, masked, redact_answer, redact_result, text_hash
from core.audit.trace_rows import stored_json, trace_hash, trace_rows
from core.codec import to_json
from core.model import AttemptTrace, Candidate, DropReason, LookupResult, Origin, RetrievalTrace, StageStatus
from core.ports import AuditRecord

OVERLAP_AT: Final = 10
CUT_COLUMNS_CHARS: Final = 255
_SEARCHED: Final = (
    "invocation_id",
    "trace_id",
    "tool_call_id",
    "session_id",
    "run_id",
    "actor",
    "error_class",
    "error_message",
    "category_filter",
    "degraded_reasons",
    "query_sha256",
    "query_text",
)


def build(
    record: AuditRecord, *, content: Content | str, secrets: tuple[str, ...] = (), console_queries: bool = True
) -> Entry:
    """Everything that is stored of ``record`` under ``content``. ``secrets``: literal values that nothing may hold.

    ``console_queries``: the question of a console lookup is kept beside the record, whatever ``content`` says.
    Raises ValueError for an unknown ``content`` and for a ``created_at`` without a zone.
    """
    content = Content(content)
    if record.created_at.tzinfo is None:
        raise ValueError("created_at: a time without a zone; give it tzinfo")
    status = status_of(record.result.error_class)
    kept = redact_result(record.result, content, query=record.query, secrets=secrets)
    row = _row(record, kept, content, status, secrets)
    happened = events(
        kept,
        invocation_id=row["invocation_id"],
        created_at=record.created_at,
        status=status,
        facts={
            "tool": row["tool_name"],
            "origin": row["origin"],
            "mode": row["mode"],
            "language": row["language"],
            "query_chars": row["query_chars"],
            "generation": row["generation"],
        },
    )
    traced = trace_rows(
        kept,
        query=record.query,
        content=content,
        created_at=record.created_at,
        status=status.value,
        secrets=secrets,
    )
    row["trace_sha256"], row["events_sha256"] = trace_hash(traced), rows_hash(happened)
    return Entry(
        row=row,
        events=happened,
        trace=traced,
        settings=_settings(record),
        console_query=_console_query(record, secrets) if console_queries else None,
    )


def status_of(error_class: str | None) -> Status:
    """What became of a call that ended with an error of this class (None: it was answered)."""
    if error_class is None:
        return Status.OK
    kind = getattr(errors, error_class, None)
    if isinstance(kind, type) and issubclass(kind, errors.BadInput):
        return Status.REFUSED
    if isinstance(kind, type) and issubclass(kind, errors.DeadlineExceeded):
        return Status.TIMEOUT
    return Status.ERROR


def bounded(row: dict[str, Any], cut_before: Iterable[str] = ()) -> dict[str, Any]:
    """``row`` with every text column as wide as it may be, ``cut`` and ``cut_columns`` set."""
    names = list(cut_before)
    for name, width in INVOCATION_CHARS.items():
        value = row.get(name)
        if value is not None:
            row[name] = cut(str(value), width)
            names += [name] if len(str(value)) > width else []
    row["cut"] = bool(names)
    row["cut_columns"] = cut(",".join(names), CUT_COLUMNS_CHARS) if names else None
    return row


def search_text(row: Mapping[str, Any], more: Iterable[str] = ()) -> str:
    """What free text is looked for in: lines of ``row`` and ``more``, which the record holds anyhow."""
    lines = [str(row[name]) for name in _SEARCHED if row.get(name)]
    return clean(fold("\n".join([*lines, *filter(None, more)]))[:SEARCH_CHARS])


# --------------------------------------------------------------------------------------------- the row


def _row(
    record: AuditRecord, kept: LookupResult, content: Content, status: Status, secrets: tuple[str, ...]
) -> dict[str, Any]:
    trace, tool, pack = kept.retrieval_trace, kept.tool_result, kept.context_pack
    selected = next((a for a in trace.attempts if a.name is trace.selected_attempt), None)
    costs, full = trace.costs, content is Content.FULL
    agent, agent_cut = _agent_result(record.result, content, secrets)
    raw, raw_cut = stored_json(record.result, secrets) if full else (None, False)
    details, details_cut = stored_json(_details(record.result, kept), secrets)
    row: dict[str, Any] = {
        "invocation_id": record.invocation_id,
        "tool_name": record.tool_name,
        "created_at": record.created_at,
        "origin": trace.origin.value,
        "actor": record.actor or None,
        "session_id": trace.session_id,
        "run_id": trace.run_id,
        "trace_id": trace.trace_id,
        "tool_call_id": trace.tool_call_id,
        "status": status.value,
        "error_class": kept.error_class,
        "error_message": errors.redact(kept.message, secrets) if kept.error_class else None,
        "evidence_status": kept.evidence_status.value,
        "relevance_level": kept.relevance_level.value if kept.relevance_level else None,
        "selected_attempt": trace.selected_attempt.value if trace.selected_attempt else None,
        "fallback_reason": trace.fallback_reason.value if trace.fallback_reason else None,
        "mode": trace.mode.value,
        "fusion": trace.fusion.value,
        "kb_scope": trace.kb_scope or None,
        "category_filter": trace.attempts[0].category_filter if trace.attempts else None,
        "language": language(record.query[:QUERY_CHARS]),
        "collection": trace.collection or None,
        "embedding_profile": trace.embedding_profile or None,
        "reranker_model": trace.reranker_model,
        "fingerprint": trace.fingerprint or None,
        "analysis_version": trace.analysis_version or None,
        "code_version": trace.code_version or None,
        "corpus_snapshot": trace.corpus_snapshot or None,
        "degraded_reasons": "; ".join(trace.degraded) or None,
        "content": content.value,
        "found": kept.found,
        "degraded": bool(trace.degraded),
        "truncated": bool(tool and tool.truncated),
        "what_if": bool(trace.what_if),
        "query_sha256": text_hash(record.query),
        "query_chars": whole(len(record.query)),
        "query_text": cut(masked(record.query, secrets), QUERY_CHARS) if full else None,
        "generation": whole(trace.generation),
        "attempt_count": len(trace.attempts),
        "candidate_count": whole(kept.candidate_count),
        "returned_count": whole(kept.returned_count),
        "retries": whole(costs.retries),
        "unique_sources": _unique_sources(selected),
        "scope_violations": whole(sum(attempt.scope_violations for attempt in trace.attempts)),
        "stale_count": _dropped(trace, DropReason.STALE_REVISION),
        "pack_dropped": len(pack.omitted_sources) if pack else None,
        "top_quality": number(kept.top_quality),
        "quality_gap": _quality_gap(selected),
        "overlap_at_10": _overlap(selected, OVERLAP_AT),
        **{name: number(getattr(trace.timings, name)) for name in TIMES},
        "embedding_tokens": whole(costs.embedding_tokens),
        "reranker_documents": whole(costs.reranker_documents),
        "context_tokens": whole(costs.context_tokens),
        "trace_bytes": whole(costs.trace_bytes),
        "embedding_cache_hit": costs.embedding_cache_hit,
        "agent_result": agent,
        "raw_result": raw,
        "details": details,
    }
    too_long = {
        "query_text": full and len(record.query) > QUERY_CHARS,
        "agent_result": agent_cut,
        "raw_result": raw_cut,
        "details": details_cut,
    }
    row = bounded(row, [name for name, was_cut in too_long.items() if was_cut])
    row["search_text"] = search_text(
        row, (text for e in kept.evidence for text in (e.evidence_key, e.source, e.title, e.breadcrumb))
    )
    return row


def _agent_result(result: LookupResult, content: Content, secrets: tuple[str, ...]) -> tuple[str | None, bool]:
    if result.tool_result is None or content is Content.NONE:
        return None, False
    value = result.tool_result if content is Content.FULL else redact_answer(result.tool_result)
    return stored_json(value, secrets)


def _details(result: LookupResult, kept: LookupResult) -> dict[str, Any]:
    """What a reader of the record wants to see without its trace: evidence by hash and length, attempts, losses."""
    trace, report = kept.retrieval_trace, kept.projection
    drops: dict[str, int] = {}
    for candidate in _candidates(trace):
        if candidate.drop_reason is not None:
            drops[candidate.drop_reason.value] = drops.get(candidate.drop_reason.value, 0) + 1
    return {
        "message": kept.message,
        "completeness_hint": kept.completeness_hint,
        "degraded": trace.degraded,
        "what_if": trace.what_if,
        "evidence": [
            {
                "evidence_key": piece.evidence_key,
                "source": piece.source,
                "revision": piece.revision,
                "quality_score": piece.quality_score,
                "quality_basis": piece.quality_basis,
                "title": described(piece.title),
                "content": described(piece.content),
            }
            for piece in result.evidence
        ],
        "attempts": [
            {
                "name": attempt.name,
                "status": attempt.status,
                "category_filter": attempt.category_filter,
                "candidate_count": attempt.candidate_count,
                "top_quality": attempt.top_quality,
                "relevance_level": attempt.relevance_level,
                "low_quality": attempt.low_quality,
                "branches": {branch.branch.value: branch.status for branch in attempt.branches},
                "degraded": attempt.degraded,
            }
            for attempt in trace.attempts
        ],
        "drops": drops,
        "pack": {"used_chars": kept.context_pack.used_chars, "char_budget": kept.context_pack.char_budget}
        if kept.context_pack
        else None,
        "projection": {"bytes_before": report.bytes_before, "bytes_after": report.bytes_after} if report else None,
    }


# --------------------------------------------------------------------------------------------- numbers


def _candidates(trace: RetrievalTrace) -> Iterable[Candidate]:
    return (candidate for attempt in trace.attempts for candidate in attempt.candidates)


def _dropped(trace: RetrievalTrace, reason: DropReason) -> int:
    return sum(candidate.drop_reason is reason for candidate in _candidates(trace))


def _unique_sources(attempt: AttemptTrace | None) -> int | None:
    """Documents among the ranked candidates."""
    if attempt is None:
        return None
    return len({c.doc_id or c.evidence_key for c in attempt.candidates if c.original_rank is not None})


def _quality_gap(attempt: AttemptTrace | None) -> float | None:
    """Quality of the first minus that of the second candidate in order: a feature, no confidence."""
    ranked = {c.original_rank: c.quality_score for c in attempt.candidates} if attempt else {}
    first, second = ranked.get(1), ranked.get(2)
    return number(first - second) if first is not None and second is not None else None


def _overlap(attempt: AttemptTrace | None, k: int) -> float | None:
    """Chunks in both branches' first ``k`` / chunks in either; null unless both branches answered."""
    if attempt is None or len([b for b in attempt.branches if b.status is StageStatus.COMPLETE]) < 2:
        return None
    dense = {c.evidence_key for c in attempt.candidates if c.dense_rank is not None and c.dense_rank <= k}
    bm25 = {c.evidence_key for c in attempt.candidates if c.bm25_rank is not None and c.bm25_rank <= k}
    return len(dense & bm25) / len(dense | bm25) if dense | bm25 else None


# --------------------------------------------------------------------------------------------- beside the row


def _settings(record: AuditRecord) -> dict[str, Any] | None:
    fingerprint = record.result.retrieval_trace.fingerprint
    if not fingerprint:
        return None
    text = to_json(dict(record.settings_snapshot))
    return {"fingerprint": cut(fingerprint, 64), "settings": text, "created_at": record.created_at}


def _console_query(record: AuditRecord, secrets: tuple[str, ...]) -> dict[str, Any] | None:
    trace, level = record.result.retrieval_trace, record.result.relevance_level
    if trace.origin is not Origin.CONSOLE or not record.query:
        return None
    return {
        "trace_id": cut(trace.trace_id, 64),
        "query": cut(masked(record.query, secrets), QUERY_CHARS),
        "created_at": record.created_at,
        "mode": trace.mode.value,
        "kb_scope": cut(trace.kb_scope, 255),
        "actor": cut(record.actor, 128),
        "session_id": cut(trace.session_id, 128),
        "evidence_status": record.result.evidence_status.value,
        "relevance_level": level.value if level else None,
        "generation": whole(trace.generation),
        "what_if": bounded_json(dict(trace.what_if))[0],
    }
