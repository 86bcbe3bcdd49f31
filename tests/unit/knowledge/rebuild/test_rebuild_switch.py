"""Roll-back, held generations, the gate."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.errors import CheckFailed, NotConfirmed, NotFound, RebuildRefused
from core.model import GenerationState
from tests.unit.knowledge.rebuild.rebuild_world import World


def build(world: World, word: str, **options: object) -> int:
    world.write("a.md", f"# Doc\n\n{word}\n")
    outcome = world.service().rebuild("REBUILD", who="ann", **options)  # type: ignore[arg-type]
    assert outcome.generation is not None
    return outcome.generation


def test_a_roll_back_returns_to_the_previous_generation_and_a_second_one_comes_back(world: World) -> None:
    first, second = build(world, "alpha"), build(world, "beta")
    outcome = world.service().rollback("ROLLBACK", who="ann", why="beta is wrong")
    assert (outcome.generation, outcome.previous, outcome.state) == (first, second, "ACTIVE")
    assert world.found("alpha") == {"a"}
    assert world.found("beta") == set()
    assert world.index.alias_target("biz", timeout=1) == "biz_g1"
    assert world.service().rollback("ROLLBACK", who="ann").generation == second
    assert world.found("beta") == {"a"}


def test_a_roll_back_without_a_previous_generation_is_refused(world: World) -> None:
    with pytest.raises(NotFound, match="no previous generation"):
        world.service().rollback("ROLLBACK", who="ann")
    build(world, "alpha")
    with pytest.raises(NotFound, match="no previous generation"):
        world.service().rollback("ROLLBACK", who="ann")
    assert world.found("alpha") == {"a"}


def test_a_roll_back_to_a_collection_that_lost_rows_is_refused(world: World) -> None:
    build(world, "alpha")
    build(world, "beta")
    world.index._collections["biz_g1"].rows.clear()
    with pytest.raises(CheckFailed, match="should hold 1 chunks, its collection has 0"):
        world.service().rollback("ROLLBACK", who="ann")
    assert world.found("beta") == {"a"}


@pytest.mark.parametrize("word", ["", "rollback", "SWITCH", "REBUILD"])
def test_other_words_do_not_roll_back(world: World, word: str) -> None:
    build(world, "alpha")
    build(world, "beta")
    with pytest.raises(NotConfirmed, match="ROLLBACK"):
        world.service().rollback(word, who="ann")
    assert world.found("beta") == {"a"}


def test_a_held_generation_stands_beside_the_active_one_until_it_is_switched_to(world: World) -> None:
    build(world, "alpha")
    held = build(world, "beta", hold=True)
    assert world.found("alpha") == {"a"}
    assert world.snapshots.of(held).generation.state is GenerationState.VERIFIED
    assert [g.number for g in world.service().status().held] == [held]
    with pytest.raises(NotConfirmed, match="SWITCH"):
        world.service().switch("REBUILD", who="ann")
    assert world.service().switch("SWITCH", who="ann").generation == held
    assert world.found("beta") == {"a"}
    assert world.service().status().held == ()


def test_a_held_generation_survives_a_restart(world: World) -> None:
    build(world, "alpha")
    held = build(world, "beta", hold=True)
    assert world.service().recover() == []
    assert [g.number for g in world.service().status().held] == [held]


def test_a_held_generation_that_something_newer_overtook_is_taken_away(world: World) -> None:
    build(world, "alpha")
    held = build(world, "beta", hold=True)
    build(world, "gamma")
    assert world.collections() == ["biz_g1", "biz_g3"]
    with pytest.raises(NotFound, match=f"generation {held} is not held"):
        world.service().switch("SWITCH", who="ann", generation=held)
    with pytest.raises(NotFound, match="no generation is held"):
        world.service().switch("SWITCH", who="ann")


def test_a_generation_that_fails_what_the_active_one_passes_does_not_take_over(world: World) -> None:
    world.settings = world.settings.model_copy(
        update={"knowledge": world.settings.knowledge.model_copy(update={"golden_gate": True})}
    )
    asked: list[tuple[int, int | None]] = []

    def gate(new: int, old: int | None) -> list[str]:
        asked.append((new, old))
        return ["case 7 lost its evidence", "case 9 too"] if old else []

    service = world.service(gate=gate)
    world.write("a.md", "alpha")
    service.rebuild("REBUILD", who="ann")
    world.write("a.md", "beta")
    with pytest.raises(RebuildRefused, match="case 7 lost its evidence \\[and 1 more\\]"):
        service.rebuild("REBUILD", who="ann")
    assert asked == [(1, None), (2, 1)]
    assert world.found("alpha") == {"a"}
    assert world.collections() == ["biz_g1"]
    assert world.rows() == {1}
    failed = world.generations.get("biz", 2)
    assert failed is not None
    assert failed.state is GenerationState.FAILED
    assert service.rebuild("REBUILD", who="ann", skip_gate=True).state == "ACTIVE"


def test_a_held_generation_stays_held_when_the_gate_says_no(world: World) -> None:
    build(world, "alpha")
    held = build(world, "beta", hold=True)
    world.settings = world.settings.model_copy(
        update={"knowledge": world.settings.knowledge.model_copy(update={"golden_gate": True})}
    )
    service = world.service(gate=lambda new, old: [f"{new} against {old}"])
    with pytest.raises(RebuildRefused, match=f"{held} against 1"):
        service.switch("SWITCH", who="ann")
    assert [g.number for g in service.status().held] == [held]
    assert service.switch("SWITCH", who="ann", skip_gate=True).generation == held


def test_an_older_generation_goes_only_when_no_lookup_can_hold_it_any_more(world: World) -> None:
    world.settings = world.settings.model_copy(
        update={"knowledge": world.settings.knowledge.model_copy(update={"drop_after_seconds": 60.0})}
    )
    for word in ("alpha", "beta", "gamma"):
        build(world, word)
    assert world.collections() == ["biz_g1", "biz_g2", "biz_g3"]
    assert world.service().recover() == []
    world.clock.ahead = timedelta(seconds=61)
    assert any("generation 1 (RETIRED) is gone" in line for line in world.service().recover())
    assert world.collections() == ["biz_g2", "biz_g3"]
    assert world.service().rollback("ROLLBACK", who="ann").generation == 2


def test_a_roll_back_leaves_the_uploads_as_they_are(world: World) -> None:
    build(world, "alpha")
    world.service().upload("x.md", b"zebra", who="ann")
    world.service().remove("x", who="ann")
    world.service().upload("x.md", b"zebra again", who="ann")
    world.service().rollback("ROLLBACK", who="ann")
    assert world.found("zebra") == set()
    assert (world.uploads / "x.md").read_bytes() == b"zebra again"
    assert world.service().drift().added == ("x",)
    world.service().rebuild("REBUILD", who="ann")
    assert world.found("zebra") == {"x"}
