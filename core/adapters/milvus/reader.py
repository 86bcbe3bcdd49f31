"""``core.ports.VectorIndex`` over Milvus: the two branches, the store's own fusion, read-back by key."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from core.adapters.milvus import expressions, schema
from core.adapters.milvus.connection import Connection, Deadline
from core.adapters.milvus.errors import Kind, kind_of
from core.adapters.milvus.loading import Collections
from core.adapters.milvus.rows import chunk_of, vector_of
from core.errors import BadInput, InvalidFilter, ModelUnavailable, ProfileMismatch
from core.model import Branch, Generation, Hit, SearchFilter
from core.ports import FusedRow, SearchAnswer
from core.store_limits import finite, fits

T = TypeVar("T")
MAX_LIMIT: Final = 16_384  # Milvus' own; Milvus Lite has none
_FETCH_BATCH: Final = 500
_WITH_VECTOR: Final = [*schema.OUTPUT_FIELDS, "vector"]


class MilvusReader:
    """The read side. Every call is on the physical collection of one generation and within its ``timeout`` seconds."""

    def __init__(self, connection: Connection, collections: Collections) -> None:
        self._connection = connection
        self._collections = collections

    def search_dense(
        self, generation: Generation, vector: Any, where: SearchFilter, limit: int, *, timeout: float
    ) -> SearchAnswer:
        """Nearest by squared L2, nearest first."""
        query = _query_vector(vector, generation)
        params = dict(generation.search_params)

        def search(client: Any, deadline: Deadline) -> Any:
            return client.search(
                generation.collection,
                data=[query],
                anns_field="vector",
                search_params={"metric_type": schema.METRIC, "params": params},
                filter=self.expression(where),
                limit=limit,
                output_fields=schema.OUTPUT_FIELDS,
                timeout=deadline.left("the dense search"),
            )

        return self._search(Branch.DENSE, generation, where, limit, params, search, timeout)

    def search_bm25(
        self,
        generation: Generation,
        search_text: str,
        where: SearchFilter,
        limit: int,
        *,
        timeout: float,
        with_vectors: bool = True,
    ) -> SearchAnswer:
        """Best by BM25, best first. A text without a token finds nothing and is not sent."""

        def search(client: Any, deadline: Deadline) -> Any:
            if not search_text.strip():
                return [[]]
            return client.search(
                generation.collection,
                data=[search_text],
                anns_field="sparse_vector",
                search_params={"metric_type": "BM25"},
                filter=self.expression(where),
                limit=limit,
                output_fields=_WITH_VECTOR if with_vectors else schema.OUTPUT_FIELDS,
                timeout=deadline.left("the BM25 search"),
            )

        return self._search(Branch.BM25, generation, where, limit, {}, search, timeout)

    def search_hybrid(
        self,
        generation: Generation,
        vector: Any,
        search_text: str,
        where: SearchFilter,
        limit: int,
        *,
        window: int,
        rrf_k: int,
        timeout: float,
    ) -> tuple[FusedRow, ...]:
        """The store's RRF over both branches; each branch gets the filter, since it may not be given above them."""
        _check_limit(limit)
        _check_limit(window)
        query = _query_vector(vector, generation)
        if expressions.admits_nothing(where):
            return ()
        filtered = self.expression(where)

        def search(client: Any, deadline: Deadline) -> Any:
            from pymilvus import AnnSearchRequest, RRFRanker

            dense = {"metric_type": schema.METRIC, "params": dict(generation.search_params)}
            requests = [AnnSearchRequest([query], "vector", dense, limit, expr=filtered or None)]
            if search_text.strip():
                lexical = {"metric_type": "BM25"}
                requests.append(AnnSearchRequest([search_text], "sparse_vector", lexical, limit, expr=filtered or None))
            return client.hybrid_search(
                generation.collection,
                requests,
                RRFRanker(rrf_k),
                limit=window,
                output_fields=_WITH_VECTOR,
                timeout=deadline.left("the hybrid search"),
            )

        answer, _retries = self._on_collection("the hybrid search", generation, search, timeout)
        return tuple(
            FusedRow(chunk_of(str(row["id"]), row["entity"]), rank, float(row["distance"]), vector_of(row["entity"]))
            for rank, row in enumerate(answer[0], start=1)
        )

    def fetch(
        self, generation: Generation, keys: Sequence[str], *, with_vectors: bool = False, timeout: float
    ) -> dict[str, Hit]:
        """Stored rows by evidence key. A key that no literal can hold cannot be stored either: it is absent."""
        wanted = [key for key in dict.fromkeys(keys) if _expressible(key)]
        if not wanted:
            return {}
        fields = _WITH_VECTOR if with_vectors else schema.OUTPUT_FIELDS

        def read(client: Any, deadline: Deadline) -> list[Mapping[str, Any]]:
            rows: list[Mapping[str, Any]] = []
            for start in range(0, len(wanted), _FETCH_BATCH):
                batch = wanted[start : start + _FETCH_BATCH]
                rows += client.query(
                    generation.collection,
                    filter=expressions.one_of("id", batch),
                    output_fields=["id", *fields],
                    limit=len(batch),
                    timeout=deadline.left("reading chunks"),
                )
            return rows

        rows, _retries = self._on_collection("reading chunks", generation, read, timeout)
        found = {
            str(row["id"]): Hit(chunk_of(str(row["id"]), row), Branch.DENSE, 0, None, vector_of(row)) for row in rows
        }
        return {key: found[key] for key in wanted if key in found}

    def expression(self, where: SearchFilter) -> str:
        return expressions.expression(where)

    def warm(self, generation: Generation, *, timeout: float) -> None:
        """Loads, and searches once a branch: Milvus Lite builds its BM25 postings on the first search."""
        dimension = generation.profile.dimension
        query = np.full(dimension, 1.0 / dimension**0.5, dtype=np.float32).tolist()

        def searches(client: Any, deadline: Deadline) -> None:
            for data, field in ((query, "vector"), ("warm", "sparse_vector")):
                client.search(
                    generation.collection, data=[data], anns_field=field, limit=1, timeout=deadline.left("warming")
                )

        self._on_collection("warming", generation, searches, timeout)

    # ----------------------------------------------------------------------------------------- parts

    def _search(
        self,
        branch: Branch,
        generation: Generation,
        where: SearchFilter,
        limit: int,
        params: Mapping[str, Any],
        search: Callable[[Any, Deadline], Any],
        timeout: float,
    ) -> SearchAnswer:
        _check_limit(limit)
        began = time.perf_counter()
        filtered = self.expression(where)
        answer: Any = [[]]
        retries = 0
        if not expressions.admits_nothing(where):
            answer, retries = self._on_collection(f"the {branch} search", generation, search, timeout)
        hits = tuple(_hit(branch, rank, row) for rank, row in enumerate(answer[0], start=1))
        return SearchAnswer(branch, hits, filtered, limit, params, (time.perf_counter() - began) * 1000.0, retries)

    def _on_collection(
        self, what: str, generation: Generation, action: Callable[[Any, Deadline], T], timeout: float
    ) -> tuple[T, int]:
        """``action`` on a collection known to be good and loaded; loaded again, once, when the server released it."""
        released = 0

        def run(client: Any, deadline: Deadline) -> T:
            nonlocal released
            self._collections.ready(client, generation, deadline)
            try:
                return action(client, deadline)
            except Exception as exc:
                kind = kind_of(exc)
                if kind in {Kind.MISSING, Kind.RELEASED}:
                    self._collections.forget(generation.collection)
                if kind is not Kind.RELEASED:
                    raise
                released = 1
                self._collections.ready(client, generation, deadline)
                return action(client, deadline)

        value, retries = self._connection.call(what, run, timeout=timeout)
        return value, retries + released


def _hit(branch: Branch, rank: int, row: Any) -> Hit:
    entity = row["entity"]
    return Hit(chunk_of(str(row["id"]), entity), branch, rank, finite(row["distance"]), vector_of(entity))


def _query_vector(vector: Any, generation: Generation) -> list[float]:
    query = np.asarray(vector, dtype=np.float32)
    dimension = generation.profile.dimension
    if query.shape != (dimension,):
        raise ProfileMismatch(
            f"a query vector of shape {query.shape} for an index of {dimension} dimensions; rebuild with this model"
        )
    if not fits(query, dimension):
        raise ModelUnavailable("the query vector is not finite; look at the embedding model")
    values: list[float] = query.tolist()
    return values


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_LIMIT:
        raise BadInput(f"limit {limit}: give a number from 1 to {MAX_LIMIT}")


def _expressible(key: str) -> bool:
    try:
        expressions.literal(key)
    except InvalidFilter:
        return False
    return True
