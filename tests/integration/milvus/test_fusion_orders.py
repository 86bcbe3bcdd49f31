"""The order of Reciprocal Rank Fusion computed from two branch searches is that of the store's own ranker.

score(d) = sum over the branches that found d of 1 / (k + rank), ranks from 1 (Cormack, Clarke, Buettcher 2009). With
k = 60 and at most 20 hits a branch, equal sums come from equal pairs of ranks only, so both orders are the same to the
last place; with another k different pairs can tie, and only the order inside such a tie may differ.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.adapters.milvus import MilvusIndex
from core.model import Generation
from tests.contract.generations import EVERYWHERE, generation, row, within

pytestmark = pytest.mark.milvus
T = 20.0
WORDS = ["redis", "pool", "kafka", "lag", "oom", "gc", "dns", "502"]
VALUES = st.floats(-1, 1, width=32, allow_nan=False)


@pytest.fixture(scope="module")
def corpus(milvus_uri: str) -> Iterator[tuple[MilvusIndex, Generation]]:
    index, built, chance = MilvusIndex(milvus_uri), generation("fusion"), random.Random(7)
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
