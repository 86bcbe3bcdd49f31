"""Our own heap during a rebuild of a thousand and of ten thousand chunks, the store in its own process.

The embedder answers at once: what is measured is everything around it. ``tracemalloc`` counts this process and slows it,
so the time is taken in a second run without it.
"""

from __future__ import annotations

import hashlib
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from benchmarks._stack import settings_in, work_folder
from benchmarks.rebuild_speed import SECTIONS, write
from core.bootstrap import App, build
from core.model import EmbeddingProfile

SIZES: Final = (1_000, 10_000)
DIMENSION: Final = 384


class AtOnce:
    """A vector of its own for every text, made from its hash."""

    loads_here = False
    profile = EmbeddingProfile("bench/at-once", "bench", DIMENSION)

    def embed_query(self, text: str, *, timeout: float) -> Any:
        return self.embed_passages([text], timeout=timeout)[0]

    def embed_passages(self, texts: Sequence[str], *, timeout: float) -> Any:
        del timeout
        seeds = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts)
        vectors = np.stack([np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32) for seed in seeds])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def warm(self) -> None: ...

    def close(self) -> None: ...


def main() -> None:
    """Prints peak heap and milliseconds a chunk for each size, and how much the tenfold corpus adds."""
    peaks = []
    for size in SIZES:
        peak, _ = _rebuilt(size, traced=True)
        _, seconds = _rebuilt(size, traced=False)
        peaks.append(peak)
        print(
            f"{size:>6} chunks: heap peak {peak / 1e6:.1f} MB, {seconds / size * 1000:.2f} ms a chunk ({seconds:.1f} s)"
        )
    print(f"peak of the tenfold corpus: {peaks[-1] / peaks[0]:.2f} of the first")


def _rebuilt(size: int, *, traced: bool) -> tuple[int, float]:
    with work_folder() as folder, patch("core.bootstrap.make_embedder", lambda _: AtOnce()):
        write(folder / "source", documents=size // SECTIONS)
        app = _app(folder)
        if traced:
            tracemalloc.start()
        try:
            began = time.perf_counter()
            outcome = app.rebuild.rebuild("REBUILD", who="benchmark")
            seconds = time.perf_counter() - began
            peak = tracemalloc.get_traced_memory()[1] if traced else 0
        finally:
            tracemalloc.stop()
            app.close()
    if outcome.chunks < size:
        raise RuntimeError(f"{outcome.chunks} chunks instead of {size}")
    return peak, seconds


def _app(folder: Path) -> App:
    knowledge = {
        "source": str(folder / "source"),
        "uploads": str(folder / "uploads"),
        "shipped_vectors": str(folder / "none"),
    }
    return build(settings_in(folder, "use", knowledge=knowledge))


if __name__ == "__main__":
    main()
