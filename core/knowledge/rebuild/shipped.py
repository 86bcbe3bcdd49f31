"""Vectors that come with the knowledge base, so that a first start need not wait for the model.

A file a profile, ``<profile>.npz`` (the profile's id with everything but letters, digits, ``.`` and ``_`` written as
``-``): ``keys`` is uint8 of shape (n, 32), the SHA-256 of each passage; ``vectors`` is float32 of shape (n, dimension).
A vector is used only for the exact text it was made of, so an outdated file costs time, never correctness.
"""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from core.errors import BadInput
from core.knowledge.rebuild.plan import KnownVectors
from core.model import EmbeddingProfile
from core.ports import EmbeddingCache
from core.store_limits import fits

log = logging.getLogger(__name__)
AT_ONCE: Final = 500


class ShippedVectors:
    """``folder`` need not exist. A file that cannot be read is as good as none, with a line in the log."""

    def __init__(self, folder: Path, cache: EmbeddingCache) -> None:
        self._folder, self._cache = folder, cache

    def load(self, profile: EmbeddingProfile) -> int:
        """Puts what is shipped for ``profile`` and missing in its cache there; how many vectors that were."""
        found = self._read(profile)
        held = self._cache.get(profile.profile_id, list(found)) if self._cache.count(profile.profile_id) else {}
        keys = [key for key in found if key not in held]
        for start in range(0, len(keys), AT_ONCE):
            self._cache.put(profile.profile_id, {key: found[key] for key in keys[start : start + AT_ONCE]})
        return len(keys)

    def cached(self, profile: EmbeddingProfile) -> KnownVectors:
        """The cache as it will be once a rebuild has loaded what is shipped; nothing is written."""
        return _Known(self._read(profile), self._cache)

    def write(self, profile: EmbeddingProfile, keys: Sequence[str]) -> Path:
        """Ships the vectors of ``keys`` that are in the cache. Raises BadInput when there are none."""
        found = self._cache.get(profile.profile_id, sorted(set(keys)))
        if not found:
            raise BadInput("no vector of the active index is in the cache: rebuild first")
        ordered = sorted(found)
        raw = np.frombuffer(b"".join(bytes.fromhex(key) for key in ordered), dtype=np.uint8).reshape(-1, 32)
        self._folder.mkdir(parents=True, exist_ok=True)
        file = file_of(self._folder, profile)
        np.savez(file, keys=raw, vectors=np.stack([found[key] for key in ordered]).astype(np.float32))
        return file

    def _read(self, profile: EmbeddingProfile) -> dict[str, Any]:
        file = file_of(self._folder, profile)
        if not file.is_file():
            return {}
        try:
            with file.open("rb") as opened, np.load(opened, allow_pickle=False) as data:
                keys, vectors = data["keys"], data["vectors"].astype(np.float32)
            if keys.dtype != np.uint8 or keys.shape != (len(vectors), 32):
                raise ValueError("keys and vectors do not belong together")
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as exc:
            log.warning("%s cannot be used (%s): its passages are embedded anew", file, exc)
            return {}
        dimension = profile.dimension
        return {k.tobytes().hex(): v for k, v in zip(keys, vectors, strict=True) if fits(v, dimension)}


class _Known:
    """What is in the cache, and what is shipped beside it."""

    def __init__(self, vectors: Mapping[str, Any], cache: EmbeddingCache) -> None:
        self._vectors, self._cache = vectors, cache

    def get(self, profile_id: str, keys: Sequence[str]) -> dict[str, Any]:
        held = self._cache.get(profile_id, keys)
        return {**{key: self._vectors[key] for key in keys if key in self._vectors}, **held}


def file_of(folder: Path, profile: EmbeddingProfile) -> Path:
    return folder / (re.sub(r"[^A-Za-z0-9._]+", "-", profile.profile_id) + ".npz")
