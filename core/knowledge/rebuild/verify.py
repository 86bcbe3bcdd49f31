"""The proof before the switch: every chunk is there, sampled ones are found by their own text, neighbours are true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from core.errors import RebuildRefused
from core.knowledge.chunk import passage_text
from core.knowledge.rebuild.rows import sha256
from core.model import Generation, Hit, IndexRow, Scopes, SearchFilter
from core.ports import EmbeddingCache, GenerationStore, IndexAdmin, VectorIndex

EVERYWHERE: Final = SearchFilter(Scopes(frozenset(), everything=True))
ADMIN_SECONDS: Final = 600.0
SEARCH_SECONDS: Final = 60.0
FOUND_WITHIN: Final = 100  # ranks: near-copies may stand before a chunk, a hundred of them may not
NEIGHBOURS: Final = 20
MIN_RECALL: Final = 0.98
_SAME: Final = 1e-5  # squared distances of unit vectors in float32


@dataclass(frozen=True, slots=True)
class Proof:
    """``chunks`` counted in the store and in SQL alike, ``sampled`` of them found in both branches, ``recall`` of the
    vector index against exact search (None: nothing to measure) with the ``generation``'s parameters as they are now."""

    generation: Generation
    chunks: int
    sampled: int
    recall: float | None


def count_all(generation: Generation, chunks: int, admin: IndexAdmin, store: GenerationStore) -> None:
    """Raises RebuildRefused unless the ids in the store, in SQL and the number of chunks made agree."""
    stored = admin.ids(generation, timeout=ADMIN_SECONDS)
    recorded = {chunk.evidence_key for chunk in store.chunks(generation.alias, generation.number)}
    counted = admin.count(generation, timeout=ADMIN_SECONDS)
    if not len(stored) == len(recorded) == counted == chunks:
        raise RebuildRefused(
            f"{chunks} chunks were made, the store holds {len(stored)} (counts {counted}), SQL {len(recorded)}: "
            "look at `python -m core doctor`, then rebuild again"
        )
    if odd := stored ^ recorded:
        raise RebuildRefused(f"{len(odd)} ids differ between store and SQL, for example {min(odd)!r}: rebuild again")


def find_again(generation: Generation, sample: Sequence[IndexRow], index: VectorIndex) -> None:
    """Raises RebuildRefused when a sampled chunk is not found by its own vector and by its own words."""
    for row in sample:
        key = row.chunk.evidence_key
        dense = index.search_dense(generation, row.vector, EVERYWHERE, FOUND_WITHIN, timeout=SEARCH_SECONDS).hits
        bm25 = index.search_bm25(
            generation, row.search_text, EVERYWHERE, FOUND_WITHIN, timeout=SEARCH_SECONDS, with_vectors=False
        ).hits
        for branch, hits in (("dense", dense), ("bm25", bm25)):
            if not _contains(hits, row):
                raise RebuildRefused(
                    f"chunk {key!r} is not among the first {FOUND_WITHIN} of the {branch} branch for its own text: "
                    "the new index cannot be trusted; rebuild again"
                )


def _contains(hits: Sequence[Hit], row: IndexRow) -> bool:
    """The chunk itself, or as many equal texts as were asked for."""
    return any(h.chunk.evidence_key == row.chunk.evidence_key or h.chunk.content == row.chunk.content for h in hits)


def measure_recall(
    generation: Generation, sample: Sequence[IndexRow], index: VectorIndex, vectors: Iterator[Any]
) -> float | None:
    """Share of the true ``NEIGHBOURS`` nearest chunks of the sampled vectors that the index returns. ``vectors`` are
    all vectors of the generation, in blocks of shape (n, dimension): the exact search is done here, block by block.

    A neighbour counts when it is as near as the last true one, so that equal distances cannot lower the number.
    """
    if not sample:
        return None
    queries = np.stack([np.asarray(row.vector, dtype=np.float32) for row in sample])
    best = np.empty((len(sample), 0), dtype=np.float32)
    for block in vectors:
        distances = np.maximum(
            (queries**2).sum(1)[:, None] + (block**2).sum(1)[None, :] - 2.0 * queries @ block.T, 0.0
        ).astype(np.float32)
        best = np.sort(np.concatenate([best, distances], axis=1), axis=1)[:, :NEIGHBOURS]
    if best.shape[1] == 0:
        return None
    found = 0
    for row, truth in zip(sample, best, strict=True):
        hits = index.search_dense(generation, row.vector, EVERYWHERE, len(truth), timeout=SEARCH_SECONDS).hits
        near = [h for h in hits if h.score is not None and h.score <= float(truth[-1]) + _SAME]
        found += min(len(near), len(truth))
    return found / best.size


def stored_vectors(
    generation: Generation, titles: Mapping[str, str], store: GenerationStore, cache: EmbeddingCache, size: int = 500
) -> Iterator[Any]:
    """Every vector of the generation from the cache, in blocks. ``titles``: doc_id -> title."""
    chunks = store.chunks(generation.alias, generation.number)
    for start in range(0, len(chunks), size):
        part = chunks[start : start + size]
        keys = [sha256(passage_text(titles.get(c.doc_id, ""), c.breadcrumb, c.content)) for c in part]
        found = cache.get(generation.profile.profile_id, keys)
        if found:
            yield np.stack([found[key] for key in keys if key in found])


def first_parameters(chunks: int, *, exact: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Index and search parameters to begin with: FLAT for a local file and below 5,000 chunks, where exact search is
    no slower, else IVF_FLAT with about ``4 * sqrt(chunks)`` lists, an eighth of them probed."""
    if exact or chunks < 5_000:
        return {}, {}
    lists = max(16, min(65_536, round(4 * chunks**0.5)))
    return {"index_type": "IVF_FLAT", "nlist": lists}, {"nprobe": max(8, lists // 8)}


def more_probes(generation: Generation) -> Generation | None:
    """Twice the probes, up to every list; None when every list is probed already (or nothing is probed)."""
    lists, probes = generation.index_params.get("nlist"), generation.search_params.get("nprobe")
    if not lists or not probes or probes >= lists:
        return None
    return replace(generation, search_params={**generation.search_params, "nprobe": min(lists, 2 * probes)})
