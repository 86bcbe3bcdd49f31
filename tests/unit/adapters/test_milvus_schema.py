"""What a found collection is judged by, and which vector index is built."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.adapters.milvus import loading, schema
from core.adapters.milvus.rows import chunk_of, entity_of, vector_of
from core.errors import ProfileMismatch, SchemaMismatch
from tests.contract.generations import generation, row


def description(**changes: Any) -> dict[str, Any]:
    kinds = {
        "id": 21,
        "content": 21,
        "sparse_vector": 104,
        "category": 21,
        "kb_scope": 21,
        "doc_id": 21,
        "metadata": 23,
    }
    fields = [{"name": name, "type": kind, "params": {}} for name, kind in kinds.items()]
    fields.append({"name": "vector", "type": 101, "params": {"dim": 4}})
    analyzer = {"analyzer_params": '{"tokenizer": "standard"}', "enable_analyzer": "true"}
    fields.append({"name": "search_text", "type": 21, "params": analyzer})
    bm25 = {"type": 1, "input_field_names": "['search_text']", "output_field_names": "['sparse_vector']"}
    return {"fields": fields, "functions": [bm25], "properties": {"rag.generation": 1}} | changes


def without(field: str) -> dict[str, Any]:
    whole = description()
    return whole | {"fields": [f for f in whole["fields"] if f["name"] != field]}


def test_a_collection_of_our_shape_has_no_problems() -> None:
    found = schema.read(description(), "L2")
    assert found.problems() == ()
    assert (found.has_bm25, found.dimension, found.metric) == (True, 4, "L2")
    assert found.properties == {"rag.generation": "1"}
    loading.check(found, generation())


@pytest.mark.parametrize(
    ("described", "metric", "words"),
    [
        (without("sparse_vector"), "L2", "lacks the fields sparse_vector"),
        (description(functions=[]), "L2", "has no BM25 function"),
        (description(), "COSINE", "measures vectors by COSINE, not by L2"),
        (without("kb_scope"), "L2", "lacks the fields kb_scope"),
        ({}, None, "lacks the fields"),
    ],
    ids=["no sparse field", "no function", "case 43: other metric", "no filter field", "empty"],
)
def test_case_43_a_collection_of_another_shape_must_be_rebuilt(
    described: dict[str, Any], metric: str | None, words: str
) -> None:
    with pytest.raises(SchemaMismatch, match=words) as caught:
        loading.check(schema.read(described, metric), generation())
    assert str(caught.value).endswith("rebuild the index")


def test_case_130_another_analyzer_is_read_back_and_refused() -> None:
    whole = description()
    for each in whole["fields"]:
        if each["name"] == "search_text":
            each["params"] = {"analyzer_params": '{"tokenizer": "jeiba"}'}
    with pytest.raises(SchemaMismatch, match="jeiba"):
        loading.check(schema.read(whole, "L2"), generation())


def test_another_dimension_is_another_profile() -> None:
    other = generation()
    other = replace(other, profile=replace(other.profile, dimension=8))
    with pytest.raises(ProfileMismatch, match="4 dimensions"):
        loading.check(schema.read(description(), "L2"), other)


@pytest.mark.parametrize(
    ("params", "is_file", "rows", "index"),
    [
        ({}, False, 100_000, {"index_type": "FLAT", "params": {}}),
        ({"index_type": "IVF_FLAT", "nlist": 128}, True, 100_000, {"index_type": "FLAT", "params": {}}),
        ({"index_type": "IVF_FLAT", "nlist": 128}, False, 4_999, {"index_type": "FLAT", "params": {}}),
        (
            {"index_type": "ivf_flat", "nlist": "128"},
            False,
            5_000,
            {"index_type": "IVF_FLAT", "params": {"nlist": 128}},
        ),
        (
            {"index_type": "IVF_FLAT", "params": '{"nlist": 64}', "metric_type": "L2"},
            False,
            5_000,
            {"index_type": "IVF_FLAT", "params": {"nlist": 64}},
        ),
    ],
)
def test_the_vector_index_is_exact_where_that_is_no_slower(
    params: dict[str, Any], is_file: bool, rows: int, index: dict[str, Any]
) -> None:
    assert schema.vector_index(params, is_file=is_file, rows=rows) == index


def test_a_row_goes_out_whole_and_comes_back_equal() -> None:
    stored = row("库/a", "text", (1, 2, 3, 4), index=7, category="db", kb_scope="ops")
    entity = entity_of(stored)
    assert entity["metadata"] == {
        "docId": "库/a",
        "chunkIndex": 7,
        "category": "db",
        "kb_scope": "ops",
        "title": "Title 库/a",
        "breadcrumb": "A > B",
        "source": "库/a.md",
        "revision": 3,
    }
    assert chunk_of("库/a#chunk-7", entity) == stored.chunk
    assert vector_of(entity).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_row_with_nothing_but_a_key_is_still_a_chunk() -> None:
    chunk = chunk_of("a#chunk-2", {"metadata": "not json"})
    assert (chunk.doc_id, chunk.chunk_index, chunk.kb_scope, chunk.revision) == ("", 2, "", None)
    assert chunk_of("vector:9", {}).chunk_index is None


@pytest.mark.parametrize("stored", [None, [1.0, float("nan")], [float("inf"), 0.0]])
def test_a_stored_vector_that_is_not_finite_counts_as_none(stored: Any) -> None:
    assert vector_of({"vector": stored}) is None
