"""Stores and models that are away, slow or answer nonsense: a clear error or a degraded answer, always a record, and
nothing that waits past its deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from core.errors import (
    BadInput,
    DeadlineExceeded,
    IndexNotReady,
    ModelUnavailable,
    RagError,
    SchemaMismatch,
    StoreUnavailable,
)
from core.lookup import WhatIf
from core.model import AttemptName, EvidenceStatus, FallbackReason, L0Match, Mode, QualityBasis, StageStatus
from core.ports import AuditReceipt, AuditRecord
from tests.unit.lookup_world import AxisEmbedder, FixedL0, ListAudit, World, keys, pool_world, row, world

AWAY = StoreUnavailable("Milvus at 127.0.0.1:1 cannot be reached; start it")
PATIENCE = 6.0  # seconds: far more than any deadline set below, far less than the hanging calls take


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """A call that waits on this event hangs until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def failed(outcome: Any, setup: World, error: type[RagError]) -> None:
    """The lookup failed with ``error``: for the agent, for the caller, in the record, and without a stack trace."""
    result = outcome.result
    assert type(outcome.error) is error
    assert result.evidence_status is EvidenceStatus.ERROR
    assert result.tool_result is not None
    assert result.tool_result.evidence_status is EvidenceStatus.ERROR
    assert (result.evidence, result.tool_result.evidence, result.relevance_level) == ((), (), None)
    assert result.error_class == error.__name__
    assert "\n" not in result.message
    assert "Traceback" not in result.message
    (record,) = setup.audit.records
    assert record.result.evidence_status is EvidenceStatus.ERROR
    assert record.result.error_class == error.__name__


# ------------------------------------------------------------------------------------------------ the model


@pytest.mark.parametrize(
    "embedder",
    [
        AxisEmbedder(failure=ModelUnavailable("the endpoint refused the connection")),
        AxisEmbedder(failure=DeadlineExceeded("no answer within 3 s")),
        AxisEmbedder(vector=np.array([np.nan] * 4, dtype=np.float32)),
        AxisEmbedder(vector=np.ones(7, dtype=np.float32)),
        AxisEmbedder(vector="nonsense"),
    ],
    ids=["away", "slow", "nan", "dimension", "nonsense"],
)
def test_without_a_query_vector_bm25_answers_alone_measured_by_words(embedder: AxisEmbedder) -> None:
    setup = pool_world(embedder=embedder)
    outcome = setup.ask("redis pool")
    trace = outcome.result.retrieval_trace

    assert outcome.error is None
    assert keys(outcome)[0] == "redis/pool#chunk-0"
    assert {c.quality_basis for c in trace.attempts[0].candidates} == {QualityBasis.LEXICAL}
    assert [b.status for b in trace.attempts[0].branches][1] is StageStatus.COMPLETE
    assert trace.degraded
    assert trace.degraded[0].startswith("dense: ")
    assert "degraded: dense" in outcome.result.completeness_hint
    assert setup.audit.records[0].result.retrieval_trace.degraded == trace.degraded


def test_in_dense_mode_a_model_that_is_away_is_an_error() -> None:
    setup = pool_world(embedder=AxisEmbedder(failure=ModelUnavailable("the endpoint is away; start it")))
    failed(setup.ask("redis", WhatIf(mode=Mode.DENSE)), setup, ModelUnavailable)


def test_a_model_that_hangs_costs_its_own_deadline_and_no_more(hang: threading.Event) -> None:
    setup = pool_world(embedder=AxisEmbedder(hang=hang), embedding={"timeout": 0.2})
    began = time.monotonic()
    outcome = setup.ask("redis pool")

    assert time.monotonic() - began < PATIENCE
    assert outcome.error is None
    assert "the embedding model gave no answer within 0.2 s" in outcome.result.retrieval_trace.degraded[0]


def test_a_model_that_does_not_even_say_what_it_is_leaves_the_profile_of_the_generation() -> None:
    class Mute(AxisEmbedder):
        @property
        def profile(self) -> Any:
            raise ConnectionError("api_key=CANARY-KEY")

        @profile.setter
        def profile(self, value: Any) -> None:
            del value

    setup = pool_world(embedder=Mute(failure=ModelUnavailable("away")))
    outcome = setup.ask("redis pool")

    assert outcome.error is None
    assert outcome.result.retrieval_trace.embedding_profile == "test/axes/4"
    assert outcome.result.retrieval_trace.degraded == ("dense: away",)


# ------------------------------------------------------------------------------------------------ the vector store


@pytest.mark.parametrize("method", ["search_dense", "search_bm25"])
def test_one_branch_away_leaves_the_other_and_the_lookup_says_so(method: str) -> None:
    setup = pool_world()
    setup.index.failures[method] = AWAY
    outcome = setup.ask("redis pool")

    assert outcome.error is None
    assert outcome.result.found
    assert len(outcome.result.retrieval_trace.degraded) == 1
    assert "cannot be reached" in setup.audit.records[0].result.retrieval_trace.degraded[0]


def test_only_bm25_hits_are_still_measured_by_their_stored_vectors() -> None:
    setup = pool_world()
    setup.index.failures["search_dense"] = AWAY
    outcome = setup.ask("redis pool")
    best = outcome.result.evidence[0]

    assert (best.quality_basis, best.quality_score) == (QualityBasis.DENSE_EXACT, pytest.approx(1 - 0.2 / 2.0))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AWAY, StoreUnavailable),
        (DeadlineExceeded("no answer within 2 s"), DeadlineExceeded),
        (IndexNotReady("collection 'biz_g7' does not exist; rebuild the index"), IndexNotReady),
        (SchemaMismatch("collection biz_g7 has no BM25 function: rebuild the index"), SchemaMismatch),
        (BadInput("limit 0"), BadInput),
    ],
)
def test_both_branches_failed_is_an_error_and_not_nothing_found(error: RagError, expected: type[RagError]) -> None:
    setup = pool_world()
    setup.index.failures = {"search_dense": error, "search_bm25": error}
    outcome = setup.ask("redis pool")

    failed(outcome, setup, expected)
    assert outcome.result.completeness_hint.startswith("The lookup failed")


def test_a_failed_lookup_keeps_the_trace_of_what_it_tried() -> None:
    setup = pool_world()
    setup.index.failures = {"search_dense": AWAY, "search_bm25": AWAY}
    trace = setup.ask("redis pool").result.retrieval_trace

    assert [(b.status, b.error_class) for b in trace.attempts[0].branches] == [
        (StageStatus.UNAVAILABLE, "StoreUnavailable")
    ] * 2
    assert (trace.attempts[0].status, trace.attempts[0].low_quality) == (StageStatus.ERROR, None)
    assert trace.selected_attempt is None


def test_both_branches_hang_and_the_lookup_ends_at_the_deadline(hang: threading.Event) -> None:
    setup = pool_world(retrieval={"branch_timeout": 0.2})
    setup.index.search_dense = setup.index.search_bm25 = lambda *_, **__: hang.wait(30)
    began = time.monotonic()
    outcome = setup.ask("redis pool")

    assert time.monotonic() - began < PATIENCE
    failed(outcome, setup, DeadlineExceeded)


def test_a_cold_store_is_given_the_time_of_warming_up_and_a_warm_one_is_not() -> None:
    given: list[float] = []
    setup = pool_world(warm=False, retrieval={"warming_timeout": 30.0, "branch_timeout": 2.0})
    search = setup.index.search_bm25

    def watched(*args: Any, timeout: float, **kwargs: Any) -> Any:
        given.append(timeout)
        return search(*args, timeout=timeout, **kwargs)

    setup.index.search_bm25 = watched
    assert setup.service.warming
    setup.ask("redis pool", WhatIf(mode=Mode.DENSE))
    setup.ask("redis pool")
    setup.ask("redis pool")

    assert not setup.service.warming
    assert 2.0 < given[0] <= 30.0  # the dense search before it has warmed nothing of BM25
    assert given[1] <= 2.0


@pytest.mark.parametrize(("loads_here", "most"), [(False, 3.0), (True, 30.0)])
def test_only_a_model_of_this_process_is_given_time_to_load(loads_here: bool, most: float) -> None:
    given: list[float] = []
    retrieval = {"warming_timeout": 30.0, "lookup_timeout": 8.0}
    setup = pool_world(warm=False, retrieval=retrieval, embedding={"timeout": 3.0})
    setup.embedder.loads_here = loads_here
    embed = setup.embedder.embed_query

    def watched(text: str, *, timeout: float) -> Any:
        given.append(timeout)
        return embed(text, timeout=timeout)

    setup.embedder.embed_query = watched
    setup.ask("redis pool")
    assert most - 1.0 < given[0] <= most


# ------------------------------------------------------------------------------------------------ the retry


def filtered(**options: Any) -> World:
    rows = [row("redis/a", "内存满", distance=1.6, words="redis full", category="redis")]
    return world(rows, l0=FixedL0(L0Match(category_filter="redis")), **options)


def fail_after_first(setup: World, error: Exception) -> None:
    """Every search without a category filter fails: the retry, not the first attempt."""
    for name in ("search_dense", "search_bm25"):
        original = getattr(setup.index, name)

        def search(generation: Any, what: Any, where: Any, *args: Any, original: Any = original, **kwargs: Any) -> Any:
            if where.category is None:
                raise error
            return original(generation, what, where, *args, **kwargs)

        setattr(setup.index, name, search)


def test_a_retry_that_fails_leaves_the_evidence_of_the_first_attempt() -> None:
    setup = filtered()
    fail_after_first(setup, AWAY)
    outcome = setup.ask("redis full")
    trace = outcome.result.retrieval_trace

    assert outcome.error is None
    assert keys(outcome) == ["redis/a#chunk-0"]
    assert [a.status for a in trace.attempts] == [StageStatus.COMPLETE, StageStatus.ERROR]
    assert trace.selected_attempt is AttemptName.FILTERED_VECTOR
    assert trace.fallback_reason is FallbackReason.LOW_QUALITY
    assert any("the retry without category filter failed" in reason for reason in trace.degraded)


def test_a_retry_that_fails_after_nothing_was_found_is_an_error() -> None:
    setup = world(
        [row("mq", "text", distance=0.1, words="redis", category="mq")],
        l0=FixedL0(L0Match(category_filter="redis")),
    )
    fail_after_first(setup, AWAY)
    failed(setup.ask("redis"), setup, StoreUnavailable)


# ------------------------------------------------------------------------------------------------ time of the whole


class LeapingClock:
    """Stands still, until it leaps by ``leap`` seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


def leaping(setup: World, seconds: float, at: Any, name: str) -> None:
    """The service's clock leaps by ``seconds`` when ``at.name`` is called."""
    clock = setup.service.clock = LeapingClock()
    original = getattr(at, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        clock.seconds += seconds
        return original(*args, **kwargs)

    setattr(at, name, call)


def test_time_lost_in_the_database_is_time_of_the_whole_lookup() -> None:
    setup = pool_world(retrieval={"lookup_timeout": 8.0})
    leaping(setup, 8.0, setup.snapshots, "current")
    outcome = setup.ask("redis pool")

    failed(outcome, setup, DeadlineExceeded)
    assert "retrieval.lookup_timeout" in outcome.result.message
    assert setup.index.calls["search_dense"] == 0


def test_without_time_for_the_retry_the_first_attempt_stands() -> None:
    setup = filtered(retrieval={"lookup_timeout": 8.0})
    leaping(setup, 4.5, setup.index, "search_bm25")
    outcome = setup.ask("redis full")
    assert len(outcome.result.retrieval_trace.attempts) == 2  # time was left

    setup = filtered(retrieval={"lookup_timeout": 8.0})
    leaping(setup, 8.0, setup.index, "search_bm25")
    outcome = setup.ask("redis full")
    assert keys(outcome) == ["redis/a#chunk-0"]
    assert len(outcome.result.retrieval_trace.attempts) == 1
    assert any("used up its time" in reason for reason in outcome.result.retrieval_trace.degraded)


def test_a_branch_is_never_given_more_than_the_lookup_has_left() -> None:
    given: list[float] = []
    setup = pool_world(retrieval={"lookup_timeout": 8.0, "branch_timeout": 2.0})
    leaping(setup, 7.0, setup.snapshots, "current")
    search = setup.index.search_bm25

    def watched(*args: Any, timeout: float, **kwargs: Any) -> Any:
        given.append(timeout)
        return search(*args, timeout=timeout, **kwargs)

    setup.index.search_bm25 = watched
    setup.ask("redis pool")
    assert given == [pytest.approx(1.0)]


def test_a_snapshot_that_hangs_ends_at_the_deadline(hang: threading.Event) -> None:
    setup = pool_world(retrieval={"lookup_timeout": 0.3})
    setup.snapshots.current = lambda: hang.wait(30)  # type: ignore[method-assign,assignment,return-value]
    began = time.monotonic()
    outcome = setup.ask("redis pool")

    assert time.monotonic() - began < PATIENCE
    failed(outcome, setup, DeadlineExceeded)


# ------------------------------------------------------------------------------------------------ the database, the audit


def test_case_119_a_database_that_is_away_is_an_error_without_its_password(caplog: pytest.LogCaptureFixture) -> None:
    setup = pool_world()

    def away() -> Any:
        raise StoreUnavailable("no database at mysql+pymysql://kb:S3cr3t-CANARY@db:3306/x; start it")

    setup.snapshots.current = away  # type: ignore[method-assign]
    outcome = setup.ask("redis pool")

    failed(outcome, setup, StoreUnavailable)
    assert "db:3306/x" in outcome.result.message
    assert "CANARY" not in repr(outcome.result) + repr(setup.audit.records) + caplog.text


@pytest.mark.parametrize("failure", [OSError("disk full"), StoreUnavailable("away"), RuntimeError("token=CANARY")])
def test_an_audit_that_fails_is_told_and_costs_no_answer(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    outcome = pool_world(audit=ListAudit(failure=failure)).ask("redis pool")

    assert outcome.result.found
    assert outcome.receipt.state == "failed"
    assert "was not audited" in caplog.text
    assert "CANARY" not in caplog.text + str(outcome.receipt.reason)


def test_an_audit_that_hangs_is_left_and_told(hang: threading.Event) -> None:
    class Hanging(ListAudit):
        def record(self, record: AuditRecord, *, timeout: float) -> AuditReceipt:
            hang.wait(30)
            return super().record(record, timeout=timeout)

    began = time.monotonic()
    outcome = pool_world(audit=Hanging()).ask("redis pool")

    assert time.monotonic() - began < PATIENCE
    assert outcome.result.found
    assert (outcome.receipt.state, outcome.error) == ("failed", None)
    assert "the record may still be written" in str(outcome.receipt.reason)


def test_a_lookup_that_finds_every_thread_hanging_is_refused_at_once_and_recorded(hang: threading.Event) -> None:
    setup = pool_world()
    for _ in range(64):
        setup.service.pool.submit(hang.wait, 30)
    outcome = setup.ask("redis pool")

    assert outcome.error is not None
    assert outcome.error.error_class == "Busy"
    assert outcome.receipt.state == "recorded"
    assert len(setup.audit.records) == 1
