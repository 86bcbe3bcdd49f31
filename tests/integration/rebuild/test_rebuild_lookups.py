"""Whole lookups all through rebuilds of a real store: none fails, none sees two generations."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.adapters import milvus_server
from core.adapters.milvus import MilvusIndex
from core.clock import SystemClock
from core.lookup import LookupOutcome, LookupRequest, LookupService
from core.model import EvidenceStatus
from tests.unit.knowledge.rebuild.rebuild_world import World
from tests.unit.lookup_world import ListAudit

pytestmark = [pytest.mark.milvus, pytest.mark.slow, pytest.mark.timeout(900)]
REBUILDS = int(os.environ.get("RAG_TEST_REBUILDS", "4"))
DOCUMENTS = 12


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "own.db"
    made = World(tmp_path, index=MilvusIndex(str(path)), settings_over={"drop_after_seconds": 60.0})
    # a busy machine is no failure of the switch: lookups may take their time
    patience = {"branch_timeout": 60.0, "lookup_timeout": 60.0, "warming_timeout": 60.0}
    made.settings = made.settings.model_copy(
        update={
            "retrieval": made.settings.retrieval.model_copy(update=patience),
            "embedding": made.settings.embedding.model_copy(update={"timeout": 60.0}),
            "audit": made.settings.audit.model_copy(update={"timeout": 60.0}),
        }
    )
    yield made
    made.index.close()
    made.close()
    milvus_server.stop(path)


def write(world: World, edition: int) -> None:
    for number in range(DOCUMENTS):
        world.write(
            f"doc{number:02d}.md", f"# 连接池 {number}\n\nredis 连接池耗尽 edition{edition:04d}x number {number}\n"
        )


def seen(outcome: LookupOutcome) -> set[str]:
    """The editions in everything that the lookup ranked."""
    candidates = [c for a in outcome.result.retrieval_trace.attempts for c in a.candidates]
    texts = [c.content or "" for c in candidates] + [e.content for e in outcome.result.evidence]
    return {found[0] for text in texts if (found := re.search(r"edition\d+x", text))}


def test_lookups_during_rebuilds_never_fail_and_each_ends_on_the_generation_it_began_with(world: World) -> None:
    lookups = LookupService(
        index=world.index,
        embedder=world.embedder,
        reranker=None,
        snapshots=world.snapshots,
        audit=ListAudit(),
        clock=SystemClock(),
        settings=world.settings,
    )
    write(world, 1)
    world.service().rebuild("REBUILD", who="ann")
    lookups.warm()
    stop = threading.Event()
    outcomes: list[LookupOutcome] = []

    def ask() -> None:
        while not stop.is_set():
            outcomes.append(lookups.lookup(LookupRequest("redis 连接池耗尽怎么排查")))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for edition in range(2, REBUILDS + 2):
        write(world, edition)
        world.service().rebuild("REBUILD", who="ann")
    stop.set()
    for thread in threads:
        thread.join()
    lookups.close()
    failed = [o for o in outcomes if o.error is not None or o.result.evidence_status is not EvidenceStatus.READY]
    assert [f"{o.result.retrieval_trace.generation}: {o.error}" for o in failed] == []
    assert {reason for o in outcomes for reason in o.result.retrieval_trace.degraded} == set()
    # the number of the generation is the number of its edition here
    assert all(seen(o) == {f"edition{o.result.retrieval_trace.generation:04d}x"} for o in outcomes)
    assert len({o.result.retrieval_trace.generation for o in outcomes}) > 1
