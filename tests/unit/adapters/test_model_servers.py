"""The HTTP edge of embedder and reranker: what a server may answer, and what becomes of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from core.adapters.embedders import E5Embedder, EndpointEmbedder
from core.adapters.embedders.packaged import E5_PROFILE
from core.adapters.embedders.vectors import checked
from core.adapters.rerank import EndpointReranker
from core.errors import DeadlineExceeded, ModelUnavailable

Handler = Callable[[httpx.Request], httpx.Response]


def embedder(handler: Handler, **options: Any) -> EndpointEmbedder:
    return EndpointEmbedder(
        "http://model.invalid/v1", "m", api_key="TOKEN-CANARY", transport=httpx.MockTransport(handler), **options
    )


def vectors(rows: list[list[float]], order: list[int] | None = None) -> httpx.Response:
    indexes = order or list(range(len(rows)))
    return httpx.Response(200, json={"data": [{"index": i, "embedding": rows[i]} for i in indexes]})


def test_vectors_are_put_back_into_the_order_of_their_index_and_made_unit_length() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert json.loads(request.content)["input"] == ["passage: a", "passage: b"]
        assert request.headers["authorization"] == "Bearer TOKEN-CANARY"
        return vectors([[3.0, 4.0], [0.0, 2.0]], order=[1, 0])

    got = embedder(handler, dimension=2, passage_prefix="passage: ").embed_passages(["a", "b"], timeout=1)
    np.testing.assert_allclose(got, [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6)


def test_passages_go_out_in_batches_of_the_set_size() -> None:
    sizes: list[int] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sizes.append(len(json.loads(request.content)["input"]))
        return vectors([[1.0, 0.0]] * sizes[-1])

    got = embedder(handler, dimension=2, batch_size=3).embed_passages(["x"] * 7, timeout=1)
    assert got.shape == (7, 2)
    assert sizes == [3, 3, 1]
    assert embedder(handler, dimension=2).embed_passages([], timeout=1).shape == (0, 2)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([1.0, 0.0, 0.0], r"expected 1 vectors of dimension 2, got shape \(1, 3\)"),
        ([0.0, 0.0], "zero or not finite"),
        ([float("nan"), 1.0], "zero or not finite"),
        ([float("inf"), 1.0], "zero or not finite"),
        (["a", "b"], "no rectangle of numbers"),
    ],
)
def test_a_vector_that_is_no_vector_is_refused_with_both_numbers(row: list[Any], words: str) -> None:
    with pytest.raises(ModelUnavailable, match=words):
        checked([row], 1, 2, "m")


def test_a_missing_vector_is_refused_and_not_padded() -> None:
    with pytest.raises(ModelUnavailable, match="asked for 2 vectors"):
        embedder(lambda _: vectors([[1.0, 0.0]]), dimension=2).embed_passages(["a", "b"], timeout=1)


def test_an_answer_that_is_no_embedding_names_the_endpoint() -> None:
    with pytest.raises(ModelUnavailable, match="no JSON"):
        embedder(lambda _: httpx.Response(200, text="<html>"), dimension=2).embed_query("a", timeout=1)
    with pytest.raises(ModelUnavailable, match=r"no data\[\]\.embedding"):
        embedder(lambda _: httpx.Response(200, json={"ok": True}), dimension=2).embed_query("a", timeout=1)


def test_a_refusal_is_told_at_once_and_without_the_key() -> None:
    calls: list[int] = []

    def handler(_: httpx.Request) -> httpx.Response:
        calls.append(1)
        return httpx.Response(401, text="bad key TOKEN-CANARY")

    with pytest.raises(ModelUnavailable) as caught:
        embedder(handler, dimension=2).embed_query("a", timeout=1)
    assert "401" in str(caught.value)
    assert "TOKEN-CANARY" not in str(caught.value)
    assert calls == [1]


def test_a_busy_server_is_asked_again_inside_the_deadline() -> None:
    answers = [httpx.Response(503), httpx.Response(429), vectors([[1.0, 0.0]])]
    got = embedder(lambda _: answers.pop(0), dimension=2).embed_query("a", timeout=5)
    np.testing.assert_allclose(got, [1.0, 0.0])


def test_a_slow_server_is_a_deadline_and_not_an_unknown_error() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow", request=request)

    with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
        embedder(handler, dimension=2).embed_query("a", timeout=0.2)


def test_the_dimension_is_asked_once_and_belongs_to_the_identity() -> None:
    calls: list[int] = []

    def handler(_: httpx.Request) -> httpx.Response:
        calls.append(1)
        return vectors([[1.0, 0.0, 0.0]])

    model = embedder(handler)
    assert model.profile.dimension == 3
    assert model.profile.calibrated is False
    assert (model.profile.min_distance, model.profile.max_distance) == (0.0, 2.0)
    assert calls == [1]
    assert model.profile.profile_id != embedder(handler, query_prefix="q: ").profile.profile_id


def reranker(answer: Any, **options: Any) -> EndpointReranker:
    return EndpointReranker(
        "http://rerank.invalid/rerank",
        "r",
        transport=httpx.MockTransport(lambda _: httpx.Response(200, json=answer)),
        **options,
    )


def test_scores_come_back_in_the_order_of_the_documents_in_both_dialects() -> None:
    standard = {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]}
    tei = [{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}]
    assert reranker(standard).rerank("q", ["a", "b"], timeout=1) == [0.1, 0.9]
    assert reranker(tei, dialect="tei").rerank("q", ["a", "b"], timeout=1) == [0.1, 0.9]
    assert reranker(tei).rerank("q", [], timeout=1) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"results": [{"index": 0, "relevance_score": 0.9}]}, "2 documents sent, 1 scored"),
        ({"results": [{"index": 0, "relevance_score": 7.5}, {"index": 1, "relevance_score": 0.1}]}, r"outside \[0,1\]"),
        ({"results": [{"document": "a"}]}, "relevance_score"),
        ({"error": "no"}, "0 scored"),
    ],
)
def test_a_reranker_that_answers_nonsense_is_unavailable(answer: Any, words: str) -> None:
    with pytest.raises(ModelUnavailable, match=words):
        reranker(answer).rerank("q", ["a", "b"], timeout=1)


def test_the_packaged_model_gives_unit_vectors_and_tells_queries_from_passages() -> None:
    model = E5Embedder()
    query = model.embed_query("Redis 连接池耗尽怎么办", timeout=30)
    passages = model.embed_passages(
        ["Redis 连接池耗尽：先看 maxTotal 与等待线程", "Grafana dashboard colours"], timeout=30
    )
    assert query.shape == (E5_PROFILE.dimension,)
    np.testing.assert_allclose(np.linalg.norm(passages, axis=1), [1.0, 1.0], rtol=1e-5)
    distances = ((passages - query) ** 2).sum(axis=1)
    assert distances[0] < distances[1]


def test_a_query_does_not_wait_for_a_batch_of_passages() -> None:
    model = E5Embedder()
    model.warm()
    batch = threading.Thread(target=model.embed_passages, args=(["慢 " * 400] * 4,), kwargs={"timeout": 60})
    batch.start()
    try:
        assert model.embed_query("快", timeout=30).shape == (384,)
        assert batch.is_alive()
    finally:
        batch.join()
