"""Death at every step: the old index answers at once, the next run works, nothing is left over."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from core.errors import Busy, StoreUnavailable
from core.knowledge.rebuild.holder import surely_dead, this_process
from core.knowledge.rebuild.values import Step
from core.model import GenerationState
from tests.unit.knowledge.rebuild.rebuild_world import Killed, World, at_step, raising

BEFORE_SWITCH = ("scan", "plan", "build", "create", "fill", "seal", "verify", "warm", "switching")
FROM_SWITCH_ON = ("uploads", "switch", "alias", "sweep", "done")


def dead_process() -> str:
    """A holder of this machine whose process is no more."""
    alive = this_process()
    return alive.rpartition(".")[0] + ".1]"


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Runs of this test belong to a process that is dead by the time another one looks."""
    monkeypatch.setattr("core.knowledge.rebuild.service.this_process", dead_process)
    return monkeypatch


def built(world: World) -> World:
    world.write("a.md", "word alpha")
    world.service().rebuild("REBUILD", who="ann")
    world.write("a.md", "word beta")
    return world


def assert_tidy(world: World) -> None:
    """The active generation and at most one before it: collections, rows, staged files, leases, alias."""
    active = world.generations.active("biz")
    assert active is not None
    kept = set(world.collections())
    assert active.collection in kept
    assert len(kept) <= 2
    assert {f"biz_g{number}" for number in world.rows()} == kept
    assert world.index.alias_target("biz", timeout=1) == active.collection
    assert not (world.uploads / ".staging").exists()
    assert world.runs.current("biz") is None
    assert world.runs.expired("biz") is None
    states = {g.state for g in world.generations.all("biz")}
    assert not states & {"PLANNED", "BUILDING", "SWITCHING", "VERIFIED"}


def kill_at(world: World, step: str) -> None:
    with pytest.raises(Killed):
        world.service(step=at_step(step, raising(Killed()))).rebuild("REBUILD", who="ann")


@pytest.mark.usefixtures("dying")
@pytest.mark.parametrize("step", BEFORE_SWITCH)
def test_a_death_before_the_switch_leaves_the_old_index_and_recovery_takes_the_new_one_away(
    world: World, step: str
) -> None:
    kill_at(built(world), step)
    assert world.found("alpha") == {"a"}
    world.service().recover()
    assert world.found("alpha") == {"a"}
    assert world.collections() == ["biz_g1"]
    assert_tidy(world)
    assert {run.state for run in world.runs.history("biz").rows if run.kind == "rebuild"} == {"ACTIVE", "INTERRUPTED"}
    world.service().rebuild("REBUILD", who="ann")
    assert world.found("beta") == {"a"}
    assert_tidy(world)


@pytest.mark.usefixtures("dying")
@pytest.mark.parametrize("step", FROM_SWITCH_ON)
def test_a_death_during_the_switch_is_finished_by_recovery(world: World, step: str) -> None:
    kill_at(built(world), step)
    assert world.found("word") == {"a"}
    world.service().recover()
    assert world.found("beta") == {"a"}
    assert world.found("alpha") == set()
    assert_tidy(world)
    world.service().rebuild("REBUILD", who="ann")
    assert_tidy(world)


@pytest.mark.usefixtures("dying")
@pytest.mark.parametrize("step", [*BEFORE_SWITCH, *FROM_SWITCH_ON])
def test_after_a_death_the_next_rebuild_works_without_a_restart_in_between(world: World, step: str) -> None:
    kill_at(built(world), step)
    outcome = world.service().rebuild("REBUILD", who="bob")
    assert outcome.state == "ACTIVE"
    assert world.found("beta") == {"a"}
    assert_tidy(world)


@pytest.mark.usefixtures("dying")
def test_every_step_of_a_rebuild_is_tried_above(world: World) -> None:
    seen: list[str] = []
    built(world).service(step=seen.append).rebuild("REBUILD", who="ann")
    assert set(seen) == {*BEFORE_SWITCH, *FROM_SWITCH_ON}
    assert {Step.GATE} == set(Step) - set(seen)


@pytest.mark.usefixtures("dying")
@pytest.mark.parametrize("step", [step for step in (*BEFORE_SWITCH, *FROM_SWITCH_ON) if step != "plan"])
def test_an_upload_that_dies_is_either_there_with_its_file_or_gone_with_it(world: World, step: str) -> None:
    built(world)
    with pytest.raises(Killed):
        world.service(step=at_step(step, raising(Killed()))).upload("new.md", b"zebra", who="ann")
    world.service().recover()
    came_through = step in FROM_SWITCH_ON
    assert world.found("zebra") == ({"new"} if came_through else set())
    assert (world.uploads / "new.md").exists() == came_through
    assert_tidy(world)


class Dying:
    """A store whose process dies right after its ``left``-th call that writes."""

    def __init__(self, real: Any, budget: list[int], names: tuple[str, ...]) -> None:
        self._real, self._budget, self._names = real, budget, names

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if name not in self._names:
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._budget[0] <= 0:
                raise Killed  # the dead do nothing
            answer = method(*args, **kwargs)
            self._budget[0] -= 1
            if self._budget[0] == 0:
                raise Killed
            return answer

        return call


@pytest.mark.usefixtures("dying")
def test_a_death_after_any_single_write_loses_nothing(world: World) -> None:
    built(world)
    writes = ("plan", "set_state", "switch", "put_documents", "put_chunks", "discard")
    admin_writes = ("create", "insert", "seal", "point_alias", "drop")
    for number in range(1, 100):
        budget = [number]
        service = world.service(
            generations=Dying(world.generations, budget, writes), admin=Dying(world.index, budget, admin_writes)
        )
        world.write("a.md", f"word edition{number:03d}x")
        try:
            service.rebuild("REBUILD", who="ann")
        except Killed:
            assert world.found("word") == {"a"}
            world.service().recover()
            assert world.found("word") == {"a"}
            assert_tidy(world)
        else:
            break
    assert 10 < number < 99  # every write of a whole run was the last one once


@pytest.mark.usefixtures("dying")
@pytest.mark.parametrize("step", ["warm", "switching", "switch", "alias"])
def test_a_roll_back_that_dies_is_done_or_undone(world: World, step: str) -> None:
    built(world).service().rebuild("REBUILD", who="ann")
    with pytest.raises(Killed):
        world.service(step=at_step(step, raising(Killed()))).rollback("ROLLBACK", who="ann")
    assert world.found("word") == {"a"}
    world.service().recover()
    assert world.found("alpha") == ({"a"} if step in FROM_SWITCH_ON else set())
    assert_tidy(world)


def test_a_living_holder_is_never_recovered_from(world: World) -> None:
    built(world)
    seen: list[list[str]] = []
    service = world.service(step=at_step("seal", lambda: seen.append(world.service().recover())))
    assert service.rebuild("REBUILD", who="ann").state == "ACTIVE"
    assert seen == [[]]


def test_recovery_finds_nothing_to_do_after_a_run_that_ended_well(world: World) -> None:
    assert world.service().recover() == []
    built(world)
    runs = len(world.runs.history("biz").rows)
    assert world.service().recover() == []
    assert len(world.runs.history("biz").rows) == runs


def test_an_alias_that_points_elsewhere_is_mended(world: World) -> None:
    built(world).service().rebuild("REBUILD", who="ann")
    world.index.point_alias("biz", "biz_g1", timeout=1)
    assert any("alias biz" in line for line in world.service().recover())
    assert world.index.alias_target("biz", timeout=1) == "biz_g2"


def test_an_alias_that_cannot_be_moved_does_not_undo_the_switch(world: World) -> None:
    built(world)
    world.index.failures["point_alias"] = StoreUnavailable("away")
    assert world.service().rebuild("REBUILD", who="ann").state == "ACTIVE"
    world.index.failures.clear()
    assert world.found("beta") == {"a"}
    world.service().recover()
    assert_tidy(world)


def test_a_collection_that_nobody_knows_is_left_alone_and_told(world: World) -> None:
    built(world)
    foreign = world.generations.get("biz", 1)
    assert foreign is not None
    world.index.create(replace(foreign, collection="biz_g2"), timeout=1)
    world.index.create(replace(foreign, collection="biz_eval_g1"), timeout=1)
    assert world.service().recover() == []
    assert any("biz_g2" in problem for problem in world.service().status().problems)
    assert world.service().rebuild("REBUILD", who="ann").generation == 3
    world.service().rebuild("REBUILD", who="ann")
    assert world.collections() == ["biz_eval_g1", "biz_g2", "biz_g3", "biz_g4"]


def test_the_store_that_lost_everything_is_told_and_a_rebuild_brings_it_back(world: World) -> None:
    built(world)
    world.index._collections.clear()
    world.index._aliases.clear()
    assert world.service().recover() == []
    assert any("is gone: rebuild" in problem for problem in world.service().status().problems)
    world.service().rebuild("REBUILD", who="ann")
    assert world.found("beta") == {"a"}
    assert world.service().status().previous is None


def test_a_holder_elsewhere_or_unreadable_is_not_declared_dead() -> None:
    assert not surely_dead(this_process())
    assert surely_dead(dead_process())
    assert not surely_dead("")
    assert not surely_dead("otherhost pid 1 [000000000000.1]")
    assert not surely_dead("host")


def test_a_lease_that_ran_out_is_taken_over_and_named(world: World) -> None:
    built(world)
    silent = world.runs.acquire("biz", holder="otherhost", who="eve", why="", ttl=0.0)
    outcome = world.service().rebuild("REBUILD", who="ann")
    run, old = world.runs.get(outcome.run_id), world.runs.get(silent.run_id)
    assert run is not None
    assert old is not None
    assert (run.took_over, old.state) == (silent.run_id, "INTERRUPTED")


def test_a_live_lease_elsewhere_refuses_and_names_its_holder(world: World) -> None:
    built(world)
    world.runs.acquire("biz", holder="otherhost", who="eve", why="", ttl=60.0)
    with pytest.raises(Busy, match=r"eve \(otherhost\)"):
        world.service().rebuild("REBUILD", who="ann")
    assert world.service().recover() == []
    assert world.found("alpha") == {"a"}


def test_a_run_whose_lease_was_taken_over_stops_and_touches_nothing_more(world: World) -> None:
    built(world)

    def steal() -> None:
        (current,) = [r for r in world.runs.history("biz").rows if r.held]
        world.runs.finish(current.run_id, GenerationState.INTERRUPTED)
        world.runs.acquire("biz", holder="otherhost", who="eve", why="", ttl=60.0)

    with pytest.raises(Busy, match="taken over"):
        world.service(step=at_step("verify", steal)).rebuild("REBUILD", who="ann")
    assert world.found("alpha") == {"a"}
    current = world.runs.current("biz")
    assert current is not None
    assert current.who == "eve"


def test_a_process_that_only_cannot_be_seen_is_not_declared_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    holder = dead_process()
    monkeypatch.setattr("core.knowledge.rebuild.holder._started", lambda pid: None)  # noqa: ARG005 - whichever it is
    assert not surely_dead(holder)
    gone = holder.replace(f"pid {os.getpid()} ", "pid 4194305 ")  # beyond the largest process number of Linux
    assert surely_dead(gone)
