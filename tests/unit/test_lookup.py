"""The lookup as a whole, on a store in memory: what comes out, what was decided, what is traced and audited."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from core.codec import to_json
from core.lookup import WhatIf
from core.model import (
    AttemptName,
    DropReason,
    EvidenceStatus,
    FallbackReason,
    Fusion,
    L0Match,
    Mode,
    QualityBasis,
    RelevanceLevel,
    Stage,
    StageStatus,
)
from core.stages.project import to_json as tool_json
from core.trace import without_content
from tests.unit.lookup_world import REDIS_ONLY, FixedL0, World, candidates, keys, pool_world, row, world

# ------------------------------------------------------------------------------------------------ the thin line


def test_a_question_goes_in_and_what_the_agent_sees_comes_out() -> None:
    outcome = pool_world().ask("redis pool")
    result = outcome.result

    assert keys(outcome) == ["redis/pool#chunk-0", "mysql/lock#chunk-0", "redis/slow#chunk-0"]
    assert (result.found, result.evidence_status) == (True, EvidenceStatus.READY)
    assert (result.relevance_level, result.top_quality) == (RelevanceLevel.PRECISE, pytest.approx(1 - 0.2 / 2.0))
    assert (result.candidate_count, result.returned_count) == (3, 3)
    assert outcome.error is None
    assert outcome.receipt.state == "recorded"
    read = json.loads(tool_json(result.tool_result)) if result.tool_result else {}
    assert [e["document_id"] for e in read["evidence"]] == keys(outcome)
    assert read["tool_call_id"].startswith("call_")


def test_every_candidate_shows_its_rank_in_each_stage() -> None:
    found = candidates(pool_world().ask("redis pool"))
    first, last = found["redis/pool#chunk-0"], found["redis/slow#chunk-0"]

    assert (first.dense_rank, first.bm25_rank, first.rrf_rank, first.original_rank) == (1, 1, 1, 1)
    assert first.rrf_score == pytest.approx(1 / 61 + 1 / 61)
    assert first.dense_distance == pytest.approx(0.2, abs=1e-6)
    assert (first.evidence_rank, first.pack_rank, first.projection_rank) == (1, 1, 1)
    assert first.rerank_rank is None
    assert first.hit_reasons == ("dense", "bm25")
    assert (last.quality_basis, last.quality_score) == (QualityBasis.DENSE_HIT, pytest.approx(1 - 0.8 / 2.0))


def test_stages_carry_status_counts_and_time() -> None:
    trace = pool_world().ask("redis pool").result.retrieval_trace
    around = {s.stage: s for s in trace.stages}
    inside = {s.stage: s for s in trace.attempts[0].stages}

    assert {s: t.status for s, t in around.items()} == dict.fromkeys(
        [Stage.TRANSFORM, Stage.PACK, Stage.ASSEMBLE, Stage.PROJECT, Stage.AUDIT], StageStatus.COMPLETE
    )
    assert {s: t.status for s, t in inside.items()} == {
        Stage.DENSE: StageStatus.COMPLETE,
        Stage.BM25: StageStatus.COMPLETE,
        Stage.FUSE: StageStatus.COMPLETE,
        Stage.RERANK: StageStatus.NOT_RUN,
        Stage.EVIDENCE: StageStatus.COMPLETE,
    }
    assert (inside[Stage.DENSE].count_out, inside[Stage.BM25].count_out) == (3, 3)
    assert (inside[Stage.FUSE].count_in, inside[Stage.FUSE].count_out) == (3, 3)
    assert (around[Stage.PACK].count_in, around[Stage.PACK].count_out) == (3, 3)
    times = trace.timings
    assert all(ms is not None and ms >= 0 for ms in (times.dense_ms, times.bm25_ms, times.fusion_ms, times.total_ms))
    assert times.rerank_ms is None
    assert times.audit_ms is not None


def test_the_trace_says_what_it_was_made_with() -> None:
    trace = pool_world().ask("redis pool", session_id="s", run_id="r", tool_call_id="c").result.retrieval_trace

    assert (trace.generation, trace.collection, trace.corpus_snapshot) == (7, "biz_g7", "corpus")
    assert (trace.embedding_profile, trace.analysis_version) == ("test/axes/4", "a1")
    assert len(trace.fingerprint) == 64
    assert (trace.session_id, trace.run_id, trace.tool_call_id) == ("s", "r", "c")
    assert (trace.mode, trace.fusion, trace.kb_scope) == (Mode.HYBRID, Fusion.CLIENT, "default")
    assert trace.created_at == "2026-01-02T03:04:05.678901+00:00"
    assert trace.costs.trace_bytes is not None
    assert trace.attempts[0].branches[0].collection == "biz_g7"
    assert 'kb_scope == "default"' in trace.attempts[0].branches[0].expression
    assert "NaN" not in to_json(trace)


def test_nothing_found_is_an_answer_and_no_failure() -> None:
    outcome = world().ask("redis pool")

    assert (outcome.result.found, outcome.result.evidence_status) == (False, EvidenceStatus.NO_EVIDENCE)
    assert outcome.error is None
    assert "go on with logs" in outcome.result.message
    assert (outcome.result.relevance_level, outcome.result.top_quality) == (None, None)


def test_weak_evidence_is_found_all_the_same_without_a_level() -> None:
    outcome = world([row("far", "text", distance=1.9, words="redis")]).ask("redis")

    assert (outcome.result.found, outcome.result.evidence_status) == (True, EvidenceStatus.READY)
    assert outcome.result.relevance_level is None
    assert outcome.result.retrieval_trace.attempts[0].low_quality is True


def test_the_level_looks_at_candidates_that_later_drop() -> None:
    copies = [row(f"copy{i}", "the very same text", distance=1.2, words="redis redis redis") for i in range(5)]
    best = row("best", "another text", distance=0.2, words="x")
    outcome = world([*copies, best], rag={"return_n": 1}).ask("redis")

    assert keys(outcome) == ["copy0#chunk-0"]
    assert outcome.result.relevance_level is RelevanceLevel.PRECISE
    assert outcome.result.retrieval_trace.attempts[0].top_quality_key == "best#chunk-0"
    assert candidates(outcome)["best#chunk-0"].drop_reason is DropReason.RETURN_LIMIT


# ------------------------------------------------------------------------------------------------ gate and fallback


def filtered_world(in_category: float | None, elsewhere: float, **options: Any) -> World:
    rows = [row("kafka/lag", "消费延迟", distance=elsewhere, words="redis lag", category="kafka")]
    if in_category is not None:
        rows.append(row("redis/a", "内存满", distance=in_category, words="redis full", category="redis"))
    return world(rows, l0=REDIS_ONLY, **options)


def test_a_filtered_attempt_of_good_quality_stands() -> None:
    outcome = filtered_world(0.3, 0.1).ask("redis lag")
    trace = outcome.result.retrieval_trace

    assert keys(outcome) == ["redis/a#chunk-0"]
    assert [a.name for a in trace.attempts] == [AttemptName.FILTERED_VECTOR]
    assert (trace.selected_attempt, trace.fallback_reason) == (AttemptName.FILTERED_VECTOR, None)
    assert trace.attempts[0].category_filter == "redis"
    assert candidates(outcome)["redis/a#chunk-0"].hit_reasons == ("dense", "bm25", "l0_domain_overlap")


def test_low_quality_under_a_filter_is_retried_once_without_it_and_replaced() -> None:
    outcome = filtered_world(1.5, 0.2).ask("redis lag")
    trace = outcome.result.retrieval_trace

    assert [a.name for a in trace.attempts] == [AttemptName.FILTERED_VECTOR, AttemptName.UNFILTERED_VECTOR_RETRY]
    assert trace.selected_attempt is AttemptName.UNFILTERED_VECTOR_RETRY
    assert trace.fallback_reason is FallbackReason.LOW_QUALITY
    assert keys(outcome) == ["kafka/lag#chunk-0", "redis/a#chunk-0"]
    first = candidates(outcome, 0)["redis/a#chunk-0"]
    assert (first.evidence_rank, first.drop_reason) == (1, DropReason.ATTEMPT_REPLACED)
    assert (first.pack_rank, first.projection_rank) == (None, None)
    assert outcome.result.rerank_trace.attempt is AttemptName.UNFILTERED_VECTOR_RETRY


def test_nothing_under_a_filter_is_another_reason_to_retry() -> None:
    outcome = filtered_world(None, 0.2).ask("redis lag")

    assert outcome.result.retrieval_trace.fallback_reason is FallbackReason.NO_EVIDENCE
    assert keys(outcome) == ["kafka/lag#chunk-0"]


def test_a_retry_that_is_no_better_replaces_the_first_all_the_same_and_is_the_last() -> None:
    outcome = filtered_world(1.5, 1.8).ask("redis lag")
    trace = outcome.result.retrieval_trace

    assert len(trace.attempts) == 2
    assert trace.selected_attempt is AttemptName.UNFILTERED_VECTOR_RETRY
    assert outcome.result.relevance_level is None


def test_the_retry_asks_the_original_query_without_the_alias() -> None:
    l0 = FixedL0(L0Match(category_filter="jvm", canonical_terms=("OutOfMemory",), aliases=(("OOM", "OutOfMemory"),)))
    setup = world([row("a", "text", distance=0.1, words="oom", category="kafka")], l0=l0)
    trace = setup.ask("OOM").result.retrieval_trace

    assert [a.query for a in trace.attempts] == ["OOM OutOfMemory", "OOM"]
    assert setup.embedder.calls == ["OOM OutOfMemory", "OOM"]


def test_without_a_category_filter_low_quality_is_no_reason_to_retry() -> None:
    trace = world([row("far", "text", distance=1.9, words="redis")]).ask("redis").result.retrieval_trace
    assert [a.name for a in trace.attempts] == [AttemptName.UNFILTERED_VECTOR]


def test_the_operator_may_switch_the_filter_off() -> None:
    trace = filtered_world(0.3, 0.1).ask("redis lag", WhatIf(category_filter_off=True)).result.retrieval_trace

    assert [a.name for a in trace.attempts] == [AttemptName.UNFILTERED_VECTOR]
    assert trace.plan is not None
    assert trace.plan.l0.category_filter == "redis"  # what L0 said is still shown


def test_case_35_a_filter_reaches_both_branches_in_every_mode() -> None:
    rows = [
        row("jia", "ZETA-77 出现在甲类。", distance=0.5, words="zeta 77", category="甲"),
        row("yi", "ZETA-77 ZETA-77 出现在乙类。", distance=0.1, words="zeta 77 zeta 77", category="乙"),
    ]
    for mode in Mode:
        outcome = world(rows, l0=FixedL0(L0Match(category_filter="甲"))).ask("ZETA-77", WhatIf(mode=mode))
        assert keys(outcome) == ["jia#chunk-0"]
        assert {b.hits for b in outcome.result.retrieval_trace.attempts[0].branches} == {1}


def test_case_33_an_empty_set_of_scopes_admits_nothing_and_asks_no_store() -> None:
    setup = pool_world()
    outcome = setup.ask("redis pool", kb_scope=[])

    assert outcome.result.evidence_status is EvidenceStatus.NO_EVIDENCE
    assert (setup.index.calls["search_dense"], setup.index.calls["search_bm25"]) == (0, 0)
    assert pool_world().ask("redis pool", kb_scope="").result.found  # empty text is the scope `default`
    assert pool_world().ask("redis pool", kb_scope=[""]).result.found


# ------------------------------------------------------------------------------------------------ query vectors, storage


def test_the_same_text_is_embedded_once() -> None:
    setup = pool_world()
    first, second = setup.ask("redis pool"), setup.ask("redis pool")

    assert setup.embedder.calls == ["redis pool"]
    assert first.result.retrieval_trace.costs.embedding_cache_hit is False
    assert second.result.retrieval_trace.costs.embedding_cache_hit is True
    assert second.result.retrieval_trace.timings.embedding_ms is None


def test_without_a_cache_every_lookup_embeds() -> None:
    setup = pool_world(embedding={"query_cache": 0})
    setup.ask("redis pool")
    setup.ask("redis pool")
    assert len(setup.embedder.calls) == 2


def test_for_storage_a_result_holds_no_document_text() -> None:
    result = pool_world().ask("redis pool").result
    text = to_json(without_content(result))

    assert "maxTotal" in to_json(result)
    assert "maxTotal" not in text
    assert "大 key" not in text
    assert candidates_hash(text) is True


def candidates_hash(text: str) -> bool:
    attempts = json.loads(text)["retrieval_trace"]["attempts"]
    return all(len(c["content_sha256"]) == 64 for a in attempts for c in a["candidates"])


def test_lists_of_candidates_are_bounded_and_never_lose_evidence() -> None:
    rows = [row(f"d{i:03}", f"text {i}", distance=i / 100, words=f"redis w{i}") for i in range(150)]
    rows += [row(f"e{i:03}", f"words {i}", distance=3.0, words="redis " * 3 + f"v{i}") for i in range(150)]
    attempt = world(rows).ask("redis", WhatIf(retrieve_k=150)).result.retrieval_trace.attempts[0]

    assert len(attempt.candidates) == 200
    assert (attempt.candidate_count, attempt.candidates_truncated) == (300, True)
    assert [c.evidence_rank for c in attempt.candidates[:5]] == [1, 2, 3, 4, 5]


def test_a_given_generation_is_searched_instead_of_the_active_one() -> None:
    trace = pool_world().ask("redis pool", generation=9).result.retrieval_trace
    assert trace.generation == 9


def test_a_generation_of_another_model_is_refused() -> None:
    setup = pool_world()
    setup.embedder.profile = replace(setup.embedder.profile, profile_id="test/other/4")
    outcome = setup.ask("redis pool")

    assert outcome.error is not None
    assert outcome.error.error_class == "ProfileMismatch"
    assert setup.index.calls["search_bm25"] == 0


def test_lookups_in_many_threads_do_not_mix() -> None:
    words = ["redis", "kafka", "mysql", "etcd", "nginx", "jvm", "dns", "ceph"]
    setup = world([row(f"d{i}", f"text {i}", distance=0.1 * i, words=word) for i, word in enumerate(words)])
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(lambda n: setup.ask(words[n % 8], WhatIf(return_n=8)), range(64)))

    for number, outcome in enumerate(outcomes):
        assert outcome.result.query == words[number % 8]
        assert [key for key, c in candidates(outcome).items() if c.bm25_rank] == [f"d{number % 8}#chunk-0"]
    assert len({outcome.result.trace_id for outcome in outcomes}) == 64
    assert len(setup.audit.records) == 64
