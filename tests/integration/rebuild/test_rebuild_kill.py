"""``kill -9`` at random moments of real rebuilds over a real Milvus Lite file and SQLite."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.adapters import milvus_server
from core.adapters.milvus import MilvusIndex
from core.analysis import search_text
from tests.integration.rebuild.rebuilding_child import DOCUMENTS, write
from tests.unit.knowledge.rebuild.rebuild_world import ALL, World

pytestmark = [pytest.mark.milvus, pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[3]
KILLS = int(os.environ.get("RAG_TEST_KILLS", "4"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "own.db"
    made = World(tmp_path, index=MilvusIndex(str(path)), settings_over={"drop_after_seconds": 0.0})
    yield made
    made.index.close()
    made.close()
    milvus_server.stop(path)


def editions(world: World) -> set[str]:
    """The editions that the active generation answers with, over every document, in both branches."""
    generation = world.snapshots.current().generation
    bm25 = world.index.search_bm25(generation, search_text("word"), ALL, DOCUMENTS, timeout=60).hits
    vector = world.embedder.embed_query("word", timeout=1)
    dense = world.index.search_dense(generation, vector, ALL, DOCUMENTS, timeout=60).hits
    assert (len(bm25), len(dense)) == (DOCUMENTS, DOCUMENTS)
    return {found[0] for hit in (*bm25, *dense) if (found := re.search(r"edition\d+x", hit.chunk.content))}


def test_kill_9_at_random_moments_loses_no_answer_and_leaves_nothing_over(world: World) -> None:
    write(world, 0)
    world.service().rebuild("REBUILD", who="ann")
    chance = random.Random()
    for kill in range(1, KILLS + 1):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.rebuild.rebuilding_child", str(world.folder), str(kill * 100)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0.0, 4.0))
        child.kill()
        child.wait()
        child.stdout.close()
        seen = editions(world)
        assert len(seen) == 1, "an answer of two generations"
        world.service().recover()
        assert len(editions(world)) == 1
        write(world, kill * 100 + 50)
        outcome = world.service().rebuild("REBUILD", who="ann")
        assert editions(world) == {f"edition{kill * 100 + 50:04d}x"}
        active = world.generations.active("biz")
        assert active is not None
        assert (active.number, active.documents) == (outcome.generation, DOCUMENTS)
        assert len(world.collections()) <= 2
        assert {f"biz_g{number}" for number in world.rows()} == set(world.collections())
        assert world.index.alias_target("biz", timeout=60) == active.collection
        assert world.runs.current("biz") is None


def test_a_rebuild_over_a_real_store_is_proven_switched_and_rolled_back(world: World) -> None:
    for number in range(20):
        world.write(f"doc{number}.md", f"# 第{number}号\n\nword 编号{number} 连接池耗尽 E-{1000 + number}\n")
    first = world.service().rebuild("REBUILD", who="ann")
    assert (first.recall, first.documents) == (1.0, 20)
    assert world.found("E-1007") == {"doc7"}
    world.service().upload("zebra.md", b"zebra word", who="ann")
    assert world.found("zebra") == {"zebra"}
    world.service().remove("doc7", who="ann")
    assert world.found("E-1007") == set()
    world.service().rollback("ROLLBACK", who="ann")
    assert world.found("E-1007") == {"doc7"}
    assert len(world.collections()) == 2


def test_an_empty_index_can_be_built_and_searched_in_a_real_store(world: World) -> None:
    outcome = world.service().rebuild("REBUILD", who="ann", allow_shrink=True)
    assert (outcome.chunks, outcome.recall, outcome.state) == (0, None, "ACTIVE")
    assert world.found("word") == set()
