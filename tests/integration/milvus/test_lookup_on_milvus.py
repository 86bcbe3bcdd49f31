"""The whole lookup on a real Milvus Lite: filters, fusion, read-back vectors, and a server that is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.adapters import milvus_server
from core.adapters.milvus import MilvusIndex
from core.analysis import search_text
from core.errors import StoreUnavailable
from core.lookup import LookupRequest, LookupService, WhatIf
from core.model import (
    AttemptName,
    Chunk,
    EvidenceStatus,
    FallbackReason,
    Fusion,
    Generation,
    IndexRow,
    L0Match,
    Mode,
    Origin,
    QualityBasis,
    evidence_key,
)
from core.ports import Snapshot
from tests.contract.generations import generation
from tests.fakes import HashEmbedder
from tests.unit.lookup_world import FixedL0, FixedSnapshots, ListAudit, TickingClock, keys, make_settings

pytestmark = pytest.mark.milvus
T = 20.0
EMBEDDER = HashEmbedder()


def piece(doc: str, text: str, *, index: int = 0, category: str = "", scope: str = "default") -> IndexRow:
    chunk = Chunk(
        evidence_key=evidence_key(doc, index),
        doc_id=doc,
        chunk_index=index,
        content=text,
        title=doc,
        breadcrumb=doc,
        source=f"{doc}.md",
        category=category,
        kb_scope=scope,
        revision=1,
    )
    return IndexRow(chunk, search_text(text), EMBEDDER.embed_query(text, timeout=T))


class Desk:
    """A service over one sealed generation."""

    def __init__(self, index: MilvusIndex, built: Generation, rows: Sequence[IndexRow], l0: L0Match) -> None:
        self.built = built
        self.audit = ListAudit()
        revisions: Mapping[str, int] = {r.chunk.doc_id: 1 for r in rows}
        self.service = LookupService(
            index=index,
            embedder=HashEmbedder(),
            reranker=None,
            snapshots=FixedSnapshots(Snapshot(built, FixedL0(l0), revisions)),
            audit=self.audit,
            clock=TickingClock(),
            settings=make_settings(retrieval={"branch_timeout": T, "lookup_timeout": 3 * T}),
        )
        self.service.warm()

    def ask(self, query: str, what_if: WhatIf | None = None, **request: Any) -> Any:
        return self.service.lookup(LookupRequest(query, origin=Origin.CONSOLE, what_if=what_if, **request))


Open = Callable[..., Desk]


@pytest.fixture
def index(milvus_uri: str) -> Iterator[MilvusIndex]:
    opened = MilvusIndex(milvus_uri)
    yield opened
    opened.close()


def _desk(index: MilvusIndex, rows: Sequence[IndexRow], l0: L0Match) -> Desk:
    built = generation("whole", profile=EMBEDDER.profile)
    index.create(built, timeout=T)
    index.insert(built, rows, timeout=T)
    index.seal(built, timeout=T)
    return Desk(index, built, rows, l0)


@pytest.fixture
def desk(index: MilvusIndex) -> Iterator[Open]:
    opened: list[Desk] = []

    def open_desk(rows: Sequence[IndexRow], l0: L0Match | None = None) -> Desk:
        opened.append(_desk(index, rows, l0 or L0Match()))
        return opened[-1]

    yield open_desk
    for each in opened:
        each.service.close()
        index.drop(each.built.collection, timeout=T)


RUNBOOKS = [
    piece("redis/pool", "Redis 连接池耗尽怎么办：先看 maxTotal 与慢查询", category="redis"),
    piece("redis/memory", "Redis 内存超限 OOM 时检查大 key 与淘汰策略", category="redis"),
    piece("mysql/pool", "MySQL 连接池耗尽：检查 max_connections", category="mysql"),
    piece("kafka/lag", "Kafka 消费延迟升高时先看分区与消费者数", category="kafka"),
    piece("secret", "Redis 连接池耗尽 内部口令", scope="ops", category="redis"),
]


def test_a_chinese_question_finds_its_runbook_and_shows_both_branches(desk: Open) -> None:
    setup = desk(RUNBOOKS)
    outcome = setup.ask("Redis 连接池耗尽怎么办")
    first = outcome.result.retrieval_trace.attempts[0].candidates[0]

    assert outcome.result.evidence_status is EvidenceStatus.READY
    assert keys(outcome)[0] == "redis/pool#chunk-0"
    assert (first.dense_rank, first.bm25_rank, first.rrf_rank) == (1, 1, 1)
    assert first.rrf_score == pytest.approx(1 / 61 + 1 / 61)
    assert "secret#chunk-0" not in keys(outcome)
    assert len(setup.audit.records) == 1


def test_case_28_each_category_of_the_filter_returns_its_own_document(desk: Open) -> None:
    names = ['A "重点" 类', "O'Brien 手册", "“中文引号”", 'it\'s "both"']
    rows = [piece(f"d{i}", f"QUOTE 手册 {i}", category=name) for i, name in enumerate(names)]
    for i, name in enumerate(names):
        trace = desk(rows, L0Match(category_filter=name)).ask("QUOTE 手册").result.retrieval_trace
        assert [c.doc_id for c in trace.attempts[0].candidates] == [f"d{i}"]
        assert {b.hits for b in trace.attempts[0].branches} == {1}


@pytest.mark.parametrize("value", ['x" or category != "', "x' || 1==1 || '", 'x"] or id > 0 or category in ["'])
def test_case_30_an_expression_in_a_scope_or_category_opens_nothing(desk: Open, value: str) -> None:
    setup = desk(RUNBOOKS, L0Match(category_filter=value))
    scoped = setup.ask("redis", kb_scope=value)
    filtered = setup.ask("redis").result.retrieval_trace.attempts[0]

    assert (scoped.result.evidence_status, scoped.error) == (EvidenceStatus.NO_EVIDENCE, None)
    assert setup.audit.records[0].result.retrieval_trace.kb_scope == value
    assert filtered.candidates == ()
    assert filtered.category_filter == value


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("fusion", list(Fusion))
def test_case_35_the_filter_reaches_every_branch_and_engine(desk: Open, mode: Mode, fusion: Fusion) -> None:
    rows = [
        piece("jia", "ZETA-77 出现在甲类。", category="甲"),
        piece("yi", "ZETA-77 ZETA-77 ZETA-77 出现在乙类，词频更高。", category="乙"),
    ]
    setup = desk(rows, L0Match(category_filter="甲"))
    what_if = WhatIf(mode=mode, fusion=fusion, reference_threshold=0.0, precise_threshold=0.0)
    outcome = setup.ask("ZETA-77", what_if)

    assert keys(outcome) == ["jia#chunk-0"]
    assert {b.hits for b in outcome.result.retrieval_trace.attempts[0].branches} == {1}


def test_case_61_a_copy_in_another_category_is_a_second_source_and_under_its_filter_the_first(desk: Open) -> None:
    rows = [
        piece("v1", "接地电阻不大于 4 欧。", category="旧版"),
        piece("v2", "接地电阻不大于 4 欧。", category="现行"),
    ]
    free = desk(rows).ask("接地电阻").result
    any_quality = WhatIf(reference_threshold=0.0, precise_threshold=0.0)
    filtered = desk(rows, L0Match(category_filter="现行")).ask("接地电阻", any_quality).result

    assert [(e.doc_id, e.also_in) for e in free.evidence] == [("v1", ("v2",))]
    assert [(e.doc_id, e.also_in) for e in filtered.evidence] == [("v2", ())]


def test_low_quality_under_a_filter_is_searched_again_without_it(desk: Open) -> None:
    outcome = desk(RUNBOOKS, L0Match(category_filter="kafka")).ask("MySQL 连接池耗尽：检查 max_connections")
    trace = outcome.result.retrieval_trace

    assert [a.name for a in trace.attempts] == [AttemptName.FILTERED_VECTOR, AttemptName.UNFILTERED_VECTOR_RETRY]
    assert trace.fallback_reason is FallbackReason.LOW_QUALITY
    assert keys(outcome)[0] == "mysql/pool#chunk-0"


def test_a_hit_of_bm25_alone_is_measured_by_its_stored_vector(desk: Open) -> None:
    rows = [piece(f"near{i}", f"连接池耗尽怎么办 {i}") for i in range(3)]
    far = piece("far", "maxTotal " + "完全无关的另一段文字 " * 10)
    outcome = desk([*rows, far]).ask("连接池耗尽怎么办 maxTotal", WhatIf(retrieve_k=3))
    (found,) = (c for c in outcome.result.retrieval_trace.attempts[0].candidates if c.doc_id == "far")
    wanted = EMBEDDER.embed_query("连接池耗尽怎么办 maxTotal", timeout=T)

    assert (found.dense_rank, found.bm25_rank is not None) == (None, True)
    assert found.quality_basis is QualityBasis.DENSE_EXACT
    assert found.exact_distance == pytest.approx(float(((far.vector - wanted) ** 2).sum()), rel=1e-4)


def test_case_53_the_same_question_gives_the_same_order_every_time(desk: Open) -> None:
    setup = desk([piece(f"d{i}", f"redis 连接 {i % 3}") for i in range(12)])
    orders = {tuple(keys(setup.ask("redis 连接", WhatIf(return_n=12, max_chunks_per_document=9)))) for _ in range(5)}
    assert len(orders) == 1


def test_case_128_a_server_that_was_killed_is_replaced_within_the_next_lookup(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    index = MilvusIndex(str(path), connect_timeout=T)
    try:
        setup = _desk(index, RUNBOOKS, L0Match())
        before = setup.ask("Redis 连接池耗尽")
        pid = milvus_server.status(path).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        after = setup.ask("Redis 连接池耗尽")
        again = setup.ask("Redis 连接池耗尽")
    finally:
        index.close()
        milvus_server.stop(path)

    assert keys(before) == keys(after) == keys(again)
    assert (after.error, after.result.retrieval_trace.degraded) == (None, ())
    assert 1 <= after.result.retrieval_trace.costs.retries <= 2
    assert again.result.retrieval_trace.costs.retries == 0


def test_a_store_that_is_away_is_an_error_that_names_it_and_clears_by_itself(desk: Open) -> None:
    setup = desk(RUNBOOKS)
    there = setup.service.searcher.index
    setup.service.searcher.index = MilvusIndex("http://127.0.0.1:9", "root:CANARY-TOKEN", connect_timeout=1.0)
    outcome = setup.ask("redis")
    setup.service.searcher.index = there

    assert isinstance(outcome.error, StoreUnavailable)
    assert "127.0.0.1:9" in outcome.result.message
    assert "CANARY" not in repr(outcome)
    assert setup.audit.records[0].result.evidence_status is EvidenceStatus.ERROR
    assert setup.ask("redis").error is None


def test_a_generation_whose_collection_is_gone_says_rebuild(index: MilvusIndex, desk: Open) -> None:
    setup = desk(RUNBOOKS)
    index.drop(setup.built.collection, timeout=T)
    outcome = setup.ask("redis")

    assert outcome.error is not None
    assert outcome.error.error_class == "IndexNotReady"
    assert "rebuild" in outcome.result.message


def test_a_profile_of_another_size_is_refused(desk: Open) -> None:
    setup = desk(RUNBOOKS)
    other = HashEmbedder(dimension=32, name="hash32")
    setup.service.searcher.embedder = other
    assert setup.ask("redis").result.error_class == "ProfileMismatch"
    wrong = replace(setup.built, profile=other.profile)
    setup.service.snapshots = FixedSnapshots(Snapshot(wrong, FixedL0(L0Match()), {}))
    assert setup.ask("redis").result.error_class == "ProfileMismatch"
