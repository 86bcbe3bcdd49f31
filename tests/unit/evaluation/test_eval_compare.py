"""Paired comparison and its statistics, by hand where a hand can."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InvalidCases
from core.evaluation.compare import compare
from core.evaluation.fixtures import FixtureSet
from core.evaluation.stats import auroc, bootstrap_mean, jaccard, randomisation_test, rbo, wilson
from tests.unit.evaluation.eval_samples import a_case, a_fixture, attempt, cases_of, evidence, fixtures_of, lookup, row


def _result(*documents: str, **fields: Any) -> dict[str, Any]:
    pieces = [evidence(f"{name}#chunk-0") for name in documents]
    rows = [row(f"{n}#chunk-0", dense_rank=i, rrf_rank=i, original_rank=i) for i, n in enumerate(documents, start=1)]
    return lookup(pieces, [attempt(rows=rows)], **fields)


CASES = [a_case(f"c{n}", goldSources=[{"docId": "gold"}], poolDepth=5) for n in range(8)]


def _set(mode: str, hits: list[list[str] | None], **fields: Any) -> FixtureSet:
    fixtures = [
        a_fixture(case, None if docs is None else _result(*docs), searchMode=mode, **fields)
        for case, docs in zip(CASES, hits, strict=True)
    ]
    return fixtures_of(*fixtures, mode=mode)


def test_the_verdict_is_a_sentence_about_cases_and_honest_about_few() -> None:
    dense = _set("dense", [["x"]] * 3 + [["gold"]] * 5)
    hybrid = _set("hybrid", [["gold"]] * 3 + [["x"]] + [["gold"]] * 4)
    found = compare(cases_of(*CASES), dense, hybrid)
    assert found.verdict.startswith(
        "hybrid finds 3 cases that dense misses, loses 1; too few cases to call MRR (+0.250"
    )
    assert "4 of 8 differ" in found.verdict
    assert (found.found_by_b, found.lost_by_b) == (("c0", "c1", "c2"), ("c3",))
    mrr = next(m for m in found.metrics if m.metric == "mrr")
    assert (mrr.wins, mrr.ties, mrr.losses, mrr.delta) == (3, 4, 1, 0.25)
    assert mrr.p == pytest.approx(10 / 16)
    assert [row.case_id for row in found.worst] == ["c3"]


def test_a_clear_difference_is_called() -> None:
    found = compare(cases_of(*CASES), _set("dense", [["x"]] * 8), _set("hybrid", [["gold"]] * 8))
    mrr = next(m for m in found.metrics if m.metric == "mrr")
    assert mrr.p == 2 / 2**8
    assert mrr.significant
    assert "MRR is better (+1.000" in found.verdict


def test_equal_runs_are_said_to_be_equal() -> None:
    same = [["gold"]] * 8
    found = compare(cases_of(*CASES), _set("dense", same), _set("hybrid", same))
    assert found.verdict == "hybrid and dense find the same 8 cases within rank 5; MRR is the same in every case."
    assert (found.jaccard, found.rbo) == (1.0, pytest.approx(1.0))


def test_failed_pairs_are_unknown_and_in_no_mean() -> None:
    found = compare(cases_of(*CASES), _set("dense", [None] * 2 + [["gold"]] * 6), _set("hybrid", [["gold"]] * 8))
    assert [row.unknown for row in found.rows[:3]] == ["FAILED / EVALUATED", "FAILED / EVALUATED", None]
    assert {m.pairs for m in found.metrics if m.stage.value == "evidence"} == {6}
    assert next(e for e in found.side_effects if e.name == "failed lookups").worse is False


def test_runs_without_a_common_answer_have_no_verdict() -> None:
    found = compare(cases_of(*CASES), _set("dense", [None] * 8), _set("hybrid", [["gold"]] * 8))
    assert found.verdict.endswith("nothing can be said.")


def test_fixtures_of_two_generations_are_refused_or_named_on_purpose() -> None:
    old, new = _set("hybrid", [["gold"]] * 8), _set("hybrid", [["gold"]] * 8, generation=2)
    with pytest.raises(InvalidCases, match="not taken over one index"):
        compare(cases_of(*CASES), old, new)
    found = compare(cases_of(*CASES), old, new, same_index=False)
    assert [item.field for item in found.differing] == ["generation"]
    assert (found.name_a, found.name_b) == ("hybrid before", "hybrid after")


def test_stale_fixtures_are_flagged() -> None:
    found = compare(cases_of(*CASES), _set("dense", [["gold"]] * 8), _set("hybrid", [["gold"]] * 8, query="older"))
    assert len(found.stale) == 8


def test_case_100_a_fall_on_thin_labels_is_counted_apart_and_no_loss() -> None:
    case = a_case("thin", goldSources=[{"docId": "gold"}])
    dense = fixtures_of(a_fixture(case, _result("gold")), mode="dense")
    hybrid = fixtures_of(a_fixture(case, _result("x", "y", "gold")), mode="hybrid")
    found = compare(cases_of(case), dense, hybrid)
    assert found.incomplete == ("thin",)
    assert {(m.losses, m.incomplete) for m in found.metrics if m.stage.value == "evidence"} == {(0, 1)}
    judged = compare(cases_of(case), dense, hybrid, unjudged_limit=1.0)
    assert next(m for m in judged.metrics if m.metric == "mrr").losses == 1


def test_side_effects_stand_in_the_same_table_and_in_the_sentence() -> None:
    none = a_case("none", answerability="unanswerable")
    yes = CASES[0]
    dense = fixtures_of(a_fixture(none, _result("x")), a_fixture(yes, _result("gold")), mode="dense")
    hybrid = fixtures_of(a_fixture(none, _result("x", level="PRECISE")), a_fixture(yes, _result("gold")), mode="hybrid")
    found = compare(cases_of(none, yes), dense, hybrid)
    effect = next(e for e in found.side_effects if e.name == "no-answer false accepts")
    assert (effect.a, effect.b, effect.worse) == (0, 1, True)
    assert "worse: no-answer false accepts" in found.verdict


def test_the_randomisation_test_counts_sign_patterns() -> None:
    assert randomisation_test([]) == 1.0
    assert randomisation_test([0.0, 0.0]) == 1.0
    assert randomisation_test([1.0]) == 1.0
    assert randomisation_test([1.0, 1.0, 1.0]) == 2 / 8
    assert randomisation_test([1.0, 1.0, -1.0]) == 1.0
    many = [0.1] * 30
    assert randomisation_test(many) == randomisation_test(many) == 1 / 10_001


def test_the_bootstrap_interval_is_seeded_and_needs_two_values() -> None:
    assert bootstrap_mean([1.0]) is None
    assert bootstrap_mean([0.5, 0.5, 0.5]) is not None
    interval = bootstrap_mean([0.0, 1.0] * 20)
    assert interval == bootstrap_mean([0.0, 1.0] * 20)
    assert interval is not None
    assert 0.3 < interval.low < 0.5 < interval.high < 0.7


def test_wilson_intervals() -> None:
    assert wilson(0, 0) is None
    interval = wilson(0, 20)
    assert interval is not None
    z2 = 1.959963984540054**2
    assert interval.low == 0.0
    assert interval.high == pytest.approx(z2 / (20 + z2))
    half = wilson(10, 20)
    assert half is not None
    assert half.low + half.high == pytest.approx(1.0)


def test_auroc_counts_pairs_with_ties_as_one_half() -> None:
    assert auroc([3.0, 2.0], [1.0, 2.0]) == (1 + 1 + 1 + 0.5) / 4
    assert auroc([], [1.0]) is None


def test_rank_similarity() -> None:
    assert jaccard(["a", "b"], ["b", "c"]) == 1 / 3
    assert jaccard([], []) is None
    assert rbo(["a", "b", "c"], ["a", "b", "c"]) == pytest.approx(1.0)
    assert rbo(["a"], ["b"]) == 0.0
    assert rbo([], ["a"]) == 0.0
    assert rbo([], []) is None
    swapped = 1.0 * 0.9**2 + (1 - 0.9) / 0.9 * (0 / 1 * 0.9 + 2 / 2 * 0.9**2)
    assert rbo(["a", "b"], ["b", "a"]) == pytest.approx(swapped)
