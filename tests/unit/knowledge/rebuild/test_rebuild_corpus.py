"""Each file is in the index, or on a list with its reason."""

from __future__ import annotations

import pytest

from core.knowledge.rebuild.corpus import whole
from core.knowledge.rebuild.rows import next_revision
from core.knowledge.source import Rejected, SourceListing
from core.model import Document
from tests.unit.knowledge.rebuild.rebuild_world import World


def with_knowledge(world: World, **values: object) -> World:
    part = world.settings.knowledge.model_copy(update=values)
    world.settings = world.settings.model_copy(update={"knowledge": part})
    return world


def test_case_13_files_with_nothing_to_index_are_listed_and_their_neighbours_load(world: World) -> None:
    texts = {"empty": "", "blank": "  \n\u3000\n", "meta": "---\ntitle: x\n---\n", "comment": "<!-- nothing -->\n"}
    for name, text in texts.items():
        world.write(f"{name}.md", text)
    world.write("good.md", "word")
    outcome = world.service().rebuild("REBUILD", who="ann")
    assert outcome.documents == 1
    assert {r.source: "no indexable text" in r.reason for r in outcome.rejected} == {f"{n}.md": True for n in texts}
    assert [r.source for r in world.service().status().rejected] == sorted(f"{n}.md" for n in texts)


def test_case_13_a_file_that_became_empty_keeps_its_earlier_version_until_it_is_removed(world: World) -> None:
    world.write("a.md", "word alpha")
    world.write("b.md", "word beta")
    world.service().rebuild("REBUILD", who="ann")
    world.write("a.md", "")
    for _ in range(2):
        outcome = world.service().rebuild("REBUILD", who="ann")
        assert (outcome.kept, outcome.removed, outcome.documents) == (("a",), (), 2)
        assert world.found("alpha") == {"a"}
    (warning,) = outcome.warnings
    assert "its earlier version stays" in warning
    assert world.snapshots.current().revisions["a"] == 1
    world.write("a.md", "word mended")
    assert world.service().rebuild("REBUILD", who="ann").kept == ()
    assert world.found("mended") == {"a"}
    assert world.found("alpha") == set()


def document(doc_id: str) -> Document:
    return Document(doc_id, f"{doc_id}.md", doc_id, "", "default", 1, "hash")


def test_a_folder_that_cannot_be_read_keeps_its_documents_and_no_others() -> None:
    earlier = {name: document(name) for name in ("deep/a", "deep/er/b", "deeper/c", "d")}
    unreadable = Rejected("deep", "folder cannot be read: Permission denied")
    corpus = whole(SourceListing((), (unreadable,), ()), earlier, {})
    assert [d.doc_id for d in corpus.over] == ["deep/a", "deep/er/b"]
    assert all("Permission denied" in reason for reason in corpus.reasons.values())
    assert whole(SourceListing((), (), ()), earlier, {}).over == ()


def test_a_link_that_took_the_place_of_a_file_keeps_the_earlier_version(world: World) -> None:
    world.write("a.md", "word alpha")
    world.write("b.md", "word")
    world.service().rebuild("REBUILD", who="ann")
    (world.source / "a.md").unlink()
    (world.source / "a.md").symlink_to("/etc/hostname")
    outcome = world.service().rebuild("REBUILD", who="ann")
    assert (outcome.kept, outcome.removed) == (("a",), ())
    assert world.found("alpha") == {"a"}
    assert world.service().drift().removed == ()


def test_case_122_a_chunk_with_more_bytes_than_the_store_holds_is_refused_with_field_and_size(world: World) -> None:
    with_knowledge(world, chunk_target=20_000, chunk_max=20_000)
    world.write("wide.md", "\U00020000" * 19_000)  # four bytes each
    world.write("fits.md", "汉" * 1_400)
    world.write("emoji.md", "故障 " + "😀" * 900)
    outcome = world.service().rebuild("REBUILD", who="ann")
    (rejected,) = outcome.rejected
    assert rejected.source == "wide.md"
    assert "content" in rejected.reason
    assert f"{4 * 19_000:,} bytes" in rejected.reason
    assert outcome.documents == 2


def test_case_122_a_category_is_refused_not_shortened(world: World) -> None:
    world.write("long.md", f"---\ncategory: {'类' * 90}\n---\nword")
    world.write("good.md", "word")
    outcome = world.service().rebuild("REBUILD", who="ann")
    (rejected,) = outcome.rejected
    assert (rejected.source, "category: 90" in rejected.reason) == ("long.md", True)


def test_case_123_metadata_of_any_size_is_bounded_before_it_reaches_the_store(world: World) -> None:
    keywords = "\n".join(f"  - 关键词{number}" for number in range(4_000))
    world.write("huge.md", f"---\nkeywords:\n{keywords}\n---\nword")
    outcome = world.service().rebuild("REBUILD", who="ann")
    assert outcome.documents == 1
    assert any("keywords" in warning and "bytes" in warning for warning in outcome.warnings)


@pytest.mark.parametrize(
    ("known", "content_hash", "expected"),
    [({}, "x", 1), ({"a": (3, "x")}, "x", 3), ({"a": (3, "x")}, "y", 4), ({"b": (9, "x")}, "x", 1)],
)
def test_a_revision_is_one_more_when_the_content_changed(
    known: dict[str, tuple[int, str]], content_hash: str, expected: int
) -> None:
    assert next_revision("a", content_hash, known) == expected


def test_a_document_that_comes_back_goes_on_from_its_last_revision(world: World) -> None:
    world.write("keep.md", "word")
    world.write("a.md", "word one")
    world.service().rebuild("REBUILD", who="ann")
    (world.source / "a.md").unlink()
    world.service().rebuild("REBUILD", who="ann")
    world.write("a.md", "word two")
    world.service().rebuild("REBUILD", who="ann")
    assert world.snapshots.current().revisions["a"] == 2


def test_the_same_files_give_the_same_corpus_snapshot_and_other_files_another(world: World) -> None:
    def snapshot() -> str:
        world.service().rebuild("REBUILD", who="ann")
        return world.snapshots.current().generation.corpus_snapshot

    world.write("a.md", "word")
    first = snapshot()
    assert snapshot() == first
    world.write("b.md", "word")
    assert snapshot() != first
