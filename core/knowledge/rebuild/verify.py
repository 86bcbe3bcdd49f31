"""The proof before the switch: every chunk is there, sampled ones are found by their own text, neighbours are true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from core.errors import RebuildRefused
from core.knowledge.rebuild.rows import passage_keys
from core.model import Branch, Generation, Hit, IndexRow, Scopes, SearchFilter
from core.ports import EmbeddingCache, GenerationStore, IndexAdmin, VectorIndex

EVERYWHERE: Final = SearchFilter(Scopes(frozenset(), everything=True))
ADMIN_SECONDS: Final = 600.0
SEARCH_SECONDS: Final = 60.0
FOUND_WITHIN: Final = (20, 200)  # ranks, the second only when the first did not do: near-copies stand before it
ASKED: Final = {20: 8, 200: 96}  # words of its own that a chunk is asked for by, at each of these
NEIGHBOURS: Final = 20
MIN_RECALL: Final = 0.98
_SAME: Final = 1e-4  # the store computes squared distances in float32


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
    counted = admin.count(generation, timeout=ADMIN_SECONDS)
    recorded, missing = 0, ""
    for page in store.chunk_pages(generation.alias, generation.number):
        recorded += len(page)
        missing = missing or next((c.evidence_key for c in page if c.evidence_key not in stored), "")
    if not len(stored) == counted == recorded == chunks:
        raise RebuildRefused(
            f"{chunks} chunks were made, the store holds {len(stored)} (counts {counted}), SQL {recorded}: "
            "look at `python -m core doctor`, then rebuild again"
        )
    if missing:
        raise RebuildRefused(f"chunk {missing!r} is in SQL but not in the store: rebuild again")


def nearest(generation: Generation, sample: Sequence[IndexRow], index: VectorIndex) -> list[Sequence[Hit]]:
    """What the dense branch answers to each sampled vector, ``NEIGHBOURS`` at most."""
    return [
        index.search_dense(generation, row.vector, EVERYWHERE, NEIGHBOURS, timeout=SEARCH_SECONDS).hits
        for row in sample
    ]


def find_again(
    generation: Generation, sample: Sequence[IndexRow], near: Sequence[Sequence[Hit]], index: VectorIndex
) -> None:
    """Raises RebuildRefused when a sampled chunk is not found by its own vector (``near`` answers it first) and by its
    own words."""
    words = own_words([row.search_text for row in sample])

    def dense(number: int, limit: int) -> Sequence[Hit]:
        if limit <= NEIGHBOURS:
            return near[number]
        return index.search_dense(generation, sample[number].vector, EVERYWHERE, limit, timeout=SEARCH_SECONDS).hits

    def bm25(number: int, limit: int) -> Sequence[Hit]:
        text = " ".join(words[number][: ASKED[limit]])
        answer = index.search_bm25(generation, text, EVERYWHERE, limit, timeout=SEARCH_SECONDS, with_vectors=False)
        return answer.hits

    for number, row in enumerate(sample):
        for branch, search in ((Branch.DENSE, dense), (Branch.BM25, bm25)):
            if not any(_contains(search(number, limit), row) for limit in FOUND_WITHIN):
                raise RebuildRefused(
                    f"chunk {row.chunk.evidence_key!r} is not among the first {FOUND_WITHIN[-1]} of the {branch} branch "
                    "for its own text: the new index cannot be trusted; rebuild again"
                )


def own_words(search_texts: Sequence[str]) -> list[list[str]]:
    """Of each text its tokens, each once, those first that the fewest of the texts hold, then the longest: rare words
    tell a chunk apart, and the store finds them quickly."""
    distinct = [dict.fromkeys(text.split()) for text in search_texts]
    held = Counter(token for tokens in distinct for token in tokens)
    return [sorted(tokens, key=lambda token: (held[token], -len(token))) for tokens in distinct]


def _contains(hits: Sequence[Hit], row: IndexRow) -> bool:
    """The chunk itself, or an equal text that stands in its place."""
    return any(h.chunk.evidence_key == row.chunk.evidence_key or h.chunk.content == row.chunk.content for h in hits)


def true_distances(sample: Sequence[IndexRow], vectors: Iterator[Any]) -> Any:
    """The squared distances from each sampled vector to its nearest neighbours (at most ``NEIGHBOURS``) by exact
    search, ascending: float64 of shape (samples, neighbours). ``vectors`` are all vectors of the generation, in blocks
    of shape (n, dimension)."""
    if not sample:
        return np.empty((0, 0))
    queries = np.stack([np.asarray(row.vector, dtype=np.float64) for row in sample])
    best = np.empty((len(sample), 0))
    for block in vectors:
        products = (queries**2).sum(1)[:, None] + (block**2).sum(1)[None, :] - 2.0 * queries @ block.T
        near = np.concatenate([best, np.maximum(products, 0.0)], axis=1)
        best = np.sort(near, axis=1)[:, :NEIGHBOURS]
    return best


def recall(near: Sequence[Sequence[Hit]], truth: Any) -> float | None:
    """Share of the true nearest chunks (``true_distances``) that stand in the answers ``near``; None when there is
    nothing to find. A hit counts when it is as near as the last true one: equal distances cannot lower it."""
    if truth.size == 0:
        return None
    found = 0
    for hits, distances in zip(near, truth, strict=True):
        last = float(distances[-1])
        scores = (hit.score for hit in hits[: len(distances)])
        found += sum(1 for score in scores if score is not None and score <= last + _SAME * max(1.0, last))
    return found / int(truth.size)


def stored_vectors(
    generation: Generation, titles: Mapping[str, str], store: GenerationStore, cache: EmbeddingCache
) -> Iterator[Any]:
    """Every vector of the generation from the cache, in blocks. ``titles``: doc_id -> title."""
    for page in store.chunk_pages(generation.alias, generation.number):
        keys = passage_keys(page, titles)
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
