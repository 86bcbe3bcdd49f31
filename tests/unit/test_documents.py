"""Texts of a recorded lookup, read back from the generation that it searched."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from core.documents import Documents
from core.model import (
    AttemptName,
    AttemptTrace,
    Candidate,
    Document,
    Evidence,
    EvidenceStatus,
    Fusion,
    LookupResult,
    Mode,
    Origin,
    ProjectionItem,
    ProjectionReport,
    RagToolResult,
    RerankTrace,
    RetrievalTrace,
    StageStatus,
    ToolEvidence,
)
from core.ports import StoredChunk
from core.stores import StoredTrace

TEXT = "maxTotal 调到 200"
KEY = "redis/pool#chunk-0"


class Generations:
    """One document of one chunk in generation 3."""

    def __init__(self, text: str = TEXT) -> None:
        self.text = text

    def read_back(self, alias: str, number: int, keys: list[str]) -> Mapping[str, StoredChunk]:
        chunk = StoredChunk(3, KEY, "redis/pool", 0, "", 1, 0, 9, breadcrumb="Redis > 处理", content=self.text)
        return {KEY: chunk} if (alias, number) == ("biz", 3) and KEY in keys else {}

    def documents(self, alias: str, number: int) -> list[Document]:
        del alias, number
        return [Document("redis/pool", "redis/pool.md", "Redis 连接池", "redis", "default", 1, "")]


def stored(
    result: LookupResult, *, origin: Origin = Origin.CONSOLE, generation: int | None = 3, content: str = "redacted"
) -> StoredTrace:
    trace = replace(result.retrieval_trace, origin=origin, generation=generation)
    return StoredTrace(replace(result, retrieval_trace=trace), content, datetime(2026, 1, 1, tzinfo=UTC), "ab" * 32, 7)


def redacted(shown: int = len(TEXT)) -> LookupResult:
    sha256 = hashlib.sha256(TEXT.encode()).hexdigest()
    found = Candidate(
        evidence_key=KEY, doc_id="redis/pool", chunk_index=0, source="redis/pool.md", content_sha256=sha256
    )
    attempt = AttemptTrace(name=AttemptName.UNFILTERED_VECTOR, status=StageStatus.COMPLETE, candidates=(found,))
    return LookupResult(
        trace_id="t",
        query="",
        found=True,
        evidence_status=EvidenceStatus.READY,
        evidence=(Evidence(KEY, "redis/pool", 0, "redis/pool.md", "", "", ""),),
        candidate_count=1,
        returned_count=1,
        relevance_level=None,
        top_quality=None,
        context_pack=None,
        completeness_hint="",
        message="",
        retrieval_trace=RetrievalTrace("t", "", Mode.HYBRID, Fusion.CLIENT, "default", None, attempts=(attempt,)),
        rerank_trace=RerankTrace(),
        projection=ProjectionReport(items=(ProjectionItem(KEY, kept=True, chars_after=shown),)),
        tool_result=RagToolResult(
            EvidenceStatus.READY, "c", "", (ToolEvidence(KEY, "redis/pool.md", "", "", ""),), None, False, 1
        ),
    )


def restored(trace: StoredTrace, generations: Any = None) -> Any:
    store = generations or Generations()
    return Documents(store, store, "biz").restored(trace)


@pytest.mark.parametrize("shown", [len(TEXT), 8])
def test_a_console_lookup_shows_again_what_the_agent_read_to_the_character(shown: int) -> None:
    found = restored(stored(redacted(shown)))
    assert found.texts == {KEY: TEXT}
    assert found.result.tool_result.evidence == (
        ToolEvidence(KEY, "redis/pool.md", "Redis 连接池", "Redis > 处理", TEXT[:shown]),
    )
    piece = found.result.evidence[0]
    assert (piece.title, piece.breadcrumb, piece.content) == ("Redis 连接池", "Redis > 处理", TEXT)
    candidate = found.result.retrieval_trace.attempts[0].candidates[0]
    assert (candidate.title, candidate.breadcrumb) == ("Redis 连接池", "Redis > 处理")


def test_a_text_that_is_no_longer_the_one_that_was_seen_is_not_put_in_its_place() -> None:
    found = restored(stored(redacted()), Generations(TEXT + "!"))
    assert found.texts == {KEY: None}
    assert found.result == stored(redacted()).result


@pytest.mark.parametrize("generation", [None, 4])
def test_a_generation_that_is_gone_gives_no_text(generation: int | None) -> None:
    trace = stored(redacted(), generation=generation)
    found = restored(trace)
    assert found.texts == {KEY: None}
    assert found.result == trace.result


@pytest.mark.parametrize("content", ["redacted", "none"])
def test_of_an_agents_lookup_that_was_redacted_there_are_ranks_only(content: str) -> None:
    trace = stored(redacted(), origin=Origin.AGENT, content=content)
    found = restored(trace)
    assert (found.result, found.texts, found.ranks_only) == (trace.result, {}, True)


def test_an_agents_lookup_that_is_kept_in_full_has_its_texts() -> None:
    found = restored(stored(redacted(), origin=Origin.AGENT, content="full"))
    assert (found.texts, found.ranks_only) == ({KEY: TEXT}, False)


def test_what_the_record_holds_itself_stays_as_it_is() -> None:
    result = redacted()
    tool = replace(result.tool_result, evidence=(ToolEvidence(KEY, "s", "T", "B", "as given"),))
    trace = stored(replace(result, tool_result=tool), content="full")
    assert restored(trace).result.tool_result.evidence == (ToolEvidence(KEY, "s", "T", "B", "as given"),)


def test_a_lookup_without_candidates_asks_for_nothing() -> None:
    result = redacted()
    trace = replace(result.retrieval_trace, attempts=())
    bare = replace(result, evidence=(), retrieval_trace=trace, projection=None, tool_result=None)
    found = restored(stored(bare))
    assert (found.texts, found.result) == ({}, stored(bare).result)
