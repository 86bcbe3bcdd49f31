"""Any OpenAI-compatible ``/v1/embeddings`` endpoint (platform.openai.com/docs/api-reference/embeddings)."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import numpy as np

from core.adapters.embedders.vectors import checked
from core.adapters.http import JsonClient
from core.errors import ModelUnavailable
from core.model import EmbeddingProfile


class EndpointEmbedder:
    """Batched, with retries and a deadline. The answer's order is taken from its ``index`` fields.

    ``dimension`` 0 asks the endpoint once. ``send_input_type`` adds ``input_type: query|passage`` for servers that
    distinguish the two by it instead of by a prefix.
    """

    loads_here = False

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        dimension: int = 0,
        query_prefix: str = "",
        passage_prefix: str = "",
        send_input_type: bool = False,
        batch_size: int = 16,
        timeout: float = 10.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url = base_url.rstrip("/") + "/embeddings"
        self._model = model
        self._batch_size = batch_size
        self._send_input_type = send_input_type
        self._client = JsonClient(f"embedding endpoint {base_url}", api_key=api_key, transport=transport)
        self._prefix = {"query": query_prefix, "passage": passage_prefix}
        self._timeout = timeout
        self._dimension = dimension
        self._profile: EmbeddingProfile | None = None
        self._lock = threading.Lock()

    @property
    def profile(self) -> EmbeddingProfile:
        """Uncalibrated (0 and 2.0) until a calibration is saved. Asks the endpoint once for an unknown dimension."""
        with self._lock:
            if self._profile is None:
                dimension = self._dimension or len(self._post(["dimension"], "query", self._timeout)[0])
                prefixes = hashlib.sha256("\x00".join(self._prefix.values()).encode()).hexdigest()[:8]
                kind = "typed" if self._send_input_type else prefixes
                self._profile = EmbeddingProfile(
                    profile_id=f"openai/{self._model}/{dimension}/{kind}",
                    model=self._model,
                    dimension=dimension,
                    query_prefix=self._prefix["query"],
                    passage_prefix=self._prefix["passage"],
                )
            return self._profile

    def recalibrated(self, profile: EmbeddingProfile) -> None:
        """Takes another distance scale and thresholds; the identity must stay."""
        if profile.profile_id != self.profile.profile_id:
            raise ValueError(f"profile {profile.profile_id} is not {self.profile.profile_id}")
        with self._lock:
            self._profile = replace(profile)

    def embed_query(self, text: str, *, timeout: float) -> Any:
        return self._embed([text], "query", timeout)[0]

    def embed_passages(self, texts: Sequence[str], *, timeout: float) -> Any:
        parts = [
            self._embed(list(texts[i : i + self._batch_size]), "passage", timeout)
            for i in range(0, len(texts), self._batch_size)
        ]
        return np.vstack(parts) if parts else np.empty((0, self.profile.dimension), dtype=np.float32)

    def warm(self) -> None:
        self.embed_query("warm", timeout=self._timeout)

    def close(self) -> None:
        self._client.close()

    def _embed(self, texts: list[str], kind: str, timeout: float) -> Any:
        return checked(self._post(texts, kind, timeout), len(texts), self.profile.dimension, self._model)

    def _post(self, texts: list[str], kind: str, timeout: float) -> list[list[float]]:
        body: dict[str, Any] = {"model": self._model, "input": [self._prefix[kind] + text for text in texts]}
        if self._send_input_type:
            body["input_type"] = kind
        answer = self._client.post(self._url, body, timeout=timeout)
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = [row["embedding"] for row in rows]
            indexes = [row["index"] for row in rows]
        except (TypeError, KeyError) as exc:
            raise ModelUnavailable(
                f"{self._model}: the answer has no data[].embedding; is it an embeddings endpoint?"
            ) from exc
        if indexes != list(range(len(texts))):
            raise ModelUnavailable(
                f"{self._model}: asked for {len(texts)} vectors, got indexes {indexes[:5]}…; the answer is not usable"
            )
        return vectors
