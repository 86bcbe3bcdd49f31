"""Rankings of every stage, and what the pipeline's behaviour looks like in numbers."""

from __future__ import annotations

from typing import Any

import pytest

from core.evaluation.behaviour import Behaviour, Latency, percentile, summarise_behaviour
from core.evaluation.cases import Case
from core.evaluation.context import count_tokens, missing_passages, score_context, summarise_context
from core.evaluation.fixtures import Fixture
from core.evaluation.gold import relevance
from core.evaluation.judge import Share
from core.evaluation.observed import observe
from core.evaluation.stages import RankedStage, rankings, score_stages
from tests.unit.evaluation.eval_samples import a_case, a_fixture, attempt, evidence, lookup, row

ROWS = [
    row("a#chunk-0", dense_rank=1, bm25_rank=None, rrf_rank=3, original_rank=2, rerank_rank=2),
    row("b#chunk-0", dense_rank=2, bm25_rank=1, rrf_rank=1, original_rank=1, rerank_rank=1),
    row("b#chunk-1", dense_rank=3, bm25_rank=3, rrf_rank=4, original_rank=None, drop_reason="rerank_limit"),
    row("c#chunk-0", dense_rank=None, bm25_rank=2, rrf_rank=5, drop_reason="fusion_window"),
]


def test_every_stage_has_its_own_ranking_of_documents() -> None:
    result = lookup(
        [evidence("b#chunk-0"), evidence("a#chunk-0")],
        [attempt(rows=ROWS)],
        packed=["b#chunk-0"],
        agent=[("b#chunk-0", ""), ("a#chunk-0", "")],
    )
    found = {stage.value: ranking.documents for stage, ranking in rankings(observe(result)).items()}
    assert found == {
        "bm25": ("b", "c"),
        "dense": ("a", "b"),
        "fused": ("b", "a"),
        "reranked": ("b", "a"),
        "evidence": ("b", "a"),
        "context": ("b",),
        "projected": ("b", "a"),
    }


def test_a_stage_that_did_not_run_is_absent_and_one_that_failed_does_not_know() -> None:
    broken = [{"branch": "dense", "status": "complete"}, {"branch": "bm25", "status": "unavailable"}]
    only_dense = [row("a#chunk-0", dense_rank=1, original_rank=1)]
    found = rankings(observe(lookup([], [attempt(rows=only_dense, branches=broken)])))
    assert found[RankedStage.BM25].documents is None
    assert found[RankedStage.FUSED].documents == ("a",)
    assert RankedStage.RERANKED not in found
    empty = rankings(observe(lookup([], [attempt(rows=[])])))
    assert empty[RankedStage.BM25].documents == ()


def test_case_94_a_key_that_stands_twice_is_a_defect_two_chunks_of_a_document_are_none() -> None:
    twice = lookup([evidence("a#chunk-0"), evidence("a#chunk-0"), evidence("a#chunk-1")])
    ranking = rankings(observe(twice))[RankedStage.EVIDENCE]
    assert (ranking.documents, ranking.repeats) == (("a",), 1)


def test_case_92_failed_and_missing_lookups_stay_in_the_means_of_every_stage() -> None:
    qrels = {name: {"a": 1} for name in ("good", "empty", "failed")}
    good = observe(lookup([evidence("a#chunk-0")], [attempt(rows=[row("a#chunk-0", dense_rank=1, rrf_rank=1)])]))
    empty = observe(lookup([], [attempt(rows=[])]))
    scored = score_stages(qrels, {"good": good, "empty": empty, "failed": None}, (5,))
    mean = next(m for m in scored[RankedStage.FUSED].means() if m.name == "recall@5")
    assert (mean.mean, mean.mean_scored, mean.scored, mean.total) == (pytest.approx(1 / 3), 0.5, 2, 3)
    assert scored[RankedStage.RERANKED].scores is None
    assert scored[RankedStage.RERANKED].means() == ()
    union = scored[RankedStage.UNION].means()
    assert [m.name for m in union] == ["recall@5", "hit@5"]


def _behave(pairs: list[tuple[Case, Fixture]], k: int = 5) -> Behaviour:
    qrels = {case.case_id: relevance(case) for case, _ in pairs if case.answerable}
    seen = {case.case_id: fixture.observed for case, fixture in pairs if case.case_id in qrels}
    return summarise_behaviour(pairs, score_stages(qrels, seen, (k,)), k)


def _retry(before: list[str], after: list[str]) -> dict[str, Any]:
    first = [row(f"{d}#chunk-0", evidence_rank=1, drop_reason="attempt_replaced", category="x") for d in before]
    then = [row(f"{d}#chunk-0", original_rank=1, category="y") for d in after]
    return lookup(
        [evidence(f"{d}#chunk-0") for d in after],
        [attempt("FILTERED_VECTOR", rows=first, category_filter="x"), attempt("UNFILTERED_VECTOR_RETRY", rows=then)],
        fallback="FALLBACK_LOW_QUALITY",
    )


def test_a_fallback_is_counted_as_triggered_correct_helped_hurt() -> None:
    gold = {"goldSources": [{"docId": "gold"}]}
    helped = a_case("helped", expectedFallbackReason="FALLBACK_LOW_QUALITY", **gold)
    hurt = a_case("hurt", expectedFallbackReason="NONE", **gold)
    same = a_case("same", **gold)
    calm = a_case("calm", expectedSelectedAttempt="UNFILTERED_VECTOR", **gold)
    seen = _behave(
        [
            (helped, a_fixture(helped, _retry(["other"], ["gold"]))),
            (hurt, a_fixture(hurt, _retry(["gold"], ["other"]))),
            (same, a_fixture(same, _retry(["other"], ["third"]))),
            (calm, a_fixture(calm, lookup([evidence("gold#chunk-0")], [attempt()]))),
        ]
    ).fallback
    assert seen.triggered == Share(3, 4)
    assert seen.correct == Share(2, 3)
    assert (seen.helped, seen.hurt, seen.neutral) == (("helped",), ("hurt",), ("same",))


def test_a_filter_misfires_when_it_keeps_gold_of_another_category_out() -> None:
    case = a_case(goldSources=[{"docId": "gold"}])
    assert _behave([(case, a_fixture(case, _retry(["other"], ["gold"])))]).filter_misfires == ("c1",)
    assert _behave([(case, a_fixture(case, _retry(["gold"], ["gold"])))]).filter_misfires == ()


def test_the_gate_is_judged_on_answerable_against_unanswerable() -> None:
    yes, no = a_case("yes", goldSources=[{"docId": "a"}]), a_case("no", answerability="unanswerable")
    seen = _behave(
        [
            (yes, a_fixture(yes, lookup([evidence("a#chunk-0")], level="PRECISE"))),
            (yes, a_fixture(yes, lookup([evidence("a#chunk-0")]))),
            (no, a_fixture(no, lookup([evidence("b#chunk-0")], level="REFERENCE"))),
            (no, a_fixture(no, lookup())),
        ]
    )
    gate = seen.gate
    assert (gate.answerable_accepted, gate.answerable_refused) == (1, 1)
    assert (gate.unanswerable_accepted, gate.unanswerable_refused) == (1, 1)
    assert gate.accuracy == 0.5
    assert seen.levels == {"PRECISE": 1, "REFERENCE": 1, "NONE": 2}
    assert seen.no_answer_accepted == ("no",)


def test_shares_of_the_branches_and_of_the_reranker() -> None:
    both = a_case("both", goldSources=[{"docId": "b"}])
    dense = a_case("dense", goldSources=[{"docId": "a"}])
    bm25 = a_case("bm25", goldSources=[{"docId": "c"}])
    pairs = [(case, a_fixture(case, lookup([], [attempt(rows=ROWS)]))) for case in (both, dense, bm25)]
    seen = _behave(pairs, k=1).branches
    assert seen is not None
    assert seen.dense_only_hit == Share(1, 3)
    assert seen.bm25_only_hit == Share(1, 3)
    assert seen.intersection_rate == 0.0
    assert seen.rrf_incremental_recall == pytest.approx((0 + -1 + 0) / 3)
    assert seen.reranker_rescue == Share(0, 2)
    assert seen.reranker_damage == Share(0, 1)


def test_latencies_are_nearest_rank_percentiles_of_what_ran() -> None:
    case = a_case(goldSources=[{"docId": "a"}])
    results = [lookup([], [attempt()]) for _ in range(20)]
    for ms, result in enumerate(results, start=1):
        result["retrieval_trace"]["timings"] = {"total_ms": float(ms), "rerank_ms": None}
    seen = _behave([(case, a_fixture(case, result)) for result in results]).latency
    assert (seen["total_ms"].p50, seen["total_ms"].p95, seen["total_ms"].count) == (10.0, 19.0, 20)
    assert "rerank_ms" not in seen
    assert percentile([7.0], 0.95) == 7.0


def test_the_total_without_embedding_is_the_same_whether_the_vector_was_cached() -> None:
    case = a_case(goldSources=[{"docId": "a"}])
    embedded, cached = lookup([], [attempt()]), lookup([], [attempt()])
    embedded["retrieval_trace"]["timings"] = {"embedding_ms": 50.0, "total_ms": 62.0}
    cached["retrieval_trace"]["timings"] = {"total_ms": 12.0}
    for result in (embedded, cached):
        assert _behave([(case, a_fixture(case, result))]).without_embedding == Latency(62.0 - 50.0, 12.0, 1)
    assert _behave([(case, a_fixture(case, lookup([], [attempt()])))]).without_embedding is None


def test_the_context_is_scored_apart_from_the_ranking() -> None:
    facts = [
        {"fact": "eight", "path": "a.md", "anchor": "eight wide"},
        {"fact": "nine", "path": "a.md", "anchor": "nine wide"},
    ]
    case = a_case(requiredFacts=facts, goldPassages=[{"path": "a.md", "anchor": "ten wide"}])
    pieces = [
        evidence("a#chunk-0", "it is eight wide", revision=1),
        evidence("b#chunk-0", "noise and noise", revision=5),
        evidence("b#chunk-1", "Noise  and noise", revision=5),
    ]
    probe = {"depth": 5, "documents": {"a": {"chunks": 1, "revision": 2}, "b": {"chunks": 2, "revision": 5}}}
    fixture = a_fixture(case, lookup(pieces), probe=probe)
    score = score_context(case, fixture)
    assert score is not None
    assert (score.facts, score.missing_facts) == (Share(1, 2), ("nine",))
    assert score.duplicates == Share(1, 3)
    assert score.stale == Share(1, 3)
    assert (score.useful_tokens, score.total_tokens) == (4, 10)
    assert summarise_context([score, None]).useful_share == 0.4
    assert fixture.observed is not None
    assert missing_passages(case, fixture.observed) == ("ten wide",)
    assert score_context(case, a_fixture(case, None)) is None
    assert summarise_context([]).fact_coverage is None


def test_tokens_are_words_and_single_chinese_characters() -> None:
    assert count_tokens("redis 连接池 maxActive=8") == 6
    assert count_tokens("") == 0
