"""The order of Reciprocal Rank Fusion computed from two branch searches is that of the store's own ranker, for the
searches alone and for whole lookups.

score(d) = sum over the branches that found d of 1 / (k + rank), ranks from 1 (Cormack, Clarke, Buettcher 2009). With
k = 60 and at most 20 hits a branch, equal sums come from equal pairs of ranks only, so both orders are the same to the
last place; with another k different pairs can tie, and only the order inside such a tie may differ.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.adapters.milvus import MilvusIndex
from core.lookup import LookupRequest, LookupService, WhatIf
from core.model import Fusion, Generation, L0Match, LookupResult, Origin
from core.ports import Snapshot
from tests.contract.generations import EVERYWHERE, generation, row, within
from tests.fakes import HashEmbedder
from tests.unit.lookup_world import FixedL0, FixedSnapshots, ListAudit, TickingClock, make_settings

pytestmark = pytest.mark.milvus
T = 20.0
WORDS = ["redis", "pool", "kafka", "lag", "oom", "gc", "dns", "502"]
VALUES = st.floats(-1, 1, width=32, allow_nan=False)


@pytest.fixture(scope="module")
def corpus(milvus_uri: str) -> Iterator[tuple[MilvusIndex, Generation]]:
    index, chance = MilvusIndex(milvus_uri), random.Random(7)
    built = generation("fusion", profile=HashEmbedder(dimension=4, name="tiny").profile)
    index.create(built, timeout=T)
    index.insert(
        built,
        [
            row(
                f"d{i:02}",
                " ".join(chance.choices(WORDS, k=chance.randint(1, 9))),
                [chance.uniform(-1, 1) for _ in range(4)],
                category=chance.choice(["db", "mq", ""]),
            )
            for i in range(60)
        ],
        timeout=T,
    )
    index.seal(built, timeout=T)
    yield index, built
    index.drop(built.collection, timeout=T)
    index.close()


@pytest.fixture(scope="module")
def service(corpus: tuple[MilvusIndex, Generation]) -> Iterator[LookupService]:
    """Whole lookups over the same corpus; every text is embedded to a vector of its own."""
    index, built = corpus
    made = LookupService(
        index=index,
        embedder=HashEmbedder(dimension=4, name="tiny"),
        reranker=None,
        snapshots=FixedSnapshots(Snapshot(built, FixedL0(L0Match(category_filter="db"), "filtered"), {})),
        audit=ListAudit(),
        clock=TickingClock(),
        settings=make_settings(
            retrieval={"branch_timeout": T, "lookup_timeout": 60.0}, quality={"reference_threshold": 0.5}
        ),
    )
    made.warm()
    yield made
    made.close()


@given(
    vector=st.lists(VALUES, min_size=4, max_size=4),
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    limit=st.integers(1, 20),
    category=st.sampled_from([None, "db", ""]),
    k=st.sampled_from([60, 60, 1, 10]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_client_and_store_fuse_to_the_same_order(
    corpus: tuple[MilvusIndex, Generation],
    vector: list[float],
    words: list[str],
    limit: int,
    category: str | None,
    k: int,
) -> None:
    index, built = corpus
    where = EVERYWHERE if category is None else within("default", category=category)
    query, text = np.array(vector, dtype=np.float32), " ".join(words)
    ranks: dict[str, list[int]] = {}
    for answer in (
        index.search_dense(built, query, where, limit, timeout=T),
        index.search_bm25(built, text, where, limit, timeout=T),
    ):
        for hit in answer.hits:
            ranks.setdefault(hit.chunk.evidence_key, []).append(hit.rank)
    scores = {key: sum(1 / (k + rank) for rank in found) for key, found in ranks.items()}
    ours = sorted(scores, key=lambda key: (-scores[key], min(ranks[key]), key))

    theirs = index.search_hybrid(built, query, text, where, limit, window=2 * limit, rrf_k=k, timeout=T)
    found = [r.chunk.evidence_key for r in theirs]

    assert sorted(found) == sorted(ours)
    assert [r.score for r in theirs] == pytest.approx([scores[key] for key in found], rel=1e-6)
    if k == 60:
        assert found == ours
    else:
        assert [scores[key] for key in found] == pytest.approx([scores[key] for key in ours], rel=1e-6)


@given(
    words=st.lists(st.sampled_from([*WORDS, "filtered", "absent"]), min_size=1, max_size=4),
    limit=st.integers(1, 20),
    window=st.sampled_from([None, 1, 7, 40]),
    k=st.sampled_from([60, 60, 60, 10]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_whole_lookup_is_the_same_with_either_engine(
    service: LookupService, words: list[str], limit: int, window: int | None, k: int
) -> None:
    def ask(fusion: Fusion) -> LookupResult:
        what_if = WhatIf(fusion=fusion, retrieve_k=limit, rank_window_size=window, rrf_k=k, return_n=20)
        outcome = service.lookup(LookupRequest(" ".join(words), origin=Origin.CONSOLE, what_if=what_if))
        assert outcome.error is None
        assert outcome.result.retrieval_trace.degraded == ()
        assert outcome.result.retrieval_trace.fusion is fusion
        return outcome.result

    client, server = ask(Fusion.CLIENT), ask(Fusion.SERVER)
    one, other = ladder(client), ladder(server)

    assert [score for _, score in one[0]] == pytest.approx([score for _, score in other[0]], rel=1e-6)
    if k != 60:
        return  # inside a tie the orders differ, and with them what a window cuts off
    assert [[row for row, _ in rows] for rows in one] == [[row for row, _ in rows] for rows in other]
    assert client.evidence == server.evidence
    assert client.top_quality == server.top_quality
    assert client.retrieval_trace.fallback_reason == server.retrieval_trace.fallback_reason
    assert client.tool_result is not None
    assert server.tool_result == replace(client.tool_result, tool_call_id=server.retrieval_trace.tool_call_id)


def ladder(result: LookupResult) -> list[list[tuple[tuple[object, ...], float | None]]]:
    """Of each attempt its candidates as the page shows them, each with its fused score beside it."""
    return [
        [
            (
                (
                    c.evidence_key,
                    c.dense_rank,
                    c.bm25_rank,
                    c.rrf_rank,
                    c.original_rank,
                    c.evidence_rank,
                    c.drop_reason,
                ),
                c.rrf_score,
            )
            for c in attempt.candidates
        ]
        for attempt in result.retrieval_trace.attempts
    ]
