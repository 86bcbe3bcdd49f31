"""The whole life of an index on SQLite and on MariaDB, the vector store in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.adapters.sql.engine import Database
from core.errors import Busy
from tests.unit.knowledge.rebuild.rebuild_world import Killed, World, at_step, raising


@pytest.fixture
def world(tmp_path: Path, database: Database) -> World:
    return World(tmp_path, database=database)


def test_an_index_lives_through_builds_writes_roll_backs_and_switches(world: World) -> None:
    for number in range(30):
        world.write(f"doc{number}.md", f"word {number}" + "\n\n" + "填充内容 " * 400)
    first = world.service().rebuild("REBUILD", who="ann")
    assert first.documents == 30
    world.service().upload("新文档.md", "斑马 word".encode(), who="ann")
    assert world.found("斑马") == {"新文档"}
    world.service().remove("doc7", who="ann")
    assert "doc7" not in world.found("word")
    held = world.service().rebuild("REBUILD", who="ann", hold=True)
    assert held.from_cache == held.chunks
    assert world.service().switch("SWITCH", who="ann").generation == held.generation
    back = world.service().rollback("ROLLBACK", who="ann")
    assert back.generation == held.previous
    assert world.service().drift().added == ()
    assert len(world.service().history()) == 6
    status = world.service().status()
    assert (status.documents, status.problems) == (30, ())
    assert len(world.collections()) == 2


def test_chunks_read_in_pages_are_those_read_at_once(world: World) -> None:
    world.write("a.md", "\n\n".join(f"## Part {n}\n\n" + "text " * 150 for n in range(12)))
    world.write("b.md", "word")
    world.service().rebuild("REBUILD", who="ann")
    everything = world.generations.chunks("biz", 1)
    pages = list(world.generations.chunk_pages("biz", 1, 5))
    assert [len(page) for page in pages[:-1]] == [5] * (len(pages) - 1)
    assert sorted(c.evidence_key for page in pages for c in page) == sorted(c.evidence_key for c in everything)
    grouped = world.generations.chunks_of("biz", 1, ["b", "a", "missing"])
    assert grouped == {name: [c for c in everything if c.doc_id == name] for name in ("a", "b")}
    assert world.generations.chunks_of("biz", 1, []) == {}
    assert list(world.generations.chunk_pages("biz", 99)) == []


@pytest.mark.parametrize("step", ["fill", "verify", "switching", "switch", "alias"])
def test_a_death_is_recovered_from(world: World, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("a.md", "word alpha")
    world.service().rebuild("REBUILD", who="ann")
    world.write("a.md", "word beta")
    monkeypatch.setattr("core.knowledge.rebuild.service.this_process", lambda: "elsewhere")
    with pytest.raises(Killed):
        world.service(step=at_step(step, raising(Killed()))).rebuild("REBUILD", who="ann")
    with pytest.raises(Busy, match="elsewhere"):
        world.service().rebuild("REBUILD", who="bob")
    current = world.runs.current("biz")
    assert current is not None
    world.runs.heartbeat(current.run_id, ttl=0)  # its time runs out
    assert world.found("word") == {"a"}
    world.service().recover()
    assert world.service().rebuild("REBUILD", who="bob").state == "ACTIVE"
    assert world.found("beta") == {"a"}
    assert len(world.collections()) == 2
    old = world.runs.get(current.run_id)
    assert old is not None
    assert old.state == "INTERRUPTED"
