"""What an operator may change for one lookup, and what reaches the store and the trace of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from core.lookup import LookupRequest, WhatIf
from core.model import (
    DropReason,
    EvidenceStatus,
    Fusion,
    Mode,
    Origin,
    RelevanceLevel,
    Stage,
    StageStatus,
)
from tests.unit.lookup_world import candidates, keys, pool_world, row, world


@pytest.mark.parametrize("k", [1, 3, 20])
def test_case_48_the_requested_k_reaches_the_branches_and_the_trace(k: int) -> None:
    rows = [row(f"d{i}", f"text {i}", distance=i / 50, words=f"redis w{i}") for i in range(50)]
    setup = world(rows)
    trace = setup.ask("redis", WhatIf(retrieve_k=k, return_n=k)).result.retrieval_trace

    assert [b.hits for b in trace.attempts[0].branches] == [k, k]
    assert [b.limit for b in trace.attempts[0].branches] == [k, k]
    assert trace.what_if == {"retrieve_k": k, "return_n": k}
    assert setup.audit.records[0].result.retrieval_trace.what_if == trace.what_if


def test_case_48_return_n_is_the_number_of_pieces() -> None:
    rows = [row(f"d{i}", f"text {i}", distance=i / 50, words=f"redis w{i}") for i in range(20)]
    setup = world(rows)
    assert [len(keys(setup.ask("redis", WhatIf(return_n=n)))) for n in (1, 3, 20)] == [1, 3, 20]


def test_case_54_the_threshold_meets_the_distance_and_not_the_fused_score() -> None:
    exact = [row("exact", "text", distance=0.0, words="redis")]
    for mode in Mode:
        result = world(exact).ask("redis", WhatIf(mode=mode, precise_threshold=0.5, reference_threshold=0.5)).result
        assert (result.relevance_level, result.top_quality) == (RelevanceLevel.PRECISE, 1.0)


@pytest.mark.parametrize(
    ("what_if", "message"),
    [
        (WhatIf(mode="fuzzy"), "mode: .*'hybrid' or 'dense'"),
        (WhatIf(retrieve_k=0), "retrieve_k: .*greater than or equal to 1"),
        (WhatIf(reference_threshold=2.0), "reference_threshold: .*less than or equal to 1"),
        (WhatIf(precise_threshold=0.2), "precise_threshold .*must not be below"),
        (WhatIf(dense_weight=0, bm25_weight=0), "cannot both be 0"),
        (WhatIf(fusion="server", bm25_weight=0.5), "equal weights only"),
        (WhatIf(rerank=True), "no reranker is configured"),
    ],
)
def test_case_45_a_what_if_out_of_range_is_refused_by_name_and_audited(what_if: WhatIf, message: str) -> None:
    setup = pool_world()
    outcome = setup.ask("redis", what_if)

    assert outcome.error is not None
    assert outcome.error.exit_code == 2
    assert re.search(message, str(outcome.error))
    assert setup.audit.records[0].result.evidence_status is EvidenceStatus.ERROR
    assert setup.index.calls["search_dense"] == 0


def test_a_what_if_is_never_an_agents() -> None:
    setup = pool_world()
    outcome = setup.service.lookup(LookupRequest("redis", what_if=WhatIf(return_n=1), origin=Origin.AGENT))

    assert outcome.error is not None
    assert outcome.error.error_class == "NotAllowed"
    assert len(setup.audit.records) == 1


def test_dense_mode_runs_one_branch_and_its_order_is_the_dense_order() -> None:
    outcome = pool_world().ask("mysql pool", WhatIf(mode=Mode.DENSE))
    attempt = outcome.result.retrieval_trace.attempts[0]

    assert keys(outcome) == ["redis/pool#chunk-0", "redis/slow#chunk-0", "mysql/lock#chunk-0"]
    assert [(c.original_rank, c.rrf_rank, c.rrf_score) for c in attempt.candidates] == [
        (1, None, None),
        (2, None, None),
        (3, None, None),
    ]
    assert {s.stage: s.status for s in attempt.stages}[Stage.BM25] is StageStatus.NOT_RUN
    assert outcome.result.retrieval_trace.timings.bm25_ms is None


def test_the_two_fusion_engines_give_the_same_answer() -> None:
    rows = [
        row(f"d{i:02}", f"text {i}", distance=(i * 7 % 40) / 20, words="redis " * (1 + i * 11 % 13)) for i in range(40)
    ]
    setup = world(rows)
    client = setup.ask("redis", WhatIf(fusion=Fusion.CLIENT))
    server = setup.ask("redis", WhatIf(fusion=Fusion.SERVER))

    def ladder(outcome: Any) -> list[tuple[Any, ...]]:
        return [
            (c.evidence_key, c.dense_rank, c.bm25_rank, c.rrf_rank, c.original_rank, c.evidence_rank, c.drop_reason)
            for c in outcome.result.retrieval_trace.attempts[0].candidates
        ]

    assert ladder(client) == ladder(server)
    assert setup.index.calls["search_hybrid"] == 1


def test_the_window_follows_retrieve_k_unless_it_is_set() -> None:
    rows = [row(f"d{i}", f"text {i}", distance=i / 50, words=f"w{i} redis") for i in range(30)]
    setup = world(rows)

    def dropped(what_if: WhatIf | None) -> int:
        trace = setup.ask("redis", what_if).result.retrieval_trace
        return sum(c.drop_reason is DropReason.FUSION_WINDOW for c in trace.attempts[0].candidates)

    assert (
        dropped(WhatIf(retrieve_k=10, rank_window_size=4))
        == len(candidates(setup.ask("redis", WhatIf(retrieve_k=10)))) - 4
    )
