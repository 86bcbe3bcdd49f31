"""One suite for every vector store: the one in memory and Milvus give the same answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.errors import (
    BadInput,
    IndexNotReady,
    ModelUnavailable,
    ProfileMismatch,
)
from core.model import Branch
from tests.contract.generations import EVERYWHERE, Build, Index, T, generation, keys, row, within

# --------------------------------------------------------------------------------------------- dense


def test_case_43_dense_hits_are_ordered_by_squared_distance_nearest_first(index: Index, build: Build) -> None:
    built = build(
        [
            row("opposite", vector=(-1, 0, 0, 0)),
            row("exact", vector=(1, 0, 0, 0)),
            row("orthogonal", vector=(0, 1, 0, 0)),
        ]
    )
    answer = index.search_dense(built, np.array([1, 0, 0, 0], dtype=np.float32), EVERYWHERE, 10, timeout=T)

    assert keys(answer) == ["exact#chunk-0", "orthogonal#chunk-0", "opposite#chunk-0"]
    assert [hit.score for hit in answer.hits] == pytest.approx([0.0, 1.0**2 + 1.0**2, 2.0**2], abs=1e-5)
    assert [hit.rank for hit in answer.hits] == [1, 2, 3]
    assert {hit.branch for hit in answer.hits} == {Branch.DENSE}


def test_an_answer_carries_its_request_as_sent(index: Index, build: Build) -> None:
    built = build([row("a")], search_params={"nprobe": 7})
    answer = index.search_dense(built, np.ones(4), within("default", category="db"), 3, timeout=T)

    assert answer.branch is Branch.DENSE
    assert answer.expression == 'kb_scope == "default" and category == "db"'
    assert answer.limit == 3
    assert dict(answer.params) == {"nprobe": 7}
    assert answer.retries == 0
    assert answer.ms >= 0.0


def test_every_field_of_a_chunk_comes_back(index: Index, build: Build) -> None:
    stored = row(
        "库/文档",
        "连接池 耗尽 😀",
        index=2,
        category="db",
        kb_scope="ops",
        title='引"号',
        breadcrumb="一 > 二",
        revision=9,
    )
    built = build([stored])

    assert index.search_dense(built, np.ones(4), EVERYWHERE, 1, timeout=T).hits[0].chunk == stored.chunk
    assert index.search_bm25(built, "耗尽", EVERYWHERE, 1, timeout=T).hits[0].chunk == stored.chunk
    assert index.fetch(built, ["库/文档#chunk-2"], timeout=T)["库/文档#chunk-2"].chunk == stored.chunk


def test_missing_numbers_come_back_as_none(index: Index, build: Build) -> None:
    built = build([row("a", revision=None)])
    assert index.search_dense(built, np.ones(4), EVERYWHERE, 1, timeout=T).hits[0].chunk.revision is None


def test_a_query_vector_of_another_size_is_refused(index: Index, build: Build) -> None:
    built = build([row("a")])
    with pytest.raises(ProfileMismatch, match="4 dimensions"):
        index.search_dense(built, np.ones(3), EVERYWHERE, 1, timeout=T)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_query_vector_that_is_not_finite_is_refused(index: Index, build: Build, bad: float) -> None:
    built = build([row("a")])
    with pytest.raises(ModelUnavailable, match="not finite"):
        index.search_dense(built, np.array([1, bad, 0, 0]), EVERYWHERE, 1, timeout=T)


# --------------------------------------------------------------------------------------------- BM25


def test_bm25_ranks_by_the_formula(index: Index, build: Build) -> None:
    texts = {"a": "redis pool redis", "b": "redis timeout on the pool", "c": "kafka lag"}
    built = build([row(doc, text) for doc, text in texts.items()])
    answer = index.search_bm25(built, "redis", EVERYWHERE, 10, timeout=T)

    count, holding, average = 3, 2, (3 + 5 + 2) / 3
    idf = math.log((count - holding + 0.5) / (holding + 0.5) + 1)

    def score(frequency: int, length: int) -> float:
        return idf * frequency * (1.2 + 1) / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / average))

    assert keys(answer) == ["a#chunk-0", "b#chunk-0"]
    assert [abs(hit.score or 0.0) for hit in answer.hits] == pytest.approx([score(2, 3), score(1, 5)], rel=1e-4)


def test_bm25_hits_carry_their_stored_vector_only_when_asked(index: Index, build: Build) -> None:
    built = build([row("a", "redis", (0, 3, 0, 4))])
    asked = index.search_bm25(built, "redis", EVERYWHERE, 1, timeout=T).hits[0]
    unasked = index.search_bm25(built, "redis", EVERYWHERE, 1, timeout=T, with_vectors=False).hits[0]

    assert asked.vector.tolist() == [0.0, 3.0, 0.0, 4.0]
    assert asked.vector.dtype == np.float32
    assert unasked.vector is None


@pytest.mark.parametrize("text", ["", "   ", "absent", "?!", "😀"])
def test_a_text_that_matches_nothing_finds_nothing(index: Index, build: Build, text: str) -> None:
    built = build([row("a", "redis")])
    assert index.search_bm25(built, text, EVERYWHERE, 5, timeout=T).hits == ()


def test_chinese_tokens_cut_beforehand_are_matched_one_by_one(index: Index, build: Build) -> None:
    built = build([row("a", "连接 池 耗尽"), row("b", "连接 超时")])
    assert keys(index.search_bm25(built, "耗尽", EVERYWHERE, 5, timeout=T)) == ["a#chunk-0"]
    assert set(keys(index.search_bm25(built, "连接", EVERYWHERE, 5, timeout=T))) == {"a#chunk-0", "b#chunk-0"}


# --------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(("limit", "returned"), [(1, 1), (3, 3), (20, 20), (50, 25)])
def test_case_48_the_limit_that_is_asked_for_is_the_one_that_counts(
    index: Index, build: Build, limit: int, returned: int
) -> None:
    built = build([row(f"d{i:02}", "redis", (i, 1, 0, 0)) for i in range(25)])
    dense = index.search_dense(built, np.zeros(4), EVERYWHERE, limit, timeout=T)
    lexical = index.search_bm25(built, "redis", EVERYWHERE, limit, timeout=T)

    assert len(dense.hits) == returned
    assert len(lexical.hits) == returned
    assert dense.limit == lexical.limit == limit


@pytest.mark.parametrize("limit", [0, -1, 16_385])
def test_a_limit_out_of_range_is_refused(index: Index, build: Build, limit: int) -> None:
    built = build([row("a")])
    with pytest.raises(BadInput, match="1 to 16384"):
        index.search_dense(built, np.ones(4), EVERYWHERE, limit, timeout=T)
    with pytest.raises(BadInput, match="1 to 16384"):
        index.search_bm25(built, "alpha", EVERYWHERE, limit, timeout=T)


def test_an_empty_collection_answers_with_nothing(index: Index, build: Build) -> None:
    built = build([])
    assert index.search_dense(built, np.ones(4), EVERYWHERE, 5, timeout=T).hits == ()
    assert index.search_bm25(built, "redis", EVERYWHERE, 5, timeout=T).hits == ()
    assert index.search_hybrid(built, np.ones(4), "redis", EVERYWHERE, 5, window=5, rrf_k=60, timeout=T) == ()
    assert index.ids(built, timeout=T) == frozenset()
    assert index.count(built, timeout=T) == 0


def test_a_collection_that_does_not_exist_is_an_error_and_no_empty_answer(index: Index) -> None:
    with pytest.raises(IndexNotReady, match="rebuild"):
        index.search_bm25(generation(), "redis", EVERYWHERE, 5, timeout=T)


# --------------------------------------------------------------------------------------------- the store's own fusion


def test_the_stores_fusion_is_reciprocal_rank_fusion(index: Index, build: Build) -> None:
    built = build(
        [
            row("near", "nothing of note", (1, 0, 0, 0)),
            row("both", "redis", (0.9, 0, 0, 0)),
            row("word", "redis redis", (-1, 0, 0, 0)),
        ]
    )
    fused = index.search_hybrid(built, np.array([1, 0, 0, 0]), "redis", EVERYWHERE, 2, window=10, rrf_k=60, timeout=T)
    assert [(r.chunk.doc_id, r.rank) for r in fused] == [("both", 1), ("near", 2), ("word", 3)]
    assert [r.score for r in fused] == pytest.approx([1 / 62 + 1 / 62, 1 / 61, 1 / 61], rel=1e-5)
    assert fused[0].vector.tolist() == pytest.approx([0.9, 0, 0, 0])


def test_the_window_cuts_the_fused_list(index: Index, build: Build) -> None:
    built = build([row(f"d{i}", "redis", (i, 0, 0, 0)) for i in range(6)])
    fused = index.search_hybrid(built, np.zeros(4), "redis", EVERYWHERE, 6, window=2, rrf_k=60, timeout=T)
    assert [r.rank for r in fused] == [1, 2]


def test_fusion_without_a_search_token_is_the_dense_branch(index: Index, build: Build) -> None:
    built = build([row("a", vector=(1, 0, 0, 0)), row("b", vector=(3, 0, 0, 0))])
    fused = index.search_hybrid(built, np.zeros(4), " ", EVERYWHERE, 5, window=5, rrf_k=60, timeout=T)
    assert [(r.chunk.doc_id, r.score) for r in fused] == [("a", pytest.approx(1 / 61)), ("b", pytest.approx(1 / 62))]


# --------------------------------------------------------------------------------------------- read-back


def test_fetch_returns_what_is_there_and_leaves_out_what_is_not(index: Index, build: Build) -> None:
    built = build([row("a", vector=(1, 2, 3, 4)), row('it\'s "b"')])
    found = index.fetch(
        built, ["a#chunk-0", "gone#chunk-0", 'it\'s "b"#chunk-0', "a#chunk-0", "\x00"], with_vectors=True, timeout=T
    )
    assert list(found) == ["a#chunk-0", 'it\'s "b"#chunk-0']
    assert found["a#chunk-0"].vector.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert (found["a#chunk-0"].rank, found["a#chunk-0"].score) == (0, None)
    assert index.fetch(built, [], timeout=T) == {}
    assert index.fetch(built, ["a#chunk-0"], timeout=T)["a#chunk-0"].vector is None
