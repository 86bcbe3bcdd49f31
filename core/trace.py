"""Builds the trace of a lookup while its stages run, and strips it for storage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from core.codec import to_json
from core.errors import RagError, redact
from core.model import (
    AttemptName,
    AttemptTrace,
    BranchTrace,
    Candidate,
    Costs,
    LookupResult,
    RerankTrace,
    RetrievalTrace,
    Scopes,
    Stage,
    StageStatus,
    StageTrace,
    Timings,
    evolve,
)
from core.stages.evidence import Selected
from core.stages.fuse import Fused
from core.stages.quality import Verdict
from core.stages.retrieve import Retrieved

P = ParamSpec("P")
MAX_CANDIDATES: Final = 200
_LOOKUP_STAGES: Final = (Stage.TRANSFORM, Stage.PACK, Stage.ASSEMBLE, Stage.PROJECT)
_ATTEMPT_STAGES: Final = (Stage.DENSE, Stage.BM25, Stage.FUSE, Stage.RERANK, Stage.EVIDENCE)


class Counted(Protocol):
    @property
    def count_in(self) -> int: ...
    @property
    def count_out(self) -> int: ...


C = TypeVar("C", bound=Counted)
T = TypeVar("T")


@dataclass(slots=True)
class Recorder:
    """Status, counts and milliseconds of each stage, in the order they ran."""

    stages: list[StageTrace] = field(default_factory=list)

    def count(self, stage: Stage, call: Callable[P, C], /, *args: P.args, **kwargs: P.kwargs) -> C:
        """Runs a stage whose value counts what went in and out. An error is recorded and goes on."""
        result, ms = self._timed(stage, call, *args, **kwargs)
        self.stages.append(StageTrace(stage, StageStatus.COMPLETE, result.count_in, result.count_out, ms))
        return result

    def time(self, stage: Stage, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a stage that makes one value of one."""
        result, ms = self._timed(stage, call, *args, **kwargs)
        self.stages.append(StageTrace(stage, StageStatus.COMPLETE, ms=ms))
        return result

    def amend(self, **changes: Any) -> None:
        """Corrects the stage that ran last: its status or its reason."""
        self.stages[-1] = replace(self.stages[-1], **changes)

    def branch(self, trace: BranchTrace) -> None:
        stage = Stage(trace.branch.value)
        hits, ms = trace.hits, trace.ms
        self.stages.append(StageTrace(stage, trace.status, trace.limit, hits, ms, trace.reason, trace.error_class))

    def whole(self, expected: Sequence[Stage]) -> tuple[StageTrace, ...]:
        """Every expected stage in order; one that never ran is ``not_run``, with null counts."""
        ran = {trace.stage: trace for trace in self.stages}
        return tuple(ran.get(stage) or StageTrace(stage, StageStatus.NOT_RUN) for stage in expected)

    def _timed(self, stage: Stage, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> tuple[T, float]:
        began = time.perf_counter()
        try:
            result = call(*args, **kwargs)
        except RagError as exc:
            ms = (time.perf_counter() - began) * 1000
            error = StageTrace(stage, StageStatus.ERROR, None, None, ms, redact(exc), exc.error_class)
            self.stages.append(error)
            raise
        return result, (time.perf_counter() - began) * 1000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One retrieval round with everything later stages need of it. ``error`` is set when no branch answered: verdict
    and selection mean nothing then."""

    name: AttemptName
    query: str
    category: str | None
    retrieved: Retrieved
    stages: tuple[StageTrace, ...] = ()
    fused: Fused | None = None
    verdict: Verdict = field(default_factory=Verdict)
    selected: Selected = field(default_factory=Selected)
    candidates: tuple[Candidate, ...] = ()
    degraded: tuple[str, ...] = ()
    error: RagError | None = None
    reranked_documents: int | None = None
    cache_hit: bool | None = None

    def trace(self, scopes: Scopes) -> AttemptTrace:
        verdict, shown = self.verdict, bounded(self.candidates)
        judged = self.error is None
        return AttemptTrace(
            name=self.name,
            status=StageStatus.ERROR if self.error else StageStatus.COMPLETE,
            query=self.query,
            category_filter=self.category,
            kb_scope=str(scopes),
            branches=self.retrieved.branches,
            stages=self.stages,
            candidates=shown,
            candidate_count=len(self.candidates),
            candidates_truncated=len(shown) < len(self.candidates),
            top_quality=verdict.top_quality,
            top_quality_key=verdict.top_key,
            top_quality_basis=verdict.top_basis,
            relevance_level=verdict.level,
            low_quality=verdict.low_quality if judged else None,
            scope_violations=self.fused.scope_violations if self.fused else 0,
            degraded=self.degraded,
        )

    def rerank_trace(self) -> RerankTrace:
        chosen = self.selected
        repeats = self.fused.merged if self.fused else ()
        kept = tuple(piece.evidence_key for piece in chosen.evidence)
        return RerankTrace(self.name, repeats + chosen.merged, chosen.dropped, kept, chosen.counts)


def attempt_stages(recorder: Recorder) -> tuple[StageTrace, ...]:
    """The five stages of an attempt, also those that did not run."""
    return recorder.whole(_ATTEMPT_STAGES)


def lookup_stages(recorder: Recorder) -> tuple[StageTrace, ...]:
    """The stages around the attempts, also those that were not reached."""
    return recorder.whole(_LOOKUP_STAGES)


def bounded(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """At most 200, in order; evidence is never the part left out."""
    if len(candidates) <= MAX_CANDIDATES:
        return tuple(candidates)
    must = [i for i, c in enumerate(candidates) if c.evidence_rank is not None]
    rest = [i for i, c in enumerate(candidates) if c.evidence_rank is None]
    shown = sorted(must[:MAX_CANDIDATES] + rest[: max(0, MAX_CANDIDATES - len(must))])
    return tuple(candidates[i] for i in shown)


# --------------------------------------------------------------------------------------------- times and costs


def timings(attempts: Sequence[Attempt], stages: Sequence[StageTrace], total_ms: float) -> Timings:
    """Milliseconds, summed over the attempts; null where a stage never ran."""
    of_attempts = [trace for attempt in attempts for trace in attempt.stages]
    fusions = [attempt.retrieved.fusion_ms for attempt in attempts]
    return Timings(
        query_rewrite_ms=_total(stages, Stage.TRANSFORM),
        embedding_ms=_sum(attempt.retrieved.embedding_ms for attempt in attempts),
        dense_ms=_total(of_attempts, Stage.DENSE),
        bm25_ms=_total(of_attempts, Stage.BM25),
        fusion_ms=_sum([_total(of_attempts, Stage.FUSE), *fusions]),
        rerank_ms=_total(of_attempts, Stage.RERANK),
        evidence_ms=_total(of_attempts, Stage.EVIDENCE),
        context_pack_ms=_total(stages, Stage.PACK),
        project_ms=_total(stages, Stage.PROJECT),
        total_ms=total_ms,
    )


def costs(attempts: Sequence[Attempt], packed_text: str | None) -> Costs:
    """Token numbers are estimates (``estimate_tokens``); ``embedding_tokens`` counts only what was really embedded."""
    embedded = [a.query for a in attempts if a.cache_hit is False]
    hits = [a.cache_hit for a in attempts if a.cache_hit is not None]
    sent = [a.reranked_documents for a in attempts if a.reranked_documents is not None]
    return Costs(
        embedding_tokens=sum(map(estimate_tokens, embedded)) if embedded else None,
        reranker_documents=sum(sent) if sent else None,
        context_tokens=estimate_tokens(packed_text) if packed_text is not None else None,
        retries=sum(branch.retries for a in attempts for branch in a.retrieved.branches),
        embedding_cache_hit=all(hits) if hits else None,
    )


def estimate_tokens(text: str) -> int:
    """A rough number without a tokenizer: four ASCII characters a token, one of any other."""
    ascii_chars = len(text.encode("ascii", "ignore"))
    return -(-ascii_chars // 4) + len(text) - ascii_chars


def trace_bytes(trace: RetrievalTrace) -> int:
    """Size of the trace as JSON without content, as it is stored."""
    return len(to_json(trace_without_content(trace)).encode())


def _total(stages: Sequence[StageTrace], stage: Stage) -> float | None:
    return _sum(trace.ms for trace in stages if trace.stage is stage)


def _sum(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


# --------------------------------------------------------------------------------------------- for storage


def trace_without_content(trace: RetrievalTrace) -> RetrievalTrace:
    attempts = tuple(
        replace(attempt, candidates=tuple(evolve(c, content=None) for c in attempt.candidates))
        for attempt in trace.attempts
    )
    return replace(trace, attempts=attempts)


def without_content(result: LookupResult) -> LookupResult:
    """The result without any document text: candidates, evidence, pack and excerpts keep their keys, ranks, hashes
    and sizes. The query is not content and stays."""
    pack, tool = result.context_pack, result.tool_result
    return replace(
        result,
        evidence=tuple(replace(piece, content="") for piece in result.evidence),
        context_pack=replace(pack, packed_text="") if pack else None,
        retrieval_trace=trace_without_content(result.retrieval_trace),
        tool_result=replace(tool, evidence=tuple(replace(e, excerpt="") for e in tool.evidence)) if tool else None,
    )
