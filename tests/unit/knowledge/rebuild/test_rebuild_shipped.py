"""Vectors that come with the knowledge base."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from core.errors import IndexNotReady
from core.knowledge.rebuild.shipped import file_of
from core.model import EmbeddingProfile
from tests.fakes import HashEmbedder
from tests.unit.knowledge.rebuild.rebuild_world import World


@pytest.fixture
def shipping(tmp_path: Path) -> Path:
    """A folder of vectors, made by another installation of the same two documents."""
    (tmp_path / "one").mkdir()
    first = World(tmp_path / "one", settings_over={"shipped_vectors": str(tmp_path / "vectors")})
    first.write("a.md", "word alpha")
    first.write("b.md", "word beta")
    with pytest.raises(IndexNotReady):
        first.service().ship_vectors()
    first.service().rebuild("REBUILD", who="ann")
    assert first.service().ship_vectors() == file_of(tmp_path / "vectors", first.embedder.profile)
    first.close()
    return tmp_path / "vectors"


def other(folder: Path, shipping: Path, text: str = "word alpha") -> World:
    folder.mkdir()
    world = World(folder, settings_over={"shipped_vectors": str(shipping)})
    world.write("a.md", text)
    world.write("b.md", "word beta")
    return world


def test_a_fresh_installation_embeds_only_what_was_not_shipped(shipping: Path, tmp_path: Path) -> None:
    world = other(tmp_path / "two", shipping, text="word edited")
    plan = world.service().dry_run()
    assert (plan.to_embed, plan.from_cache) == (1, 1)
    assert world.cache.count(world.embedder.profile.profile_id) == 0
    outcome = world.service().rebuild("REBUILD", who="ann")
    assert (outcome.embedded, outcome.from_cache) == (1, 1)
    stored = world.index.fetch(world.snapshots.current().generation, ["b#chunk-0"], with_vectors=True, timeout=1)
    assert np.array_equal(stored["b#chunk-0"].vector, HashEmbedder()._vector("b\nword beta"))
    world.close()


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 not a zip"])
def test_a_damaged_file_is_as_good_as_none(
    shipping: Path, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    world = other(tmp_path / "two", shipping)
    file_of(shipping, world.embedder.profile).write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        outcome = world.service().rebuild("REBUILD", who="ann")
    assert (outcome.embedded, outcome.from_cache) == (2, 0)
    assert "embedded anew" in caplog.text
    world.close()


def test_vectors_of_another_dimension_are_not_taken(shipping: Path, tmp_path: Path) -> None:
    world = other(tmp_path / "two", shipping)
    file = file_of(shipping, world.embedder.profile)
    with np.load(file) as data:
        np.savez(file, keys=data["keys"], vectors=data["vectors"][:, :3])
    assert world.service().rebuild("REBUILD", who="ann").embedded == 2
    world.close()


def test_a_cache_that_holds_something_gets_what_it_misses_and_keeps_its_own(shipping: Path, tmp_path: Path) -> None:
    world = other(tmp_path / "two", shipping)
    own, profile_id = HashEmbedder()._vector("x"), world.embedder.profile.profile_id
    world.cache.put(profile_id, {"0" * 64: own})
    assert world.service().rebuild("REBUILD", who="ann").embedded == 0
    assert list(world.cache.get(profile_id, ["0" * 64])["0" * 64]) == list(own)
    world.close()


def test_a_profile_is_a_plain_file_name() -> None:
    profile = EmbeddingProfile("a/b c:../é/384", "m", 384)
    assert file_of(Path("v"), profile) == Path("v/a-b-c-..-384.npz")
