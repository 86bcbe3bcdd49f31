"""A lookup resolves its generation once and holds it; a switch is noticed before the next one; an index that was built
otherwise is refused, never searched with the wrong vectors or tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from core.adapters.memory_index import MemoryIndex
from core.errors import ProfileMismatch, StoreUnavailable
from core.knowledge.snapshots import Snapshots
from core.lookup import LookupRequest, LookupService, WhatIf
from core.model import AttemptName, Document, Generation, GenerationState, IndexRow, L0Match, Mode, Origin, StageStatus
from tests.unit.lookup_world import (
    GENERATION,
    AxisEmbedder,
    FixedL0,
    ListAudit,
    TickingClock,
    keys,
    make_settings,
    row,
)


@dataclass
class Facts:
    """The database, as far as a lookup asks it."""

    generations: dict[int, Generation] = field(default_factory=dict)
    kept: dict[int, list[Document]] = field(default_factory=dict)
    active: int | None = None
    away: bool = False

    def active_number(self, alias: str) -> int | None:
        del alias
        if self.away:
            raise StoreUnavailable("the database is away; start it")
        return self.active

    def get(self, alias: str, number: int) -> Generation | None:
        del alias
        return self.generations.get(number)

    def documents(self, alias: str, number: int) -> list[Document]:
        del alias
        return self.kept[number]


class House:
    """Facts, index, snapshots and a service, joined as in the product."""

    def __init__(self, l0: L0Match | None = None) -> None:
        self.facts = Facts()
        self.index = MemoryIndex()
        self.embedder = AxisEmbedder()
        self.audit = ListAudit()
        self.l0 = FixedL0(l0 or L0Match())
        self.running = [GENERATION.profile, "a1"]
        self.snapshots = self.fresh()
        self.service = LookupService(
            index=self.index,
            embedder=self.embedder,
            reranker=None,
            snapshots=self.snapshots,
            audit=self.audit,
            clock=TickingClock(),
            settings=make_settings(),
        )

    def fresh(self) -> Snapshots:
        """The snapshots of a process that has just started."""
        facts: Any = self.facts
        return Snapshots(
            facts, self.index, "biz", lambda _: self.l0, lambda: (self.running[0], self.running[1]), timeout=1.0
        )

    def build(self, number: int, rows: Sequence[IndexRow], *, active: bool = True, **changes: Any) -> Generation:
        facts = {"state": GenerationState.ACTIVE, **changes}
        made = replace(GENERATION, number=number, collection=f"biz_g{number}", **facts)
        self.index.create(made, timeout=1)
        self.index.insert(made, rows, timeout=1)
        self.facts.generations[number] = made
        chunks = [r.chunk for r in rows]
        self.facts.kept[number] = [
            Document(c.doc_id, c.source, c.title, c.category, c.kb_scope, c.revision or 0, "h") for c in chunks
        ]
        if active:
            self.facts.active = number
            self.index.point_alias("biz", made.collection, timeout=1)
        return made

    def ask(self, query: str = "redis", what_if: WhatIf | None = None) -> Any:
        return self.service.lookup(LookupRequest(query, origin=Origin.CONSOLE, what_if=what_if))


KEPT = row("kept", "连接池", distance=0.4, words="redis pool")
GHOST = row("ghost", "GHOST-42 已删除", distance=0.1, words="GHOST-42 redis")


@pytest.mark.parametrize("mode", list(Mode))
def test_case_49_what_left_the_index_is_gone_in_every_mode_and_cache_of_a_running_process(mode: Mode) -> None:
    house = House()
    house.build(1, [KEPT, GHOST])
    before = house.ask("GHOST-42", WhatIf(mode=mode))
    house.build(2, [KEPT])
    after = house.ask("GHOST-42", WhatIf(mode=mode))

    assert "ghost#chunk-0" in keys(before)
    assert "ghost#chunk-0" not in keys(after)
    assert "已删除" not in repr(after.result)
    assert after.result.retrieval_trace.generation == 2
    assert after.result.retrieval_trace.costs.embedding_cache_hit is True  # the query's vector was kept, no result was


def test_case_49_a_chunk_that_stayed_behind_in_the_store_is_stale_and_never_shown() -> None:
    house = House()
    built = house.build(1, [KEPT])
    house.index.insert(built, [GHOST], timeout=1)  # in the store, but no document of the generation
    outcome = house.ask("GHOST-42")

    assert keys(outcome) == ["kept#chunk-0"]
    dropped = {c.evidence_key: str(c.drop_reason) for c in outcome.result.retrieval_trace.attempts[0].candidates}
    assert dropped["ghost#chunk-0"] == "stale_revision"


def test_a_switch_in_the_middle_of_a_lookup_changes_nothing_until_the_next() -> None:
    house = House(L0Match(category_filter="redis"))
    first = [
        row("a", "text", distance=1.8, words="redis", category="redis"),
        row("b", "text b", distance=0.3, words="redis", category="mq"),
    ]
    house.build(1, first)
    house.build(2, [row("c", "text", distance=0.1, words="redis", category="redis")], active=False)
    search, asked = house.index.search_dense, []

    def switching(generation: Generation, *args: Any, **kwargs: Any) -> Any:
        asked.append(generation.collection)
        house.facts.active = 2
        house.index.point_alias("biz", "biz_g2", timeout=1)
        return search(generation, *args, **kwargs)

    house.index.search_dense = switching  # type: ignore[method-assign]
    outcome, following = house.ask(), house.ask()

    assert asked[:2] == ["biz_g1", "biz_g1"]
    assert outcome.result.retrieval_trace.selected_attempt is AttemptName.UNFILTERED_VECTOR_RETRY
    assert set(keys(outcome)) == {"a#chunk-0", "b#chunk-0"}
    assert {b.collection for a in outcome.result.retrieval_trace.attempts for b in a.branches} == {"biz_g1"}
    assert (following.result.retrieval_trace.generation, keys(following)) == (2, ["c#chunk-0"])


def test_case_42_an_index_cut_by_another_analysis_is_refused_until_it_is_rebuilt() -> None:
    house = House()
    house.build(1, [KEPT])
    assert house.ask().error is None
    house.running[1] = "a2"
    outcome = house.ask()

    assert isinstance(outcome.error, ProfileMismatch)
    assert "a1" in str(outcome.error)
    assert "a2" in str(outcome.error)
    assert "rebuild" in str(outcome.error)
    assert house.audit.records[-1].result.error_class == "ProfileMismatch"


def test_an_index_of_another_model_is_refused_and_never_searched() -> None:
    house = House()
    house.build(1, [KEPT])
    house.running[0] = replace(GENERATION.profile, profile_id="test/other/4")
    outcome = house.ask()

    assert isinstance(outcome.error, ProfileMismatch)
    assert (house.index.calls["search_dense"], house.index.calls["search_bm25"]) == (0, 0)


def test_with_the_database_away_a_running_process_goes_on_with_what_it_last_saw() -> None:
    house = House(L0Match(category_filter="redis"))
    house.build(1, [row("a", "text", distance=0.1, words="redis", category="redis")])
    house.ask()
    house.facts.away = True
    trace = house.ask().result.retrieval_trace

    assert trace.degraded == ("the database is away: generation 1 as last seen",)
    assert trace.attempts[0].name is AttemptName.FILTERED_VECTOR
    assert trace.plan.l0_status is StageStatus.COMPLETE


def test_with_the_database_away_a_fresh_process_reads_the_collection_itself_and_sets_no_filter() -> None:
    house = House(L0Match(category_filter="redis"))
    house.build(1, [row("a", "text", distance=0.1, words="redis", category="redis")])
    house.facts.away = True
    outcome = house.ask()
    trace = outcome.result.retrieval_trace

    assert outcome.error is None
    assert keys(outcome) == ["a#chunk-0"]
    assert trace.degraded == ("the database is away: no L0, no category filter, no revision check",)
    assert (trace.generation, trace.embedding_profile) == (1, "test/axes/4")
    assert trace.attempts[0].name is AttemptName.UNFILTERED_VECTOR
    assert trace.plan.l0_status is StageStatus.UNAVAILABLE


def test_without_any_generation_the_message_says_how_to_build_one() -> None:
    house = House()
    outcome = house.ask()

    assert outcome.error is not None
    assert outcome.error.exit_code == 3
    assert "python -m core rebuild" in outcome.result.message
