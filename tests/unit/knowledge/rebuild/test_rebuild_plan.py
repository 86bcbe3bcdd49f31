"""Dry run, drift, the guard against shrinking."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadInput, ProfileMismatch, RebuildRefused
from core.knowledge.rebuild.plan import duration, faster, measured_rate, shrinks
from core.knowledge.rebuild.values import Plan
from core.model import EmbeddingProfile
from core.stores import RebuildRun
from tests.fakes import HashEmbedder
from tests.unit.knowledge.rebuild.rebuild_world import World

PROFILE = EmbeddingProfile("p/8", "p", 8)


def test_a_dry_run_sorts_every_file_and_writes_nothing(world: World) -> None:
    for name in ("same", "edited", "gone"):
        world.write(f"{name}.md", f"# {name}\n\nword {name}\n")
    world.service().rebuild("REBUILD", who="ann")
    world.write("edited.md", "# edited\n\nother words\n")
    world.write("new.md", "# new\n\nword\n")
    world.write("bad.md", "---\ntitle: [\n---\ntext\n")
    (world.source / "gone.md").unlink()
    plan = world.service().dry_run()
    assert plan.added == ("new",)
    assert plan.changed == ("edited",)
    assert plan.removed == ("gone",)
    assert plan.unchanged == ("same",)
    assert [(r.source, r.line is not None) for r in plan.rejected] == [("bad.md", True)]
    assert (plan.documents, plan.documents_before, plan.chunks) == (3, 3, 3)
    assert (plan.to_embed, plan.from_cache) == (2, 1)
    assert world.collections() == ["biz_g1"]
    assert len(world.runs.history("biz").rows) == 1


def test_a_dry_run_over_an_empty_folder_says_that_it_would_be_refused(world: World) -> None:
    plan = world.service().dry_run()
    assert (plan.documents, plan.chunks, plan.documents_before) == (0, 0, None)
    assert plan.refused is not None


def test_nothing_has_drifted_right_after_a_rebuild_and_then_each_change_shows(world: World) -> None:
    for name in ("same", "touched", "edited", "gone"):
        world.write(f"{name}.md", f"word {name}")
    service = world.service()
    assert service.drift().generation is None
    service.rebuild("REBUILD", who="ann")
    assert service.drift().current
    os.utime(world.source / "touched.md", (1, 1))
    assert service.drift().current
    world.write("edited.md", "other words")
    world.write("new.md", "word")
    world.write("bad.md", "")
    (world.source / "gone.md").unlink()
    drift = service.drift()
    assert (drift.added, drift.changed, drift.removed) == (("new",), ("edited",), ("gone",))
    assert [r.source for r in drift.rejected] == ["bad.md"]
    assert not drift.current


def test_drift_reads_a_file_that_was_only_touched_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("a.md", "word")
    service = world.service()
    service.rebuild("REBUILD", who="ann")
    os.utime(world.source / "a.md", (1, 1))
    assert service.drift().current
    monkeypatch.setattr("core.knowledge.rebuild.drift.load_file", lambda file: pytest.fail(f"read {file} again"))
    assert service.drift().current


def test_a_file_that_cannot_be_used_any_more_is_no_removal(world: World) -> None:
    world.write("a.md", "word")
    world.write("b.md", "word")
    service = world.service()
    service.rebuild("REBUILD", who="ann")
    world.write("a.md", "")
    drift = service.drift()
    assert drift.removed == ()
    assert [r.source for r in drift.rejected] == ["a.md"]


def test_other_chunk_settings_demand_a_rebuild(world: World) -> None:
    world.write("a.md", "word")
    world.service().rebuild("REBUILD", who="ann")
    knowledge = world.settings.knowledge.model_copy(update={"chunk_target": 400})
    world.settings = world.settings.model_copy(update={"knowledge": knowledge})
    (demand,) = world.service().drift().demands
    assert "chunk settings" in demand
    assert "400" in demand
    assert world.service().dry_run().demands == (demand,)


@pytest.mark.parametrize(
    ("documents", "kept", "before", "refused"),
    [(0, 0, 0, True), (0, 0, 9, True), (9, 9, 9, True), (4, 0, 9, True), (5, 0, 9, False), (1, 0, 0, False)],
)
def test_no_documents_or_fewer_than_half_are_too_few(documents: int, kept: int, before: int, refused: bool) -> None:
    assert (shrinks(documents, kept, before, 0.5) is not None) == refused


def test_case_89_a_source_that_lost_its_files_wipes_nothing(world: World, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        world.write(f"{name}.md", f"word {name}")
    service = world.service()
    service.rebuild("REBUILD", who="ann")
    empty, broken = tmp_path / "empty", tmp_path / "broken"
    empty.mkdir()
    broken.mkdir()
    for name in ("a", "b", "c"):
        (broken / f"{name}.md").write_text("")
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "a.md").write_text("word a")
    for folder, said in ((empty, "no usable document"), (broken, "no usable document"), (tmp_path / "few", "1 usable")):
        with pytest.raises(RebuildRefused, match=said) as refusal:
            service.rebuild("REBUILD", who="ann", source=folder)
        assert "3" in str(refusal.value)
    with pytest.raises(BadInput, match="no such folder"):
        service.rebuild("REBUILD", who="ann", source=tmp_path / "unmounted")
    assert world.found("word") == {"a", "b", "c"}
    assert world.collections() == ["biz_g1"]
    assert service.rebuild("REBUILD", who="ann", source=tmp_path / "few", allow_shrink=True).removed == ("b", "c")
    assert world.found("word") == {"a"}


def test_case_89_an_empty_index_is_possible_when_it_is_asked_for(world: World) -> None:
    world.write("a.md", "word")
    world.service().rebuild("REBUILD", who="ann")
    (world.source / "a.md").unlink()
    outcome = world.service().rebuild("REBUILD", who="ann", allow_shrink=True)
    assert (outcome.state, outcome.documents, outcome.chunks) == ("ACTIVE", 0, 0)
    assert world.found("word") == set()


def test_case_90_another_model_demands_a_rebuild_and_embeds_everything_anew(world: World) -> None:
    world.write("a.md", "word one")
    world.embedder = HashEmbedder(8, "a")
    world.service().rebuild("REBUILD", who="ann")
    for other in (HashEmbedder(16, "b"), HashEmbedder(8, "c")):
        world.embedder = other
        with pytest.raises(ProfileMismatch, match="rebuild"):
            world.snapshots.current()
        assert any("embedding profile" in demand for demand in world.service().drift().demands)
        outcome = world.service().rebuild("REBUILD", who="ann")
        assert (outcome.embedded, outcome.from_cache) == (1, 0)
        active = world.generations.active("biz")
        assert active is not None
        assert active.profile == other.profile
        assert world.service().drift().current


def run_of(**outcome: Any) -> RebuildRun:
    moment = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    return RebuildRun("r", "biz", "rebuild", "", "", "", "ACTIVE", moment, moment, moment, False, outcome=outcome)


def test_the_rate_is_the_last_one_measured_with_this_profile() -> None:
    other = run_of(profile="q/8", embedded=100, embed_seconds=1.0)
    few = run_of(profile="p/8", embedded=2, embed_seconds=1.0)
    good = run_of(profile="p/8", embedded=100, embed_seconds=40.0)
    assert measured_rate([other, few, good], PROFILE)[0] == 100 / 40.0
    assert measured_rate([other, few], PROFILE)[0] is None
    assert measured_rate([], EmbeddingProfile("p/8", "p", 8, passages_per_second=3.0))[0] == 3.0


def test_the_time_is_that_of_the_slower_of_embedding_and_insertion() -> None:
    assert duration(100, 100, 2.0) == 100 / 2.0
    assert duration(100, 30_000, 2.0) == 30_000 / 300.0
    assert duration(0, 300, None) == 300 / 300.0
    assert duration(1, 300, None) is None


def test_a_faster_profile_is_named_only_where_the_estimate_is_long() -> None:
    assert faster("e5", Plan(chunks=3000, seconds=1200.0)) == ("use", 3000 / 30.0)
    assert faster("e5", Plan(chunks=30, seconds=12.0)) is None
    assert faster("use", Plan(chunks=3000, seconds=1200.0)) is None
    assert faster("e5", Plan(chunks=3000, seconds=None)) is None


def test_a_text_that_stands_there_twice_is_embedded_once_and_is_not_called_cached(world: World) -> None:
    for name in ("a", "b", "c"):
        world.write(f"{name}.md", "---\ntitle: Same\n---\nthe same words\n")
    plan = world.service().dry_run()
    assert (plan.chunks, plan.to_embed, plan.from_cache) == (3, 1, 0)
    world.service().rebuild("REBUILD", who="ann")
    plan = world.service().dry_run()
    assert (plan.chunks, plan.to_embed, plan.from_cache) == (3, 0, 3)
