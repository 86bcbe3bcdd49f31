"""The judge: every expectation can fail, and says so in words; a status is never one for another."""

from __future__ import annotations

from typing import Any

import pytest

from core.evaluation.judge import CaseStatus, HitLevel, Share, judge, judge_all, summarise
from tests.unit.evaluation.eval_samples import a_case, a_fixture, cases_of, evidence, fixtures_of, lookup

POOL = evidence("redis/pool#chunk-0", "The pool is exhausted: raise maxActive to 64.", breadcrumb="Redis > Pool")
SLOW = evidence("mysql/slow#chunk-1", "slow query log")


@pytest.mark.parametrize(
    ("expectation", "says"),
    [
        ({"expectedDocIds": ["redis/pool", "redis/acl"]}, "redis/acl is not among the 2 pieces"),
        ({"expectedSources": ["redis/acl.md"]}, "redis/acl.md is not among"),
        ({"expectedKeywords": ["MAXACTIVE", "minIdle"]}, "not in what the agent reads: 'minIdle'"),
        ({"expectedBreadcrumbs": ["Redis > Cluster"]}, "no evidence stands under 'Redis > Cluster'"),
        ({"expectedSelectedAttempt": "FILTERED_VECTOR"}, "UNFILTERED_VECTOR instead of FILTERED_VECTOR"),
        ({"expectedFallbackReason": "FALLBACK_LOW_QUALITY"}, "none instead of FALLBACK_LOW_QUALITY"),
        ({"expectedEvidenceStatus": "NO_EVIDENCE"}, "READY instead of NO_EVIDENCE"),
        ({"minEvidenceCount": 3}, "2 pieces of evidence, at least 3"),
        ({"expectedDocIds": ["mysql/slow"], "firstExpectedRankMax": 1}, "stands at rank 2, rank 1 is allowed"),
        ({"mustNotDocIds": ["mysql/slow"]}, "mysql/slow stands at rank 2 and must not"),
        ({"mustNotSources": ["mysql/slow.md"]}, "mysql/slow.md stands at rank 2 and must not"),
    ],
)
def test_a_failed_expectation_is_told_in_words(expectation: dict[str, Any], says: str) -> None:
    case = a_case(**expectation)
    verdict = judge(case, a_fixture(case, lookup([POOL, SLOW])))
    assert (verdict.status, verdict.passed) == (CaseStatus.EVALUATED, False)
    assert says in verdict.failures[0].text


def test_a_case_whose_every_expectation_is_met_passes() -> None:
    case = a_case(
        expectedDocIds=["redis/pool"],
        expectedSources=["mysql/slow.md"],
        expectedKeywords=["maxactive to  64"],
        expectedBreadcrumbs=["pool"],
        expectedSelectedAttempt="UNFILTERED_VECTOR",
        expectedFallbackReason="NONE",
        expectedEvidenceStatus="READY",
        minEvidenceCount=2,
        firstExpectedRankMax=1,
        mustNotDocIds=["redis/acl"],
    )
    verdict = judge(case, a_fixture(case, lookup([POOL, SLOW])))
    assert verdict.failures == ()
    assert (verdict.passed, verdict.first_expected_rank, verdict.hit_level) == (True, 1, HitLevel.STRONG)


def test_evidence_that_the_projection_cut_does_not_count_as_seen() -> None:
    case = a_case(expectedDocIds=["mysql/slow"])
    result = lookup([POOL, SLOW], agent=[(POOL["evidence_key"], POOL["content"])])
    assert "projection cut it" in judge(case, a_fixture(case, result)).failures[0].text


def test_keys_and_level_are_observed_and_gate_nothing() -> None:
    case = a_case(
        expectedEvidenceKeys=["redis/pool#chunk-9"], expectedRelevanceLevel="PRECISE", expectedDocIds=["redis/pool"]
    )
    verdict = judge(case, a_fixture(case, lookup([POOL], level="REFERENCE")))
    assert verdict.passed is True
    assert [item.field for item in verdict.observations] == ["expectedEvidenceKeys", "expectedRelevanceLevel"]


@pytest.mark.parametrize(
    ("documents", "keywords", "level"),
    [
        (["redis/pool"], ["maxActive"], HitLevel.STRONG),
        (["redis/pool"], [], HitLevel.STRONG),
        (["redis/pool"], ["absent"], HitLevel.MEDIUM),
        (["redis/acl"], ["maxActive"], HitLevel.WEAK),
        ([], ["maxActive"], HitLevel.WEAK),
        (["redis/acl"], ["absent"], HitLevel.MISS),
        (["redis/acl"], [], HitLevel.MISS),
        ([], [], None),
    ],
)
def test_hit_levels(documents: list[str], keywords: list[str], level: HitLevel | None) -> None:
    case = a_case(expectedDocIds=documents, expectedKeywords=keywords, minEvidenceCount=1)
    assert judge(case, a_fixture(case, lookup([POOL]))).hit_level is level


def test_the_five_statuses_are_never_one_for_another() -> None:
    wanting = a_case(expectedDocIds=["redis/pool"])
    assert judge(wanting, None).status is CaseStatus.NOT_RUN
    assert judge(wanting, a_fixture(wanting, None)).status is CaseStatus.FAILED
    assert judge(wanting, a_fixture(wanting, lookup())).status is CaseStatus.ZERO_RESULTS
    assert judge(wanting, a_fixture(wanting, lookup([SLOW]))).status is CaseStatus.EVALUATED
    bare = a_case()
    assert judge(bare, a_fixture(bare, lookup([SLOW]))).status is CaseStatus.UNJUDGED
    none = a_case(answerability="unanswerable")
    assert judge(none, a_fixture(none, lookup([SLOW]))).status is CaseStatus.EVALUATED


def test_a_lookup_that_ended_in_an_error_failed_and_did_not_find_nothing() -> None:
    case = a_case(expectedDocIds=["redis/pool"])
    result = lookup(evidence_status="ERROR", error_class="StoreUnavailable")
    verdict = judge(case, a_fixture(case, result))
    assert (verdict.status, verdict.passed, verdict.reason) == (CaseStatus.FAILED, False, "StoreUnavailable")


def test_an_error_that_was_expected_passes() -> None:
    case = a_case(expectedEvidenceStatus="ERROR")
    assert judge(case, a_fixture(case, None)).passed is True


def test_no_evidence_can_be_what_is_right() -> None:
    case = a_case(answerability="unanswerable", expectedEvidenceStatus="NO_EVIDENCE")
    verdict = judge(case, a_fixture(case, lookup()))
    assert (verdict.status, verdict.passed) == (CaseStatus.ZERO_RESULTS, True)


def test_rates_count_every_case_and_say_how_many_were_scored() -> None:
    good = a_case("good", expectedDocIds=["redis/pool"], expectedKeywords=["maxActive"], tags=["redis"])
    bad = a_case("bad", expectedDocIds=["redis/acl"], tags=["redis", "acl"])
    failed = a_case("failed", expectedDocIds=["redis/pool"], expectedKeywords=["a", "b"])
    missing = a_case("missing", expectedDocIds=["redis/pool"], review={"status": "draft"})
    cases = cases_of(good, bad, failed, missing)
    fixtures = fixtures_of(a_fixture(good, lookup([POOL])), a_fixture(bad, lookup([POOL])), a_fixture(failed, None))
    seen = summarise(cases, judge_all(cases, fixtures))
    assert (seen.scored, seen.total) == (2, 4)
    assert seen.pass_rate == Share(1, 4)
    assert seen.gating_pass_rate == Share(1, 3)
    assert seen.pass_rate_by_tag == {"acl": Share(0, 1), "redis": Share(1, 2)}
    assert seen.case_recall == Share(1, 4)
    assert seen.keyword_coverage == Share(1, 3)
    assert seen.by_status == {"EVALUATED": 2, "FAILED": 1, "ZERO_RESULTS": 0, "NOT_RUN": 1, "UNJUDGED": 0}
    assert Share(0, 0).rate is None
