"""The vocabulary: frozen values in pipeline order.

``null`` means "there is none" and is never written as 0. Ranks start at 1. Distances are squared L2 (what Milvus
calls ``L2``), smaller is nearer. Order (``original_rank``) and measure (``quality_score``) are two signals: no stage
lets one overwrite the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

# --------------------------------------------------------------------------------------------- enumerations


class Mode(StrEnum):
    HYBRID = "hybrid"
    DENSE = "dense"


class Fusion(StrEnum):
    CLIENT = "client"
    SERVER = "server"


class Branch(StrEnum):
    DENSE = "dense"
    BM25 = "bm25"


class Stage(StrEnum):
    """The columns of the rank ladder and the rows of the funnel, in pipeline order."""

    TRANSFORM = "transform"
    DENSE = "dense"
    BM25 = "bm25"
    FUSE = "fuse"
    RERANK = "rerank"
    EVIDENCE = "evidence"
    PACK = "pack"
    ASSEMBLE = "assemble"
    PROJECT = "project"
    AUDIT = "audit"


class StageStatus(StrEnum):
    """Failed is not empty: ``complete`` with 0 out found nothing; ``error`` and ``unavailable`` do not know."""

    COMPLETE = "complete"
    NOT_RUN = "not_run"
    UNAVAILABLE = "unavailable"
    ERROR = "error"


class AttemptName(StrEnum):
    FILTERED_VECTOR = "FILTERED_VECTOR"
    UNFILTERED_VECTOR = "UNFILTERED_VECTOR"
    UNFILTERED_VECTOR_RETRY = "UNFILTERED_VECTOR_RETRY"


class FallbackReason(StrEnum):
    LOW_QUALITY = "FALLBACK_LOW_QUALITY"
    NO_EVIDENCE = "FALLBACK_NO_EVIDENCE"


class EvidenceStatus(StrEnum):
    READY = "READY"
    NO_EVIDENCE = "NO_EVIDENCE"
    ERROR = "ERROR"


class RelevanceLevel(StrEnum):
    PRECISE = "PRECISE"
    REFERENCE = "REFERENCE"


class QualityBasis(StrEnum):
    """Where a quality score came from, best first."""

    RERANK = "rerank"
    DENSE_HIT = "dense_hit"
    DENSE_EXACT = "dense_exact"
    LEXICAL = "lexical"
    RANK = "rank"


class DropReason(StrEnum):
    """Why a candidate went no further, in pipeline order."""

    FUSION_WINDOW = "fusion_window"
    RERANK_LIMIT = "rerank_limit"
    SCOPE_VIOLATION = "scope_violation"
    STALE_REVISION = "stale_revision"
    DUPLICATE_EVIDENCE = "duplicate_evidence"
    DUPLICATE_CONTENT = "duplicate_content"
    DOCUMENT_LIMIT = "document_limit"
    RETURN_LIMIT = "return_limit"
    ATTEMPT_REPLACED = "attempt_replaced"
    PACK_BUDGET = "pack_budget"
    PROJECTION_DUPLICATE = "projection_duplicate"
    PROJECTION_LIMIT = "projection_limit"
    PROJECTION_BYTES = "projection_bytes"


class Origin(StrEnum):
    """Who asked. Query text is kept (``console_query``) for ``console`` only."""

    AGENT = "agent"
    CONSOLE = "console"
    CLI = "cli"
    EVAL = "eval"


# --------------------------------------------------------------------------------------------- scopes and filters

DEFAULT_SCOPE: Final = "default"
ALL_SCOPES: Final = "*"
EVAL_SCOPE: Final = "rag-eval"
NO_CATEGORY: Final = ""
MAX_FILTER_CHARS: Final = 64
_KEY = re.compile(r"^(?P<doc>.+)#chunk-(?P<index>\d+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The access boundary of a lookup: a set of ``kb_scope`` names, or explicitly all of them.

    Values are checked where they enter (``core.filters.parse_scopes``); an empty set admits nothing.
    """

    names: frozenset[str]
    everything: bool = False

    def admits(self, kb_scope: str) -> bool:
        return self.everything or kb_scope in self.names

    def __str__(self) -> str:
        return ALL_SCOPES if self.everything else ",".join(sorted(self.names))


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What a branch may return: ``scopes`` is a boundary, ``category`` (None: any) is a hint the retry drops."""

    scopes: Scopes
    category: str | None = None


# --------------------------------------------------------------------------------------------- chunks and hits


def evidence_key(doc_id: str, chunk_index: int | None, *, vector_id: str = "", rank: int = 0) -> str:
    """``docId#chunk-{i}``, else ``vector:{id}``, else ``rank:{n}`` (knowledge-retrieval-architecture, section 7)."""
    if doc_id and chunk_index is not None:
        return f"{doc_id}#chunk-{chunk_index}"
    return f"vector:{vector_id}" if vector_id else f"rank:{rank}"


def split_evidence_key(key: str) -> tuple[str, int] | None:
    """``(doc_id, chunk_index)`` of a ``docId#chunk-{i}`` key, else None."""
    match = _KEY.match(key)
    return (match["doc"], int(match["index"])) if match else None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document as stored. ``source`` is the path relative to the knowledge source, with suffix."""

    evidence_key: str
    doc_id: str
    chunk_index: int | None
    content: str
    title: str = ""
    breadcrumb: str = ""
    source: str = ""
    category: str = NO_CATEGORY
    kb_scope: str = DEFAULT_SCOPE
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk as one branch returned it. ``score``: squared L2 (dense) or the store's BM25 number (its sign differs
    between Lite and a cluster), None where the store gave no finite number. ``vector`` is the stored one, where read."""

    chunk: Chunk
    branch: Branch
    rank: int
    score: float | None
    vector: Any = field(default=None, compare=False, repr=False)  # numpy array of shape (dimension,), float32


# --------------------------------------------------------------------------------------------- the query


@dataclass(frozen=True, slots=True)
class L0Match:
    """What the in-memory index of documents says about a query. It explains; it never scores."""

    category_filter: str | None = None
    domain_hints: tuple[str, ...] = ()
    matched_keywords: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    l0_titles: tuple[str, ...] = ()
    l0_doc_ids: tuple[str, ...] = ()
    canonical_terms: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()  # (alias as it stands in the query, its canonical term)
    documents_in_scope: int | None = None  # 0 explains an empty answer


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """L0's output: what is searched first (``rewritten_query``) and what the retry searches (``normalized_query``)."""

    original_query: str
    normalized_query: str
    rewritten_query: str
    l0: L0Match = L0Match()
    l0_status: StageStatus = StageStatus.COMPLETE
    reason: str | None = None


# --------------------------------------------------------------------------------------------- candidates


@dataclass(frozen=True)  # without slots: ``evolve`` copies the fields in one step
class Candidate:
    """A chunk with its rank at every stage: one row of the rank ladder.

    ``content`` is None in a stored trace (read back by key where it may be shown).
    """

    evidence_key: str
    doc_id: str
    chunk_index: int | None = None
    title: str = ""
    breadcrumb: str = ""
    source: str = ""
    category: str = NO_CATEGORY
    kb_scope: str = DEFAULT_SCOPE
    revision: int | None = None
    dense_rank: int | None = None
    dense_distance: float | None = None
    bm25_rank: int | None = None
    bm25_score: float | None = None
    rrf_rank: int | None = None
    rrf_score: float | None = None
    rerank_rank: int | None = None
    rerank_score: float | None = None
    original_rank: int | None = None
    quality_score: float | None = None
    quality_basis: QualityBasis | None = None
    exact_distance: float | None = None
    evidence_rank: int | None = None
    pack_rank: int | None = None
    projection_rank: int | None = None
    hit_reasons: tuple[str, ...] = ()
    drop_stage: Stage | None = None
    drop_reason: DropReason | None = None
    duplicate_of: str | None = None
    content_sha256: str | None = None
    content: str | None = field(default=None, repr=False)

    @property
    def live(self) -> bool:
        """Still in the running: no stage has dropped it."""
        return self.drop_reason is None


def evolve(candidate: Candidate, **changes: Any) -> Candidate:
    """``dataclasses.replace`` for a candidate at a tenth of its cost: a lookup makes about a hundred of these.

    Raises KeyError for a field that does not exist.
    """
    values = vars(candidate) | changes
    if len(values) != len(_FIELDS):
        raise KeyError(*sorted(changes.keys() - _FIELDS))
    new = object.__new__(Candidate)
    object.__setattr__(new, "__dict__", values)  # past the freeze, which stands for whoever gets the value
    return new


_FIELDS: Final = frozenset(f.name for f in fields(Candidate))


# --------------------------------------------------------------------------------------------- trace


@dataclass(frozen=True, slots=True)
class StageTrace:
    """One stage of one attempt (or of the lookup): status, counts in and out, milliseconds."""

    stage: Stage
    status: StageStatus
    count_in: int | None = None
    count_out: int | None = None
    ms: float | None = None
    reason: str | None = None
    error_class: str | None = None


@dataclass(frozen=True, slots=True)
class BranchTrace:
    """A branch with its request as sent. ``expression`` is the filter, ``params`` the index parameters."""

    branch: Branch
    status: StageStatus
    collection: str = ""
    expression: str = ""
    limit: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    hits: int | None = None
    ms: float | None = None
    retries: int = 0
    reason: str | None = None
    error_class: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptTrace:
    """One retrieval round, whole. ``degraded`` lists why it is less than it should be (a branch down, no reranker)."""

    name: AttemptName
    status: StageStatus
    query: str | None = None
    category_filter: str | None = None
    kb_scope: str = ""
    branches: tuple[BranchTrace, ...] = ()
    stages: tuple[StageTrace, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    candidate_count: int = 0
    candidates_truncated: bool = False
    top_quality: float | None = None
    top_quality_key: str | None = None
    top_quality_basis: QualityBasis | None = None
    relevance_level: RelevanceLevel | None = None
    low_quality: bool | None = None
    scope_violations: int = 0
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds; null where the stage did not run. ``audit_ms`` is only in the returned object."""

    query_rewrite_ms: float | None = None
    embedding_ms: float | None = None
    dense_ms: float | None = None
    bm25_ms: float | None = None
    fusion_ms: float | None = None
    rerank_ms: float | None = None
    evidence_ms: float | None = None
    context_pack_ms: float | None = None
    project_ms: float | None = None
    audit_ms: float | None = None
    total_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    embedding_tokens: int | None = None
    reranker_documents: int | None = None
    context_tokens: int | None = None
    trace_bytes: int | None = None
    retries: int = 0
    embedding_cache_hit: bool | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate's numbers as used: thresholds and the distance scale, per basis."""

    precise_threshold: float
    reference_threshold: float
    min_distance: float
    max_distance: float
    calibrated: bool
    lexical_reference_threshold: float | None = None
    rerank_precise_threshold: float = 0.75  # also of the rank basis: neither is a distance of the profile's model
    rerank_reference_threshold: float = 0.5


@dataclass(frozen=True, slots=True)
class RetrievalTrace:
    """Everything that happened in one lookup: read by page, command line, audit and evaluation alike."""

    trace_id: str
    created_at: str
    mode: Mode
    fusion: Fusion
    kb_scope: str
    plan: QueryPlan | None
    attempts: tuple[AttemptTrace, ...] = ()
    selected_attempt: AttemptName | None = None
    fallback_reason: FallbackReason | None = None
    stages: tuple[StageTrace, ...] = ()
    gate: Gate | None = None
    timings: Timings = Timings()
    costs: Costs = Costs()
    degraded: tuple[str, ...] = ()
    origin: Origin = Origin.AGENT
    session_id: str | None = None
    run_id: str | None = None
    tool_call_id: str | None = None
    what_if: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    generation: int | None = None
    collection: str = ""
    corpus_snapshot: str = ""
    embedding_profile: str = ""
    reranker_model: str | None = None
    analysis_version: str = ""
    code_version: str = ""


# --------------------------------------------------------------------------------------------- evidence and result


@dataclass(frozen=True, slots=True)
class Evidence:
    """A candidate that survived post-processing. ``sources`` names every document an identical text stood in."""

    evidence_key: str
    doc_id: str
    chunk_index: int | None
    source: str
    title: str
    breadcrumb: str
    content: str
    kb_scope: str = DEFAULT_SCOPE
    category: str = NO_CATEGORY
    revision: int | None = None
    quality_score: float | None = None
    quality_basis: QualityBasis | None = None
    evidence_rank: int | None = None
    also_in: tuple[str, ...] = ()
    hit_reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PackedSource:
    """How one piece of evidence stands in the pack: ``included``, ``trimmed`` (cut, ends in "...") or ``omitted``."""

    evidence_key: str
    state: str
    chars: int
    content_chars: int


@dataclass(frozen=True, slots=True)
class ContextPack:
    packed_text: str
    strategy: str
    char_budget: int
    used_chars: int
    included_sources: tuple[str, ...]
    omitted_sources: tuple[str, ...]
    sources: tuple[PackedSource, ...] = ()


@dataclass(frozen=True, slots=True)
class MergedEvidence:
    key: str
    kept: str
    reason: DropReason


@dataclass(frozen=True, slots=True)
class DroppedEvidence:
    key: str
    reason: DropReason
    duplicate_of: str | None = None


@dataclass(frozen=True, slots=True)
class RerankTrace:
    """Post-processing of the selected attempt: what was merged, dropped, kept, and why."""

    attempt: AttemptName | None = None
    merged: tuple[MergedEvidence, ...] = ()
    dropped: tuple[DroppedEvidence, ...] = ()
    kept: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolEvidence:
    """One piece of evidence as the agent reads it."""

    document_id: str
    source: str
    title: str
    breadcrumb: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class RagToolResult:
    """What the agent sees, and nothing else."""

    evidence_status: EvidenceStatus
    tool_call_id: str
    query: str
    evidence: tuple[ToolEvidence, ...]
    relevance_level: RelevanceLevel | None
    truncated: bool
    returned_count: int


@dataclass(frozen=True, slots=True)
class ProjectionItem:
    """What the projection did to one piece of evidence. ``bound`` names the limit that cut it, null where none did."""

    evidence_key: str
    kept: bool
    drop_reason: DropReason | None = None
    bound: str | None = None
    chars_before: int = 0
    chars_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


@dataclass(frozen=True, slots=True)
class ProjectionReport:
    """Internal: every loss on the way to the agent, per item and per bound."""

    items: tuple[ProjectionItem, ...] = ()
    query_chars_before: int = 0
    query_chars_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    max_query_chars: int = 0
    max_excerpt_chars: int = 0
    max_evidence: int = 0
    max_bytes: int = 0
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The whole internal answer. ``found`` = evidence is not empty, whatever the level; False is no failure."""

    trace_id: str
    query: str
    found: bool
    evidence_status: EvidenceStatus
    evidence: tuple[Evidence, ...]
    candidate_count: int
    returned_count: int
    relevance_level: RelevanceLevel | None
    top_quality: float | None
    context_pack: ContextPack | None
    completeness_hint: str
    message: str
    retrieval_trace: RetrievalTrace
    rerank_trace: RerankTrace
    tool_result: RagToolResult | None = None
    projection: ProjectionReport | None = None
    error_class: str | None = None


# --------------------------------------------------------------------------------------------- embedding and generations


@dataclass(frozen=True, slots=True)
class EmbeddingProfile:
    """What a vector means: vectors of two profiles are never compared.

    ``profile_id`` is the identity (model, dimension, prefixes); the distance scale and the thresholds belong to the
    profile but may be recalibrated without a rebuild. ``calibrated`` is False for the papers' 0 and 2.0.
    """

    profile_id: str
    model: str
    dimension: int
    query_prefix: str = ""
    passage_prefix: str = ""
    min_distance: float = 0.0
    max_distance: float = 2.0
    precise_threshold: float = 0.75
    reference_threshold: float = 0.5
    lexical_reference_threshold: float = 0.5
    calibrated: bool = False
    passages_per_second: float | None = None


class GenerationState(StrEnum):
    PLANNED = "PLANNED"
    BUILDING = "BUILDING"
    VERIFIED = "VERIFIED"
    SWITCHING = "SWITCHING"
    ACTIVE = "ACTIVE"
    RETIRED = "RETIRED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    INTERRUPTED = "INTERRUPTED"


@dataclass(frozen=True, slots=True)
class Generation:
    """One complete build of the index; exactly one is active per collection name (``alias``)."""

    number: int
    alias: str
    collection: str
    state: GenerationState
    profile: EmbeddingProfile
    analysis_version: str
    chunking_version: str
    corpus_snapshot: str = ""
    documents: int = 0
    chunks: int = 0
    index_params: Mapping[str, Any] = field(default_factory=dict)
    search_params: Mapping[str, Any] = field(default_factory=dict)
    built_at: str | None = None
    activated_at: str | None = None
    built_by: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of one generation: the row of ``api_document`` and the entry of L0."""

    doc_id: str
    source: str
    title: str
    category: str
    kb_scope: str
    revision: int
    content_hash: str
    keywords: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)  # alias -> canonical term
    chunk_count: int = 0
    encoding: str = "utf-8"
    warnings: tuple[str, ...] = ()
    size: int | None = None  # of its file in bytes, and when that was changed last: what drift looks at first
    mtime_ns: int | None = None
    uploaded: bool = False


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One row for Milvus. ``search_text`` holds tokens joined by spaces; ``vector`` is float32, finite."""

    chunk: Chunk
    search_text: str
    vector: Any
