"""Lookups beside rebuilds, rivals, cancelling, failures half-way."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from core.analysis import search_text
from core.errors import BadInput, Busy, ModelUnavailable, NotConfirmed, RebuildRefused, StoreUnavailable
from core.knowledge.rebuild import Progress
from core.model import GenerationState
from tests.fakes import HashEmbedder
from tests.unit.knowledge.rebuild.rebuild_world import ALL, World, at_step


class Looking:
    """Lookups all the time, as a lookup does it: the generation once, then every branch on it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stop = threading.Event()
        self.failures: list[str] = []
        self.seen: list[frozenset[str]] = []
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Looking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        world = self._world
        vector = world.embedder.embed_query("word", timeout=1)
        while not self._stop.is_set():
            try:
                snapshot = world.snapshots.current()
                number = snapshot.generation
                hits = [
                    *world.index.search_bm25(number, search_text("word"), ALL, 50, timeout=1).hits,
                    *world.index.search_dense(number, vector, ALL, 50, timeout=1).hits,
                ]
                self.seen.append(frozenset(hit.chunk.content for hit in hits))
                if any(snapshot.revisions.get(hit.chunk.doc_id) != hit.chunk.revision for hit in hits):
                    self.failures.append("a hit of another revision")
            except Exception as exc:  # noqa: BLE001 - whatever it is, a lookup failed
                self.failures.append(repr(exc))


def test_lookups_during_twenty_rebuilds_never_fail_and_never_see_two_generations(world: World) -> None:
    world.settings = world.settings.model_copy(
        update={"knowledge": world.settings.knowledge.model_copy(update={"drop_after_seconds": 30.0})}
    )
    editions = []

    def write(edition: int) -> None:
        texts = [f"word {name} edition {edition}" for name in ("a", "b", "c")]
        editions.append(frozenset(texts))
        for name, text in zip(("a", "b", "c"), texts, strict=True):
            world.write(f"{name}.md", text)

    write(0)
    world.service().rebuild("REBUILD", who="ann")
    with Looking(world) as looking:
        for edition in range(1, 21):
            write(edition)
            world.service().rebuild("REBUILD", who="ann")
    assert looking.failures == []
    assert set(looking.seen) <= set(editions)
    assert len(set(looking.seen)) > 1


class FailsAt(HashEmbedder):
    """Raises on the ``number``-th passage."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def embed_passages(self, texts: Sequence[str], *, timeout: float) -> Any:
        if self.passages_embedded + len(texts) >= self._number:
            raise ModelUnavailable("the model died; start it again")
        return super().embed_passages(texts, timeout=timeout)


def settings_with(world: World, section: str, **values: Any) -> None:
    part = getattr(world.settings, section).model_copy(update=values)
    world.settings = world.settings.model_copy(update={section: part})


def test_case_85_a_model_that_fails_half_way_takes_nothing_from_the_lookups(world: World) -> None:
    world.write("old.md", "word old")
    world.service().rebuild("REBUILD", who="ann")
    for number in range(10):
        world.write(f"doc{number}.md", f"word new {number}")
    settings_with(world, "embedding", batch_size=1)
    with Looking(world) as looking, pytest.raises(ModelUnavailable):
        world.service(embedder=FailsAt(7)).rebuild("REBUILD", who="ann", why="more")
    assert looking.failures == []
    assert world.found("word") == {"old"}
    assert set(looking.seen) <= {frozenset({"word old"})}
    failed = world.generations.get("biz", 2)
    assert failed is not None
    assert failed.state is GenerationState.FAILED
    assert world.collections() == ["biz_g1"]
    assert world.rows() == {1}
    run = world.runs.history("biz").rows[0]
    assert run.state == "FAILED"
    assert "the model died" in run.outcome["error"]
    assert world.generations.active_number("biz") == 1
    # what was embedded before the failure is not embedded again
    assert world.service().rebuild("REBUILD", who="ann").embedded < 10


@pytest.mark.parametrize("call", ["create", "insert", "seal", "ids", "count", "search_dense", "search_bm25", "warm"])
def test_case_85_a_store_that_stops_half_way_takes_nothing_from_the_lookups(world: World, call: str) -> None:
    world.write("a.md", "word old")
    world.service().rebuild("REBUILD", who="ann")
    world.write("a.md", "word new")
    world.index.failures[call] = StoreUnavailable("the store stopped; start it again")
    with pytest.raises(StoreUnavailable):
        world.service().rebuild("REBUILD", who="ann")
    world.index.failures.clear()
    assert world.found("word") == {"a"}
    assert world.found("old") == {"a"}
    assert world.collections() == ["biz_g1"]
    assert world.service().rebuild("REBUILD", who="ann").state == "ACTIVE"


def test_case_85_leftovers_that_could_not_be_dropped_go_with_the_next_run(world: World) -> None:
    world.write("a.md", "word old")
    world.service().rebuild("REBUILD", who="ann")
    for call in ("seal", "drop"):
        world.index.failures[call] = StoreUnavailable("the store stopped")
    with pytest.raises(StoreUnavailable):
        world.service().rebuild("REBUILD", who="ann")
    assert world.collections() == ["biz_g1", "biz_g2"]
    world.index.failures.clear()
    assert any("generation 2 (FAILED) is gone" in line for line in world.service().recover())
    assert world.collections() == ["biz_g1"]


def test_case_86_of_three_that_press_at_once_one_runs_and_two_are_told_who_holds_it(world: World) -> None:
    world.write("a.md", "word")
    ready = threading.Barrier(3)
    others = threading.Event()
    done: list[object] = []

    def press(who: str) -> None:
        service = world.service(step=at_step("scan", lambda: others.wait(10)))
        ready.wait()
        try:
            done.append(service.rebuild("REBUILD", who=who))
        except Busy as exc:
            done.append(exc)
            if len(done) == 2:
                others.set()

    threads = [threading.Thread(target=press, args=(who,)) for who in ("ann", "bob", "cli")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [d for d in done if isinstance(d, Busy)]
    assert len(refused) == 2
    (run,) = world.runs.history("biz").rows
    assert all(f"by {run.who}" in str(refusal) for refusal in refused)
    assert world.collections() == ["biz_g1"]


def test_work_started_on_a_thread_is_seen_by_every_process_and_its_record_tells_the_end(world: World) -> None:
    world.write("a.md", "word")
    go, arrived = threading.Event(), threading.Event()

    def pause() -> None:
        arrived.set()
        go.wait(10)

    service = world.service(step=at_step("seal", pause))
    run_id = service.start("rebuild", "REBUILD", who="ann", why="page")
    assert arrived.wait(10)
    running = world.service().running()
    assert running is not None
    assert (running.run_id, running.stage, running.who, running.generation) == (run_id, "seal", "ann", 1)
    with pytest.raises(Busy, match="ann"):
        service.start("rebuild", "REBUILD", who="ann")
    go.set()
    run = wait_for_end(world, run_id)
    assert (run.state, run.outcome["documents"]) == ("ACTIVE", 1)
    assert [line.stage for line in run.log][:3] == ["scan", "plan", "build"]
    assert world.service().running() is None
    assert [r.run_id for r in service.history()] == [run_id]


def wait_for_end(world: World, run_id: str) -> Any:
    for _ in range(1000):
        run = world.service().run(run_id)
        if run is not None and not run.held:
            return run
        threading.Event().wait(0.01)
    raise AssertionError("the run did not end")


@pytest.mark.parametrize("kind", ["recover", "nothing", ""])
def test_what_cannot_be_started_by_hand_is_refused(world: World, kind: str) -> None:
    with pytest.raises(BadInput):
        world.service().start(kind, "REBUILD", who="ann")
    with pytest.raises(BadInput):
        world.service().start("rebuild", "REBUILD", who="ann", no_such_option=1)
    with pytest.raises(NotConfirmed):
        world.service().start("rebuild", "", who="ann")
    assert world.runs.history("biz").rows == ()


def test_every_kind_of_daily_work_can_be_started(world: World) -> None:
    world.write("a.md", "word alpha")
    service = world.service()
    wait_for_end(world, service.start("rebuild", "REBUILD", who="ann"))
    wait_for_end(world, service.start("upload", who="ann", contents={"new.md": b"zebra"}))
    assert world.found("zebra") == {"new"}
    wait_for_end(world, service.start("remove", who="ann", doc_id="a"))
    assert world.found("alpha") == set()
    wait_for_end(world, service.start("rollback", "ROLLBACK", who="ann"))
    assert world.found("alpha") == {"a"}
    failed = wait_for_end(world, service.start("ingest", who="ann", paths=(world.folder / "missing.md",)))
    assert failed.state == "FAILED"
    assert "missing.md" in failed.outcome["error"]


@pytest.mark.parametrize("step", ["plan", "create", "fill", "seal", "verify", "warm", "switching"])
def test_a_cancelled_rebuild_leaves_nothing_behind(world: World, step: str) -> None:
    world.write("a.md", "word old")
    world.service().rebuild("REBUILD", who="ann")
    world.write("a.md", "word new")

    def cancel() -> None:
        (current,) = [r for r in world.runs.history("biz").rows if r.held]
        assert service.cancel(current.run_id, who="bob")

    service = world.service(step=at_step(step, cancel))
    with pytest.raises(RebuildRefused, match="cancelled"):
        service.rebuild("REBUILD", who="ann")
    assert world.found("old") == {"a"}
    assert world.collections() == ["biz_g1"]
    assert world.rows() == {1}
    run = world.runs.history("biz").rows[0]
    assert (run.state, run.cancelled_by, run.held) == ("CANCELLED", "bob", False)
    assert not service.cancel(run.run_id, who="bob")
    assert world.service().rebuild("REBUILD", who="ann").state == "ACTIVE"


def test_a_cancel_from_another_process_is_heard_before_the_switch(world: World) -> None:
    world.write("a.md", "word")

    def cancel() -> None:
        (current,) = [r for r in world.runs.history("biz").rows if r.held]
        world.service().cancel(current.run_id, who="bob")

    with pytest.raises(RebuildRefused, match="cancelled"):
        world.service(step=at_step("warm", cancel)).rebuild("REBUILD", who="ann")
    assert world.collections() == []


def test_progress_counts_up_to_the_number_of_chunks_and_names_each_step(world: World) -> None:
    for number in range(3):
        world.write(f"{number}.md", f"word {number}")
    told: list[Progress] = []
    world.service().rebuild("REBUILD", who="ann", progress=told.append)
    filling = [p for p in told if p.step == "fill"]
    assert (filling[0].done, filling[-1].done) == (0, 3)
    assert {p.total for p in filling} == {3}
    assert all(a.done <= b.done for a, b in itertools.pairwise(filling))  # type: ignore[operator]
    assert [*dict.fromkeys(p.step for p in told)][:4] == ["scan", "plan", "build", "create"]
