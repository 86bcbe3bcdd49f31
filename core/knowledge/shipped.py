"""Vectors that ship with a knowledge base, so that its first index does not wait for the model.

One ``.npz`` a profile in the folder: ``keys`` (SHA-256 of the text given to the embedder, as in the cache), ``vectors``
(float32, one row a key), ``profile`` (its id). They are taken over once, into a cache that holds nothing of the profile.
"""

from __future__ import annotations

import logging
import re
import threading
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from core.errors import redact
from core.ports import EmbeddingCache

log = logging.getLogger(__name__)
SUFFIX: Final = ".npz"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]+")
_KEY: Final = re.compile(r"[0-9a-f]{64}")


class WithShippedVectors:
    """A ``core.ports.EmbeddingCache`` that fills an empty ``inner`` from ``folder`` when a profile is first asked for."""

    def __init__(self, inner: EmbeddingCache, folder: Path) -> None:
        self._inner = inner
        self._folder = folder
        self._asked: set[str] = set()
        self._lock = threading.Lock()

    def get(self, profile_id: str, keys: Sequence[str]) -> dict[str, Any]:
        self._take_over(profile_id)
        return self._inner.get(profile_id, keys)

    def put(self, profile_id: str, vectors: Mapping[str, Any]) -> None:
        self._inner.put(profile_id, vectors)

    def count(self, profile_id: str) -> int:
        return self._inner.count(profile_id)

    def _take_over(self, profile_id: str) -> None:
        with self._lock:
            if profile_id in self._asked:
                return
            file = self._folder / file_name(profile_id)
            if file.is_file() and self._inner.count(profile_id) == 0:
                self._inner.put(profile_id, read_vectors(file, profile_id))
            self._asked.add(profile_id)


def file_name(profile_id: str) -> str:
    return _UNSAFE.sub("_", profile_id) + SUFFIX


def read_vectors(file: Path, profile_id: str) -> dict[str, Any]:
    """key -> float32 vector. A file that is damaged, of another profile or not finite gives none, and a line in the log:
    its texts are embedded then."""
    try:
        with file.open("rb") as handle, np.load(handle, allow_pickle=False) as data:
            profile, keys, vectors = str(data["profile"]), [str(key) for key in data["keys"]], data["vectors"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as exc:
        log.warning("%s: not a file of vectors (%s); the texts are embedded instead", file.name, redact(exc))
        return {}
    whole = vectors.ndim == 2 and len(vectors) == len(keys) and vectors.dtype == np.float32
    if profile != profile_id or not whole or not np.isfinite(vectors).all() or not all(map(_KEY.fullmatch, keys)):
        log.warning("%s: vectors of %s or not whole; the texts are embedded instead", file.name, profile)
        return {}
    return dict(zip(keys, vectors, strict=True))


def write_vectors(folder: Path, profile_id: str, vectors: Mapping[str, Any]) -> Path:
    """The file of ``profile_id`` in ``folder``, keys sorted: the same vectors give the same bytes of arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = sorted(vectors)
    file = folder / file_name(profile_id)
    rows = (
        np.stack([np.asarray(vectors[key], dtype=np.float32) for key in keys]) if keys else np.empty((0, 0), np.float32)
    )
    np.savez_compressed(file, keys=np.array(keys), vectors=rows, profile=np.array(profile_id))
    return file
