"""The proof before the switch: counted, found again, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.adapters.memory_index import MemoryIndex
from core.errors import RebuildRefused
from core.knowledge.rebuild.verify import (
    MIN_RECALL,
    first_parameters,
    more_probes,
    nearest,
    own_words,
    recall,
    true_distances,
)
from core.model import Generation, IndexRow, SearchFilter
from core.ports import SearchAnswer
from tests.contract.generations import generation, row
from tests.unit.knowledge.rebuild.rebuild_world import World


class Forgetful(MemoryIndex):
    """Loses the last row of the first batch without a word."""

    def insert(self, generation: Generation, rows: Sequence[IndexRow], *, timeout: float) -> None:
        super().insert(generation, rows[:-1] if self.calls["insert"] == 0 else rows, timeout=timeout)


class Lying(MemoryIndex):
    """Its count says what it should, its ids do not: another row stands in for the lost one."""

    def ids(self, generation: Generation, *, timeout: float) -> frozenset[str]:
        found = sorted(super().ids(generation, timeout=timeout))
        return frozenset([*found[1:], "stranger#chunk-0"])


class Deaf(MemoryIndex):
    """BM25 finds nothing."""

    def search_bm25(
        self, generation: Generation, search_text: str, where: SearchFilter, limit: int, **options: Any
    ) -> SearchAnswer:
        found = super().search_bm25(generation, search_text, where, limit, **options)
        return replace(found, hits=())


class Blurred(MemoryIndex):
    """A vector index that only sees as many rows as lists are probed, in order of their key. FLAT sees all."""

    def search_dense(
        self, generation: Generation, vector: Any, where: SearchFilter, limit: int, *, timeout: float
    ) -> SearchAnswer:
        found = super().search_dense(generation, vector, where, 10_000, timeout=timeout)
        seen = generation.search_params.get("nprobe", 10_000)
        own = found.hits[:1]
        rest = sorted(found.hits[1:], key=lambda hit: hit.chunk.evidence_key)[: seen - 1]
        near = [*own, *sorted(rest, key=lambda hit: hit.score or 0.0)]
        return replace(found, hits=tuple(near[:limit]))


@pytest.mark.parametrize("store", [Forgetful, Lying])
def test_case_125_a_row_that_is_missing_or_strange_stops_the_switch(world: World, store: type[MemoryIndex]) -> None:
    world.write("a.md", "word old")
    world.service().rebuild("REBUILD", who="ann")
    world.write("b.md", "word new")
    index = store()
    with pytest.raises(RebuildRefused, match="rebuild again"):
        world.service(admin=index, index=index).rebuild("REBUILD", who="ann", allow_shrink=True)
    assert world.generations.active_number("biz") == 1
    assert index.collections("", timeout=1) == ()


def test_case_125_what_was_just_written_or_removed_is_seen_at_once(world: World) -> None:
    for name in ("one", "two", "three"):
        world.write(f"{name}.md", f"word {name}")
    world.service().rebuild("REBUILD", who="ann")
    assert world.found("three") == {"three"}
    (world.source / "three.md").unlink()
    world.service().rebuild("REBUILD", who="ann")
    active = world.snapshots.current().generation
    assert world.found("three") == set()
    assert (active.documents, active.chunks, world.index.count(active, timeout=1)) == (2, 2, 2)


def test_a_chunk_that_its_own_words_do_not_find_stops_the_switch(world: World) -> None:
    world.write("a.md", "word")
    index = Deaf()
    with pytest.raises(RebuildRefused, match=r"a#chunk-0.* bm25 branch"):
        world.service(admin=index, index=index).rebuild("REBUILD", who="ann")
    assert world.generations.active_number("biz") is None


def test_many_equal_texts_are_found_through_each_other(world: World) -> None:
    for number in range(300):
        world.write(f"copy{number:03d}.md", "---\ntitle: Copy\n---\nthe same words everywhere\n")
    assert world.service().rebuild("REBUILD", who="ann").state == "ACTIVE"


def big(world: World, documents: int) -> None:
    for number in range(documents):
        world.write(f"{number:03d}.md", f"word{number} and a text about topic {number % 7} of {number * number}")


def begin_with(monkeypatch: pytest.MonkeyPatch, *, lists: int, probes: int) -> None:
    def parameters(*_: object, **__: object) -> tuple[dict[str, object], dict[str, object]]:
        return {"index_type": "IVF_FLAT", "nlist": lists}, {"nprobe": probes}

    monkeypatch.setattr("core.knowledge.rebuild.verify.first_parameters", parameters)


def test_a_vector_index_that_misses_neighbours_is_searched_with_more_probes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    big(world, 60)
    index = Blurred()
    begin_with(monkeypatch, lists=64, probes=8)
    outcome = world.service(admin=index, index=index).rebuild("REBUILD", who="ann")
    active = world.generations.active("biz")
    assert active is not None
    assert active.search_params == {"nprobe": 64}
    assert active.index_params == {"index_type": "IVF_FLAT", "nlist": 64}
    assert outcome.recall is not None
    assert outcome.recall >= MIN_RECALL


def test_an_index_that_misses_neighbours_with_every_list_probed_becomes_exact(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    big(world, 60)
    index = Blurred()
    begin_with(monkeypatch, lists=16, probes=8)
    world.service(admin=index, index=index).rebuild("REBUILD", who="ann")
    active = world.generations.active("biz")
    assert active is not None
    assert (dict(active.search_params), dict(active.index_params)) == ({}, {})
    assert index.calls["set_index"] == 1


def test_recall_is_the_share_of_true_neighbours_and_equal_distances_do_not_lower_it() -> None:
    made, index = generation(), MemoryIndex()
    rows = [row(f"d{i}", vector=(1, i, 0, 0)) for i in range(4)] + [row("twin", vector=(1, 0, 0, 0))]
    index.create(made, timeout=1)
    index.insert(made, rows, timeout=1)
    vectors = np.stack([r.vector for r in rows])
    truth = true_distances([rows[0]], iter([vectors[:2], vectors[2:]]))
    assert truth.tolist() == [[0.0, 0.0, 1.0, 4.0, 9.0]]
    assert recall(nearest(made, rows[:1], index), truth) == 1.0
    half = MemoryIndex()
    half.create(made, timeout=1)
    half.insert(made, rows[:2], timeout=1)
    assert recall(nearest(made, rows[:1], half), truth) == 2 / 5
    assert recall([], true_distances([], iter([]))) is None
    assert recall(nearest(made, rows[:1], index), true_distances(rows[:1], iter([]))) is None


def test_the_vector_index_is_exact_for_a_file_and_below_five_thousand_chunks() -> None:
    assert first_parameters(1_000_000, exact=True) == ({}, {})
    assert first_parameters(4_999, exact=False) == ({}, {})
    index_params, search_params = first_parameters(10_000, exact=False)
    assert (index_params["nlist"], search_params["nprobe"]) == (4 * 100, 4 * 100 // 8)


def test_probes_double_until_every_list_is_probed() -> None:
    made = generation(index_params={"nlist": 20}, search_params={"nprobe": 8})
    doubled = more_probes(made)
    assert doubled is not None
    assert doubled.search_params == {"nprobe": 16}
    full = more_probes(doubled)
    assert full is not None
    assert full.search_params == {"nprobe": 20}
    assert more_probes(full) is None
    assert more_probes(generation()) is None


def test_a_chunk_is_asked_for_by_words_that_few_chunks_hold_then_by_long_ones_each_once() -> None:
    first, second = own_words(["the pod kubepodcrashloop of nodex12 the", "the pod restarted"])
    assert first == ["kubepodcrashloop", "nodex12", "of", "the", "pod"]
    assert second == ["restarted", "the", "pod"]
    assert own_words(["b a b", ""]) == [["b", "a"], []]
