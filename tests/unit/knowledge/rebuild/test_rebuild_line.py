"""The plain line: source, chunks, vectors, proof, switch."""

from __future__ import annotations

import pytest

from core.errors import BadInput, NotConfirmed
from core.model import GenerationState
from tests.unit.knowledge.rebuild.rebuild_world import World

POOL = "# 连接池\n\n连接池耗尽时先看 maxActive。\n"
DISK = "# Disk\n\nThe volume fills up: look at inode usage first.\n"


def test_a_rebuild_makes_every_file_answer_and_records_who_and_why(world: World) -> None:
    world.write("redis/pool.md", POOL)
    world.write("disk.md", DISK)
    outcome = world.service().rebuild("REBUILD", who="ann", why="first")
    assert (outcome.state, outcome.generation, outcome.documents) == ("ACTIVE", 1, 2)
    assert world.found("maxActive") == {"redis/pool"}
    assert world.found("inode") == {"disk"}
    active = world.generations.active("biz")
    assert active is not None
    assert (active.documents, active.chunks, active.built_by) == (2, outcome.chunks, "ann")
    assert world.index.alias_target("biz", timeout=1) == active.collection
    run = world.runs.get(outcome.run_id)
    assert run is not None
    assert (run.who, run.why, run.state, run.held, run.generation) == ("ann", "first", "ACTIVE", False, 1)


@pytest.mark.parametrize("word", ["", "rebuild", "REBUILD ", " REBUILD", "REBUIL", "ROLLBACK", None, True])
def test_any_other_word_changes_nothing(world: World, word: object) -> None:
    world.write("disk.md", DISK)
    with pytest.raises(NotConfirmed, match="REBUILD"):
        world.service().rebuild(word, who="ann")  # type: ignore[arg-type]
    assert world.generations.all("biz") == []
    assert world.runs.history("biz").rows == ()
    assert world.collections() == []


def test_an_unchanged_corpus_is_not_embedded_again(world: World) -> None:
    world.write("a.md", POOL)
    world.write("b.md", DISK)
    first = world.service().rebuild("REBUILD", who="ann")
    second = world.service().rebuild("REBUILD", who="ann")
    assert (first.embedded, first.from_cache) == (first.chunks, 0)
    assert (second.embedded, second.from_cache) == (0, first.chunks)
    assert world.embedder.passages_embedded == first.chunks


def test_the_previous_generation_is_kept_and_the_one_before_goes(world: World) -> None:
    for word in ("alpha", "beta", "gamma"):
        world.write("a.md", f"# Doc\n\n{word}\n")
        world.service().rebuild("REBUILD", who="ann")
    assert world.collections() == ["biz_g2", "biz_g3"]
    assert world.rows() == {2, 3}
    states = {g.number: g.state for g in world.generations.all("biz")}
    assert states == {1: GenerationState.RETIRED, 2: GenerationState.RETIRED, 3: GenerationState.ACTIVE}


def test_a_revision_rises_with_the_content_and_never_falls(world: World) -> None:
    def revision() -> int:
        world.service().rebuild("REBUILD", who="ann")
        return world.snapshots.current().revisions["a"]

    world.write("a.md", "one")
    assert revision() == 1
    assert revision() == 1
    world.write("a.md", "two")
    assert revision() == 2
    world.write("a.md", "one")
    assert revision() == 3


def test_a_source_that_is_no_folder_fails_and_is_recorded(world: World) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        world.service().rebuild("REBUILD", who="ann", source=world.folder / "nowhere")
    (run,) = world.runs.history("biz").rows
    assert (run.state, run.held) == ("FAILED", False)
    assert "no such folder" in run.outcome["error"]
    assert world.generations.all("biz") == []
