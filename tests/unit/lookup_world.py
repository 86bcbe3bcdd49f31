"""A whole lookup in memory: a store, a model with hand-made vectors, a snapshot, an audit that remembers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from core.adapters.memory_index import MemoryIndex
from core.analysis import search_text
from core.errors import IndexNotReady, RagError
from core.lookup import LookupOutcome, LookupRequest, LookupService, WhatIf
from core.model import (
    Chunk,
    EmbeddingProfile,
    Generation,
    GenerationState,
    IndexRow,
    L0Match,
    Origin,
    Scopes,
    evidence_key,
)
from core.ports import AuditReceipt, AuditRecord, L0Index, Snapshot
from core.settings import Settings, load

PROFILE = EmbeddingProfile("test/axes/4", "axes", 4, max_distance=2.0, calibrated=True)
GENERATION = Generation(
    number=7,
    alias="biz",
    collection="biz_g7",
    state=GenerationState.ACTIVE,
    profile=PROFILE,
    analysis_version="a1",
    chunking_version="c1",
    corpus_snapshot="corpus",
)
T = 5.0


def unit(*numbers: float) -> Any:
    vector = np.array(numbers, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def at_distance(squared: float) -> Any:
    """A unit vector whose squared L2 distance from ``(1, 0, 0, 0)`` is ``squared`` (0 to 4)."""
    cosine = 1.0 - squared / 2.0
    return np.array([cosine, np.sqrt(max(0.0, 1.0 - cosine**2)), 0, 0], dtype=np.float32)


def row(
    doc_id: str,
    content: str,
    *,
    index: int = 0,
    distance: float = 1.0,
    words: str = "",
    scope: str = "default",
    category: str = "",
    revision: int = 1,
    title: str = "",
) -> IndexRow:
    """A stored chunk ``distance`` away from every query; ``words`` are its text for BM25."""
    chunk = Chunk(
        evidence_key=evidence_key(doc_id, index),
        doc_id=doc_id,
        chunk_index=index,
        content=content,
        title=title or doc_id,
        breadcrumb=f"{doc_id} > {index}",
        source=f"{doc_id}.md",
        category=category,
        kb_scope=scope,
        revision=revision,
    )
    return IndexRow(chunk, search_text(words or content), at_distance(distance))


@dataclass
class AxisEmbedder:
    """Every query lies on the first axis, so that a chunk's distance is what its row says. ``hang`` blocks."""

    failure: RagError | None = None
    hang: threading.Event | None = None
    vector: Any = None
    calls: list[str] = field(default_factory=list)
    profile: EmbeddingProfile = PROFILE
    loads_here: bool = True

    def embed_query(self, text: str, *, timeout: float) -> Any:
        del timeout
        self.calls.append(text)
        if self.hang is not None:
            self.hang.wait(30)
        if self.failure is not None:
            raise self.failure
        return np.array([1, 0, 0, 0], dtype=np.float32) if self.vector is None else self.vector

    def embed_passages(self, texts: Sequence[str], *, timeout: float) -> Any:
        raise NotImplementedError

    def warm(self) -> None:
        return None


@dataclass
class FixedL0:
    """The same match for every query that holds ``word``."""

    match_: L0Match
    word: str = ""

    def match(self, text: str, scopes: Scopes) -> L0Match:
        del scopes
        return self.match_ if self.word in text else L0Match()


@dataclass
class FixedSnapshots:
    snapshot: Snapshot | None
    calls: int = 0

    def current(self) -> Snapshot:
        self.calls += 1
        if self.snapshot is None:
            raise IndexNotReady("no active index: build one")
        return self.snapshot

    def of(self, number: int) -> Snapshot:
        found = self.current()
        return replace(found, generation=replace(found.generation, number=number))


@dataclass
class ListAudit:
    records: list[AuditRecord] = field(default_factory=list)
    failure: Exception | None = None

    def record(self, record: AuditRecord, *, timeout: float) -> AuditReceipt:
        del timeout
        if self.failure is not None:
            raise self.failure
        self.records.append(record)
        return AuditReceipt(record.invocation_id, "recorded", 1.0)


class TickingClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class World:
    service: LookupService
    index: Any
    embedder: AxisEmbedder
    audit: ListAudit
    snapshots: FixedSnapshots

    def ask(self, query: str = "redis pool", what_if: WhatIf | None = None, **request: Any) -> LookupOutcome:
        origin = Origin.CONSOLE if what_if else Origin.AGENT
        return self.service.lookup(LookupRequest(query, **{"origin": origin, "what_if": what_if, **request}))


def world(
    rows: Sequence[IndexRow] = (),
    *,
    l0: L0Index | None = None,
    revisions: Mapping[str, int] | None = None,
    index: Any = None,
    embedder: AxisEmbedder | None = None,
    reranker: Any = None,
    audit: ListAudit | None = None,
    degraded: str | None = None,
    warm: bool = True,
    **settings: Any,
) -> World:
    """A service over ``rows``. ``revisions`` default to those of the rows; ``settings`` are sections as dicts."""
    store = index or MemoryIndex(describe=lambda generation: {"number": str(generation.number)})
    if isinstance(store, MemoryIndex):
        store.create(GENERATION, timeout=T)
        if rows:
            store.insert(GENERATION, rows, timeout=T)
    known = {r.chunk.doc_id: r.chunk.revision or 0 for r in rows} if revisions is None else revisions
    snapshots = FixedSnapshots(Snapshot(GENERATION, l0 or FixedL0(L0Match()), known, degraded))
    model, sink = embedder or AxisEmbedder(), audit or ListAudit()
    service = LookupService(
        index=store,
        embedder=model,
        reranker=reranker,
        snapshots=snapshots,
        audit=sink,
        clock=TickingClock(),
        settings=make_settings(**settings),
    )
    if warm:
        service.warm()
    return World(service, store, model, sink, snapshots)


def make_settings(**sections: Any) -> Settings:
    return load(environ={"RAG_SETTINGS": "/dev/null"}, **sections)


REDIS_ONLY = FixedL0(L0Match(category_filter="redis", domain_hints=("redis",)))


def candidates(outcome: Any, attempt: int = -1) -> dict[str, Any]:
    return {c.evidence_key: c for c in outcome.result.retrieval_trace.attempts[attempt].candidates}


def keys(outcome: Any) -> list[str]:
    return [piece.evidence_key for piece in outcome.result.evidence]


def pool_world(**options: Any) -> World:
    return world(
        [
            row("redis/pool", "连接池耗尽先看 maxTotal", distance=0.2, words="redis pool 连接", category="redis"),
            row("redis/slow", "大 key 导致变慢", distance=0.8, words="redis slow", category="redis"),
            row("mysql/lock", "锁等待超时", distance=1.6, words="mysql pool", category="mysql"),
        ],
        **options,
    )
