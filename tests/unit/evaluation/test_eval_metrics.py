"""Ranking metrics, each value worked out by hand."""

from __future__ import annotations

from math import log2

import pytest

from core.evaluation.metrics import DEFINITIONS, score, score_union, unique


def test_case_92_queries_missing_from_the_run_count_as_0_and_are_listed() -> None:
    golden = {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d3": 1}, "q4": {"d4": 1}}
    scores = score(golden, {"q1": ["d1"], "q2": ["d2"]}, (5,))
    assert scores.mean("recall@5").mean == 0.5
    assert scores.mean("ndcg@5").mean == 0.5
    assert scores.without_results == ("q3", "q4")
    assert scores.mean("recall@5").total == 4


def test_case_94_a_repeated_document_counts_once_and_is_a_defect_of_the_run() -> None:
    scores = score({"q": {"a": 1}}, {"q": ["a", "a", "b"]}, (5,))
    assert scores.mean("recall@5").mean == 1.0
    assert scores.duplicates == {"q": 1}
    scores = score({"q": {"a": 1, "b": 1}}, {"q": ["a"] * 5}, (5,))
    assert scores.mean("recall@5").mean == 0.5
    assert scores.mean("ndcg@5").mean == pytest.approx(1 / (1 + 1 / log2(3)))
    assert scores.duplicates == {"q": 4}
    assert unique([]) == ((), 0)


def test_case_96_the_ideal_gain_is_that_of_all_known_gold() -> None:
    golden = {f"g{n}": 1 for n in range(1, 6)}
    ideal = sum(1 / log2(rank + 1) for rank in range(1, 6))
    assert score({"q": golden}, {"q": ["g1"]}, (5,)).mean("ndcg@5").mean == pytest.approx(1 / ideal)
    assert 1 / ideal == pytest.approx(0.3392, abs=5e-5)


def test_case_96_graded_gain_is_linear_and_named_in_the_report() -> None:
    got = score({"q": {"a": 3, "b": 2, "c": 1}}, {"q": ["c", "b", "a"]}, (3,)).mean("ndcg@3").mean
    dcg = 1 / log2(2) + 2 / log2(3) + 3 / log2(4)
    best = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)
    assert got == pytest.approx(dcg / best)
    assert dcg / best == pytest.approx(0.7900, abs=5e-5)
    assert "linear gain: grade / log2(rank + 1)" in DEFINITIONS["ndcg@k"]


def test_case_98_more_gold_than_k_shows_its_ceiling() -> None:
    golden = {f"d{n}": 1 for n in range(20)}
    mean = score({"q": golden}, {"q": [f"d{n}" for n in range(5)]}, (5,)).mean("recall@5")
    assert (mean.mean, mean.ceiling) == (0.25, 0.25)
    two = score({"q": {"a": 1, "b": 1}}, {"q": ["a", "x"]}, (5,))
    assert two.mean("recall@5").mean == 0.5
    assert two.mean("recall@5").ceiling is None
    assert two.mean("hit@5").mean == 1.0
    assert "multi-hit" in DEFINITIONS["recall@k"]
    assert "single-hit" in DEFINITIONS["hit@k"]


def test_case_99_failures_stay_in_the_denominator_of_one_of_two_means() -> None:
    golden = {name: {"d": 1} for name in ("good", "bad", "raised", "raised too")}
    runs = {"good": ["d"], "bad": ["x"], "raised": None, "raised too": None}
    mean = score(golden, runs, (5,)).mean("recall@5")
    assert (mean.mean_scored, mean.mean) == (0.5, 0.25)
    assert (mean.scored, mean.failed, mean.total) == (2, 2, 4)


def test_case_99_all_failed_is_no_successful_0() -> None:
    mean = score({"q": {"d": 1}}, {"q": None}, (5,)).mean("recall@5")
    assert (mean.mean_scored, mean.mean, mean.scored, mean.failed) == (None, 0.0, 0, 1)


def test_case_100_unjudged_results_are_not_relevant_with_judged_at_k_beside_it() -> None:
    golden = {"q": {"a": 1, "b": 0}}
    first = score(golden, {"q": ["a", "x", "y"]}, (3,))
    then = score(golden, {"q": ["x", "y", "a"]}, (3,))
    assert (first.mean("mrr").mean, then.mean("mrr").mean) == (1.0, pytest.approx(1 / 3))
    for scores in (first, then):
        assert scores.mean("precision@3").mean == pytest.approx(1 / 3)
        assert scores.mean("judged@3").mean == pytest.approx(1 / 3)
        assert scores.mean("unjudged_ratio@3").mean == pytest.approx(2 / 3)
        assert scores.mean("precision_on_judged@3").mean == 1.0
    assert score(golden, {"q": ["x", "y", "a"]}, (2,)).mean("judged@2").mean == 0.0
    assert score(golden, {"q": ["x", "y", "a"]}, (2,)).mean("precision_on_judged@2").mean is None


def test_ties_cannot_happen_the_given_order_is_the_order() -> None:
    assert score({"q": {"z": 1}}, {"q": ["z", "a"]}, (1,)).mean("hit@1").mean == 1.0
    assert score({"q": {"a": 1}}, {"q": ["z", "a"]}, (1,)).mean("hit@1").mean == 0.0


def test_a_query_without_relevant_documents_has_no_ranking_metric() -> None:
    scores = score({"none": {"a": 0}, "q": {"a": 1}}, {"none": ["a"], "q": ["a"]}, (5,))
    assert scores.queries == ("q",)


def test_an_empty_golden_set_has_no_mean_and_says_why() -> None:
    mean = score({}, {}, (5,)).mean("recall@5")
    assert (mean.mean, mean.mean_scored, mean.total, mean.reason) == (None, None, 0, "no query with a value")


def test_the_union_at_k_holds_the_top_k_of_both_branches() -> None:
    golden = {"q": {"a": 1, "b": 1, "c": 1}}
    scores = score_union(golden, {"q": (["x", "a"], ["b", "x"])}, (1, 2))
    assert scores.mean("recall@1").mean == pytest.approx(1 / 3)
    assert scores.mean("recall@2").mean == pytest.approx(2 / 3)
    assert scores.mean("hit@1").mean == 1.0


def test_a_mean_over_part_of_the_queries_counts_only_those() -> None:
    scores = score({"a": {"d": 1}, "b": {"d": 1}}, {"a": ["d"], "b": None}, (5,))
    assert scores.mean("recall@5", ["a"]).mean == 1.0
    assert scores.mean("recall@5", ["b"]).failed == 1
