"""Ingest, upload, remove: one document at a time, by a delta rebuild."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import BadInput, IndexNotReady, RebuildRefused, StoreUnavailable
from core.knowledge.rebuild.intake import checked_name
from core.model import evidence_key
from tests.unit.knowledge.rebuild.rebuild_world import World


@pytest.fixture
def built(world: World) -> World:
    """Two documents of the source folder, indexed."""
    world.write("a.md", "word alpha")
    world.write("b.md", "word beta")
    world.service().rebuild("REBUILD", who="ann")
    return world


def test_an_uploaded_document_is_found_by_its_own_word_and_survives_the_next_rebuild(built: World) -> None:
    outcome = built.service().upload("new.md", b"# New\n\nzebra word\n", who="ann", why="incident 7")
    assert (outcome.added, outcome.embedded, outcome.documents) == (("new",), 1, 3)
    assert built.found("zebra") == {"new"}
    assert built.found("word") == {"a", "b", "new"}
    assert (built.uploads / "new.md").read_bytes() == b"# New\n\nzebra word\n"
    assert built.service().drift().current
    built.service().rebuild("REBUILD", who="ann")
    assert built.found("zebra") == {"new"}
    assert not (built.uploads / ".staging").exists()


def test_an_upload_stands_in_for_the_source_document_of_its_id_until_it_is_removed(built: World) -> None:
    outcome = built.service().upload("a.md", b"word zebra", who="ann")
    assert (outcome.changed, outcome.added) == (("a",), ())
    assert built.found("alpha") == set()
    assert built.snapshots.current().revisions == {"a": 2, "b": 1}
    built.service().rebuild("REBUILD", who="ann")
    assert built.found("zebra") == {"a"}


def test_an_ingest_reads_only_what_is_named(built: World, tmp_path: Path) -> None:
    built.write("b.md", "word edited meanwhile")
    folder = tmp_path / "inbox"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "c.md").write_text("word gamma")
    (folder / "README.md").write_text("not read")
    outcome = built.service().ingest([folder], who="ann")
    assert (outcome.added, outcome.changed, outcome.embedded, outcome.from_cache) == (("deep/c",), (), 1, 2)
    assert built.found("gamma") == {"deep/c"}
    assert built.found("edited") == set()
    assert built.service().drift().changed == ("b",)


def test_a_file_of_the_source_folder_is_ingested_where_it_stands(built: World) -> None:
    built.write("b.md", "word edited")
    built.write("c.md", "word gamma")
    outcome = built.service().ingest([built.source / "b.md"], who="ann")
    assert outcome.changed == ("b",)
    assert built.found("edited") == {"b"}
    assert built.found("gamma") == set()
    assert not built.uploads.exists()


def test_what_stands_in_the_index_as_it_is_builds_nothing_and_says_so(built: World) -> None:
    outcome = built.service().ingest([built.source / "a.md", built.source / "b.md"], who="ann")
    assert (outcome.generation, outcome.previous, outcome.changed) == (1, 1, ())
    assert outcome.notes == ("nothing changed: all 2 files are as in the index already",)
    assert built.collections() == ["biz_g1"]


def test_a_file_that_did_not_change_is_not_counted_as_changed(built: World) -> None:
    built.write("b.md", "word edited")
    outcome = built.service().ingest([built.source / "a.md", built.source / "b.md"], who="ann")
    assert (outcome.changed, outcome.documents) == (("b",), 2)


def test_the_same_text_from_another_place_is_taken_from_there(built: World) -> None:
    outcome = built.service().upload("a.md", b"word alpha", who="ann")
    assert (outcome.generation, outcome.changed) == (2, ())
    assert (built.uploads / "a.md").is_file()


def test_case_49_a_removed_document_is_gone_from_everything_and_stays_gone(built: World) -> None:
    old = built.snapshots.current().generation
    outcome = built.service().remove("a", who="ann", why="wrong")
    assert outcome.removed == ("a",)
    now = built.snapshots.current()
    assert built.found("alpha") == set()
    assert built.found("word") == {"b"}
    assert built.index.fetch(now.generation, [evidence_key("a", 0)], timeout=1) == {}
    assert now.revisions == {"b": 1}
    assert built.generations.chunks("biz", now.generation.number, "a") == []
    assert now.generation.number != old.number
    assert (built.source / "a.md").read_text() == "word alpha"
    built.service().rebuild("REBUILD", who="ann")
    assert built.found("alpha") == set()
    (skipped,) = built.service().dry_run().skipped
    assert "removed on" in skipped.reason
    assert "by ann" in skipped.reason
    assert built.service().drift().current


def test_a_removed_document_comes_back_when_it_is_ingested_again(built: World) -> None:
    built.service().remove("a", who="ann")
    built.service().ingest([built.source / "a.md"], who="ann")
    assert built.found("alpha") == {"a"}
    built.service().rebuild("REBUILD", who="ann")
    assert built.found("alpha") == {"a"}
    assert built.snapshots.current().revisions["a"] == 1


def test_removing_an_upload_deletes_its_file(built: World) -> None:
    built.service().upload("new.md", b"zebra", who="ann")
    built.service().remove("new", who="ann")
    assert built.found("zebra") == set()
    assert not (built.uploads / "new.md").exists()
    assert not (built.uploads / ".removed.json").exists()


def test_removing_what_is_not_there_builds_nothing_and_says_so(built: World) -> None:
    outcome = built.service().remove("nowhere", who="ann")
    assert (outcome.generation, outcome.removed) == (1, ())
    assert "nowhere" in outcome.notes[0]
    assert built.collections() == ["biz_g1"]


def test_the_last_document_can_be_removed(world: World) -> None:
    world.write("a.md", "word")
    world.service().rebuild("REBUILD", who="ann")
    assert world.service().remove("a", who="ann").documents == 0
    assert world.found("word") == set()


def test_case_127_an_edit_keeps_the_ids_of_untouched_chunks_and_leaves_no_twins(world: World) -> None:
    sections = [f"## Part {word}\n\n" + f"{word} " * 90 for word in ("alpaca", "badger", "camel")]
    world.write("a.md", "# Doc\n\n" + "\n\n".join(sections))
    world.service().rebuild("REBUILD", who="ann")
    before = {c.evidence_key: c.content for c in world.generations.chunks("biz", 1)}
    assert len(before) >= 3
    world.write("a.md", "# Doc\n\n" + "\n\n".join([sections[0], "## Part\n\n" + "rewritten " * 70, sections[2]]))
    world.service().ingest([world.source / "a.md"], who="ann")
    active = world.snapshots.current().generation
    after = world.index.fetch(active, list(before), timeout=1)
    assert set(after) == set(before)
    assert {k for k in before if after[k].chunk.content == before[k]} == {"a#chunk-0", "a#chunk-2"}
    assert world.index.ids(active, timeout=1) == frozenset(
        c.evidence_key for c in world.generations.chunks("biz", active.number)
    )
    assert world.found("badger") == set()


def test_files_that_cannot_be_used_are_listed_and_the_others_go_in(built: World, tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    (folder / "good.md").write_text("zebra")
    (folder / "bad.md").write_text("---\ntitle: [\n---\ntext")
    outcome = built.service().ingest([folder], who="ann")
    assert [(r.source, r.line is not None) for r in outcome.rejected] == [("bad.md", True)]
    assert built.found("zebra") == {"good"}
    assert sorted(p.name for p in built.uploads.iterdir()) == ["good.md"]


@pytest.mark.parametrize("data", [b"", b"   \n", b"---\ntitle: x\n---\n", b"<!-- only this -->", b"\xff\xfe\xff"])
def test_case_13_a_document_without_text_is_refused_and_the_earlier_version_stays(built: World, data: bytes) -> None:
    with pytest.raises(BadInput, match=r"nothing was ingested: a\.md"):
        built.service().upload("a.md", data, who="ann")
    assert built.found("alpha") == {"a"}
    assert not (built.uploads / "a.md").exists()
    assert built.collections() == ["biz_g1"]


def test_a_rejected_file_and_what_is_kept_of_it_stay_listed_after_a_daily_write(built: World) -> None:
    built.write("a.md", "")
    assert built.service().rebuild("REBUILD", who="ann").kept == ("a",)
    outcome = built.service().upload("new.md", b"zebra", who="ann")
    assert outcome.rejected == ()
    status = built.service().status()
    assert status.kept == ("a",)
    assert [r.source for r in status.rejected] == ["a.md"]
    assert built.found("alpha") == {"a"}
    built.service().remove("a", who="ann")
    assert built.service().status().kept == ()
    assert built.service().rebuild("REBUILD", who="ann").kept == ()


def test_a_failed_ingest_leaves_nothing_in_the_uploads(built: World) -> None:
    built.index.failures["insert"] = IndexNotReady("gone")
    with pytest.raises(IndexNotReady):
        built.service().upload("new.md", b"zebra", who="ann")
    built.index.failures.clear()
    assert not list(built.uploads.iterdir())
    assert built.service().drift().current


def test_a_daily_write_needs_an_index_and_the_settings_it_was_built_with(world: World) -> None:
    world.write("a.md", "word")
    with pytest.raises(IndexNotReady, match="no active index"):
        world.service().upload("new.md", b"zebra", who="ann")
    world.service().rebuild("REBUILD", who="ann")
    knowledge = world.settings.knowledge.model_copy(update={"chunk_target": 400})
    world.settings = world.settings.model_copy(update={"knowledge": knowledge})
    with pytest.raises(RebuildRefused, match="chunk settings"):
        world.service().remove("a", who="ann")


@pytest.mark.parametrize(
    "name",
    ["", "..", "../a.md", "a/../../b.md", "/etc/a.md", "..\\a.md", "C:/a.md", ".hidden.md", "x/.git/a.md", ".md",
     "a.txt", "README.md", "x/readme.MD", "a\n.md", "a\0.md", "x" * 500 + ".md", "\udc00.md"],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_or_is_never_read_is_refused(built: World, name: str) -> None:
    with pytest.raises(BadInput):
        built.service().upload(name, b"zebra", who="ann")
    assert built.found("zebra") == set()
    assert not built.uploads.exists() or not list(built.uploads.iterdir())


def test_a_name_is_brought_into_the_form_of_ids() -> None:
    assert checked_name("re\u0301sume\u0301.md") == "résumé.md"
    assert checked_name("a\\b.md") == "a/b.md"


@pytest.mark.parametrize("paths", [[], ["missing.md"], ["note.txt"]])
def test_paths_that_name_no_markdown_are_refused(built: World, tmp_path: Path, paths: list[str]) -> None:
    (tmp_path / "note.txt").write_text("text")
    with pytest.raises(BadInput):
        built.service().ingest([tmp_path / p for p in paths], who="ann")


def test_tombstones_that_cannot_be_read_stop_a_rebuild_instead_of_bringing_documents_back(built: World) -> None:
    built.service().remove("a", who="ann")
    (built.uploads / ".removed.json").write_text("{")
    with pytest.raises(BadInput, match=r"\.removed\.json"):
        built.service().rebuild("REBUILD", who="ann")
    assert built.found("alpha") == set()


def test_a_place_where_no_file_can_stand_is_refused_before_anything_is_built(built: World) -> None:
    built.service().upload("x.md/y.md", b"zebra", who="ann")
    (built.uploads / "out").symlink_to(built.folder)
    for name in ("x.md", "x.md/y.md/z.md", "out/a.md"):
        with pytest.raises(BadInput):
            built.service().upload(name, b"lion", who="ann")
    assert built.found("lion") == set()
    assert built.service().drift().current


def test_an_uploads_folder_that_cannot_be_written_is_named(built: World) -> None:
    built.uploads.write_text("a file stands where the folder belongs")
    with pytest.raises(StoreUnavailable, match="uploads"):
        built.service().upload("new.md", b"zebra", who="ann")
    assert built.found("word") == {"a", "b"}


def test_uploads_inside_the_source_are_refused_since_each_would_be_two_documents(built: World) -> None:
    knowledge = built.settings.knowledge.model_copy(update={"uploads": str(built.source / "uploads")})
    built.settings = built.settings.model_copy(update={"knowledge": knowledge})
    with pytest.raises(BadInput, match="inside each other"):
        built.service().rebuild("REBUILD", who="ann")


def test_a_folder_of_the_source_lists_what_is_rejected_in_it(built: World) -> None:
    built.write("deep/good.md", "zebra")
    (built.source / "deep" / "link.md").symlink_to("/etc/hostname")
    (built.source / "other.md").symlink_to("/etc/hostname")
    outcome = built.service().ingest([built.source / "deep"], who="ann")
    assert outcome.added == ("deep/good",)
    assert [r.source for r in outcome.rejected] == ["deep/link.md"]


def test_case_117_a_link_is_not_ingested_wherever_it_leads(built: World, tmp_path: Path) -> None:
    secret = tmp_path / "outside" / "secret.md"
    secret.parent.mkdir()
    secret.write_text("# Outside\n\nCANARY-SECRET\n", encoding="utf-8")
    for link in (built.source / "leak.md", tmp_path / "leak.md"):
        link.symlink_to(secret)
        with pytest.raises(BadInput, match="a link"):
            built.service().ingest([link], who="ann")
    assert built.found("CANARY-SECRET") == set()
