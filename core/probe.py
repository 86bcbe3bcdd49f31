"""Where a document that should have come was lost: its rank in every stage, or why it has none.

Reads a finished result, and asks the store again only for what lies beyond its windows. It is no lookup: nothing is
fused, judged or audited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from core.analysis import search_text
from core.errors import NotFound, RagError, redact
from core.filters import parse_scopes
from core.lookup import LookupService
from core.model import (
    AttemptName,
    AttemptTrace,
    Branch,
    Candidate,
    Document,
    Generation,
    LookupResult,
    RetrievalTrace,
    Scopes,
    SearchFilter,
)
from core.ports import SearchAnswer

DEPTH: Final = 1000
_FIRST_CHUNKS: Final = (0, 1)


class Verdict(StrEnum):
    """Why the document stands where it stands, the first that applies."""

    RETURNED = "returned"
    DROPPED = "dropped"
    BEYOND_WINDOW = "beyond_window"
    FILTER_EXCLUDED = "filter_excluded"
    OTHER_SCOPE = "other_scope"
    NOT_IN_INDEX = "not_in_index"
    BELOW_EVERYTHING = "below_everything"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DeepRank:
    """Rank of the document's best chunk in one branch, searched to ``depth``; None: not among them. ``category`` is
    the filter of that search (None: none). ``error`` is set when the search failed, which is not "not there"."""

    branch: Branch
    category: str | None
    depth: int
    rank: int | None = None
    evidence_key: str | None = None
    score: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ExpectedReport:
    """``candidates`` are the document's rows of the ladder, by attempt. ``reason`` is one line for people."""

    reference: str
    doc_id: str | None
    verdict: Verdict
    reason: str
    category: str | None = None
    kb_scope: str | None = None
    candidates: tuple[tuple[AttemptName, Candidate], ...] = ()
    deep: tuple[DeepRank, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The report for people: the verdict, then a line for each place the document was looked for."""
        head = f"{self.doc_id or self.reference}: {self.reason}"
        return (head, *(_candidate_line(name, c) for name, c in self.candidates), *map(_deep_line, self.deep))


def probe_expected(
    service: LookupService,
    found_in: LookupResult | RetrievalTrace,
    reference: str,
    documents: Sequence[Document] = (),
) -> ExpectedReport:
    """Where the document that ``reference`` names (its id, path or title) stands in a result or its trace.

    ``documents`` are those of the trace's generation; without them only an id or a path can be resolved. Raises
    NotFound when the generation is gone or the lookup reached none.
    """
    trace = found_in.retrieval_trace if isinstance(found_in, LookupResult) else found_in
    if trace.generation is None:
        raise NotFound("the lookup never reached an index: there is nothing to look for a document in")
    generation = service.snapshots.of(trace.generation).generation
    scopes = parse_scopes(trace.kb_scope.split(",") if trace.kb_scope else [])
    found = _resolve(reference, documents)
    doc_id = found.doc_id if found else _as_doc_id(reference)
    rows = tuple((a.name, c) for a in trace.attempts for c in a.candidates if c.doc_id == doc_id)
    if rows:
        known = rows[0][1]
        category, scope = known.category, known.kb_scope
    elif found:
        category, scope = found.category, found.kb_scope
    else:
        stored = _stored(service, generation, doc_id)
        if isinstance(stored, str):
            return ExpectedReport(reference, doc_id, Verdict.UNKNOWN, stored)
        if stored is None:
            missing = f"no document {reference!r} in generation {generation.number}"
            return ExpectedReport(reference, None, Verdict.NOT_IN_INDEX, missing)
        category, scope = stored
    if not scopes.admits(scope):
        text = f"it lies in scope {scope!r}, the lookup was allowed {scopes}"
        return ExpectedReport(reference, doc_id, Verdict.OTHER_SCOPE, text, category, scope, rows)
    deep = () if _returned(trace.attempts, rows) else _deep(service, generation, trace, scopes, doc_id)
    verdict, reason = _explain(trace, rows, deep, category)
    return ExpectedReport(reference, doc_id, verdict, reason, category, scope, rows, deep)


# --------------------------------------------------------------------------------------------- which document


def _resolve(reference: str, documents: Sequence[Document]) -> Document | None:
    wanted = reference.strip()
    doc_id, title = _as_doc_id(wanted), wanted.casefold()
    by_name = (d for d in documents if d.doc_id == doc_id or d.source == wanted)
    by_title = (d for d in documents if d.title.casefold() == title)
    return next(by_name, None) or next(by_title, None)


def _as_doc_id(reference: str) -> str:
    return reference.strip().replace("\\", "/").removeprefix("./").removesuffix(".md")


def _stored(service: LookupService, generation: Generation, doc_id: str) -> tuple[str, str] | str | None:
    """``(category, scope)`` of a document's first chunk, None where there is none, or why that is unknown."""
    keys = [f"{doc_id}#chunk-{index}" for index in _FIRST_CHUNKS]
    timeout = service.settings.retrieval.lookup_timeout
    try:
        hits = service.pool.call(
            lambda: service.searcher.index.fetch(generation, keys, timeout=timeout), timeout, "the store"
        )
    except RagError as exc:
        return redact(exc)
    for hit in hits.values():
        return hit.chunk.category, hit.chunk.kb_scope
    return None


# --------------------------------------------------------------------------------------------- deeper than the window


def _deep(
    service: LookupService, generation: Generation, trace: RetrievalTrace, scopes: Scopes, doc_id: str
) -> tuple[DeepRank, ...]:
    """Each branch of the last attempt's query, without the category filter and, where one was on, with it."""
    attempts = trace.attempts
    if not attempts or not attempts[-1].query:
        return ()
    filters = dict.fromkeys([*(a.category_filter for a in attempts if a.category_filter), None])
    branches = [Branch(b.branch) for b in attempts[-1].branches]
    return tuple(
        _deep_rank(service, generation, branch, attempts[-1].query, SearchFilter(scopes, category), doc_id)
        for category in filters
        for branch in branches
    )


def _deep_rank(
    service: LookupService, generation: Generation, branch: Branch, query: str, where: SearchFilter, doc_id: str
) -> DeepRank:
    limits = service.settings.retrieval
    try:
        answer = service.pool.call(
            lambda: _search(service, generation, branch, query, where), limits.lookup_timeout, f"the {branch} search"
        )
    except RagError as exc:
        return DeepRank(branch, where.category, DEPTH, error=redact(exc))
    for rank, hit in enumerate(answer.hits, start=1):
        if hit.chunk.doc_id == doc_id and where.scopes.admits(hit.chunk.kb_scope):
            return DeepRank(branch, where.category, DEPTH, rank, hit.chunk.evidence_key, hit.score)
    return DeepRank(branch, where.category, DEPTH)


def _search(
    service: LookupService, generation: Generation, branch: Branch, query: str, where: SearchFilter
) -> SearchAnswer:
    index, timeout = service.searcher.index, service.settings.retrieval.lookup_timeout
    if branch is Branch.BM25:
        text = search_text(query)
        return index.search_bm25(generation, text, where, DEPTH, timeout=timeout, with_vectors=False)
    return index.search_dense(generation, _vector(service, generation, query, timeout), where, DEPTH, timeout=timeout)


def _vector(service: LookupService, generation: Generation, query: str, timeout: float) -> Any:
    searcher = service.searcher
    known = searcher.vectors.get(generation.profile.profile_id, query)
    return searcher.embedder.embed_query(query, timeout=timeout) if known is None else known


# --------------------------------------------------------------------------------------------- in words


def _returned(attempts: Sequence[AttemptTrace], rows: Sequence[tuple[AttemptName, Candidate]]) -> bool:
    return bool(attempts) and any(c.evidence_rank for name, c in rows if name is attempts[-1].name)


def _explain(
    trace: RetrievalTrace,
    rows: Sequence[tuple[AttemptName, Candidate]],
    deep: Sequence[DeepRank],
    category: str,
) -> tuple[Verdict, str]:
    chosen = [c for name, c in rows if name is trace.selected_attempt] or [c for _, c in rows]
    kept = [c for c in chosen if c.projection_rank or c.evidence_rank]
    if kept and trace.selected_attempt in {name for name, _ in rows}:
        best = min(kept, key=lambda c: c.evidence_rank or 0)
        shown = f"place {best.projection_rank} for the agent" if best.projection_rank else "cut from the agent's view"
        return Verdict.RETURNED, f"evidence {best.evidence_rank}, {shown}"
    if chosen:
        best = min(chosen, key=lambda c: c.original_rank or c.rrf_rank or len(chosen) + DEPTH)
        return Verdict.DROPPED, f"dropped in stage {best.drop_stage} with {best.drop_reason}"
    reached = [d for d in deep if d.rank is not None]
    free = [d for d in reached if d.category is None]
    selected = next((a for a in trace.attempts if a.name is trace.selected_attempt), None)
    filtered = selected.category_filter if selected else None
    if filtered is not None and filtered != category:
        ranks = ", ".join(f"{d.branch} {d.rank}" for d in free)
        return (
            Verdict.FILTER_EXCLUDED,
            f"the category filter {filtered!r} left it out; without it: {ranks or 'no rank'}",
        )
    if reached:
        ranks = ", ".join(f"{d.branch} {d.rank}" + (f" in {d.category!r}" if d.category else "") for d in reached)
        return Verdict.BEYOND_WINDOW, f"beyond the window: {ranks}"
    failed = [d for d in deep if d.error]
    if failed or not deep:
        return Verdict.UNKNOWN, failed[
            0
        ].error or "" if failed else "the lookup searched nothing, or its query is not stored"
    return Verdict.BELOW_EVERYTHING, f"in the index, but not among the first {DEPTH:,} of any branch"


def _candidate_line(name: AttemptName, candidate: Candidate) -> str:
    ranks = {
        "dense": candidate.dense_rank,
        "BM25": candidate.bm25_rank,
        "RRF": candidate.rrf_rank,
        "rerank": candidate.rerank_rank,
        "evidence": candidate.evidence_rank,
        "pack": candidate.pack_rank,
        "projection": candidate.projection_rank,
    }
    shown = ", ".join(f"{stage} {rank}" for stage, rank in ranks.items() if rank is not None)
    drop = f"; dropped in {candidate.drop_stage}: {candidate.drop_reason}" if candidate.drop_reason else ""
    return f"{name} {candidate.evidence_key}: {shown}{drop}"


def _deep_line(deep: DeepRank) -> str:
    where = f"in category {deep.category!r}" if deep.category else "without category filter"
    if deep.error:
        return f"{deep.branch}, {where}: not known ({deep.error})"
    place = f"rank {deep.rank} ({deep.evidence_key})" if deep.rank else f"not among the first {deep.depth:,}"
    return f"{deep.branch}, {where}: {place}"
