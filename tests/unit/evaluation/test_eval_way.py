"""The stage that sent a lookup another way, and the stage that a failed field tells."""

from __future__ import annotations

from typing import Any

import pytest

from core.evaluation.judge import judge
from core.evaluation.observed import observe
from core.evaluation.way import stage_of_way, too_few
from tests.unit.evaluation.eval_samples import a_case, a_fixture, attempt, evidence, lookup, row

FOUND = [row("a#chunk-0", dense_rank=1)]
LOW = attempt("FILTERED_VECTOR", FOUND, category_filter="redis", low_quality=True)
GOOD = {**LOW, "low_quality": False}
EMPTY = {**LOW, "candidates": []}
PLAIN = attempt("UNFILTERED_VECTOR", FOUND, low_quality=True)
RETRY = attempt("UNFILTERED_VECTOR_RETRY", FOUND)


@pytest.mark.parametrize(
    ("wanted", "attempts", "stage"),
    [
        ("UNFILTERED_VECTOR_RETRY", [GOOD], "gate"),  # a rank-1 decoy was called good
        ("UNFILTERED_VECTOR_RETRY", [LOW], "fallback"),  # called low, and nothing followed
        ("UNFILTERED_VECTOR_RETRY", [PLAIN], "transform"),  # nothing was filtered
        ("FILTERED_VECTOR", [PLAIN], "transform"),
        ("UNFILTERED_VECTOR", [GOOD], "transform"),
        ("FILTERED_VECTOR", [LOW, RETRY], "gate"),
        ("FILTERED_VECTOR", [GOOD, RETRY], "fallback"),  # a retry that the gate did not ask for
        ("FILTERED_VECTOR", [EMPTY, RETRY], "retrieve"),
        ("FILTERED_VECTOR", [], "fallback"),
    ],
)
def test_the_attempts_tell_which_stage_left_the_expected_way(
    wanted: str, attempts: list[dict[str, Any]], stage: str
) -> None:
    case = a_case(expectedSelectedAttempt=wanted)
    assert stage_of_way(case, observe(lookup([evidence("a#chunk-0")], attempts))) == stage


@pytest.mark.parametrize(
    ("wanted", "attempts", "stage"),
    [
        ("NONE", [LOW, RETRY], "gate"),
        ("NONE", [PLAIN, RETRY], "gate"),  # it says nothing of a filter
        ("FALLBACK_LOW_QUALITY", [PLAIN], "transform"),
        ("FALLBACK_LOW_QUALITY", [GOOD], "gate"),
        ("FALLBACK_LOW_QUALITY", [EMPTY, RETRY], "retrieve"),  # FALLBACK_NO_EVIDENCE instead
        ("FALLBACK_NO_EVIDENCE", [LOW, RETRY], "gate"),
    ],
)
def test_a_case_that_names_only_the_reason_is_read_as_far_as_that_goes(
    wanted: str, attempts: list[dict[str, Any]], stage: str
) -> None:
    case = a_case(expectedFallbackReason=wanted)
    assert stage_of_way(case, observe(lookup([evidence("a#chunk-0")], attempts))) == stage


def test_too_few_pieces_were_found_or_dropped() -> None:
    one = observe(lookup([evidence("a#chunk-0")], [attempt(rows=FOUND)]))
    assert too_few(one, 2) == "retrieve"
    more = [*FOUND, row("a#chunk-1", dense_rank=2, drop_reason="document_limit")]
    assert too_few(observe(lookup([evidence("a#chunk-0")], [attempt(rows=more)])), 2) == "evidence"
    assert too_few(observe(lookup([evidence("a#chunk-0")])), 2) == "evidence"


def test_a_keyword_that_only_the_agent_lacks_was_cut_by_the_projection() -> None:
    case = a_case(expectedKeywords=["maxTotal"])
    whole = evidence("a#chunk-0", "raise maxTotal")
    cut = judge(case, a_fixture(case, lookup([whole], agent=[("a#chunk-0", "raise")])))
    absent = judge(case, a_fixture(case, lookup([evidence("a#chunk-0", "raise it")])))
    assert [failure.stage for failure in (*cut.failures, *absent.failures)] == ["project", "evidence"]


def test_a_document_that_the_projection_cut_is_told_from_one_that_was_never_evidence() -> None:
    case = a_case(expectedDocIds=["a"])
    cut = judge(case, a_fixture(case, lookup([evidence("a#chunk-0")], agent=[])))
    never = judge(case, a_fixture(case, lookup([evidence("b#chunk-0")])))
    assert [failure.stage for failure in (*cut.failures, *never.failures)] == ["project", None]
