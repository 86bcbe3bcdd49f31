"""The whole internal answer: what it says of itself to operator and audit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import StoreUnavailable
from core.model import (
    ContextPack,
    Evidence,
    EvidenceStatus,
    FallbackReason,
    Fusion,
    L0Match,
    LookupResult,
    Mode,
    QueryPlan,
    RelevanceLevel,
    RerankTrace,
    RetrievalTrace,
)
from core.stages.assemble import EMPTY_SCOPE, NOTHING_USABLE, assemble, assemble_failure, completeness

TRACE = RetrievalTrace("t1", "2026-01-02T03:04:05+00:00", Mode.HYBRID, Fusion.CLIENT, "default", None)
PACK = ContextPack("text", "rank_order_char_budget", 4000, 4, ("a#chunk-0",), ("b#chunk-0", "c#chunk-0"))


def piece(doc: str, index: int = 0) -> Evidence:
    return Evidence(f"{doc}#chunk-{index}", doc, index, f"{doc}.md", doc, doc, "text")


def assembled(
    *evidence: Evidence,
    level: RelevanceLevel | None = RelevanceLevel.PRECISE,
    count: int = 7,
    trace: RetrievalTrace = TRACE,
) -> LookupResult:
    return assemble(
        "redis",
        evidence,
        candidate_count=count,
        level=level,
        top_quality=0.9,
        context_pack=None,
        retrieval_trace=trace,
        rerank_trace=RerankTrace(),
    )


def test_evidence_is_found_whatever_the_level_and_both_counts_are_there() -> None:
    for level in (RelevanceLevel.PRECISE, RelevanceLevel.REFERENCE, None):
        result = assembled(piece("a"), piece("b"), level=level)
        assert (result.found, result.evidence_status) == (True, EvidenceStatus.READY)
        assert (result.candidate_count, result.returned_count) == (7, 2)
        assert result.relevance_level is level
        assert result.trace_id == "t1"


def test_each_level_has_its_own_message() -> None:
    messages = {assembled(piece("a"), level=level).message for level in (*RelevanceLevel, None)}
    assert len(messages) == 3
    assert NOTHING_USABLE not in messages


def test_without_evidence_there_is_no_level_and_no_failure() -> None:
    result = assembled(level=RelevanceLevel.PRECISE, count=0)

    assert (result.found, result.evidence_status, result.relevance_level) == (False, EvidenceStatus.NO_EVIDENCE, None)
    assert result.message == NOTHING_USABLE
    assert result.error_class is None


@pytest.mark.parametrize(
    ("documents", "message"), [(0, EMPTY_SCOPE.format("nope")), (3, NOTHING_USABLE), (None, NOTHING_USABLE)]
)
def test_a_scope_without_documents_explains_that_there_is_nothing(documents: int | None, message: str) -> None:
    plan = QueryPlan("q", "q", "q", L0Match(documents_in_scope=documents))
    assert assembled(count=0, trace=replace(TRACE, kb_scope="nope", plan=plan)).message == message


def test_a_failure_is_an_error_and_says_that_nothing_is_known() -> None:
    result = assemble_failure("redis", StoreUnavailable("mysql://kb:CANARY@db/x is away"), TRACE)

    assert (result.found, result.evidence_status) == (False, EvidenceStatus.ERROR)
    assert result.error_class == "StoreUnavailable"
    assert "CANARY" not in result.message
    assert "unknown" in result.completeness_hint


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (FallbackReason.LOW_QUALITY, "whose hits were of low quality"),
        (FallbackReason.NO_EVIDENCE, "which found nothing"),
    ],
)
def test_the_hint_names_the_fallback(reason: FallbackReason, words: str) -> None:
    assert words in completeness([piece("a")], 3, None, replace(TRACE, fallback_reason=reason))


def test_case_59_the_hint_counts_distinct_documents() -> None:
    assert completeness([piece("a"), piece("a", 1), piece("b")], 9, None, TRACE) == (
        "3 of 9 candidates, from 2 documents."
    )
    assert completeness([piece("a")], 1, None, TRACE) == "1 of 1 candidate, from 1 document."
    assert completeness([], 0, None, TRACE) == "0 of 0 candidates, from 0 documents."


def test_the_hint_names_what_the_pack_left_out_and_what_failed() -> None:
    hint = completeness([piece("a")], 3, PACK, replace(TRACE, degraded=("bm25: away",)))
    assert "2 left out of the context pack" in hint
    assert "degraded: bm25: away" in hint
