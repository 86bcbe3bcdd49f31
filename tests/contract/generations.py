"""Tiny generations for tests of the vector store: 4-dimensional vectors that can be read at a glance."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from core.model import Chunk, EmbeddingProfile, Generation, GenerationState, IndexRow, Scopes, SearchFilter

T = 20.0  # seconds; far more than any call of a store takes
Index = Any
Build = Callable[..., Generation]
PROFILE = EmbeddingProfile(profile_id="test/4", model="test", dimension=4)
EVERYWHERE = SearchFilter(Scopes(frozenset(), everything=True))
_numbers = itertools.count(1)


def generation(alias: str = "biz", **changes: Any) -> Generation:
    """A generation with a collection name that no other test uses."""
    number = next(_numbers)
    made = Generation(
        number=number,
        alias=alias,
        collection=f"{alias}_g{number}",
        state=GenerationState.BUILDING,
        profile=PROFILE,
        analysis_version="a1",
        chunking_version="c1",
    )
    return replace(made, **changes)


def row(doc: str, text: str = "alpha", vector: Any = (1, 0, 0, 0), *, index: int = 0, **facts: Any) -> IndexRow:
    """One row; ``text`` is both content and search text."""
    facts = {"title": f"Title {doc}", "breadcrumb": "A > B", "source": f"{doc}.md", "revision": 3, **facts}
    chunk = Chunk(evidence_key=f"{doc}#chunk-{index}", doc_id=doc, chunk_index=index, content=text, **facts)
    return IndexRow(chunk, text, np.asarray(vector, dtype=np.float32))


def within(*scopes: str, category: str | None = None) -> SearchFilter:
    return SearchFilter(Scopes(frozenset(scopes)), category)


def keys(answer: Any) -> list[str]:
    return [hit.chunk.evidence_key for hit in answer.hits]
