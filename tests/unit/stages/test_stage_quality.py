"""Quality by its formula, the basis it came from, and the level of a whole attempt."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.codec import to_json
from core.model import Branch, Candidate, Chunk, DropReason, Gate, Hit, QualityBasis, RelevanceLevel
from core.ports import SearchAnswer
from core.stages.quality import distance_quality, judge, level_of, lexical_share, score_quality
from core.stages.retrieve import clean_hits

GATE = Gate(0.75, 0.5, min_distance=0.0, max_distance=2.0, calibrated=True, lexical_reference_threshold=0.6)
QUERY_VECTOR = np.array([1, 0, 0], dtype=np.float32)


def dense(key: str, distance: float | None, **fields: Any) -> Candidate:
    return Candidate(key, "d", dense_rank=1, dense_distance=distance, original_rank=1, **fields)


def bm25(key: str, content: str = "", **fields: Any) -> Candidate:
    return Candidate(key, "d", bm25_rank=1, bm25_score=-3.0, original_rank=1, content=content, **fields)


def qualities(*candidates: Candidate, gate: Gate = GATE, query: str = "连接池耗尽", **options: Any) -> list[Candidate]:
    return list(score_quality(candidates, query, gate, **options))


@pytest.mark.parametrize(
    ("distance", "low", "high", "expected"),
    [
        (0.0, 0.0, 2.0, 1.0),
        (1.0, 0.0, 2.0, 1 - 1.0 / 2.0),
        (2.0, 0.0, 2.0, 0.0),
        (3.5, 0.0, 2.0, 0.0),
        (0.3, 0.2, 0.6, 1 - (0.3 - 0.2) / (0.6 - 0.2)),
        (0.1, 0.2, 0.6, 1.0),
    ],
)
def test_case_43_quality_is_one_minus_the_clamped_share_of_the_distance(
    distance: float, low: float, high: float, expected: float
) -> None:
    assert distance_quality(distance, low, high) == pytest.approx(expected)


def test_case_43_the_nearest_is_the_best_and_a_threshold_keeps_it() -> None:
    scored = qualities(dense("exact", 0.0), dense("near", 1.0), dense("far", 2.0))

    assert [c.quality_score for c in scored] == pytest.approx([1.0, 0.5, 0.0])
    kept = [c.evidence_key for c in scored if (c.quality_score or 0.0) > 0.5]
    assert kept == ["exact"]


@pytest.mark.parametrize(("threshold", "expected"), [(0.0, 3), (0.3, 2), (0.5, 2), (0.51, 1), (0.9, 1), (1.0, 1)])
def test_case_45_fewer_hits_reach_a_stricter_threshold(threshold: float, expected: int) -> None:
    gate = replace(GATE, precise_threshold=1.0, reference_threshold=threshold)
    scored = qualities(dense("exact", 0.0), dense("near", 1.0), dense("far", 2.0))
    reached = [c for c in scored if level_of(c.quality_score or 0.0, QualityBasis.DENSE_HIT, gate) is not None]

    assert len(reached) == expected


def test_case_54_a_threshold_never_meets_a_fused_score() -> None:
    candidate = dense("a", 0.1, rrf_rank=1, rrf_score=1 / 61)
    (scored,) = qualities(candidate)

    assert scored.quality_score == pytest.approx(1 - 0.1 / 2.0)
    assert level_of(scored.quality_score or 0.0, QualityBasis.DENSE_HIT, GATE) is RelevanceLevel.PRECISE
    assert (scored.dense_distance, scored.rrf_score) == (0.1, 1 / 61)  # each under its own name


# ------------------------------------------------------------------------------------------------ the basis


def test_a_bm25_only_hit_is_measured_from_its_stored_vector() -> None:
    stored = {"b": np.array([0.6, 0.8, 0.0], dtype=np.float32)}
    (scored,) = qualities(bm25("b"), query_vector=QUERY_VECTOR, vectors=stored)

    squared = (1 - 0.6) ** 2 + 0.8**2
    assert scored.quality_basis is QualityBasis.DENSE_EXACT
    assert scored.exact_distance == pytest.approx(squared)
    assert scored.quality_score == pytest.approx(1 - squared / 2.0)
    assert (scored.dense_rank, scored.dense_distance) == (None, None)  # it is not a hit of the dense branch


def test_a_dense_hit_keeps_the_distance_of_the_search() -> None:
    stored = {"a": np.array([0.0, 1.0, 0.0], dtype=np.float32)}
    (scored,) = qualities(dense("a", 0.2), query_vector=QUERY_VECTOR, vectors=stored)

    assert (scored.quality_basis, scored.exact_distance) == (QualityBasis.DENSE_HIT, None)
    assert scored.quality_score == pytest.approx(1 - 0.2 / 2.0)


@pytest.mark.parametrize(
    "vectors",
    [{}, {"b": np.array([1, 0], dtype=np.float32)}, {"b": np.array([np.nan, 0, 0], dtype=np.float32)}],
    ids=["no vector", "another dimension", "not finite"],
)
def test_without_a_usable_vector_the_share_of_the_querys_bigrams_counts(vectors: dict[str, Any]) -> None:
    (scored,) = qualities(bm25("b", "连接池已满"), query="连接池耗尽", query_vector=QUERY_VECTOR, vectors=vectors)

    # 连接 接池 池耗 耗尽: the first two stand in the content
    assert scored.quality_basis is QualityBasis.LEXICAL
    assert scored.quality_score == pytest.approx(2 / 4)
    assert scored.exact_distance is None


def test_without_a_query_vector_the_share_of_bigrams_counts() -> None:
    stored = {"b": np.array([1, 0, 0], dtype=np.float32)}
    (scored,) = qualities(bm25("b", "连接池耗尽"), vectors=stored)

    assert (scored.quality_basis, scored.quality_score) == (QualityBasis.LEXICAL, 1.0)


def test_a_query_without_bigrams_shares_nothing() -> None:
    assert lexical_share(frozenset(), "anything") == 0.0


def test_the_rerankers_score_comes_before_any_distance() -> None:
    (scored,) = qualities(dense("a", 0.0, rerank_score=0.31, rerank_rank=1))

    assert (scored.quality_score, scored.quality_basis) == (0.31, QualityBasis.RERANK)


def test_by_choice_a_bm25_only_hit_is_measured_by_rank_and_the_first_is_always_one() -> None:
    candidates = [bm25("a"), bm25("b"), bm25("c"), bm25("d")]
    scored = qualities(*candidates, bm25_only=QualityBasis.RANK)

    assert [c.quality_score for c in scored] == pytest.approx([1 - 0 / 4, 1 - 1 / 4, 1 - 2 / 4, 1 - 3 / 4])
    assert {c.quality_basis for c in scored} == {QualityBasis.RANK}


def test_by_choice_a_bm25_only_hit_is_measured_lexically_even_with_a_vector() -> None:
    stored = {"b": QUERY_VECTOR}
    (scored,) = qualities(bm25("b", "无关"), query_vector=QUERY_VECTOR, vectors=stored, bm25_only=QualityBasis.LEXICAL)
    assert (scored.quality_score, scored.quality_basis) == (0.0, QualityBasis.LEXICAL)


def test_quality_never_changes_the_order_and_leaves_dropped_candidates_alone() -> None:
    gone = dense("x", 0.0, drop_reason=DropReason.FUSION_WINDOW)
    scored = qualities(dense("far", 2.0), gone, dense("near", 0.0))

    assert [c.evidence_key for c in scored] == ["far", "x", "near"]
    assert scored[1] is gone
    assert qualities() == []


# ------------------------------------------------------------------------------------------------ level and gate


@pytest.mark.parametrize(
    ("quality", "basis", "level"),
    [
        (0.75, QualityBasis.DENSE_HIT, RelevanceLevel.PRECISE),
        (0.7499, QualityBasis.DENSE_EXACT, RelevanceLevel.REFERENCE),
        (0.5, QualityBasis.DENSE_HIT, RelevanceLevel.REFERENCE),
        (0.4999, QualityBasis.DENSE_HIT, None),
        (1.0, QualityBasis.LEXICAL, RelevanceLevel.REFERENCE),
        (0.59, QualityBasis.LEXICAL, None),
    ],
)
def test_each_basis_has_its_own_thresholds(quality: float, basis: QualityBasis, level: RelevanceLevel | None) -> None:
    assert level_of(quality, basis, GATE) is level


def test_a_rerankers_score_is_not_held_against_the_thresholds_of_an_embedding_model() -> None:
    strict = replace(GATE, precise_threshold=0.99, reference_threshold=0.98)

    assert level_of(0.8, QualityBasis.RERANK, strict) is RelevanceLevel.PRECISE
    assert level_of(0.8, QualityBasis.DENSE_HIT, strict) is None


def test_the_level_comes_from_the_best_quality_wherever_it_stands() -> None:
    verdict = judge(qualities(dense("first", 1.8), dense("second", 0.2), dense("third", 1.0)), GATE)

    assert (verdict.top_key, verdict.top_quality, verdict.level) == (
        "second",
        pytest.approx(0.9),
        RelevanceLevel.PRECISE,
    )
    assert not verdict.low_quality


def test_a_full_lexical_share_does_not_hide_a_precise_distance() -> None:
    verdict = judge(qualities(dense("near", 0.4), bm25("words", "连接池耗尽")), GATE)

    assert (verdict.top_key, verdict.level) == ("near", RelevanceLevel.PRECISE)


def test_below_the_reference_threshold_the_gate_says_low_quality() -> None:
    verdict = judge(qualities(dense("far", 1.5)), GATE)

    assert (verdict.level, verdict.low_quality, verdict.top_quality) == (None, True, pytest.approx(0.25))


def test_no_candidate_at_all_is_low_quality_without_a_number() -> None:
    verdict = judge([], GATE)
    assert (verdict.level, verdict.low_quality, verdict.top_quality, verdict.top_key) == (None, True, None, None)


# ------------------------------------------------------------------------------------------------ numbers that are none


def test_case_70_a_score_that_is_no_finite_number_is_null_and_the_others_survive() -> None:
    scores = [float("nan"), float("inf"), float("-inf"), -0.0, 1e400, 0.5]
    found = tuple(
        Hit(Chunk(f"k{i}", "d", i, "text"), Branch.DENSE, i, score) for i, score in enumerate(scores, start=1)
    )
    cleaned = clean_hits(SearchAnswer(Branch.DENSE, found, "", 10, {}, 1.0), 10)
    scored = qualities(*(dense(h.chunk.evidence_key, h.score, content="连接池耗尽") for h in cleaned))

    assert [h.score for h in cleaned] == [None, None, None, 0.0, None, 0.5]
    assert [c.quality_basis for c in scored] == [
        QualityBasis.LEXICAL,
        QualityBasis.LEXICAL,
        QualityBasis.LEXICAL,
        QualityBasis.DENSE_HIT,
        QualityBasis.LEXICAL,
        QualityBasis.DENSE_HIT,
    ]
    assert all(math.isfinite(c.quality_score or 0.0) for c in scored)
    assert "NaN" not in to_json(scored)
    assert json.loads(to_json(scored))[0]["dense_distance"] is None
