"""The trace as it is built: stages that ran, failed or never ran; lists bounded; times and costs null where unknown."""

from __future__ import annotations

import pytest

from core.errors import StoreUnavailable
from core.model import AttemptName, Branch, BranchTrace, Candidate, Stage, StageStatus, StageTrace
from core.stages.retrieve import Retrieved
from core.trace import (
    MAX_CANDIDATES,
    Attempt,
    Recorder,
    attempt_stages,
    bounded,
    costs,
    estimate_tokens,
    lookup_stages,
    timings,
)


class Counted:
    count_in, count_out = 5, 3


def attempt(query: str = "redis", **changes: object) -> Attempt:
    found = Retrieved({}, (), embedding_ms=changes.pop("embedding_ms", None))  # type: ignore[arg-type]
    return Attempt(AttemptName.UNFILTERED_VECTOR, query, None, found, **changes)  # type: ignore[arg-type]


def test_a_stage_that_ran_has_counts_and_time_and_one_that_did_not_has_null() -> None:
    recorder = Recorder()
    recorder.count(Stage.FUSE, Counted)
    stages = {s.stage: s for s in attempt_stages(recorder)}

    assert (stages[Stage.FUSE].status, stages[Stage.FUSE].count_in, stages[Stage.FUSE].count_out) == (
        StageStatus.COMPLETE,
        5,
        3,
    )
    assert stages[Stage.RERANK] == StageTrace(Stage.RERANK, StageStatus.NOT_RUN, None, None, None)
    assert list(stages) == [Stage.DENSE, Stage.BM25, Stage.FUSE, Stage.RERANK, Stage.EVIDENCE]
    assert [s.stage for s in lookup_stages(recorder)] == [
        Stage.TRANSFORM,
        Stage.PACK,
        Stage.ASSEMBLE,
        Stage.PROJECT,
    ]


def test_a_stage_that_fails_is_an_error_with_its_class_and_goes_on_failing() -> None:
    recorder = Recorder()

    def fail() -> None:
        raise StoreUnavailable("mysql://kb:CANARY@db/x is away")

    with pytest.raises(StoreUnavailable):
        recorder.time(Stage.TRANSFORM, fail)
    (stage,) = recorder.stages
    assert (stage.status, stage.error_class, stage.count_in) == (StageStatus.ERROR, "StoreUnavailable", None)
    assert "CANARY" not in str(stage.reason)


def test_a_branch_becomes_a_stage_with_what_was_asked_and_what_came() -> None:
    recorder = Recorder()
    recorder.branch(BranchTrace(Branch.BM25, StageStatus.COMPLETE, limit=20, hits=7, ms=1.5))
    assert recorder.stages == [StageTrace(Stage.BM25, StageStatus.COMPLETE, 20, 7, 1.5)]


def candidates(count: int, evidence_at: tuple[int, ...] = ()) -> list[Candidate]:
    return [
        Candidate(f"d{i}", f"d{i}", evidence_rank=evidence_at.index(i) + 1 if i in evidence_at else None)
        for i in range(count)
    ]


def test_a_list_is_bounded_in_order_and_never_loses_evidence() -> None:
    assert bounded(candidates(MAX_CANDIDATES)) == tuple(candidates(MAX_CANDIDATES))
    shown = bounded(candidates(300, evidence_at=(0, 290)))
    names = [c.evidence_key for c in shown]

    assert len(shown) == MAX_CANDIDATES
    assert names == [f"d{i}" for i in range(199)] + ["d290"]
    assert bounded([]) == ()


def test_times_are_sums_over_the_attempts_and_null_where_nothing_ran() -> None:
    dense = StageTrace(Stage.DENSE, StageStatus.COMPLETE, ms=2.0)
    two = [attempt(stages=(dense,), embedding_ms=1.0), attempt(stages=(dense,), embedding_ms=None)]
    found = timings(two, [StageTrace(Stage.PACK, StageStatus.COMPLETE, ms=0.5)], 9.0)

    assert (found.dense_ms, found.embedding_ms, found.context_pack_ms, found.total_ms) == (2.0 + 2.0, 1.0, 0.5, 9.0)
    assert (found.bm25_ms, found.rerank_ms, found.query_rewrite_ms, found.audit_ms) == (None, None, None, None)


def test_costs_count_what_was_really_embedded_and_are_null_where_nothing_was() -> None:
    asked = [attempt("连接池", cache_hit=False), attempt("redis", cache_hit=True)]
    found = costs(asked, "text")

    assert found.embedding_tokens == estimate_tokens("连接池")
    assert found.embedding_cache_hit is False
    assert found.context_tokens == estimate_tokens("text")
    nothing = costs([attempt(cache_hit=None)], None)
    assert (nothing.embedding_tokens, nothing.embedding_cache_hit, nothing.context_tokens) == (None, None, None)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("连接池", 3), ("abcd连", 2)])
def test_tokens_are_estimated_by_four_ascii_characters_or_one_of_any_other(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
