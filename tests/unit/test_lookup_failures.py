"""A lookup whose input is refused, or whose stores and models fail: a clear error, a record, no crash."""

from __future__ import annotations

from typing import Any

import pytest

from core.codec import to_json
from core.errors import InvalidQuery, RagError, StoreUnavailable
from core.lookup import WhatIf
from core.model import (
    AttemptName,
    DropReason,
    EvidenceStatus,
    L0Match,
    QualityBasis,
    Stage,
    StageStatus,
)
from tests.unit.lookup_world import FixedL0, ListAudit, candidates, keys, pool_world

# ------------------------------------------------------------------------------------------------ refused and failed


@pytest.mark.parametrize("query", ["", "???", "🔥", "x" * 100_000, "half \ud800"])
def test_case_36_a_query_that_is_none_is_refused_and_audited(query: str) -> None:
    setup = pool_world()
    outcome = setup.ask(query)

    assert isinstance(outcome.error, InvalidQuery)
    assert outcome.result.evidence_status is EvidenceStatus.ERROR
    assert outcome.result.tool_result is not None
    assert outcome.result.tool_result.evidence_status is EvidenceStatus.ERROR
    assert setup.embedder.calls == []
    assert setup.audit.records[0].query == query
    assert setup.audit.records[0].result.error_class == "InvalidQuery"
    stages = {s.stage: s.status for s in outcome.result.retrieval_trace.stages}
    assert (stages[Stage.TRANSFORM], stages[Stage.PACK]) == (StageStatus.ERROR, StageStatus.NOT_RUN)
    to_json(outcome.result).encode("utf-8")


def test_a_refused_query_is_refused_even_without_an_index() -> None:
    setup = pool_world()
    setup.snapshots.snapshot = None

    assert isinstance(setup.ask("???").error, InvalidQuery)
    error = setup.ask("redis").error
    assert error is not None
    assert error.error_class == "IndexNotReady"
    assert len(setup.audit.records) == 2


def test_a_bad_scope_is_refused_and_audited() -> None:
    setup = pool_world()
    outcome = setup.ask("redis", kb_scope="a\nb")

    assert outcome.error is not None
    assert outcome.error.error_class == "InvalidFilter"
    assert len(setup.audit.records) == 1


def test_an_unforeseen_error_is_an_error_for_the_agent_and_no_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(FixedL0):
        def match(self, text: str, scopes: Any) -> L0Match:
            del text, scopes
            raise KeyError("password=hunter2")

    outcome = pool_world(l0=Bad(L0Match())).ask("redis")

    assert outcome.error is not None
    assert "KeyError" in outcome.result.message
    assert "Traceback" not in outcome.result.message
    assert outcome.result.tool_result is not None
    assert outcome.result.tool_result.evidence_status is EvidenceStatus.ERROR
    assert outcome.result.trace_id in caplog.text
    assert "hunter2" not in caplog.text + outcome.result.message


def test_an_audit_that_fails_does_not_cost_the_answer() -> None:
    outcome = pool_world(audit=ListAudit(failure=OSError("disk full"))).ask("redis pool")

    assert outcome.result.found
    assert (outcome.receipt.state, outcome.receipt.reason) == ("failed", "OSError: disk full")
    audited = outcome.result.retrieval_trace.stages[-1]
    assert (audited.stage, audited.status) == (Stage.AUDIT, StageStatus.ERROR)


def test_the_record_is_written_after_projection_and_its_times_end_before_it() -> None:
    setup = pool_world()
    outcome = setup.ask("redis pool")
    stored = setup.audit.records[0].result

    assert stored.tool_result == outcome.result.tool_result
    assert stored.projection is not None
    assert stored.retrieval_trace.timings.audit_ms is None
    assert stored.retrieval_trace.timings.total_ms == outcome.result.retrieval_trace.timings.total_ms
    assert setup.audit.records[0].settings_snapshot["rag"]["retrieve_k"] == 20


# ------------------------------------------------------------------------------------------------ with SQL away


def test_without_a_document_index_there_is_no_filter_and_the_lookup_says_so() -> None:
    setup = pool_world(degraded="the database is away: no L0", revisions={})
    snapshot = setup.snapshots.snapshot
    assert snapshot is not None
    object.__setattr__(snapshot, "l0", None)
    trace = setup.ask("redis pool").result.retrieval_trace

    assert trace.degraded == ("the database is away: no L0",)
    assert trace.plan is not None
    assert trace.plan.l0_status is StageStatus.UNAVAILABLE
    assert {s.stage: s.status for s in trace.stages}[Stage.TRANSFORM] is StageStatus.UNAVAILABLE
    assert [a.name for a in trace.attempts] == [AttemptName.UNFILTERED_VECTOR]


def test_a_chunk_of_an_older_revision_never_reaches_the_agent() -> None:
    outcome = pool_world(revisions={"redis/pool": 2, "redis/slow": 1, "mysql/lock": 1}).ask("redis pool")

    assert "redis/pool#chunk-0" not in keys(outcome)
    assert candidates(outcome)["redis/pool#chunk-0"].drop_reason is DropReason.STALE_REVISION


# ------------------------------------------------------------------------------------------------ reranker


class Reverse:
    model = "reverse"

    def __init__(self) -> None:
        self.failure: RagError | None = None

    def rerank(self, query: str, documents: Any, *, timeout: float) -> list[float]:
        del query, timeout
        if self.failure:
            raise self.failure
        return [0.1 * (i + 1) for i in range(len(documents))]


RERANK = {"enabled": True, "url": "http://127.0.0.1:1/rerank"}


def test_a_reranker_gives_order_and_quality() -> None:
    outcome = pool_world(reranker=Reverse(), rerank=RERANK).ask("redis pool")
    trace = outcome.result.retrieval_trace

    assert keys(outcome) == ["redis/slow#chunk-0", "mysql/lock#chunk-0", "redis/pool#chunk-0"]
    assert outcome.result.top_quality == pytest.approx(0.3)
    assert trace.attempts[0].top_quality_basis is QualityBasis.RERANK
    assert (trace.reranker_model, trace.costs.reranker_documents) == ("reverse", 3)


def test_a_reranker_that_is_away_leaves_the_fusion_order_and_degrades() -> None:
    reranker = Reverse()
    reranker.failure = StoreUnavailable("away")
    outcome = pool_world(reranker=reranker, rerank=RERANK).ask("redis pool")
    trace = outcome.result.retrieval_trace

    assert keys(outcome)[0] == "redis/pool#chunk-0"
    assert outcome.error is None
    assert trace.degraded == ("rerank: away; the fusion order stays",)
    assert {s.stage: s.status for s in trace.attempts[0].stages}[Stage.RERANK] is StageStatus.ERROR


def test_an_operator_may_leave_the_reranker_out() -> None:
    outcome = pool_world(reranker=Reverse(), rerank=RERANK).ask("redis pool", WhatIf(rerank=False))
    assert keys(outcome)[0] == "redis/pool#chunk-0"
