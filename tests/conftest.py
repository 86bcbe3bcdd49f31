"""Fixtures that several rooms share."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

# A machine that is busy is no failure: examples are counted, not timed.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def milvus_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Milvus Lite file in a temporary folder, served for the session; no server is left behind."""
    from core.adapters import milvus_server

    path = tmp_path_factory.mktemp("milvus") / "test.db"
    milvus_server.ensure(path, 600)
    yield str(path)
    milvus_server.stop(path)
    assert not milvus_server.status(path).running
