"""The write side of every vector store: rows, indexes, aliases, collections."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.adapters.memory_index import MemoryIndex
from core.errors import (
    BadInput,
    CheckFailed,
    IndexNotReady,
    RebuildRefused,
)
from core.model import IndexRow
from tests.contract.generations import EVERYWHERE, Build, Index, T, generation, keys, row

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
