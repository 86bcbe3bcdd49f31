"""Hand-made lookup results, as the pipeline would leave them: what the pages are tested and looked at with."""

from __future__ import annotations

from dataclasses import replace

from core.model import (
    AttemptName,
    AttemptTrace,
    Branch,
    BranchTrace,
    Candidate,
    ContextPack,
    Costs,
    DroppedEvidence,
    DropReason,
    Evidence,
    EvidenceStatus,
    FallbackReason,
    Fusion,
    Gate,
    L0Match,
    LookupResult,
    Mode,
    Origin,
    PackedSource,
    ProjectionItem,
    ProjectionReport,
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

GATE = Gate(0.75, 0.5, 0.18, 0.42, calibrated=True, lexical_reference_threshold=0.5)
OK = StageStatus.COMPLETE

_TOPICS = (
    ("redis/connection-pool-exhausted", "Redis 连接池耗尽排查", "排查 > 确认连接数"),
    ("redis/latency-spike-bigkey", "Redis 大 key 引起的延迟", "现象 > 慢查询"),
    ("mysql/too-many-connections", "MySQL: Too many connections (1040)", "Mitigation > Raise the limit safely"),
    ("jvm/thread-pool-exhausted", "JVM 线程池打满", "定位 > 线程栈"),
    ("redis/sentinel-failover", "Redis Sentinel failover", "Symptoms"),
    ("kubernetes/pod-crash-looping", "KubePodCrashLooping", "Diagnosis > Last state"),
    ("network/ephemeral-ports", "临时端口耗尽", "确认 > ss -s"),
    ("kafka/consumer-lag", "Kafka consumer lag is high", "Causes"),
)
TEXT = (
    "先看应用侧：连接池的 active、idle 与 pending 三个数。pending 持续大于 0 而 Redis 的 connected_clients "
    "远低于 maxclients 时，瓶颈在池而不在服务端。\n\n```\nredis-cli info clients\n```\n费用为 $114.22 至 $167.88。"
)


def candidate(
    at: int,
    *,
    dense: int | None = None,
    bm25: int | None = None,
    rrf: int | None = None,
    quality: float | None = None,
    basis: QualityBasis | None = QualityBasis.DENSE_HIT,
    drop: tuple[Stage, DropReason] | None = None,
    evidence: int | None = None,
    pack: int | None = None,
    projection: int | None = None,
    same_as: str | None = None,
) -> Candidate:
    doc, title, crumb = _TOPICS[at % len(_TOPICS)]
    chunk = at // len(_TOPICS)
    shares = [1 / (60 + rank) for rank in (dense, bm25) if rank is not None]
    return Candidate(
        evidence_key=f"{doc}#chunk-{chunk}",
        doc_id=doc,
        chunk_index=chunk,
        title=title,
        breadcrumb=crumb,
        source=f"{doc}.md",
        category=doc.split("/")[0],
        revision=1,
        dense_rank=dense,
        dense_distance=None if dense is None else 0.2 + 0.006 * dense,
        bm25_rank=bm25,
        bm25_score=None if bm25 is None else -9.0 + 0.3 * bm25,
        rrf_rank=rrf,
        rrf_score=sum(shares) if rrf else None,
        original_rank=rrf if rrf and not (drop and drop[1] is DropReason.FUSION_WINDOW) else None,
        quality_score=quality,
        quality_basis=basis if quality is not None else None,
        evidence_rank=evidence,
        pack_rank=pack,
        projection_rank=projection,
        hit_reasons=("dense",) * (dense is not None) + ("bm25",) * (bm25 is not None),
        drop_stage=drop[0] if drop else None,
        drop_reason=drop[1] if drop else None,
        duplicate_of=same_as,
        content_sha256=f"{at:064x}",
        content=TEXT,
    )


def _pool(best: float = 0.91) -> tuple[Candidate, ...]:
    """35 candidates: 20 a branch with 5 in both, fused, windowed at 20, five kept, four projected."""
    dense = {0: 2, 1: 1, 2: 5, 3: 3, 4: 9} | dict(zip(range(5, 20), [4, 6, 7, 8, *range(10, 21)], strict=True))
    bm25 = {0: 1, 1: 6, 2: 2, 3: 12, 4: 3} | dict(
        zip(range(20, 35), [4, 5, 7, 8, 9, 10, 11, *range(13, 21)], strict=True)
    )
    scores = {at: sum(1 / (60 + r) for r in (dense.get(at), bm25.get(at)) if r is not None) for at in range(35)}
    order = sorted(range(35), key=lambda at: (-scores[at], min(dense.get(at, 99), bm25.get(at, 99)), at))
    fate: dict[int, dict[str, object]] = {
        order[0]: {"evidence": 1, "pack": 1, "projection": 1},
        order[1]: {"evidence": 2, "pack": 2, "projection": 2},
        order[2]: {
            "drop": (Stage.EVIDENCE, DropReason.DUPLICATE_CONTENT),
            "same_as": "redis/connection-pool-exhausted#chunk-0",
        },
        order[3]: {"evidence": 3, "pack": 3, "projection": 3},
        order[4]: {"evidence": 4, "pack": 4, "drop": (Stage.PROJECT, DropReason.PROJECTION_BYTES)},
        order[5]: {"drop": (Stage.EVIDENCE, DropReason.DOCUMENT_LIMIT)},
        order[6]: {"evidence": 5, "drop": (Stage.PACK, DropReason.PACK_BUDGET)},
    }
    out = []
    for rank, at in enumerate(order, 1):
        extra: dict[str, object] = dict(fate.get(at, {}))
        if not extra:
            extra["drop"] = (
                (Stage.FUSE, DropReason.FUSION_WINDOW) if rank > 20 else (Stage.EVIDENCE, DropReason.RETURN_LIMIT)
            )
        in_window = rank <= 20
        basis = QualityBasis.DENSE_HIT if at in dense else QualityBasis.DENSE_EXACT
        quality = max(0.02, best - 0.035 * (dense.get(at, bm25.get(at, 0) + 4) - 1)) if in_window else None
        out.append(
            candidate(at, dense=dense.get(at), bm25=bm25.get(at), rrf=rank, quality=quality, basis=basis, **extra)  # type: ignore[arg-type]
        )
    return tuple(out)


def _branches(expression: str = 'kb_scope in ["default"]') -> tuple[BranchTrace, ...]:
    return (
        BranchTrace(Branch.DENSE, OK, "biz_g3", expression, 20, {"metric_type": "L2"}, 20, 14.2),
        BranchTrace(Branch.BM25, OK, "biz_g3", expression, 20, {"metric_type": "BM25"}, 20, 9.8),
    )


def _stages(fuse: tuple[int, int] = (35, 20), evidence: tuple[int, int] = (20, 5)) -> tuple[StageTrace, ...]:
    return (
        StageTrace(Stage.DENSE, OK, None, 20, 14.2),
        StageTrace(Stage.BM25, OK, None, 20, 9.8),
        StageTrace(Stage.FUSE, OK, *fuse, 0.4),
        StageTrace(Stage.RERANK, StageStatus.NOT_RUN),
        StageTrace(Stage.EVIDENCE, OK, *evidence, 0.9),
    )


def attempt(
    name: AttemptName = AttemptName.UNFILTERED_VECTOR, *, best: float = 0.91, category: str | None = None
) -> AttemptTrace:
    pool = _pool(best)
    top = max((c for c in pool if c.quality_score is not None), key=lambda c: c.quality_score or 0)
    level = RelevanceLevel.PRECISE if best >= 0.75 else RelevanceLevel.REFERENCE if best >= 0.5 else None
    return AttemptTrace(
        name=name,
        status=OK,
        query="redis 连接池耗尽怎么排查",
        category_filter=category,
        kb_scope="default",
        branches=_branches(),
        stages=_stages(),
        candidates=pool,
        candidate_count=len(pool),
        top_quality=top.quality_score,
        top_quality_key=top.evidence_key,
        top_quality_basis=top.quality_basis,
        relevance_level=level,
        low_quality=best < 0.5,
    )


def _evidence(pool: tuple[Candidate, ...]) -> tuple[Evidence, ...]:
    kept = sorted((c for c in pool if c.evidence_rank), key=lambda c: c.evidence_rank or 0)
    return tuple(
        Evidence(
            c.evidence_key,
            c.doc_id,
            c.chunk_index,
            c.source,
            c.title,
            c.breadcrumb,
            c.content or "",
            quality_score=c.quality_score,
            quality_basis=c.quality_basis,
            evidence_rank=c.evidence_rank,
            hit_reasons=c.hit_reasons,
        )
        for c in kept
    )


def found(trace_id: str = "tr-found", query: str = "redis 连接池耗尽怎么排查") -> LookupResult:
    """A plain hit: 35 candidates, 5 pieces of evidence, one out of the pack, one cut by the projection."""
    return _assemble(trace_id, query, (attempt(),), AttemptName.UNFILTERED_VECTOR, None)


def fallback(trace_id: str = "tr-fallback") -> LookupResult:
    """The category filter led nowhere good; the retry without it helped."""
    first = attempt(AttemptName.FILTERED_VECTOR, best=0.41, category="kafka")
    replaced = tuple(
        replace(
            c, drop_stage=Stage.EVIDENCE, drop_reason=DropReason.ATTEMPT_REPLACED, pack_rank=None, projection_rank=None
        )
        if c.evidence_rank
        else c
        for c in first.candidates[:12]
    )
    first = replace(
        first,
        candidates=replaced,
        candidate_count=12,
        query="kafka 消费延迟 consumer lag",
        branches=_branches('kb_scope in ["default"] and category == "kafka"'),
    )
    second = replace(attempt(AttemptName.UNFILTERED_VECTOR_RETRY), query="kafka 消费延迟")
    return _assemble(
        trace_id, "kafka 消费延迟", (first, second), AttemptName.UNFILTERED_VECTOR_RETRY, FallbackReason.LOW_QUALITY
    )


def degraded(trace_id: str = "tr-degraded") -> LookupResult:
    """The BM25 branch timed out; the dense one went on."""
    base = attempt()
    pool = tuple(
        replace(c, bm25_rank=None, bm25_score=None, rrf_rank=n, original_rank=n)
        for n, c in enumerate((c for c in base.candidates if c.dense_rank), 1)
    )
    branches = (
        base.branches[0],
        replace(
            base.branches[1],
            status=StageStatus.UNAVAILABLE,
            hits=None,
            reason="no answer in 2 s",
            error_class="DeadlineExceeded",
        ),
    )
    stages = (
        base.stages[0],
        StageTrace(Stage.BM25, StageStatus.UNAVAILABLE, ms=2000.0, reason="no answer in 2 s"),
        *base.stages[2:],
    )
    reasons = ("bm25: no answer in 2 s <b>server</b>",)
    one = replace(base, candidates=pool, branches=branches, stages=stages, degraded=reasons, candidate_count=len(pool))
    result = _assemble(trace_id, "redis 连接池", (one,), AttemptName.UNFILTERED_VECTOR, None)
    return replace(result, retrieval_trace=replace(result.retrieval_trace, degraded=reasons))


def empty(trace_id: str = "tr-empty") -> LookupResult:
    """Searched, and nothing was found: no failure."""
    stages = (
        StageTrace(Stage.DENSE, OK, None, 0, 12.0),
        StageTrace(Stage.BM25, OK, None, 0, 8.0),
        StageTrace(Stage.FUSE, OK, 0, 0, 0.1),
        StageTrace(Stage.EVIDENCE, OK, 0, 0, 0.1),
    )
    branches = tuple(replace(b, hits=0) for b in _branches())
    one = AttemptTrace(
        AttemptName.UNFILTERED_VECTOR, OK, "火星上的天气", branches=branches, stages=stages, low_quality=True
    )
    return _assemble(trace_id, "火星上的天气", (one,), AttemptName.UNFILTERED_VECTOR, None)


def failed(trace_id: str = "tr-error") -> LookupResult:
    """Both branches failed."""
    stages = (
        StageTrace(
            Stage.DENSE,
            StageStatus.ERROR,
            ms=2000.0,
            reason="milvus: connection refused",
            error_class="StoreUnavailable",
        ),
        StageTrace(
            Stage.BM25,
            StageStatus.ERROR,
            ms=2000.0,
            reason="milvus: connection refused",
            error_class="StoreUnavailable",
        ),
        StageTrace(Stage.FUSE, StageStatus.NOT_RUN),
        StageTrace(Stage.EVIDENCE, StageStatus.NOT_RUN),
    )
    one = AttemptTrace(
        AttemptName.UNFILTERED_VECTOR,
        StageStatus.ERROR,
        "redis",
        branches=tuple(
            replace(
                b,
                status=StageStatus.ERROR,
                hits=None,
                reason="milvus: connection refused",
                error_class="StoreUnavailable",
            )
            for b in _branches()
        ),
        stages=stages,
        degraded=("dense: connection refused", "bm25: connection refused"),
    )
    result = _assemble(trace_id, "redis", (one,), AttemptName.UNFILTERED_VECTOR, None)
    return replace(
        result,
        evidence_status=EvidenceStatus.ERROR,
        error_class="StoreUnavailable",
        message="milvus: connection refused; start it with `python -m core serve`",
        tool_result=replace(result.tool_result, evidence_status=EvidenceStatus.ERROR) if result.tool_result else None,
    )


def hostile(trace_id: str = "tr-hostile") -> LookupResult:
    """Titles, keys, text and query that try to be markup, a formula, a link or invisible (cases 14, 105, 114, 115, 121)."""
    title = "<img src=x onerror=alert(1)> $a$ **b** :smile: [x](https://kb.example.invalid) \u202eabc"
    base = attempt()
    pool = tuple(
        replace(
            c, title=title if n % 2 else '=HYPERLINK("https://kb.example.invalid")', breadcrumb="<svg onload=alert(3)>"
        )
        for n, c in enumerate(base.candidates)
    )
    return _assemble(
        trace_id,
        "<script>alert(4)</script> ![p](https://kb.example.invalid/p.png) %{x} $1$",
        (replace(base, candidates=pool),),
        AttemptName.UNFILTERED_VECTOR,
        None,
    )


def _assemble(
    trace_id: str,
    query: str,
    attempts: tuple[AttemptTrace, ...],
    selected: AttemptName,
    reason: FallbackReason | None,
) -> LookupResult:
    chosen = next(a for a in attempts if a.name is selected)
    evidence = _evidence(chosen.candidates)
    projected = [c for c in chosen.candidates if c.projection_rank]
    status = EvidenceStatus.READY if projected else EvidenceStatus.NO_EVIDENCE
    tool = RagToolResult(
        status,
        "call-1",
        query,
        tuple(
            ToolEvidence(c.evidence_key, c.source, c.title, c.breadcrumb, (c.content or "")[:1200]) for c in projected
        ),
        chosen.relevance_level if projected else None,
        truncated=bool(evidence) and len(projected) < len(evidence),
        returned_count=len(projected),
    )
    return LookupResult(
        trace_id=trace_id,
        query=query,
        found=bool(evidence),
        evidence_status=status,
        evidence=evidence,
        candidate_count=chosen.candidate_count,
        returned_count=len(evidence),
        relevance_level=chosen.relevance_level,
        top_quality=chosen.top_quality,
        context_pack=_pack(chosen),
        completeness_hint="",
        message="" if evidence else "nothing usable in the knowledge base: go on with logs, metrics, alerts",
        retrieval_trace=RetrievalTrace(
            trace_id=trace_id,
            created_at="2026-03-01T08:15:30.123456+00:00",
            mode=Mode.HYBRID,
            fusion=Fusion.CLIENT,
            kb_scope="default",
            plan=QueryPlan(
                query,
                query,
                query,
                L0Match(chosen.category_filter, ("redis",), ("连接池",), (), ("Redis 连接池耗尽排查",)),
            ),
            attempts=attempts,
            selected_attempt=selected,
            fallback_reason=reason,
            stages=(
                StageTrace(Stage.TRANSFORM, OK, ms=0.6),
                StageTrace(Stage.PACK, OK, len(evidence), len([c for c in chosen.candidates if c.pack_rank]), 0.3),
                StageTrace(Stage.ASSEMBLE, OK, ms=0.1),
                StageTrace(Stage.PROJECT, OK, len(evidence), len(projected), 0.5),
            ),
            gate=GATE,
            timings=Timings(0.6, 21.0, 14.2, 9.8, 0.4, None, 0.9, 0.3, 0.5, 1.8, 52.0),
            costs=Costs(embedding_tokens=11, context_tokens=900, trace_bytes=18_200, embedding_cache_hit=False),
            origin=Origin.CONSOLE,
            session_id="s-1",
            tool_call_id="call-1",
            fingerprint="ab" * 32,
            generation=3,
            collection="biz_g3",
            embedding_profile="multilingual-e5-small",
            analysis_version="1",
            code_version="0.1.0",
        ),
        rerank_trace=RerankTrace(
            selected,
            (),
            tuple(
                DroppedEvidence(c.evidence_key, c.drop_reason, c.duplicate_of)
                for c in chosen.candidates
                if c.drop_stage is Stage.EVIDENCE and c.drop_reason
            ),
            tuple(e.evidence_key for e in evidence),
        ),
        tool_result=tool,
        projection=_report(chosen, query),
    )


def _pack(chosen: AttemptTrace) -> ContextPack:
    packed = sorted((c for c in chosen.candidates if c.evidence_rank), key=lambda c: c.evidence_rank or 0)
    inside = [c for c in packed if c.pack_rank]
    text = "\n\n".join(f"[{c.pack_rank}] {c.evidence_key} {c.title}\n{c.content}" for c in inside)
    sources = tuple(
        PackedSource(
            c.evidence_key,
            "omitted" if not c.pack_rank else "trimmed" if c.pack_rank == len(inside) else "included",
            180 if c.pack_rank else 0,
            len(c.content or ""),
        )
        for c in packed
    )
    return ContextPack(
        text,
        "priority",
        4000,
        len(text),
        tuple(c.evidence_key for c in inside),
        tuple(c.evidence_key for c in packed if not c.pack_rank),
        sources,
    )


def _report(chosen: AttemptTrace, query: str) -> ProjectionReport:
    items = tuple(
        ProjectionItem(
            c.evidence_key,
            c.projection_rank is not None,
            c.drop_reason if c.projection_rank is None else None,
            "max_bytes" if c.projection_rank is None else ("max_excerpt_chars" if c.projection_rank == 1 else None),
            1420 if c.projection_rank == 1 else 640,
            0 if c.projection_rank is None else 1200 if c.projection_rank == 1 else 640,
            4100 if c.projection_rank == 1 else 1900,
            0 if c.projection_rank is None else 3500 if c.projection_rank == 1 else 1900,
        )
        for c in sorted((c for c in chosen.candidates if c.evidence_rank), key=lambda c: c.evidence_rank or 0)
    )
    return ProjectionReport(items, len(query), len(query), 19_200, 15_900, 500, 1200, 8, 16_384, bool(items))


ALL = {"found": found, "fallback": fallback, "degraded": degraded, "empty": empty, "failed": failed, "hostile": hostile}
