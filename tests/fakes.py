"""Small stand-ins that tests of several rooms share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.model import EmbeddingProfile


class HashEmbedder:
    """Bag of character bigrams hashed into ``dimension`` buckets: deterministic, near texts come out near."""

    loads_here = True

    def __init__(self, dimension: int = 64, name: str = "hash") -> None:
        self._profile = EmbeddingProfile(
            profile_id=f"test/{name}/{dimension}",
            model=name,
            dimension=dimension,
            min_distance=0.0,
            max_distance=2.0,
            calibrated=True,
        )
        self.passages_embedded = 0
        self.queries_embedded = 0

    @property
    def profile(self) -> EmbeddingProfile:
        return self._profile

    def embed_query(self, text: str, *, timeout: float) -> Any:
        del timeout
        self.queries_embedded += 1
        return self._vector(text)

    def embed_passages(self, texts: Sequence[str], *, timeout: float) -> Any:
        del timeout
        self.passages_embedded += len(texts)
        if not texts:
            return np.empty((0, self._profile.dimension), dtype=np.float32)
        return np.stack([self._vector(text) for text in texts])

    def warm(self) -> None:
        return None

    def _vector(self, text: str) -> Any:
        vector = np.zeros(self._profile.dimension, dtype=np.float32)
        folded = text.lower()
        for pair in zip(folded, folded[1:] + " ", strict=True):
            digest = hashlib.blake2b("".join(pair).encode("utf-8", "surrogatepass"), digest_size=4).digest()
            vector[int.from_bytes(digest, "big") % self._profile.dimension] += 1.0
        norm = float(np.linalg.norm(vector))
        if norm == 0.0:
            vector[0] = norm = 1.0
        return vector / norm
