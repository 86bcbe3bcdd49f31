"""The evidence lookup: the only place that knows the order of the stages.

query ─ transform ─ retrieve ─ fuse ─ (rerank) ─ evidence ─ pack ─ assemble ─ project ─ audit ─▶ agent
           L0        dense∥BM25  RRF              gate ─┐
                        ▲                               │ low quality and a category filter was on:
                        └── once: original query, no category filter
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from core import __version__
from core.errors import DeadlineExceeded, RagError, redact
from core.handover import failure, hand_over, project_result, unexpected
from core.lookup_request import TOOL_NAME, LookupOutcome, LookupRequest, WhatIf
from core.lookup_run import Ready, Run
from core.model import AttemptName, Branch, Candidate, LookupResult, Mode, SearchFilter, Stage
from core.ports import AuditSink, Clock, Embedder, Reranker, SnapshotSource, VectorIndex
from core.prepare import prepare
from core.searcher import Searcher, no_branch
from core.settings import Settings
from core.stages.assemble import assemble
from core.stages.evidence import Selected, fallback_reason, replaced, select
from core.stages.fuse import Fused, Guard, dense_order, fuse
from core.stages.pack import mark_packed, pack
from core.stages.project import Bounds, mark_projected
from core.stages.quality import Verdict, judge, score_quality
from core.stages.rerank import rerank
from core.stages.retrieve import Retrieved
from core.stages.transform import explainer, transform
from core.trace import Attempt, Recorder, attempt_stages
from core.workers import Workers

__all__ = ["TOOL_NAME", "LookupOutcome", "LookupRequest", "LookupService", "WhatIf"]

log = logging.getLogger(__name__)


class LookupService:
    """Runs lookups; one a process, shared by its threads. ``close`` it at the end."""

    def __init__(
        self,
        *,
        index: VectorIndex,
        embedder: Embedder,
        reranker: Reranker | None,
        snapshots: SnapshotSource,
        audit: AuditSink,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self.reranker = reranker
        self.snapshots = snapshots
        self.audit = audit
        self.clock = clock
        self.settings = settings
        self.pool = Workers()
        self.searcher = Searcher(index, embedder, self.pool, settings)
        b = settings.projection
        self._bounds = Bounds(b.max_query_chars, b.max_excerpt_chars, b.max_evidence, b.max_bytes)
        self._public = settings.public()
        self._fingerprint = settings.fingerprint

    def close(self) -> None:
        self.pool.shutdown()

    @property
    def warming(self) -> bool:
        """Nothing has been searched yet: a first lookup may take longer and is given more time."""
        return self.searcher.warming

    def warm(self) -> None:
        """Loads model and collection, so that no lookup pays for it. Raises what the model or the store raises."""
        self.searcher.warm(self.snapshots.current().generation)

    def lookup(self, request: LookupRequest) -> LookupOutcome:
        """The answer to one call, audited before it is handed over.

        Never raises for what goes wrong inside: a refused or failed lookup is an outcome too, with ``error`` set and
        ``ERROR`` for the agent.
        """
        run = Run(request, self.clock, fingerprint=self._fingerprint, code_version=__version__)
        error: RagError | None = None
        try:
            result = self._answer(run)
        except RagError as exc:
            error = exc
        except Exception as exc:  # noqa: BLE001 - the agent gets ERROR, the log the place, nobody a stack trace
            error = unexpected(run, exc)
        if error is not None:
            result = failure(run, error, self._bounds)
        timeout = self.settings.audit.timeout
        return hand_over(run, result, error, self.audit, self.pool, settings_snapshot=self._public, timeout=timeout)

    # ------------------------------------------------------------------------------------------- the picture

    def _answer(self, run: Run) -> LookupResult:
        query, reranks = run.request.query, self.reranker is not None
        snapshot, scopes, knobs = prepare(run, self.snapshots, self.searcher, self.settings, has_reranker=reranks)
        reason = snapshot.degraded
        plan = run.plan = run.recorder.time(Stage.TRANSFORM, transform, query, scopes, snapshot.l0, l0_reason=reason)
        run.recorder.amend(status=plan.l0_status, reason=plan.reason)
        ready = Ready(snapshot, scopes, knobs, plan)

        category = None if knobs.category_filter_off else plan.l0.category_filter
        name = AttemptName.UNFILTERED_VECTOR if category is None else AttemptName.FILTERED_VECTOR
        attempt = self._attempt(run, ready, name, plan.rewritten_query, category)
        attempt = self._retry_if_low(run, ready, attempt)
        evidence, verdict = attempt.selected, attempt.verdict

        packed = run.recorder.count(Stage.PACK, pack, evidence.evidence, knobs.char_budget)
        run.packed_text = packed.pack.packed_text
        result = run.recorder.time(
            Stage.ASSEMBLE,
            assemble,
            query,
            evidence.evidence,
            candidate_count=evidence.count_in,
            level=verdict.level,
            top_quality=verdict.top_quality,
            context_pack=packed.pack,
            retrieval_trace=run.trace(attempts=False),
            rerank_trace=attempt.rerank_trace(),
        )
        projected = run.recorder.count(Stage.PROJECT, project_result, result, run.tool_call_id, knobs.bounds)
        candidates = mark_projected(mark_packed(attempt.candidates, packed.pack), projected.report)
        run.amend(replace(attempt, candidates=candidates))
        tool, report, trace = projected.tool_result, projected.report, run.trace(complete=True)
        return replace(result, tool_result=tool, projection=report, retrieval_trace=trace)

    def _attempt(self, run: Run, ready: Ready, name: AttemptName, query: str, category: str | None) -> Attempt:
        """One retrieval round, up to its evidence. Where no branch answered it carries the error instead."""
        recorder, where = Recorder(), SearchFilter(ready.scopes, category)
        found, cache_hit = self.searcher.search(run, ready, query, where)
        for branch in found.branches:
            recorder.branch(branch)
        attempt = Attempt(name, query, category, found, cache_hit=cache_hit, degraded=found.degraded)
        if found.failed:
            return run.finished(replace(attempt, stages=attempt_stages(recorder), error=no_branch(found)))

        fused = recorder.count(Stage.FUSE, _fuse, ready, found, where)
        attempt = replace(attempt, fused=fused, degraded=found.degraded + _alarm(run, fused, where))
        attempt, candidates = self._rerank(run, ready, recorder, attempt, fused.candidates)
        verdict, selected = recorder.time(Stage.EVIDENCE, _evidence, ready, found, fused, candidates)
        recorder.amend(count_in=selected.count_in, count_out=selected.count_out)
        stages = attempt_stages(recorder)
        return run.finished(
            replace(attempt, stages=stages, verdict=verdict, selected=selected, candidates=selected.candidates)
        )

    def _retry_if_low(self, run: Run, ready: Ready, first: Attempt) -> Attempt:
        """The attempt that serves: the first, or its one retry. A retry that fails outright has no result to replace
        anything with: evidence of the first stands then, degraded; without any, the lookup fails, since "nothing
        found" would be a guess."""
        if first.error is not None:
            raise first.error
        low, count = first.verdict.low_quality, first.selected.count_in
        run.fallback = fallback_reason(category_filter=first.category, candidates=count, low_quality=low)
        if run.fallback is not None:
            name, text = AttemptName.UNFILTERED_VECTOR_RETRY, ready.plan.normalized_query
            try:
                retry = self._attempt(run, ready, name, text, None)
                error = retry.error
            except DeadlineExceeded as exc:
                error = exc
            if error is None:
                run.amend(replace(first, candidates=replaced(first.candidates)))
                first = retry
            elif first.selected.evidence:
                run.degraded.append(f"the retry without category filter failed: {redact(error)}")
            else:
                raise error
        run.selected = first.name
        return first

    def _rerank(
        self, run: Run, ready: Ready, recorder: Recorder, attempt: Attempt, candidates: Sequence[Candidate]
    ) -> tuple[Attempt, Sequence[Candidate]]:
        if not ready.knobs.rerank or self.reranker is None:
            return attempt, candidates
        run.reranker_model = self.reranker.model
        text, top_n, timeout = ready.plan.normalized_query, ready.knobs.rerank_top_n, self.settings.rerank.timeout
        ranked = recorder.count(
            Stage.RERANK, rerank, candidates, text, self.reranker, self.pool, top_n=top_n, timeout=run.rest(timeout)
        )
        attempt = replace(attempt, reranked_documents=ranked.documents)
        if ranked.error is not None:
            recorder.amend(status=ranked.status, reason=ranked.reason, error_class=ranked.error.error_class)
            attempt = replace(attempt, degraded=(*attempt.degraded, f"rerank: {ranked.reason}"))
        return attempt, ranked.candidates


def _fuse(ready: Ready, found: Retrieved, where: SearchFilter) -> Fused:
    guard, explain, knobs = Guard(where, ready.snapshot.revisions), explainer(ready.plan.l0), ready.knobs
    if knobs.mode is Mode.DENSE:
        return dense_order(found.hits.get(Branch.DENSE, ()), guard, explain)
    return fuse(
        found.hits,
        guard,
        k=knobs.rrf_k,
        weights=knobs.weights,
        window=knobs.window,
        explain=explain,
        rows=found.rows,
    )


def _evidence(
    ready: Ready, found: Retrieved, fused: Fused, candidates: Sequence[Candidate]
) -> tuple[Verdict, Selected]:
    """Quality, level and gate over all ranked candidates; only then is anything de-duplicated or cut."""
    knobs, query = ready.knobs, ready.plan.normalized_query
    scored = score_quality(
        candidates,
        query,
        knobs.gate,
        query_vector=found.vector,
        vectors=fused.vectors,
        bm25_only=knobs.bm25_only,
    )
    verdict = judge(scored, knobs.gate)
    limit = knobs.max_chunks_per_document
    return verdict, select(scored, max_chunks_per_document=limit, return_n=knobs.return_n)


def _alarm(run: Run, fused: Fused, where: SearchFilter) -> tuple[str, ...]:
    """A hit outside the boundary is the store's fault or an attack: logged as an error, and the attempt says so."""
    count = fused.scope_violations
    if not count:
        return ()
    log.error("lookup %s: the store returned %d chunks outside %s; dropped", run.trace_id, count, where)
    return (f"scope_violation: {count} hits outside the filter were dropped",)
