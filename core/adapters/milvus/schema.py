"""The collection: its fields, its indexes, and whether one that was found is still of this shape (DESIGN section 4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.store_limits import FIELD_BYTES

ANALYZER: Final = {"tokenizer": "standard"}
METRIC: Final = "L2"  # squared distance, as Milvus defines it
BM25_PARAMS: Final = {"bm25_k1": 1.2, "bm25_b": 0.75}  # Milvus' own defaults, written out since Milvus Lite has others
FILTER_FIELDS: Final = ("category", "kb_scope", "doc_id")
OUTPUT_FIELDS: Final = ["content", "category", "kb_scope", "doc_id", "metadata"]
EXACT_BELOW: Final = 5_000  # chunks; below it FLAT is exact and no slower
_VARCHAR, _SPARSE, _VECTOR, _BM25 = 21, 104, 101, 1  # as the server names types


def build(client: Any, dimension: int) -> Any:
    """The schema as a pymilvus ``CollectionSchema``: nothing dynamic, ids given by us."""
    from pymilvus import DataType, Function, FunctionType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=FIELD_BYTES["id"])
    schema.add_field("content", DataType.VARCHAR, max_length=FIELD_BYTES["content"])
    schema.add_field(
        "search_text",
        DataType.VARCHAR,
        max_length=FIELD_BYTES["search_text"],
        enable_analyzer=True,
        analyzer_params=dict(ANALYZER),
    )
    schema.add_field("sparse_vector", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    for name in FILTER_FIELDS:
        schema.add_field(name, DataType.VARCHAR, max_length=FIELD_BYTES[name])
    schema.add_field("metadata", DataType.JSON)
    schema.add_function(
        Function(
            name="bm25",
            function_type=FunctionType.BM25,
            input_field_names=["search_text"],
            output_field_names=["sparse_vector"],
        )
    )
    return schema


def vector_index(params: Mapping[str, Any], *, is_file: bool, rows: int) -> dict[str, Any]:
    """The vector index for a new generation: exact where that is no slower, else what ``params`` ask for.

    ``params``: ``index_type`` and its build parameters (``nlist``), flat or under ``params``; empty is FLAT.
    """
    wanted = normalized(params)
    if is_file or rows < EXACT_BELOW or wanted["index_type"] == "FLAT":
        return {"index_type": "FLAT", "params": {}}
    return wanted


def normalized(params: Mapping[str, Any]) -> dict[str, Any]:
    """``{"index_type": …, "params": {…}}`` with numbers as numbers, whichever way it was written or read back."""
    inner = params.get("params") or {}
    if isinstance(inner, str):
        inner = json.loads(inner)
    build_params = {**inner, **{k: v for k, v in params.items() if k in {"nlist", "M", "efConstruction"}}}
    return {
        "index_type": str(params.get("index_type") or "FLAT").upper(),
        "params": {key: int(value) for key, value in build_params.items()},
    }


def index_params(client: Any, vector: Mapping[str, Any], *, only_vector: bool = False) -> Any:
    """Every index as pymilvus wants it, the vector's as in ``vector`` (see ``normalized``)."""
    indexes = client.prepare_index_params()

    def add(field: str, index_type: str, **facts: Any) -> None:
        indexes.add_index(field, index_type, index_name=index_name(field), **facts)

    add("vector", vector["index_type"], metric_type=METRIC, params=_sent(vector["params"]))
    if not only_vector:
        add("sparse_vector", "SPARSE_INVERTED_INDEX", metric_type="BM25", params=_sent(BM25_PARAMS))
        for name in FILTER_FIELDS:
            add(name, "INVERTED")
    return indexes


def index_name(field: str) -> str:
    """Given outright, since servers differ in their defaults; the one form that Milvus Lite resolves everywhere."""
    return f"{field}_idx"


def field_of(name: str) -> str:
    """The field of a listed index: a cluster lists names, Milvus Lite lists fields."""
    return name.removesuffix("_idx")


def _sent(params: Mapping[str, Any]) -> dict[str, Any]:
    """One level deeper: the client lifts ``params`` up by a level, and Milvus Lite reads only what stays below."""
    return {"params": dict(params)} if params else {}


@dataclass(frozen=True, slots=True)
class Found:
    """A collection as the server describes it. ``metric`` is None while it has no vector index."""

    has_bm25: bool
    dimension: int | None
    metric: str | None
    analyzer: Any
    missing: tuple[str, ...]
    properties: Mapping[str, str]

    def problems(self) -> tuple[str, ...]:
        """Why it cannot serve, each in plain words; empty when it can."""
        found = []
        if self.missing:
            found.append(f"lacks the fields {', '.join(self.missing)}")
        if not self.has_bm25:
            found.append("has no BM25 function from search_text to sparse_vector")
        elif self.analyzer != ANALYZER:
            found.append(f"cuts search_text by {json.dumps(self.analyzer)}, not by {json.dumps(ANALYZER)}")
        if self.metric is not None and self.metric != METRIC:
            found.append(f"measures vectors by {self.metric}, not by {METRIC}")
        return tuple(found)


def read(description: Mapping[str, Any], metric: str | None) -> Found:
    """What ``describe_collection`` says, and the metric read back from the vector's index."""
    fields = {str(f["name"]): f for f in description.get("fields", ())}
    wanted = {"id": _VARCHAR, "content": _VARCHAR, "search_text": _VARCHAR, "sparse_vector": _SPARSE}
    wanted |= {"vector": _VECTOR, "metadata": 23} | dict.fromkeys(FILTER_FIELDS, _VARCHAR)
    missing = tuple(name for name, kind in wanted.items() if name not in fields or int(fields[name]["type"]) != kind)
    has_bm25 = any(
        int(function.get("type", 0)) == _BM25
        and "search_text" in str(function.get("input_field_names"))
        and "sparse_vector" in str(function.get("output_field_names"))
        for function in description.get("functions", ())
    )
    dimension = fields.get("vector", {}).get("params", {}).get("dim")
    analyzer = fields.get("search_text", {}).get("params", {}).get("analyzer_params")
    return Found(
        has_bm25=has_bm25,
        dimension=int(dimension) if dimension is not None else None,
        metric=metric,
        analyzer=_decoded(analyzer),
        missing=missing,
        properties={str(key): str(value) for key, value in (description.get("properties") or {}).items()},
    )


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
