"""Both branches at the same time, each with its deadline; a failed branch is not an empty one."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.adapters.memory_index import MemoryIndex
from core.errors import (
    BadInput,
    DeadlineExceeded,
    IndexNotReady,
    ModelUnavailable,
    RagError,
    SchemaMismatch,
    StoreUnavailable,
)
from core.model import Branch, Chunk, Fusion, Hit, Mode, Scopes, SearchFilter, StageStatus
from core.ports import SearchAnswer
from core.stages.retrieve import Retrieved, Search, clean_hits, retrieve
from core.workers import Workers
from tests.unit.lookup_world import GENERATION, AxisEmbedder, row

WHERE = SearchFilter(Scopes(frozenset({"default"})))
ROWS = [
    row("near", "text", distance=0.2, words="kafka"),
    row("far", "text", distance=1.5, words="redis"),
    row("other", "text", distance=0.1, words="redis", scope="ops"),
]
SEARCH = Search(
    query="redis",
    generation=GENERATION,
    where=WHERE,
    limit=20,
    mode=Mode.HYBRID,
    fusion=Fusion.CLIENT,
    rrf_k=60,
    embedding_timeout=10.0,
    branch_timeout=10.0,
)


@pytest.fixture
def pool() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    workers.shutdown()


@pytest.fixture
def index() -> MemoryIndex:
    store = MemoryIndex(describe=lambda _: {})
    store.create(GENERATION, timeout=1)
    store.insert(GENERATION, ROWS, timeout=1)
    return store


def keys(found: Retrieved, branch: Branch) -> list[str]:
    return [hit.chunk.doc_id for hit in found.hits[branch]]


def status(found: Retrieved) -> dict[Branch, StageStatus]:
    return {trace.branch: trace.status for trace in found.branches}


# ------------------------------------------------------------------------------------------------ what comes back


def test_case_42_each_branch_shows_its_own_hits_and_its_request_as_sent(index: MemoryIndex, pool: Workers) -> None:
    found = retrieve(index, AxisEmbedder(), pool, SEARCH)

    assert keys(found, Branch.DENSE) == ["near", "far"]
    assert keys(found, Branch.BM25) == ["far"]
    assert [(t.branch, t.hits, t.limit, t.collection, t.expression) for t in found.branches] == [
        (Branch.DENSE, 2, 20, "biz_g7", 'kb_scope == "default"'),
        (Branch.BM25, 1, 20, "biz_g7", 'kb_scope == "default"'),
    ]
    assert (found.degraded, found.whole, found.failed) == ((), True, False)
    assert found.vector.tolist() == [1, 0, 0, 0]


def test_a_branch_that_found_nothing_is_complete_with_zero_hits(index: MemoryIndex, pool: Workers) -> None:
    found = retrieve(index, AxisEmbedder(), pool, replace(SEARCH, query="absent"))

    assert found.hits[Branch.BM25] == ()
    assert status(found)[Branch.BM25] is StageStatus.COMPLETE
    assert found.whole


def test_dense_mode_asks_one_branch_only(index: MemoryIndex, pool: Workers) -> None:
    found = retrieve(index, AxisEmbedder(), pool, replace(SEARCH, mode=Mode.DENSE, fusion=Fusion.SERVER))

    assert list(found.hits) == [Branch.DENSE]
    assert (index.calls["search_bm25"], index.calls["search_hybrid"]) == (0, 0)


def test_a_vector_that_is_known_is_not_embedded_again(index: MemoryIndex, pool: Workers) -> None:
    embedder = AxisEmbedder()
    found = retrieve(index, embedder, pool, replace(SEARCH, vector=np.array([1, 0, 0, 0], dtype=np.float32)))

    assert embedder.calls == []
    assert found.embedding_ms is None
    assert keys(found, Branch.DENSE) == ["near", "far"]


def test_vectors_of_bm25_hits_come_only_when_asked(index: MemoryIndex, pool: Workers) -> None:
    for asked in (True, False):
        found = retrieve(index, AxisEmbedder(), pool, replace(SEARCH, with_vectors=asked))
        assert (found.hits[Branch.BM25][0].vector is not None) is asked


def test_case_33_an_empty_set_of_scopes_asks_nobody(index: MemoryIndex, pool: Workers) -> None:
    embedder = AxisEmbedder()
    found = retrieve(index, embedder, pool, replace(SEARCH, where=SearchFilter(Scopes(frozenset()))))

    assert found.hits == {Branch.DENSE: (), Branch.BM25: ()}
    assert status(found) == {Branch.DENSE: StageStatus.NOT_RUN, Branch.BM25: StageStatus.NOT_RUN}
    assert (embedder.calls, index.calls["search_dense"], index.calls["search_bm25"]) == ([], 0, 0)


def test_case_70_hits_are_renumbered_and_a_score_that_is_no_number_is_none() -> None:
    chunk = Chunk("d#chunk-0", "d", 0, "text")
    scores = [1.0, math.nan, -math.inf, None]
    hits = tuple(Hit(chunk, Branch.DENSE, 9, score) for score in scores)
    answer = SearchAnswer(Branch.DENSE, hits, "", 20, {}, 1.0)

    assert [(h.rank, h.score) for h in clean_hits(answer, 20)] == [(1, 1.0), (2, None), (3, None), (4, None)]
    assert len(clean_hits(answer, 2)) == 2
    assert clean_hits(SearchAnswer(Branch.DENSE, (), "", 20, {}, 1.0), 20) == ()


def test_case_70_what_a_store_returns_is_cleaned_before_anything_reads_it(index: MemoryIndex, pool: Workers) -> None:
    chunk = Chunk("d#chunk-0", "d", 0, "text")
    odd = tuple(Hit(chunk, Branch.BM25, 0, math.nan) for _ in range(30))
    index.search_bm25 = lambda *_, **__: SearchAnswer(Branch.BM25, odd, "", 20, {}, 1.0)  # type: ignore[method-assign]
    found = retrieve(index, AxisEmbedder(), pool, SEARCH)

    assert [(h.rank, h.score) for h in found.hits[Branch.BM25]] == [(rank, None) for rank in range(1, 21)]
    assert found.branches[1].hits == 20
    assert found.branches[1].reason == "20 of 20 scores are no finite numbers and left out"
    assert found.degraded == ("bm25: 20 of 20 scores are no finite numbers and left out",)
    assert found.branches[0].reason is None


# ------------------------------------------------------------------------------------------------ at the same time


def test_bm25_runs_while_the_query_is_embedded_and_while_dense_runs(index: MemoryIndex, pool: Workers) -> None:
    lexical_began, both_began = threading.Event(), threading.Barrier(2, timeout=10)
    embedder, met = AxisEmbedder(), []
    search_bm25, search_dense, embed = index.search_bm25, index.search_dense, embedder.embed_query

    def slow_bm25(*args: Any, **kwargs: Any) -> Any:
        lexical_began.set()
        both_began.wait()
        return search_bm25(*args, **kwargs)

    def slow_dense(*args: Any, **kwargs: Any) -> Any:
        both_began.wait()
        return search_dense(*args, **kwargs)

    def slow_embed(*args: Any, **kwargs: Any) -> Any:
        met.append(lexical_began.wait(10))
        return embed(*args, **kwargs)

    index.search_bm25, index.search_dense = slow_bm25, slow_dense  # type: ignore[method-assign]
    embedder.embed_query = slow_embed  # type: ignore[method-assign]

    found = retrieve(index, embedder, pool, SEARCH)
    assert met == [True]
    assert found.whole


# ------------------------------------------------------------------------------------------------ one branch fails


@pytest.mark.parametrize(
    ("failure", "state", "error"),
    [
        (StoreUnavailable("Milvus is away"), StageStatus.UNAVAILABLE, "StoreUnavailable"),
        (DeadlineExceeded("too slow"), StageStatus.ERROR, "DeadlineExceeded"),
        (RagError("nonsense"), StageStatus.ERROR, "RagError"),
    ],
)
@pytest.mark.parametrize(("method", "branch"), [("search_dense", Branch.DENSE), ("search_bm25", Branch.BM25)])
def test_a_failed_branch_is_absent_and_named_and_the_other_goes_on(
    index: MemoryIndex,
    pool: Workers,
    method: str,
    branch: Branch,
    failure: RagError,
    state: StageStatus,
    error: str,
) -> None:
    index.failures[method] = failure
    found = retrieve(index, AxisEmbedder(), pool, SEARCH)
    (failed,) = (t for t in found.branches if t.branch is branch)

    assert branch not in found.hits
    assert len(found.hits) == 1
    assert (failed.status, failed.error_class, failed.reason, failed.hits) == (state, error, str(failure), None)
    assert found.degraded == (f"{branch}: {failure}",)
    assert not found.failed


def test_a_foreign_error_of_a_store_is_a_failed_call_without_its_secrets(index: MemoryIndex, pool: Workers) -> None:
    def crash(*_: Any, **__: Any) -> Any:
        raise KeyError("token=CANARY-TOKEN")

    index.search_bm25 = crash  # type: ignore[method-assign]
    found = retrieve(index, AxisEmbedder(), pool, SEARCH)

    assert isinstance(found.errors[0], StoreUnavailable)
    assert "KeyError" in found.degraded[0]
    assert "CANARY" not in found.degraded[0]


@pytest.mark.parametrize("answer", [None, [], "hits", {"hits": []}])
def test_a_store_that_answers_nonsense_is_a_failed_branch(index: MemoryIndex, pool: Workers, answer: Any) -> None:
    index.search_bm25 = lambda *_, **__: answer  # type: ignore[method-assign]
    found = retrieve(index, AxisEmbedder(), pool, SEARCH)

    assert Branch.BM25 not in found.hits
    assert isinstance(found.errors[0], StoreUnavailable)
    assert keys(found, Branch.DENSE) == ["near", "far"]


def test_a_branch_that_hangs_is_left_at_its_deadline(index: MemoryIndex, pool: Workers) -> None:
    released = threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        released.wait(30)

    index.search_bm25 = hang  # type: ignore[method-assign]
    began = time.monotonic()
    found = retrieve(index, AxisEmbedder(), pool, replace(SEARCH, branch_timeout=1.0))
    took = time.monotonic() - began
    released.set()

    assert took < 8
    assert "gave no answer within 1 s" in found.degraded[0]
    assert keys(found, Branch.DENSE) == ["near", "far"]


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (np.ones(3, dtype=np.float32), r"shape \(3,\), the index holds 4 dimensions"),
        (np.ones((1, 4), dtype=np.float32), r"shape \(1, 4\)"),
        (np.array([1, np.nan, 0, 0], dtype=np.float32), "not finite"),
        (np.array([1, np.inf, 0, 0], dtype=np.float32), "not finite"),
        ("nonsense", "the embedding model failed"),
        ([[1.0], [2.0, 3.0]], "the embedding model failed"),
    ],
    ids=["dimension", "matrix", "nan", "infinite", "text", "ragged"],
)
def test_a_model_that_answers_nonsense_costs_the_dense_branch_only(
    index: MemoryIndex, pool: Workers, vector: Any, message: str
) -> None:
    found = retrieve(index, AxisEmbedder(vector=vector), pool, SEARCH)

    assert index.calls["search_dense"] == 0
    assert keys(found, Branch.BM25) == ["far"]
    assert status(found)[Branch.DENSE] is StageStatus.UNAVAILABLE
    assert isinstance(found.errors[0], ModelUnavailable)
    assert re.search(message, found.degraded[0])
    assert found.vector is None


def test_a_model_that_hangs_is_left_at_its_deadline(index: MemoryIndex, pool: Workers) -> None:
    released = threading.Event()
    began = time.monotonic()
    found = retrieve(index, AxisEmbedder(hang=released), pool, replace(SEARCH, embedding_timeout=0.2))
    took = time.monotonic() - began
    released.set()

    assert took < 8
    assert found.degraded == ("dense: the embedding model gave no answer within 0.2 s",)
    assert keys(found, Branch.BM25) == ["far"]


def test_the_time_left_of_the_lookup_bounds_a_dense_search_that_starts_late(index: MemoryIndex, pool: Workers) -> None:
    given: list[float] = []
    search_dense, embedder = index.search_dense, AxisEmbedder()

    def watched(*args: Any, timeout: float) -> Any:
        given.append(timeout)
        return search_dense(*args, timeout=timeout)

    index.search_dense = watched  # type: ignore[method-assign]
    retrieve(index, embedder, pool, replace(SEARCH, time_left=5.0))
    assert 0 < given[0] < 5.0

    none_left = retrieve(index, embedder, pool, replace(SEARCH, time_left=0.0))
    assert len(given) == 1
    assert "used up" in none_left.degraded[0]
    assert keys(none_left, Branch.BM25) == ["far"]


# ------------------------------------------------------------------------------------------------ all of it fails


def test_both_branches_failed_is_no_empty_answer(index: MemoryIndex, pool: Workers) -> None:
    index.failures = {"search_dense": StoreUnavailable("a"), "search_bm25": StoreUnavailable("b")}
    found = retrieve(index, AxisEmbedder(), pool, SEARCH)

    assert found.failed
    assert found.hits == {}
    assert [str(e) for e in found.errors] == ["a", "b"]


@pytest.mark.parametrize("error", [IndexNotReady("gone"), SchemaMismatch("old"), BadInput("bad filter")])
def test_what_makes_the_whole_attempt_meaningless_is_raised(index: MemoryIndex, pool: Workers, error: RagError) -> None:
    index.failures["search_bm25"] = error
    with pytest.raises(type(error), match=str(error)):
        retrieve(index, AxisEmbedder(), pool, SEARCH)


# ------------------------------------------------------------------------------------------------ the store's fusion


def test_the_stores_fusion_comes_beside_the_two_branches(index: MemoryIndex, pool: Workers) -> None:
    found = retrieve(index, AxisEmbedder(), pool, replace(SEARCH, fusion=Fusion.SERVER))

    assert found.rows is not None
    assert [(r.chunk.doc_id, r.rank) for r in found.rows] == [("far", 1), ("near", 2)]
    assert found.fusion_ms is not None
    assert found.whole


def test_a_failed_fusion_of_the_store_is_done_here_instead(index: MemoryIndex, pool: Workers) -> None:
    index.failures["search_hybrid"] = StoreUnavailable("away")
    found = retrieve(index, AxisEmbedder(), pool, replace(SEARCH, fusion=Fusion.SERVER))

    assert found.rows is None
    assert len(found.hits) == 2
    assert found.degraded == ("server fusion: away; fused here instead",)
