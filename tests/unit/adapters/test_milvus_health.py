"""What a start-up check says of a cluster: version and BM25 in plain words, the analyzer tried on a sample."""

from __future__ import annotations

from typing import Any

import pytest

from core.adapters.milvus.admin import MilvusAdmin
from core.adapters.milvus.connection import Connection
from core.adapters.milvus.loading import Collections
from core.errors import SchemaMismatch, StoreUnavailable


class Server:
    """A cluster of the given version whose analyzer cuts every text into ``cut`` (or cannot be asked)."""

    def __init__(self, version: str, cut: Any = ("差动", "保护", "redis")) -> None:
        self.version = version
        self.cut = cut

    def get_server_version(self, *, timeout: float) -> str:
        assert timeout > 0
        return self.version

    def run_analyzer(self, text: str, *, analyzer_params: Any, timeout: float) -> list[str]:
        assert analyzer_params == {"tokenizer": "standard"}
        assert timeout > 0
        assert text
        if isinstance(self.cut, Exception):
            raise self.cut
        return list(self.cut)


def health(server: Server) -> str:
    class Fixed(Connection):
        def _new_client(self) -> Any:
            return server

    connection = Fixed("http://milvus.invalid:19530", "", connect_timeout=1.0, idle_seconds=60.0, secrets=())
    return MilvusAdmin(connection, Collections(connection), lambda _: {}).health(timeout=5.0)


@pytest.mark.parametrize("version", ["v2.4.23", "2.3.0", "v1.1.1", "unknown"])
def test_case_130_a_server_without_bm25_is_refused_with_the_version_that_has_it(version: str) -> None:
    with pytest.raises(
        StoreUnavailable, match=rf"Milvus {version} at http://milvus.invalid:19530 has no BM25; upgrade"
    ):
        health(Server(version))


@pytest.mark.parametrize("version", ["v2.5.0", "2.6.4-dev", "v3.0.1", "v10.0.0"])
def test_case_130_a_server_with_bm25_says_so_and_has_its_analyzer_tried(version: str) -> None:
    assert health(Server(version)) == f"Milvus {version} at http://milvus.invalid:19530, BM25 available, analyzer tried"


def test_case_130_an_analyzer_that_cuts_otherwise_is_refused_with_its_tokens() -> None:
    with pytest.raises(SchemaMismatch, match="'差', '动'"):
        health(Server("v2.5.4", ("差", "动", "保", "护", "redis")))


def test_case_130_a_server_that_cannot_try_its_analyzer_is_said_to_be_untried() -> None:
    assert health(Server("v2.5.0", RuntimeError("unknown method run_analyzer"))).endswith(
        "analyzer not tried (the server cannot)"
    )
