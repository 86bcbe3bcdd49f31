"""The whole internal answer (DESIGN 3.9). Message and hint speak to the operator and the audit, not to the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.errors import RagError, redact
from core.model import (
    ContextPack,
    Evidence,
    EvidenceStatus,
    FallbackReason,
    LookupResult,
    RelevanceLevel,
    RerankTrace,
    RetrievalTrace,
)
from core.wording import counted

EMPTY_SCOPE: Final = (
    "The index holds no document of this scope ({}): name another scope, or rebuild with documents of it."
)
NOTHING_USABLE: Final = "Nothing usable in the knowledge base: go on with logs, metrics and alerts."
_MESSAGES: Final = {
    RelevanceLevel.PRECISE: "The evidence answers the query closely.",
    RelevanceLevel.REFERENCE: "The evidence is related: check it against logs, metrics and alerts.",
    None: "The evidence is weak, its quality lies below the reference threshold: go on with logs, metrics and alerts.",
}
_FALLBACKS: Final = {
    FallbackReason.LOW_QUALITY: "searched again without the category filter, whose hits were of low quality",
    FallbackReason.NO_EVIDENCE: "searched again without the category filter, which found nothing",
}


def assemble(
    query: str,
    evidence: Sequence[Evidence],
    *,
    candidate_count: int,
    level: RelevanceLevel | None,
    top_quality: float | None,
    context_pack: ContextPack | None,
    retrieval_trace: RetrievalTrace,
    rerank_trace: RerankTrace,
) -> LookupResult:
    """The result of a lookup that ran. ``found`` = there is evidence, whatever the level; False is no failure.

    ``candidate_count`` is the number of ranked candidates of the selected attempt. Without evidence there is no level.
    """
    found = bool(evidence)
    return LookupResult(
        trace_id=retrieval_trace.trace_id,
        query=query,
        found=found,
        evidence_status=EvidenceStatus.READY if found else EvidenceStatus.NO_EVIDENCE,
        evidence=tuple(evidence),
        candidate_count=candidate_count,
        returned_count=len(evidence),
        relevance_level=level if found else None,
        top_quality=top_quality,
        context_pack=context_pack,
        completeness_hint=completeness(evidence, candidate_count, context_pack, retrieval_trace),
        message=_MESSAGES[level] if found else _nothing(retrieval_trace),
        retrieval_trace=retrieval_trace,
        rerank_trace=rerank_trace,
    )


def _nothing(trace: RetrievalTrace) -> str:
    """Why there is no evidence, where the scope alone explains it."""
    empty = trace.plan is not None and trace.plan.l0.documents_in_scope == 0
    return EMPTY_SCOPE.format(trace.kb_scope) if empty else NOTHING_USABLE


def assemble_failure(query: str, error: RagError, retrieval_trace: RetrievalTrace) -> LookupResult:
    """The result of a lookup that failed: ``ERROR``, which is not the same as having found nothing."""
    return LookupResult(
        trace_id=retrieval_trace.trace_id,
        query=query,
        found=False,
        evidence_status=EvidenceStatus.ERROR,
        evidence=(),
        candidate_count=0,
        returned_count=0,
        relevance_level=None,
        top_quality=None,
        context_pack=None,
        completeness_hint="The lookup failed: whether the knowledge base holds anything is unknown.",
        message=redact(error),
        retrieval_trace=retrieval_trace,
        rerank_trace=RerankTrace(),
        error_class=error.error_class,
    )


def completeness(
    evidence: Sequence[Evidence], candidate_count: int, context_pack: ContextPack | None, trace: RetrievalTrace
) -> str:
    """One line: how much of what was found is here, and what the search had to do without."""
    documents = len({piece.doc_id or piece.evidence_key for piece in evidence})
    parts = [f"{len(evidence)} of {counted(candidate_count, 'candidate')}, from {counted(documents, 'document')}"]
    if trace.fallback_reason:
        parts.append(_FALLBACKS[trace.fallback_reason])
    if context_pack and context_pack.omitted_sources:
        parts.append(f"{len(context_pack.omitted_sources)} left out of the context pack")
    if trace.degraded:
        parts.append("degraded: " + ", ".join(trace.degraded))
    return "; ".join(parts) + "."
