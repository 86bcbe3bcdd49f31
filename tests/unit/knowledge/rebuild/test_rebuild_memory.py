"""The heap of a rebuild grows with a batch, not with the corpus."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np

from core.knowledge.chunk import ChunkPiece
from core.knowledge.rebuild.fill import SAMPLE, Filler
from core.knowledge.rebuild.rows import DocumentRows
from core.model import Document
from tests.contract.generations import generation


class OneVector:
    """Every passage has the same vector, of 64 numbers."""

    def embed_passages(self, texts: Any, *, timeout: float) -> Any:
        del timeout
        return np.ones((len(texts), 64), dtype=np.float32)


class Elsewhere:
    """Stores in processes of their own: what is handed over is only counted."""

    def __init__(self) -> None:
        self.rows = 0

    def insert(self, made: Any, rows: Any, *, timeout: float) -> None:
        del made, timeout
        self.rows += len(rows)

    def put_chunks(self, *_: Any) -> None: ...

    def put_documents(self, *_: Any) -> None: ...

    def put(self, *_: Any) -> None: ...

    def get(self, *_: Any) -> dict[str, Any]:
        return {}


def documents(number: int) -> Iterator[DocumentRows]:
    for i in range(number):
        pieces = tuple(ChunkPiece(n, f"{n} " + "word " * 20, "Doc", n, n + 1) for n in range(16))
        yield DocumentRows(Document(f"d{i:06d}", f"d{i}.md", "Doc", "", "default", 1, "hash"), pieces)


def peak(number: int) -> float:
    store: Any = Elsewhere()
    model: Any = OneVector()
    filler = Filler(
        generation(),
        store=store,
        admin=store,
        cache=store,
        search_texts=store,
        embedder=model,
        batch_size=32,
        batch_timeout=1,
        advance=lambda done: None,  # noqa: ARG005 - nobody watches
    )
    tracemalloc.start()
    try:
        filled = filler.run(documents(number))
        reached = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (store.rows, filled.chunks, len(filled.sample)) == (number * 16, number * 16, SAMPLE)
    return reached


def test_five_times_the_chunks_do_not_need_twice_the_memory() -> None:
    peak(60)  # what is loaded once
    small, large = peak(60), peak(300)
    assert large < 2 * small  # how many batches wait in between differs from run to run
