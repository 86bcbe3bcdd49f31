"""A small lookup, whole: two chunks found, one of them by both branches, one given to the agent."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from core.audit.entry import Entry
from core.audit.record import build
from core.model import (
    AttemptName,
    AttemptTrace,
    Branch,
    BranchTrace,
    Candidate,
    ContextPack,
    Costs,
    DropReason,
    Evidence,
    EvidenceStatus,
    Fusion,
    L0Match,
    LookupResult,
    Mode,
    Origin,
    QualityBasis,
    QueryPlan,
    RagToolResult,
    RelevanceLevel,
    RerankTrace,
    RetrievalTrace,
    Stage,
    StageStatus,
    StageTrace,
    Timings,
    ToolEvidence,
)
from core.ports import AuditRecord

QUERY = "断路器🔥 OOM 怎么处理"
TITLE = "𠮷 breaker runbook"
TEXT = "先看📅日志, then the breaker"
OK = StageStatus.COMPLETE
AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


def candidate(key: str = "a#chunk-0", **fields: Any) -> Candidate:
    doc, _, index = key.partition("#chunk-")
    base = Candidate(
        evidence_key=key,
        doc_id=doc,
        chunk_index=int(index),
        title=TITLE,
        breadcrumb=f"{TITLE} > step",
        source=f"{doc}.md",
        category="ops",
        revision=3,
        hit_reasons=("dense", "alias:OOM→OutOfMemory"),
        content_sha256="c" * 64,
        content=TEXT,
    )
    return replace(base, **fields)


def candidates() -> tuple[Candidate, ...]:
    first = candidate(
        dense_rank=1,
        dense_distance=0.25,
        bm25_rank=2,
        bm25_score=-7.5,
        rrf_rank=1,
        rrf_score=1 / 61 + 1 / 62,
        original_rank=1,
        quality_score=0.9,
        quality_basis=QualityBasis.DENSE_HIT,
        evidence_rank=1,
        pack_rank=1,
        projection_rank=1,
    )
    second = candidate(
        "b#chunk-4",
        bm25_rank=1,
        bm25_score=-8.0,
        rrf_rank=2,
        rrf_score=1 / 61,
        original_rank=2,
        quality_score=0.6,
        quality_basis=QualityBasis.DENSE_EXACT,
        drop_stage=Stage.EVIDENCE,
        drop_reason=DropReason.RETURN_LIMIT,
    )
    return first, second


def trace(**fields: Any) -> RetrievalTrace:
    attempt = AttemptTrace(
        name=AttemptName.UNFILTERED_VECTOR,
        status=OK,
        query=QUERY,
        kb_scope="default",
        branches=(
            BranchTrace(Branch.DENSE, OK, "biz_g7", 'kb_scope in ["default"]', 20, {"nprobe": 8}, 1, 3.0),
            BranchTrace(Branch.BM25, OK, "biz_g7", 'kb_scope in ["default"]', 20, {}, 2, 5.0),
        ),
        stages=(
            StageTrace(Stage.DENSE, OK, 20, 1, 3.0),
            StageTrace(Stage.BM25, OK, 20, 2, 5.0),
            StageTrace(Stage.FUSE, OK, 3, 2, 1.0),
            StageTrace(Stage.RERANK, StageStatus.NOT_RUN),
        ),
        candidates=candidates(),
        candidate_count=2,
        top_quality=0.9,
        low_quality=False,
        relevance_level=RelevanceLevel.PRECISE,
    )
    l0 = L0Match(
        domain_hints=("ops",), matched_keywords=("断路器",), entities=("OOM",), aliases=(("OOM", "OutOfMemory"),)
    )
    base = RetrievalTrace(
        trace_id="t-1",
        created_at=AT.isoformat(),
        mode=Mode.HYBRID,
        fusion=Fusion.CLIENT,
        kb_scope="default",
        plan=QueryPlan(QUERY, QUERY, f"{QUERY} OutOfMemory", l0),
        attempts=(attempt,),
        selected_attempt=AttemptName.UNFILTERED_VECTOR,
        stages=(StageTrace(Stage.TRANSFORM, OK, ms=2.0), StageTrace(Stage.PACK, OK, 1, 1, 0.5)),
        timings=Timings(query_rewrite_ms=2.0, dense_ms=3.0, bm25_ms=5.0, total_ms=12.0),
        costs=Costs(embedding_tokens=9, context_tokens=40, trace_bytes=2048, embedding_cache_hit=False),
        session_id="s-1",
        run_id="r-1",
        tool_call_id="call-1",
        fingerprint="f" * 64,
        generation=7,
        collection="biz_g7",
        corpus_snapshot="d" * 64,
        embedding_profile="test/hash/64",
        analysis_version="a1",
        code_version="0.1.0",
    )
    return replace(base, **fields)


def result(**fields: Any) -> LookupResult:
    of_trace = {name: fields.pop(name) for name in list(fields) if name in RetrievalTrace.__dataclass_fields__}
    found = trace(**of_trace)
    piece = Evidence(
        "a#chunk-0",
        "a",
        0,
        "a.md",
        TITLE,
        f"{TITLE} > step",
        TEXT,
        quality_score=0.9,
        quality_basis=QualityBasis.DENSE_HIT,
        evidence_rank=1,
        hit_reasons=("alias:OOM→OutOfMemory",),
    )
    shown = ToolEvidence("a#chunk-0", "a.md", TITLE, f"{TITLE} > step", TEXT)
    base = LookupResult(
        trace_id=found.trace_id,
        query=QUERY,
        found=True,
        evidence_status=EvidenceStatus.READY,
        evidence=(piece,),
        candidate_count=2,
        returned_count=1,
        relevance_level=RelevanceLevel.PRECISE,
        top_quality=0.9,
        context_pack=ContextPack(TEXT, "rank_order_char_budget", 4000, len(TEXT), ("a#chunk-0",), ()),
        completeness_hint="1 of 2 candidates.",
        message="The evidence answers the query closely.",
        retrieval_trace=found,
        rerank_trace=RerankTrace(AttemptName.UNFILTERED_VECTOR, kept=("a#chunk-0",)),
        tool_result=RagToolResult(EvidenceStatus.READY, "call-1", QUERY, (shown,), RelevanceLevel.PRECISE, False, 1),
    )
    return replace(base, **fields)


def failed(error_class: str, message: str, **fields: Any) -> LookupResult:
    return result(
        found=False,
        evidence_status=EvidenceStatus.ERROR,
        evidence=(),
        candidate_count=0,
        returned_count=0,
        relevance_level=None,
        top_quality=None,
        context_pack=None,
        message=message,
        tool_result=RagToolResult(EvidenceStatus.ERROR, "call-1", QUERY, (), None, False, 0),
        error_class=error_class,
        attempts=(),
        selected_attempt=None,
        **fields,
    )


def record(of: LookupResult | None = None, **fields: Any) -> AuditRecord:
    kept = of or result()
    base = AuditRecord("i-1", "lookup_knowledge", AT, QUERY, kept, {"rag": {"return_n": 5}}, "ada")
    return replace(base, **fields)


def unique(of: LookupResult | None = None, *, origin: Origin = Origin.AGENT, **fields: Any) -> AuditRecord:
    """A record with ids of its own."""
    kept, name = of or result(), uuid.uuid4().hex
    found = replace(kept.retrieval_trace, trace_id=name, origin=origin)
    return record(replace(kept, trace_id=name, retrieval_trace=found), invocation_id=f"i-{name}", **fields)


def entry(of: LookupResult | None = None, *, content: str = "redacted", **fields: Any) -> Entry:
    return build(unique(of, **fields), content=content)
