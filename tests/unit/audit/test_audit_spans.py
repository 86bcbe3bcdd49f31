"""A lookup as spans: fixed names, ranks and drops in ``rag.*``, text only on demand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from core.audit.spans import Span, sampled, spans_of
from core.model import (
    AttemptName,
    AttemptTrace,
    Branch,
    BranchTrace,
    Candidate,
    DropReason,
    EvidenceStatus,
    Fusion,
    LookupResult,
    Mode,
    RerankTrace,
    RetrievalTrace,
    Stage,
    StageStatus,
    StageTrace,
    Timings,
)

AT = datetime(2026, 3, 1, 8, 0, 0, tzinfo=UTC)
START = int(AT.timestamp()) * 1_000_000_000
MS = 1_000_000


def lookup() -> LookupResult:
    kept = Candidate("a#chunk-0", "a", 0, "A", dense_rank=1, evidence_rank=1, quality_score=0.9, content="geheim")
    dropped = Candidate(
        "b#chunk-0", "b", 0, "B", bm25_rank=1, drop_stage=Stage.EVIDENCE, drop_reason=DropReason.RETURN_LIMIT
    )
    attempt = AttemptTrace(
        AttemptName.UNFILTERED_VECTOR,
        StageStatus.COMPLETE,
        query="redis pool",
        branches=(
            BranchTrace(Branch.DENSE, StageStatus.COMPLETE, "biz_g1", limit=20, hits=1, ms=8.0),
            BranchTrace(Branch.BM25, StageStatus.ERROR, "biz_g1", limit=20, ms=12.0, error_class="StoreUnavailable"),
        ),
        stages=(
            StageTrace(Stage.FUSE, StageStatus.COMPLETE, 2, 2, 1.0),
            StageTrace(Stage.RERANK, StageStatus.NOT_RUN),
            StageTrace(Stage.EVIDENCE, StageStatus.COMPLETE, 2, 1, 2.0),
        ),
        candidates=(kept, dropped),
        candidate_count=2,
        degraded=("bm25: away",),
    )
    trace = RetrievalTrace(
        "t1",
        AT.isoformat(),
        Mode.HYBRID,
        Fusion.CLIENT,
        "default",
        None,
        attempts=(attempt,),
        selected_attempt=attempt.name,
        stages=(
            StageTrace(Stage.TRANSFORM, StageStatus.COMPLETE, ms=1.0),
            StageTrace(Stage.PACK, StageStatus.COMPLETE, ms=3.0),
            StageTrace(Stage.PROJECT, StageStatus.COMPLETE, ms=4.0),
        ),
        timings=Timings(query_rewrite_ms=1.0, embedding_ms=5.0, total_ms=40.0),
    )
    return LookupResult(
        "t1", "redis pool", True, EvidenceStatus.READY, (), 2, 1, None, 0.9, None, "", "", trace, RerankTrace()
    )


def names(span: Span) -> list[str]:
    return [span.name, *(name for child in span.children for name in names(child))]


def test_the_tree_has_a_span_for_each_stage_that_ran_and_none_for_the_others() -> None:
    assert names(spans_of(lookup(), AT)) == [
        "rag.query",
        "rag.query.rewrite",
        "rag.retrieval",
        "rag.retrieval.dense",
        "rag.retrieval.bm25",
        "rag.fusion",
        "rag.context.pack",
        "rag.project",
    ]


def test_branches_start_together_and_the_stages_follow_each_other() -> None:
    root = spans_of(lookup(), AT)
    rewrite, retrieval, fusion, pack, project = root.children
    assert (rewrite.start, rewrite.end) == (START, START + 1 * MS)
    assert [child.start for child in retrieval.children] == [START + 6 * MS] * 2
    assert (retrieval.end, fusion.start) == (START + 18 * MS, START + 18 * MS)
    assert pack.start == START + (18 + 1 + 2) * MS
    assert project.end == START + 28 * MS
    assert (root.start, root.end) == (START, START + 40 * MS)


def test_ranks_drops_and_failures_stand_in_their_namespaces() -> None:
    retrieval = spans_of(lookup(), AT).children[1]
    assert retrieval.attributes["gen_ai.operation.name"] == "retrieval"
    assert retrieval.attributes["gen_ai.retrieval.top_k"] == 20
    assert retrieval.attributes["openinference.span.kind"] == "RETRIEVER"
    events = [attributes for name, attributes in retrieval.events if name == "rag.candidate"]
    assert events[0]["rag.rank.dense"] == 1
    assert "rag.rank.bm25" not in events[0]
    assert events[1]["rag.drop_reason"] == "return_limit"
    bm25 = retrieval.children[1]
    assert (bm25.error, bm25.attributes["error.type"]) == ("StoreUnavailable", "StoreUnavailable")


def test_text_leaves_the_house_only_on_demand() -> None:
    closed, opened = repr(spans_of(lookup(), AT)), spans_of(lookup(), AT, content=True)
    assert "redis pool" not in closed
    assert "geheim" not in closed
    retrieval = opened.children[1]
    assert retrieval.attributes["gen_ai.retrieval.query.text"] == "redis pool"
    assert json.loads(str(retrieval.attributes["gen_ai.retrieval.documents"])) == [{"id": "a#chunk-0", "score": 0.9}]
    assert retrieval.attributes["retrieval.documents.0.document.content"] == "geheim"


def test_a_lookup_that_failed_before_any_attempt_is_one_span_with_its_class() -> None:
    trace = replace(lookup().retrieval_trace, attempts=(), stages=())
    root = spans_of(replace(lookup(), error_class="InvalidQuery", retrieval_trace=trace), AT)
    assert (root.error, root.children) == ("InvalidQuery", ())


def test_sampling_is_a_property_of_the_id_and_keeps_about_its_share() -> None:
    ids = [f"trace-{n}" for n in range(2_000)]
    assert not any(sampled(i, 0.0) for i in ids)
    assert all(sampled(i, 1.0) for i in ids)
    kept = {i for i in ids if sampled(i, 0.25)}
    assert 0.2 < len(kept) / len(ids) < 0.3
    assert kept <= {i for i in ids if sampled(i, 0.5)}
