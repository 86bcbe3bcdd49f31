"""Protocols between the pipeline and the world. Adapters implement them; stages and services know only these.

Every call that leaves the process takes ``timeout`` in seconds and raises a subclass of ``core.errors.RagError``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from core.model import (
    Branch,
    Chunk,
    Document,
    EmbeddingProfile,
    Generation,
    Hit,
    IndexRow,
    L0Match,
    LookupResult,
    Scopes,
    SearchFilter,
)

# --------------------------------------------------------------------------------------------- search


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What one branch gave back, with the request as sent. ``hits`` are best first, ranks from 1."""

    branch: Branch
    hits: tuple[Hit, ...]
    expression: str
    limit: int
    params: Mapping[str, Any]
    ms: float
    retries: int = 0


@dataclass(frozen=True, slots=True)
class FusedRow:
    """A row of the store's own RRF (``hybrid_search``): the chunk, its fused rank from 1, its fused score."""

    chunk: Chunk
    rank: int
    score: float
    vector: Any = None


class VectorIndex(Protocol):
    """The read side of Milvus, always on the physical collection of one generation."""

    def search_dense(
        self, generation: Generation, vector: Any, where: SearchFilter, limit: int, *, timeout: float
    ) -> SearchAnswer:
        """Nearest by squared L2. ``vector``: float32 of shape (dimension,), finite."""

    def search_bm25(
        self,
        generation: Generation,
        search_text: str,
        where: SearchFilter,
        limit: int,
        *,
        timeout: float,
        with_vectors: bool = True,
    ) -> SearchAnswer:
        """Best by BM25. ``search_text``: tokens joined by spaces. Hits carry their stored vector when asked."""

    def search_hybrid(
        self,
        generation: Generation,
        vector: Any,
        search_text: str,
        where: SearchFilter,
        limit: int,
        *,
        window: int,
        rrf_k: int,
        timeout: float,
    ) -> tuple[FusedRow, ...]:
        """``hybrid_search`` with the store's RRF ranker, ``limit`` a branch, ``window`` rows back."""

    def fetch(
        self, generation: Generation, keys: Sequence[str], *, with_vectors: bool = False, timeout: float
    ) -> dict[str, Hit]:
        """Stored rows by evidence key (rank 0, score None); a missing key is absent from the answer."""

    def expression(self, where: SearchFilter) -> str:
        """The filter as the store reads it."""

    def warm(self, generation: Generation, *, timeout: float) -> None:
        """Loads the collection and runs one search a branch, so that the first lookup does not pay for it."""


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A physical collection as found. ``problems`` is empty when it can serve."""

    name: str
    rows: int | None
    aliases: tuple[str, ...]
    properties: Mapping[str, str]
    has_bm25: bool
    dimension: int | None
    metric: str | None
    problems: tuple[str, ...] = ()


class IndexAdmin(Protocol):
    """The write side of Milvus: only the rebuild uses it."""

    def create(self, generation: Generation, *, timeout: float) -> None:
        """A new, empty collection with the schema of DESIGN section 4. Refuses an existing name."""

    def insert(self, generation: Generation, rows: Sequence[IndexRow], *, timeout: float) -> None:
        """Upserts one batch (sizes and finiteness checked before it is sent)."""

    def seal(self, generation: Generation, *, timeout: float) -> None:
        """Flushes, builds the indexes and loads: after it, searches are complete and fast."""

    def ids(self, generation: Generation, *, timeout: float) -> frozenset[str]:
        """Every id, strongly consistent (a count from statistics proves nothing)."""

    def count(self, generation: Generation, *, timeout: float) -> int: ...

    def set_index(self, generation: Generation, params: Mapping[str, Any], *, timeout: float) -> None:
        """Replaces the vector index (drop, create, load)."""

    def point_alias(self, alias: str, collection: str, *, timeout: float) -> None: ...

    def alias_target(self, alias: str, *, timeout: float) -> str | None: ...

    def names(self, prefix: str, *, timeout: float) -> tuple[str, ...]:
        """Collections whose name begins with ``prefix``, sorted."""

    def collections(self, prefix: str, *, timeout: float) -> tuple[CollectionInfo, ...]:
        """The same with what the store knows of each: some questions a collection."""

    def drop(self, collection: str, *, timeout: float) -> None:
        """Drops a physical collection by its own name; refuses an alias and an aliased collection."""

    def health(self, *, timeout: float) -> str:
        """Version and kind of the server in one line, or raises."""


# --------------------------------------------------------------------------------------------- models


class Embedder(Protocol):
    @property
    def loads_here(self) -> bool:
        """Whether the model is loaded into this process, so that its first answer takes the time of loading."""

    @property
    def profile(self) -> EmbeddingProfile: ...

    def embed_query(self, text: str, *, timeout: float) -> Any:
        """float32 of shape (dimension,), finite, unit length. Raises ModelUnavailable or DeadlineExceeded."""

    def embed_passages(self, texts: Sequence[str], *, timeout: float) -> Any:
        """float32 of shape (len(texts), dimension), finite."""

    def warm(self) -> None: ...


class Reranker(Protocol):
    @property
    def model(self) -> str: ...

    def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> list[float]:
        """One relevance score in [0,1] a document, in the given order."""


# --------------------------------------------------------------------------------------------- knowledge


class L0Index(Protocol):
    """In-memory index of the active generation's documents: title, category, keywords, aliases."""

    def match(self, text: str, scopes: Scopes) -> L0Match:
        """Sees only documents inside ``scopes``. ``text`` is the normalised query."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a lookup holds from beginning to end: one generation with its L0 and its revisions.

    ``l0`` is None and ``revisions`` empty when SQL was away and the collection's properties had to serve
    (``degraded`` then says so).
    """

    generation: Generation
    l0: L0Index | None
    revisions: Mapping[str, int]
    degraded: str | None = None


class SnapshotSource(Protocol):
    def current(self) -> Snapshot:
        """The active generation now; notices a switch made by any process. Raises IndexNotReady when there is none."""

    def of(self, number: int) -> Snapshot:
        """A given generation (a held one under evaluation, or one a trace was recorded on)."""


# --------------------------------------------------------------------------------------------- facts (SQL)


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """The row of ``knowledge_chunk``: identity and hash, not the vector. ``span`` = offsets in the decoded body."""

    generation: int
    evidence_key: str
    doc_id: str
    chunk_index: int
    content_hash: str
    revision: int
    span_start: int
    span_end: int
    breadcrumb: str = ""
    content: str = ""


class GenerationStore(Protocol):
    """``knowledge_generation``, ``api_document``, ``knowledge_chunk``, ``rebuild_run`` and the lease."""

    def active(self, alias: str) -> Generation | None: ...

    def active_number(self, alias: str) -> int | None:
        """One cheap read; asked before every lookup."""

    def get(self, alias: str, number: int) -> Generation | None: ...

    def all(self, alias: str) -> list[Generation]:
        """Newest first."""

    def facts(self, alias: str, number: int) -> dict[str, Any]:
        """What was recorded of a generation beside its own fields; {} for an unknown one."""

    def plan(self, generation: Generation) -> Generation:
        """Records PLANNED and gives the generation its number (largest ever + 1) and its collection name."""

    def set_state(self, alias: str, number: int, state: str, **facts: Any) -> Generation:
        """Records a step before it is done. ``facts``: documents, chunks, corpus_snapshot, index_params, …"""

    def switch(self, alias: str, number: int) -> Generation:
        """In one transaction: ``number`` ACTIVE, the previously active one RETIRED."""

    def documents(self, alias: str, number: int) -> list[Document]: ...

    def put_documents(self, alias: str, number: int, documents: Iterable[Document]) -> None: ...

    def put_chunks(self, alias: str, number: int, chunks: Iterable[StoredChunk]) -> None: ...

    def chunks(self, alias: str, number: int, doc_id: str | None = None) -> list[StoredChunk]: ...

    def chunks_of(self, alias: str, number: int, doc_ids: Sequence[str]) -> dict[str, list[StoredChunk]]:
        """By document id, in order of the text; a document without chunks is absent."""

    def chunk_pages(self, alias: str, number: int, size: int = 500) -> Iterator[list[StoredChunk]]:
        """Every chunk, ``size`` at a time, in a fixed order of no meaning: for corpora larger than memory."""

    def revisions(self, alias: str) -> dict[str, tuple[int, str]]:
        """doc_id -> (highest revision ever given, its content hash), over all generations."""

    def discard(self, alias: str, number: int) -> None:
        """Removes a generation's documents and chunks (its row stays, as history)."""


class EmbeddingCache(Protocol):
    """``embedding_cache``: SHA-256 of the exact text given to the embedder, plus the profile."""

    def get(self, profile_id: str, keys: Sequence[str]) -> dict[str, Any]:
        """key -> float32 vector; missing keys are absent."""

    def put(self, profile_id: str, vectors: Mapping[str, Any]) -> None: ...

    def count(self, profile_id: str) -> int: ...


class SearchTexts(Protocol):
    """``search_text_cache``: the tokens of a passage by its SHA-256, of one version of the analysis."""

    def get(self, version: str, keys: Sequence[str]) -> dict[str, str]:
        """key -> tokens joined by spaces; missing keys are absent."""

    def put(self, version: str, texts: Mapping[str, str]) -> None: ...

    def drop_others(self, version: str) -> None:
        """Forgets what other versions made: nothing asks for it any more."""


@dataclass(frozen=True, slots=True)
class AuditReceipt:
    """What became of the record: ``recorded``, ``queued`` (in the outbox, delivered later) or ``failed``."""

    invocation_id: str
    state: str
    ms: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One call as the pipeline hands it over; the sink redacts it (DESIGN 3.11)."""

    invocation_id: str
    tool_name: str
    created_at: datetime
    query: str
    result: LookupResult
    settings_snapshot: Mapping[str, Any]
    actor: str = ""


class AuditSink(Protocol):
    def record(self, record: AuditRecord, *, timeout: float) -> AuditReceipt:
        """Never raises for an unreachable database: the record goes to the outbox."""


class Clock(Protocol):
    def now(self) -> datetime:
        """UTC, with microseconds and tzinfo."""

    def monotonic(self) -> float: ...
