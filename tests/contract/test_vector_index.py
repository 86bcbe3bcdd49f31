"""One suite for every vector store: the one in memory and Milvus give the same answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from core.adapters.memory_index import MemoryIndex
from core.adapters.milvus import MilvusIndex
from core.errors import (
    BadInput,
    CheckFailed,
    IndexNotReady,
    InvalidFilter,
    ModelUnavailable,
    ProfileMismatch,
    RebuildRefused,
)
from core.model import Branch, Generation, IndexRow
from tests.contract.generations import EVERYWHERE, generation, row, within

T = 20.0  # seconds; far more than any of these calls takes
Index = Any
Build = Callable[..., Generation]


@pytest.fixture(scope="module", params=["memory", pytest.param("milvus", marks=pytest.mark.milvus)])
def index(request: pytest.FixtureRequest) -> Iterator[Index]:
    if request.param == "memory":
        yield MemoryIndex()
        return
    milvus = MilvusIndex(request.getfixturevalue("milvus_uri"))
    yield milvus
    milvus.close()


@pytest.fixture
def build(index: Index) -> Iterator[Build]:
    """Builds a sealed generation of the given rows and drops it after the test."""
    made: list[Generation] = []

    def build(rows: Sequence[IndexRow], **changes: Any) -> Generation:
        new = generation(**changes)
        index.create(new, timeout=T)
        made.append(new)
        if rows:
            index.insert(new, rows, timeout=T)
        index.seal(new, timeout=T)
        return new

    yield build
    for each in made:
        index.drop(each.collection, timeout=T)


def keys(answer: Any) -> list[str]:
    return [hit.chunk.evidence_key for hit in answer.hits]


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


# --------------------------------------------------------------------------------------------- filters

TRICKY = [
    'A "重点" 类',
    "O'Brien 手册",
    "“中文引号”",
    'it\'s "both"',
    "back\\slash",
    'ends with \\"',
    "tab\there",
    "两\n行",
    "emoji 👩‍👩‍👧 and {x} 100% ${y}",
    'x" or category != "',
    "x' || 1==1 || '",
    'x"] or id > 0 or category in ["',
    "null",
    "*",
]


def test_cases_28_and_31_each_category_finds_exactly_its_own_document(index: Index, build: Build) -> None:
    built = build([row(f"d{i}", "redis", category=name) for i, name in enumerate(TRICKY)])
    for i, name in enumerate(TRICKY):
        where = within("default", category=name)
        assert keys(index.search_dense(built, np.ones(4), where, 50, timeout=T)) == [f"d{i}#chunk-0"], name
        assert keys(index.search_bm25(built, "redis", where, 50, timeout=T)) == [f"d{i}#chunk-0"], name


@pytest.mark.parametrize("value", ['x" or category != "', "x' || 1==1 || '", 'x"] or id > 0 or category in ["'])
def test_case_30_an_expression_inside_a_value_widens_nothing(index: Index, build: Build, value: str) -> None:
    built = build([row("a", "redis", category="db"), row("b", "redis", category="mq")])
    for where in (within("default", category=value), within(value), within(value, "other")):
        assert index.search_dense(built, np.ones(4), where, 50, timeout=T).hits == ()
        assert index.search_bm25(built, "redis", where, 50, timeout=T).hits == ()
        assert index.search_hybrid(built, np.ones(4), "redis", where, 50, window=50, rrf_k=60, timeout=T) == ()
    assert index.fetch(built, [value], timeout=T) == {}
    assert index.count(built, timeout=T) == 2


def test_a_filter_value_with_control_characters_is_refused(index: Index, build: Build) -> None:
    built = build([row("a")])
    with pytest.raises(InvalidFilter, match=r"U\+0000"):
        index.search_dense(built, np.ones(4), within("default", category="a\x00"), 5, timeout=T)


def test_case_33_no_scope_at_all_admits_nothing(index: Index, build: Build) -> None:
    built = build([row("a", "redis")])
    assert index.search_dense(built, np.ones(4), within(), 5, timeout=T).hits == ()
    assert index.search_bm25(built, "redis", within(), 5, timeout=T).hits == ()
    assert index.search_hybrid(built, np.ones(4), "redis", within(), 5, window=5, rrf_k=60, timeout=T) == ()


def test_case_34_the_empty_category_is_one_of_its_own(index: Index, build: Build) -> None:
    built = build([row("with", "redis", category="甲"), row("without", "redis", category="")])

    def found(category: str | None) -> set[str]:
        return set(keys(index.search_bm25(built, "redis", within("default", category=category), 5, timeout=T)))

    assert found("") == {"without#chunk-0"}
    assert found("甲") == {"with#chunk-0"}
    assert found(None) == {"with#chunk-0", "without#chunk-0"}


def test_case_35_a_filter_reaches_every_branch_and_the_stores_own_fusion(index: Index, build: Build) -> None:
    built = build([row("jia", "zeta 77", category="甲"), row("yi", "zeta 77", category="乙")])
    where = within("default", category="甲")
    assert keys(index.search_dense(built, np.ones(4), where, 20, timeout=T)) == ["jia#chunk-0"]
    assert keys(index.search_bm25(built, "zeta 77", where, 20, timeout=T)) == ["jia#chunk-0"]
    fused = index.search_hybrid(built, np.ones(4), "zeta 77", where, 20, window=40, rrf_k=60, timeout=T)
    assert [r.chunk.evidence_key for r in fused] == ["jia#chunk-0"]


def test_scopes_admit_one_several_or_all(index: Index, build: Build) -> None:
    built = build([row(s, "redis", kb_scope=s) for s in ("default", "ops", "rag-eval")])

    def found(where: Any) -> set[str]:
        return {hit.chunk.kb_scope for hit in index.search_dense(built, np.ones(4), where, 20, timeout=T).hits}

    assert found(within("ops")) == {"ops"}
    assert found(within("default", "ops")) == {"default", "ops"}
    assert found(EVERYWHERE) == {"default", "ops", "rag-eval"}


def test_case_46_a_selective_filter_returns_all_that_match(index: Index, build: Build) -> None:
    common = [row(f"c{i:03}", "redis", (1, i / 1000, 0, 0), category="COMMON") for i in range(300)]
    rare = [row(f"r{i}", "redis", (-9, i, 0, 0), category="RARE") for i in range(5)]
    built = build([*common, *rare])
    where = within("default", category="RARE")
    wanted = {f"r{i}#chunk-0" for i in range(5)}

    assert set(keys(index.search_dense(built, np.array([1, 0, 0, 0]), where, 5, timeout=T))) == wanted
    assert set(keys(index.search_bm25(built, "redis", where, 5, timeout=T))) == wanted


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


# --------------------------------------------------------------------------------------------- writing


def test_create_refuses_a_name_that_is_taken(index: Index, build: Build) -> None:
    built = build([row("a")])
    with pytest.raises(RebuildRefused, match="exists already"):
        index.create(built, timeout=T)
    assert index.count(built, timeout=T) == 1


def test_case_127_a_row_written_again_replaces_the_old_one(index: Index) -> None:
    new = generation()
    index.create(new, timeout=T)
    index.insert(new, [row("a", "old words"), row("b", "kept words")], timeout=T)
    index.insert(new, [row("a", "fresh", (0, 1, 0, 0))], timeout=T)
    index.seal(new, timeout=T)

    assert index.ids(new, timeout=T) == {"a#chunk-0", "b#chunk-0"}
    assert index.count(new, timeout=T) == 2
    assert index.fetch(new, ["a#chunk-0"], timeout=T)["a#chunk-0"].chunk.content == "fresh"
    assert keys(index.search_bm25(new, "old", EVERYWHERE, 5, timeout=T)) == []
    index.drop(new.collection, timeout=T)


def test_case_125_what_was_written_is_counted_and_found_at_once(index: Index, build: Build) -> None:
    built = build([row("a", "first"), row("b", "second"), row("c", "last phrase")])
    assert keys(index.search_bm25(built, "phrase", EVERYWHERE, 5, timeout=T)) == ["c#chunk-0"]
    assert index.ids(built, timeout=T) == {"a#chunk-0", "b#chunk-0", "c#chunk-0"}

    without = build([row("a", "first"), row("b", "second")])
    assert index.count(without, timeout=T) == 2
    assert keys(index.search_bm25(without, "phrase", EVERYWHERE, 5, timeout=T)) == []


def test_case_49_a_document_left_out_of_the_new_generation_answers_no_more(index: Index, build: Build) -> None:
    build([row("kept", "redis"), row("ghost", "ghost 42 redis")])
    built = build([row("kept", "redis")])
    assert keys(index.search_dense(built, np.ones(4), EVERYWHERE, 5, timeout=T)) == ["kept#chunk-0"]
    assert index.search_bm25(built, "ghost", EVERYWHERE, 5, timeout=T).hits == ()
    assert index.fetch(built, ["ghost#chunk-0"], timeout=T) == {}


def test_case_122_text_is_measured_in_bytes_before_anything_is_sent(index: Index) -> None:
    new = generation()
    index.create(new, timeout=T)
    with pytest.raises(BadInput, match=r"content of 'b#chunk-0': 66,000 bytes, the field holds 65,535"):
        index.insert(new, [row("a"), row("b", "汉" * 22_000)], timeout=T)
    index.insert(new, [row("a"), row("b", "汉" * 21_845)], timeout=T)
    index.seal(new, timeout=T)
    assert index.count(new, timeout=T) == 2
    index.drop(new.collection, timeout=T)


@pytest.mark.parametrize(
    ("bad", "names"),
    [
        (row("a", category="类" * 86), "category"),
        (row("a", kb_scope="s" * 257), "kb_scope"),
        (row("文" * 334), "doc_id"),
        (row("a", title="长" * 22_000), "metadata"),
        (row("a", "half \ud800"), "content"),
        (row("a", vector=(1, math.nan, 0, 0)), "vector"),
        (row("a", vector=(1, 2, 3)), "vector"),
    ],
    ids=["category", "kb_scope", "doc_id", "metadata", "surrogate", "nan", "dimension"],
)
def test_cases_122_and_123_a_row_that_does_not_fit_is_refused_by_name(index: Index, bad: IndexRow, names: str) -> None:
    new = generation()
    index.create(new, timeout=T)
    with pytest.raises(BadInput, match=names):
        index.insert(new, [row("good"), bad], timeout=T)
    index.seal(new, timeout=T)
    assert index.count(new, timeout=T) == 0
    index.drop(new.collection, timeout=T)


def test_one_key_twice_in_a_batch_is_refused(index: Index) -> None:
    new = generation()
    index.create(new, timeout=T)
    with pytest.raises(BadInput, match="twice"):
        index.insert(new, [row("a"), row("a", "again")], timeout=T)
    index.drop(new.collection, timeout=T)


def test_the_vector_index_can_be_replaced(index: Index, build: Build) -> None:
    built = build([row(f"d{i}", vector=(i, 0, 0, 0)) for i in range(50)])
    index.set_index(built, {"index_type": "HNSW", "M": 8, "efConstruction": 64}, timeout=T)
    assert keys(index.search_dense(built, np.zeros(4), EVERYWHERE, 2, timeout=T)) == ["d0#chunk-0", "d1#chunk-0"]


# --------------------------------------------------------------------------------------------- aliases and collections


def test_an_alias_is_made_moved_and_read(index: Index, build: Build) -> None:
    first, second = build([row("a")], alias="moving"), build([row("b")], alias="moving")
    assert index.alias_target("moving", timeout=T) is None
    index.point_alias("moving", first.collection, timeout=T)
    assert index.alias_target("moving", timeout=T) == first.collection
    index.point_alias("moving", second.collection, timeout=T)
    index.point_alias("moving", second.collection, timeout=T)
    assert index.alias_target("moving", timeout=T) == second.collection

    with pytest.raises(CheckFailed, match="alias"):
        index.drop("moving", timeout=T)
    with pytest.raises(CheckFailed, match="serves under 'moving'"):
        index.drop(second.collection, timeout=T)
    assert index.count(second, timeout=T) == 1
    third = build([row("c")], alias="moving")
    index.point_alias("moving", third.collection, timeout=T)
    index.drop(second.collection, timeout=T)
    with pytest.raises(IndexNotReady):
        index.count(second, timeout=T)
    index.point_alias("moving", first.collection, timeout=T)
    with pytest.raises(CheckFailed):
        index.drop(first.collection, timeout=T)
    unalias(index, "moving")


def test_an_alias_cannot_point_at_nothing(index: Index) -> None:
    with pytest.raises(IndexNotReady, match="rebuild"):
        index.point_alias("nowhere", "nowhere_g1", timeout=T)
    assert index.alias_target("nowhere", timeout=T) is None


def test_a_collection_under_the_alias_name_is_told_apart(index: Index, build: Build) -> None:
    built = build([row("a")])
    build([row("b")], collection="taken")
    with pytest.raises(CheckFailed, match="'taken', where the alias belongs; rename or drop it"):
        index.point_alias("taken", built.collection, timeout=T)


def test_collections_are_listed_with_what_they_hold(index: Index, build: Build) -> None:
    built = build([row("a"), row("b")], alias="listed")
    build([row("c")], alias="other")
    index.point_alias("listed", built.collection, timeout=T)
    (info,) = index.collections("listed_", timeout=T)

    assert (info.name, info.rows, info.aliases) == (built.collection, 2, ("listed",))
    assert (info.has_bm25, info.dimension, info.metric, info.problems) == (True, 4, "L2", ())
    assert info.properties["rag.generation"] == str(built.number)
    assert info.properties["rag.analysis"] == "a1"
    assert "test/4" in info.properties["rag.profile"]
    assert index.collections("no_such_", timeout=T) == ()
    unalias(index, "listed")


def test_dropping_what_is_not_there_is_no_error(index: Index) -> None:
    index.drop("never_was_g1", timeout=T)


def test_health_says_what_it_is_and_that_bm25_is_there(index: Index) -> None:
    assert "BM25 available" in index.health(timeout=T)


def test_warming_a_missing_collection_says_so(index: Index, build: Build) -> None:
    index.warm(build([row("a")]), timeout=T)
    with pytest.raises(IndexNotReady):
        index.warm(generation(), timeout=T)


def unalias(index: Index, alias: str) -> None:
    """Takes a test's alias away, which the product never does."""
    if isinstance(index, MemoryIndex):
        del index._aliases[alias]
    else:
        index._connection.call("test", lambda client, _deadline: client.drop_alias(alias), timeout=T)
