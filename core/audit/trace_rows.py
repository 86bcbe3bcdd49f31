"""A lookup as rows of the trace tables (retrieval-quality-and-observability, section 9)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

from core.audit.bounds import bounded_json, clean, cut, number, whole
from core.audit.chain import rows_hash
from core.audit.columns import KEY_CHARS
from core.audit.entry import TraceRows
from core.audit.redaction import Content, masked, text_hash
from core.codec import to_json
from core.model import AttemptTrace, Branch, Candidate, DropReason, LookupResult
from core.trace import trace_without_content

DENSE: Final = Branch.DENSE.value
BM25: Final = Branch.BM25.value
FUSED: Final = "fused"
"""``retriever`` of a candidate whose branch is unknown (fused by the store, without probes)."""
_LARGEST: Final = 2**63 - 1
_KEY: Final = itemgetter("attempt", "chunk_id", "retriever")
_DROPS: Final = {reason: reason.value for reason in DropReason}


def trace_rows(
    kept: LookupResult,
    *,
    query: str,
    content: Content,
    created_at: datetime,
    status: str,
    secrets: tuple[str, ...] = (),
) -> TraceRows:
    """``kept``, which is redacted already, as it is stored; ``query`` is the text as it was asked.

    Candidates never carry their text: it is read back by key where it may be shown.
    """
    if content is Content.FULL:
        kept = replace(kept, retrieval_trace=trace_without_content(kept.retrieval_trace))
    text, was_cut = stored_json(kept, secrets)
    trace, level = kept.retrieval_trace, kept.relevance_level
    trace_id = clean(trace.trace_id[:64])
    row = {
        "trace_id": trace_id,
        "tenant_id": cut(trace.kb_scope, 255),
        "session_id": cut(trace.session_id, 128),
        "run_id": cut(trace.run_id, 128),
        "query_hash": text_hash(query),
        "query_type": None,
        "corpus_snapshot": cut(trace.corpus_snapshot, 64),
        "index_alias": cut(trace.collection.rpartition("_g")[0], 128),
        "physical_index": cut(trace.collection, 255),
        "pipeline_version": cut(trace.fingerprint, 64),
        "embedding_model": cut(trace.embedding_profile or None, 255),
        "reranker_model": cut(trace.reranker_model, 128),
        "generator_model": None,
        "status": cut(status, 32),
        "total_latency_ms": number(trace.timings.total_ms),
        "created_at": created_at,
        "evidence_status": kept.evidence_status.value,
        "relevance_level": level.value if level else None,
        "selected_attempt": trace.selected_attempt.value if trace.selected_attempt else None,
        "fallback_reason": trace.fallback_reason.value if trace.fallback_reason else None,
        "mode": trace.mode.value,
        "generation": whole(trace.generation),
        "content": content.value,
        "query_chars": whole(len(query)),
        "cut": was_cut,
        "trace_json": text,
    }
    return TraceRows(row, tuple(found for attempt in trace.attempts for found in _candidates(trace_id, attempt)))


def trace_hash(rows: TraceRows) -> str:
    """Over the trace and its candidates, in the order of their key."""
    try:
        order = sorted(rows.candidates, key=_KEY)
    except TypeError:  # somebody put something else there
        order = sorted(rows.candidates, key=lambda row: str(_KEY(row)))
    return hashlib.sha256((rows_hash([rows.trace]) + rows_hash(order)).encode()).hexdigest()


def stored_json(value: Any, secrets: tuple[str, ...]) -> tuple[str, bool]:
    """``value`` as bounded JSON whose strings hold none of the ``secrets``, and whether it was shortened."""
    text, was_cut = bounded_json(value)
    found = [secret for secret in secrets if secret and (secret in text or to_json(secret)[1:-1] in text)]
    if found:
        return to_json(masked(json.loads(text), found)), was_cut
    return text, was_cut


def key_text(key: str) -> str:
    """An evidence key or document id for a key column: one that is too long keeps its beginning and gets its hash."""
    key = clean(key)
    if len(key) <= KEY_CHARS:
        return key
    return f"{key[: KEY_CHARS - 65]}…{hashlib.sha256(key.encode()).hexdigest()}"


def _candidates(trace_id: str, attempt: AttemptTrace) -> Iterator[dict[str, Any]]:
    name = attempt.name.value
    for candidate in attempt.candidates:
        drop = candidate.drop_reason
        row = {
            "trace_id": trace_id,
            "attempt": name,
            "chunk_id": key_text(candidate.evidence_key),
            "retriever": FUSED,
            "document_id": key_text(candidate.doc_id),
            "revision": None if candidate.revision is None else max(-_LARGEST, min(_LARGEST, candidate.revision)),
            "original_rank": None,
            "original_score": None,
            "fused_rank": whole(candidate.rrf_rank),
            "fused_score": number(candidate.rrf_score),
            "rerank_rank": whole(candidate.rerank_rank),
            "rerank_score": number(candidate.rerank_score),
            "context_rank": whole(candidate.pack_rank),
            "selected": candidate.evidence_rank is not None,
            "drop_reason": None if drop is None else _DROPS[drop],
            "metadata_json": _metadata(candidate),
        }
        dense, bm25 = candidate.dense_rank, candidate.bm25_rank
        if dense is not None:
            score = number(candidate.dense_distance)
            yield {**row, "retriever": DENSE, "original_rank": whole(dense), "original_score": score}
        if bm25 is not None:
            score = number(candidate.bm25_score)
            yield {**row, "retriever": BM25, "original_rank": whole(bm25), "original_score": score}
        if dense is None and bm25 is None:
            yield row


def _metadata(candidate: Candidate) -> str:
    facts = {
        "original_rank": candidate.original_rank,
        "evidence_rank": candidate.evidence_rank,
        "projection_rank": candidate.projection_rank,
        "quality_score": number(candidate.quality_score),
        "quality_basis": candidate.quality_basis,
        "drop_stage": candidate.drop_stage,
    }
    return to_json({name: value for name, value in facts.items() if value is not None})
