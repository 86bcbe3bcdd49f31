"""An embeddings endpoint on the loopback that can be held: a rebuild then lasts exactly as long as a test looks at it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tests.browser.console import Console, House
from tests.fakes import HashEmbedder

DIMENSION: Final = 64
BATCH: Final = 4
LONGEST: Final = 600.0
"""Seconds after which a held request goes on by itself: a test that failed must not keep a server waiting."""


class Endpoint(ThreadingHTTPServer):
    """Answers queries at once; passages only while some are ``let`` through."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.embedder = HashEmbedder(DIMENSION)
        self._open = threading.Condition()
        self._left: float = float("inf")

    def let(self, requests: float = float("inf")) -> None:
        """From now on so many requests for passages are answered, and those beyond wait."""
        with self._open:
            self._left = requests
            self._open.notify_all()

    def pass_one(self) -> None:
        with self._open:
            self._open.wait_for(lambda: self._left >= 1, LONGEST)
            self._left -= 1

    @property
    def environment(self) -> dict[str, str]:
        return {
            "RAG__EMBEDDING__PROVIDER": "openai",
            "RAG__EMBEDDING__BASE_URL": f"http://127.0.0.1:{self.server_port}/v1",
            "RAG__EMBEDDING__MODEL": "bigrams",
            "RAG__EMBEDDING__DIMENSION": str(DIMENSION),
            "RAG__EMBEDDING__SEND_INPUT_TYPE": "true",
            "RAG__EMBEDDING__BATCH_SIZE": str(BATCH),
            "RAG__EMBEDDING__BATCH_TIMEOUT": str(LONGEST),
        }


@contextmanager
def with_endpoint(root: Path, texts: dict[str, str]) -> Iterator[tuple[House, Console, Endpoint]]:
    """An installation of its own with ``texts`` in its index and an open console; its model is an endpoint."""
    endpoint = Endpoint()
    serving = threading.Thread(target=endpoint.serve_forever, daemon=True)
    serving.start()
    house = House(root, endpoint.environment).build(texts)
    console = Console(house).start()
    try:
        yield house, console, endpoint
    finally:
        endpoint.let()
        console.stop()
        house.close()
        endpoint.shutdown()
        serving.join()
        endpoint.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["input_type"] == "passage":
            self.server.pass_one()
        vectors = self.server.embedder.embed_passages(asked["input"], timeout=1.0)
        data = [{"index": n, "embedding": [float(x) for x in vector]} for n, vector in enumerate(vectors)]
        body = json.dumps({"object": "list", "data": data, "model": asked["model"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the console's own log tells."""
