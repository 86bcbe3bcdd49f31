"""A cross-encoder behind the usual ``/rerank`` shape (Jina, Cohere, vLLM; TEI with ``texts`` and a bare list)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import httpx

from core.adapters.http import JsonClient
from core.errors import ModelUnavailable


class EndpointReranker:
    """``dialect`` ``standard`` sends ``documents``; ``tei`` sends ``texts``. Both answers are read."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str = "",
        dialect: str = "standard",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url = url
        self._model = model
        self._field = "texts" if dialect == "tei" else "documents"
        self._client = JsonClient(f"reranker {url}", api_key=api_key, transport=transport)

    @property
    def model(self) -> str:
        return self._model or self._url

    def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> list[float]:
        """One score in [0,1] a document, in the given order.

        Raises ModelUnavailable when a document has no score or a score is outside [0,1] (raw logits are no quality).
        """
        if not documents:
            return []
        body: dict[str, Any] = {"query": query, self._field: list(documents)}
        if self._field == "documents":
            body |= {"top_n": len(documents), "return_documents": False}
        if self._model:
            body["model"] = self._model
        answer = self._client.post(self._url, body, timeout=timeout)
        rows = answer.get("results") if isinstance(answer, dict) else answer
        scores: dict[int, float] = {}
        try:
            for row in rows or []:
                scores[int(row["index"])] = float(row["relevance_score"] if "relevance_score" in row else row["score"])
        except (TypeError, KeyError, ValueError) as exc:
            raise ModelUnavailable(
                f"{self.model}: the answer has no results[].index and relevance_score; check rerank.url"
            ) from exc
        if sorted(scores) != list(range(len(documents))):
            raise ModelUnavailable(
                f"{self.model}: {len(documents)} documents sent, {len(scores)} scored; the order stays as fused"
            )
        for score in scores.values():
            if not (math.isfinite(score) and 0.0 <= score <= 1.0):
                raise ModelUnavailable(
                    f"{self.model}: score {score} is outside [0,1]; switch the server to normalised scores"
                )
        return [scores[i] for i in range(len(documents))]
