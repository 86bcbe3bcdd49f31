"""The vector store in memory: exact L2, BM25 and RRF over a dict. It passes the same contract suite as Milvus.

BM25 as Milvus computes it: ``idf = ln((N - df + 0.5) / (df + 0.5) + 1)``, ``k1 = 1.2``, ``b = 0.75``, statistics over
the whole collection, a query term counted as often as it is written. Scores are positive, ties fall by id.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from core.adapters.milvus.expressions import admits_nothing, expression
from core.errors import (
    BadInput,
    CheckFailed,
    IndexNotReady,
    ModelUnavailable,
    ProfileMismatch,
    RagError,
    RebuildRefused,
)
from core.knowledge.snapshots import properties_of
from core.model import Branch, Generation, Hit, IndexRow, SearchFilter
from core.ports import CollectionInfo, FusedRow, SearchAnswer
from core.store_limits import check_rows, fits

K1: Final = 1.2
B: Final = 0.75
_TOKEN: Final = re.compile(r"\w+")


@dataclass
class _Collection:
    generation: Generation
    properties: Mapping[str, str]
    index_params: Mapping[str, Any]
    rows: dict[str, IndexRow] = field(default_factory=dict)


class MemoryIndex:
    """Both sides of the index. Thread-safe.

    ``failures`` maps a method's name to the error that it raises while it stands there; ``delays`` to seconds that it
    takes longer; ``calls`` counts them.
    """

    def __init__(self, describe: Callable[[Generation], Mapping[str, str]] = properties_of) -> None:
        self.failures: dict[str, RagError] = {}
        self.delays: dict[str, float] = {}
        self.calls: Counter[str] = Counter()
        self._describe = describe
        self._collections: dict[str, _Collection] = {}
        self._aliases: dict[str, str] = {}
        self._lock = threading.RLock()

    # ----------------------------------------------------------------------------------------- read side

    def search_dense(
        self, generation: Generation, vector: Any, where: SearchFilter, limit: int, *, timeout: float
    ) -> SearchAnswer:
        began = self._enter("search_dense", timeout)
        scored = self._dense(generation, vector, where, limit)
        return self._answer(Branch.DENSE, scored, where, limit, generation.search_params, began, with_vectors=False)

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
        began = self._enter("search_bm25", timeout)
        scored = self._bm25(generation, search_text, where, limit)
        return self._answer(Branch.BM25, scored, where, limit, {}, began, with_vectors=with_vectors)

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
        self._enter("search_hybrid", timeout)
        rows: dict[str, IndexRow] = {}
        scores: dict[str, float] = {}
        for scored in (
            self._dense(generation, vector, where, limit),
            self._bm25(generation, search_text, where, limit),
        ):
            for rank, (row, _score) in enumerate(scored, start=1):
                key = row.chunk.evidence_key
                rows[key] = row
                scores[key] = scores.get(key, 0.0) + 1.0 / (rrf_k + rank)
        best = sorted(scores, key=lambda key: (-scores[key], key))[:window]
        return tuple(
            FusedRow(rows[key].chunk, rank, scores[key], rows[key].vector) for rank, key in enumerate(best, start=1)
        )

    def fetch(
        self, generation: Generation, keys: Sequence[str], *, with_vectors: bool = False, timeout: float
    ) -> dict[str, Hit]:
        self._enter("fetch", timeout)
        with self._lock:
            rows = self._collection(generation.collection).rows
            return {
                key: Hit(rows[key].chunk, Branch.DENSE, 0, None, rows[key].vector if with_vectors else None)
                for key in dict.fromkeys(keys)
                if key in rows
            }

    def expression(self, where: SearchFilter) -> str:
        return expression(where)

    def warm(self, generation: Generation, *, timeout: float) -> None:
        self._enter("warm", timeout)
        self._collection(generation.collection)

    # ----------------------------------------------------------------------------------------- write side

    def create(self, generation: Generation, *, timeout: float) -> None:
        self._enter("create", timeout)
        with self._lock:
            if generation.collection in self._collections or generation.collection in self._aliases:
                raise RebuildRefused(f"collection {generation.collection!r} exists already; plan another generation")
            properties = dict(self._describe(generation))
            self._collections[generation.collection] = _Collection(generation, properties, generation.index_params)

    def insert(self, generation: Generation, rows: Sequence[IndexRow], *, timeout: float) -> None:
        self._enter("insert", timeout)
        check_rows(rows, generation.profile.dimension)
        with self._lock:
            stored = self._collection(generation.collection).rows
            for row in rows:
                vector = np.asarray(row.vector, dtype=np.float32).copy()
                stored[row.chunk.evidence_key] = replace(row, vector=vector)

    def seal(self, generation: Generation, *, timeout: float) -> None:
        self._enter("seal", timeout)
        self._collection(generation.collection)

    def ids(self, generation: Generation, *, timeout: float) -> frozenset[str]:
        self._enter("ids", timeout)
        return frozenset(self._collection(generation.collection).rows)

    def count(self, generation: Generation, *, timeout: float) -> int:
        self._enter("count", timeout)
        return len(self._collection(generation.collection).rows)

    def set_index(self, generation: Generation, params: Mapping[str, Any], *, timeout: float) -> None:
        self._enter("set_index", timeout)
        self._collection(generation.collection).index_params = dict(params)

    def point_alias(self, alias: str, collection: str, *, timeout: float) -> None:
        self._enter("point_alias", timeout)
        with self._lock:
            if alias in self._collections:
                raise CheckFailed(f"a collection is named {alias!r}, where the alias belongs; rename or drop it")
            self._collection(collection)
            self._aliases[alias] = collection

    def alias_target(self, alias: str, *, timeout: float) -> str | None:
        self._enter("alias_target", timeout)
        return self._aliases.get(alias)

    def names(self, prefix: str, *, timeout: float) -> tuple[str, ...]:
        self._enter("names", timeout)
        with self._lock:
            return tuple(sorted(name for name in self._collections if name.startswith(prefix)))

    def collections(self, prefix: str, *, timeout: float) -> tuple[CollectionInfo, ...]:
        self._enter("collections", timeout)
        with self._lock:
            return tuple(
                CollectionInfo(
                    name=name,
                    rows=len(found.rows),
                    aliases=tuple(sorted(a for a, target in self._aliases.items() if target == name)),
                    properties=dict(found.properties),
                    has_bm25=True,
                    dimension=found.generation.profile.dimension,
                    metric="L2",
                )
                for name, found in sorted(self._collections.items())
                if name.startswith(prefix)
            )

    def drop(self, collection: str, *, timeout: float) -> None:
        self._enter("drop", timeout)
        with self._lock:
            if collection in self._aliases:
                raise CheckFailed(f"{collection!r} is an alias; name the collection behind it to drop it")
            held = sorted(a for a, target in self._aliases.items() if target == collection)
            if held:
                raise CheckFailed(f"{collection!r} serves under {held[0]!r}; point the alias elsewhere first")
            self._collections.pop(collection, None)

    def health(self, *, timeout: float) -> str:
        self._enter("health", timeout)
        return "in memory, BM25 available"

    # ----------------------------------------------------------------------------------------- search itself

    def _enter(self, name: str, timeout: float) -> float:
        del timeout
        self.calls[name] += 1
        began = time.perf_counter()
        if name in self.delays:
            time.sleep(self.delays[name])
        if name in self.failures:
            raise self.failures[name]
        return began

    def _collection(self, name: str) -> _Collection:
        with self._lock:
            found = self._collections.get(self._aliases.get(name, name))
            if found is None:
                raise IndexNotReady(f"collection {name!r} does not exist; rebuild the index")
            return found

    def _admitted(self, generation: Generation, where: SearchFilter) -> tuple[list[IndexRow], list[IndexRow]]:
        """All rows, and those that the filter lets through (it applies before the search)."""
        with self._lock:
            rows = list(self._collection(generation.collection).rows.values())
        admitted = [
            row
            for row in rows
            if where.scopes.admits(row.chunk.kb_scope)
            and (where.category is None or row.chunk.category == where.category)
        ]
        return rows, admitted

    def _dense(
        self, generation: Generation, vector: Any, where: SearchFilter, limit: int
    ) -> list[tuple[IndexRow, float]]:
        _check_limit(limit)
        query = np.asarray(vector, dtype=np.float32)
        found = self._collection(generation.collection).generation.profile.dimension
        if query.shape != (found,):
            raise ProfileMismatch(
                f"a query vector of shape {query.shape} for an index of {found} dimensions; rebuild with this model"
            )
        if not fits(query, found):
            raise ModelUnavailable("the query vector is not finite; look at the embedding model")
        if admits_nothing(where):
            return []
        _all, admitted = self._admitted(generation, where)
        if not admitted:
            return []
        matrix = np.stack([row.vector for row in admitted])
        distances = ((matrix - query) ** 2).sum(axis=1)
        scored = [(row, float(distance)) for row, distance in zip(admitted, distances, strict=True)]
        return sorted(scored, key=lambda pair: (pair[1], pair[0].chunk.evidence_key))[:limit]

    def _bm25(self, generation: Generation, text: str, where: SearchFilter, limit: int) -> list[tuple[IndexRow, float]]:
        _check_limit(limit)
        if admits_nothing(where):
            return []
        rows, admitted = self._admitted(generation, where)
        bags = {row.chunk.evidence_key: Counter(_TOKEN.findall(row.search_text.lower())) for row in rows}
        frequency = Counter(term for bag in bags.values() for term in bag)
        average = sum(bag.total() for bag in bags.values()) / len(bags) if bags else 0.0
        scored = []
        for row in admitted:
            bag, score = bags[row.chunk.evidence_key], 0.0
            for term, times in Counter(_TOKEN.findall(text.lower())).items():
                if term in bag:
                    idf = math.log((len(rows) - frequency[term] + 0.5) / (frequency[term] + 0.5) + 1.0)
                    norm = bag[term] + K1 * (1.0 - B + B * bag.total() / average)
                    score += times * idf * bag[term] * (K1 + 1.0) / norm
            if score > 0.0:
                scored.append((row, score))
        return sorted(scored, key=lambda pair: (-pair[1], pair[0].chunk.evidence_key))[:limit]

    def _answer(
        self,
        branch: Branch,
        scored: Sequence[tuple[IndexRow, float]],
        where: SearchFilter,
        limit: int,
        params: Mapping[str, Any],
        began: float,
        *,
        with_vectors: bool,
    ) -> SearchAnswer:
        hits = tuple(
            Hit(row.chunk, branch, rank, score, row.vector if with_vectors else None)
            for rank, (row, score) in enumerate(scored, start=1)
        )
        ms = (time.perf_counter() - began) * 1000.0
        return SearchAnswer(branch, hits, expression(where), limit, dict(params), ms)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= 16_384:
        raise BadInput(f"limit {limit}: give a number from 1 to 16384")
