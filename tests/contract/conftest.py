"""The stores that must all give the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from core.adapters.memory_index import MemoryIndex
from core.adapters.milvus import MilvusIndex
from core.model import Generation, IndexRow
from tests.contract.generations import Build, Index, T, generation


@pytest.fixture(scope="module", params=["memory", pytest.param("milvus", marks=pytest.mark.milvus)])
def index(request: pytest.FixtureRequest) -> Iterator[Index]:
    if request.param == "memory":
        yield MemoryIndex()
        return
    milvus = MilvusIndex(request.getfixturevalue("milvus_uri"))
    yield milvus
    milvus.close()


@pytest.fixture
def build(index: Index) -> Iterator[Build]:
    """Builds a sealed generation of the given rows and drops it after the test."""
    made: list[Generation] = []

    def build(rows: Sequence[IndexRow], **changes: Any) -> Generation:
        new = generation(**changes)
        index.create(new, timeout=T)
        made.append(new)
        if rows:
            index.insert(new, rows, timeout=T)
        index.seal(new, timeout=T)
        return new

    yield build
    for each in made:
        index.drop(each.collection, timeout=T)
