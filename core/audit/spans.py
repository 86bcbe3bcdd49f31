"""A finished lookup as OpenTelemetry spans. Pure: no SDK, no clock, no network.

Names are few and fixed. ``gen_ai.*`` follows the GenAI semantic conventions (retrieval spans, v0.1.0), the kinds
OpenInference's ``openinference.span.kind``; ranks, drop reasons and the gate stand in ``rag.*``. Query and evidence text
only where content was asked for. Stage durations are measured, their starts are laid end to end (``rag.timing``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from core.model import (
    AttemptTrace,
    Branch,
    BranchTrace,
    Candidate,
    LookupResult,
    RetrievalTrace,
    Stage,
    StageStatus,
    StageTrace,
)

CONVENTIONS: Final = "gen-ai/0.1.0"
Value = str | bool | int | float | tuple[str, ...]
MAX_CANDIDATES: Final = 50


@dataclass(frozen=True, slots=True)
class Span:
    """``start`` and ``end``: nanoseconds since the epoch. ``error``: class of what went wrong, None when nothing did."""

    name: str
    start: int
    end: int
    attributes: Mapping[str, Value]
    children: tuple[Span, ...] = ()
    error: str | None = None
    events: tuple[tuple[str, Mapping[str, Value]], ...] = field(default=())


def sampled(trace_id: str, rate: float) -> bool:
    """Whether this lookup is exported: the same answer for the same id, in every process."""
    share = int(hashlib.sha256(trace_id.encode("utf-8", "surrogatepass")).hexdigest()[:13], 16) / 16**13
    return share < rate


def spans_of(result: LookupResult, created_at: datetime, *, content: bool = False) -> Span:
    """The tree: ``rag.query`` over ``rag.query.rewrite``, one ``rag.retrieval`` an attempt with a child a branch,
    ``rag.fusion``, ``rag.rerank``, ``rag.context.pack``, ``rag.project``."""
    trace = result.retrieval_trace
    start = int(created_at.timestamp() * 1_000_000) * 1_000
    line = _Line(start)
    stages = {stage.stage: stage for stage in trace.stages}
    children = [_stage(line, "rag.query.rewrite", "CHAIN", stages.get(Stage.TRANSFORM), trace.timings.query_rewrite_ms)]
    line.skip(trace.timings.embedding_ms)
    for attempt in trace.attempts:
        children += _attempt(line, attempt, trace, content)
    children.append(_stage(line, "rag.context.pack", "CHAIN", stages.get(Stage.PACK), trace.timings.context_pack_ms))
    children.append(_stage(line, "rag.project", "CHAIN", stages.get(Stage.PROJECT), trace.timings.project_ms))
    end = max(line.now, start + _ns(trace.timings.total_ms))
    attributes = _whole(result, trace)
    if content:
        attributes |= {"gen_ai.retrieval.query.text": result.query, "input.value": result.query}
    kept = tuple(child for child in children if child is not None)
    return Span("rag.query", start, end, attributes, kept, result.error_class)


@dataclass
class _Line:
    """Where the next stage starts."""

    now: int

    def take(self, ms: float | None) -> tuple[int, int]:
        start, self.now = self.now, self.now + _ns(ms)
        return start, self.now

    def skip(self, ms: float | None) -> None:
        self.now += _ns(ms)


def _whole(result: LookupResult, trace: RetrievalTrace) -> dict[str, Value]:
    return _present(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup_knowledge",
            "gen_ai.conversation.id": trace.session_id,
            "openinference.span.kind": "TOOL",
            "rag.trace_id": result.trace_id,
            "rag.timing": "laid_out",
            "rag.mode": trace.mode.value,
            "rag.fusion": trace.fusion.value,
            "rag.origin": trace.origin.value,
            "rag.evidence_status": result.evidence_status.value,
            "rag.relevance_level": result.relevance_level.value if result.relevance_level else None,
            "rag.top_quality": result.top_quality,
            "rag.selected_attempt": trace.selected_attempt.value if trace.selected_attempt else None,
            "rag.fallback_reason": trace.fallback_reason.value if trace.fallback_reason else None,
            "rag.candidates": result.candidate_count,
            "rag.returned": result.returned_count,
            "rag.generation": trace.generation,
            "rag.degraded": bool(trace.degraded) or any(a.degraded for a in trace.attempts),
            "rag.settings_fingerprint": trace.fingerprint or None,
            "error.type": result.error_class,
        }
    )


def _attempt(line: _Line, attempt: AttemptTrace, trace: RetrievalTrace, content: bool) -> list[Span | None]:
    stages = {stage.stage: stage for stage in attempt.stages}
    start = line.now
    branches = tuple(_branch(branch, start, trace) for branch in attempt.branches)
    end = max((branch.end for branch in branches), default=start)
    line.now = end
    fused = _stage(line, "rag.fusion", "CHAIN", stages.get(Stage.FUSE), None)
    reranked = _stage(line, "rag.rerank", "RERANKER", stages.get(Stage.RERANK), None)
    if reranked is not None and trace.reranker_model:
        reranked = Span(
            reranked.name,
            reranked.start,
            reranked.end,
            {**reranked.attributes, "gen_ai.request.model": trace.reranker_model},
            error=reranked.error,
        )
    line.skip(_of(stages.get(Stage.EVIDENCE)))
    attributes = _present(
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": trace.collection or None,
            "gen_ai.retrieval.top_k": max((branch.limit for branch in attempt.branches), default=0),
            "openinference.span.kind": "RETRIEVER",
            "rag.attempt": attempt.name.value,
            "rag.filtered": attempt.category_filter is not None,
            "rag.low_quality": attempt.low_quality,
            "rag.top_quality": attempt.top_quality,
            "rag.candidates": attempt.candidate_count,
            "rag.scope_violations": attempt.scope_violations,
            "rag.degraded": bool(attempt.degraded),
        }
    )
    if content:
        attributes |= _documents(attempt)
        if attempt.query:
            attributes["gen_ai.retrieval.query.text"] = attempt.query
    events = tuple(("rag.candidate", _candidate(c)) for c in attempt.candidates[:MAX_CANDIDATES])
    error = next((s.error_class for s in attempt.stages if s.error_class), None)
    failed = error or "error" if attempt.status is StageStatus.ERROR else None
    return [Span("rag.retrieval", start, end, attributes, branches, failed, events), fused, reranked]


def _branch(branch: BranchTrace, start: int, trace: RetrievalTrace) -> Span:
    attributes = _present(
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": branch.collection or None,
            "gen_ai.retrieval.top_k": branch.limit,
            "gen_ai.request.model": trace.embedding_profile if branch.branch is Branch.DENSE else None,
            "openinference.span.kind": "RETRIEVER",
            "db.system.name": "milvus",
            "rag.branch": branch.branch.value,
            "rag.status": branch.status.value,
            "rag.hits": branch.hits,
            "rag.retries": branch.retries,
            "error.type": branch.error_class,
        }
    )
    return Span(
        f"rag.retrieval.{branch.branch.value}", start, start + _ns(branch.ms), attributes, error=branch.error_class
    )


def _stage(line: _Line, name: str, kind: str, stage: StageTrace | None, ms: float | None) -> Span | None:
    """None for a stage that did not run: no span is better than one that looks like work."""
    if stage is None or stage.status is StageStatus.NOT_RUN:
        line.skip(ms)
        return None
    start, end = line.take(stage.ms if stage.ms is not None else ms)
    attributes = _present(
        {
            "openinference.span.kind": kind,
            "rag.status": stage.status.value,
            "rag.count_in": stage.count_in,
            "rag.count_out": stage.count_out,
            "error.type": stage.error_class,
        }
    )
    return Span(name, start, end, attributes, error=stage.error_class)


def _candidate(candidate: Candidate) -> dict[str, Value]:
    return _present(
        {
            "rag.evidence_key": candidate.evidence_key,
            "rag.rank.dense": candidate.dense_rank,
            "rag.rank.bm25": candidate.bm25_rank,
            "rag.rank.rrf": candidate.rrf_rank,
            "rag.rank.rerank": candidate.rerank_rank,
            "rag.rank.evidence": candidate.evidence_rank,
            "rag.rank.pack": candidate.pack_rank,
            "rag.rank.projection": candidate.projection_rank,
            "rag.quality": candidate.quality_score,
            "rag.quality_basis": candidate.quality_basis.value if candidate.quality_basis else None,
            "rag.drop_stage": candidate.drop_stage.value if candidate.drop_stage else None,
            "rag.drop_reason": candidate.drop_reason.value if candidate.drop_reason else None,
        }
    )


def _documents(attempt: AttemptTrace) -> dict[str, Value]:
    """Retrieved documents in both vocabularies: the GenAI list as JSON, OpenInference's flattened form."""
    kept = [c for c in attempt.candidates if c.evidence_rank is not None]
    listed = [_present({"id": c.evidence_key, "score": c.quality_score}) for c in kept]
    attributes: dict[str, Value] = {"gen_ai.retrieval.documents": json.dumps(listed, ensure_ascii=False)}
    for number, c in enumerate(kept):
        head = f"retrieval.documents.{number}.document"
        attributes |= _present(
            {f"{head}.id": c.evidence_key, f"{head}.content": c.content, f"{head}.score": c.quality_score}
        )
    return attributes


def _present(values: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if value is not None}


def _of(stage: StageTrace | None) -> float | None:
    return stage.ms if stage is not None else None


def _ns(ms: float | None) -> int:
    return max(0, round((ms or 0.0) * 1_000_000))
