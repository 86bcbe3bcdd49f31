"""What one running lookup knows so far, its clock, and the trace that all of it becomes."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from datetime import datetime

from core.errors import DeadlineExceeded
from core.knobs import Knobs
from core.lookup_request import LookupRequest
from core.model import (
    AttemptName,
    Costs,
    FallbackReason,
    Fusion,
    Mode,
    QueryPlan,
    RetrievalTrace,
    Scopes,
    Timings,
)
from core.ports import Clock, Snapshot
from core.trace import Attempt, Recorder, costs, lookup_stages, timings, trace_bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """What every attempt of a lookup works with, resolved once and held to the end."""

    snapshot: Snapshot
    scopes: Scopes
    knobs: Knobs
    plan: QueryPlan


class Run:
    """The working state of one lookup; a new one each call, never shared.

    Attributes that are still None belong to steps that have not been reached.
    """

    def __init__(self, request: LookupRequest, clock: Clock, *, fingerprint: str, code_version: str) -> None:
        self.request = request
        self.trace_id = uuid.uuid4().hex
        self.invocation_id = uuid.uuid4().hex
        self.tool_call_id = request.tool_call_id or f"call_{self.invocation_id}"
        self.created_at: datetime = clock.now()
        self.recorder = Recorder()
        self.attempts: list[Attempt] = []
        self.degraded: list[str] = []
        self.selected: AttemptName | None = None
        self.fallback: FallbackReason | None = None
        self.snapshot: Snapshot | None = None
        self.scopes: Scopes | None = None
        self.knobs: Knobs | None = None
        self.plan: QueryPlan | None = None
        self.packed_text: str | None = None
        self.reranker_model: str | None = None
        self._clock = clock
        self._began = time.perf_counter()
        self._started = clock.monotonic()
        self._deadline: float | None = None
        self._fingerprint = fingerprint
        self._code_version = code_version

    def set_deadline(self, seconds: float) -> None:
        """The whole lookup may take ``seconds``, counted from its beginning."""
        self._deadline = self._started + seconds

    def left(self, limit: float) -> float:
        """Seconds that the next call may take: ``limit``, or what the whole lookup still has. Raises DeadlineExceeded
        when that is nothing."""
        if self._deadline is None:
            return limit
        remaining = self._deadline - self._clock.monotonic()
        if remaining <= 0:
            raise DeadlineExceeded("the lookup used up its time (retrieval.lookup_timeout)")
        return min(limit, remaining)

    def rest(self, limit: float) -> float:
        """Like ``left``, for a call that may fail without loss: a last instant instead of an error."""
        try:
            return self.left(limit)
        except DeadlineExceeded:
            return 0.001

    def finished(self, attempt: Attempt) -> Attempt:
        self.attempts.append(attempt)
        return attempt

    def amend(self, attempt: Attempt) -> Attempt:
        """Takes the attempt's newer state in the place of its older one."""
        self.attempts = [attempt if known.name is attempt.name else known for known in self.attempts]
        return attempt

    def trace(self, *, attempts: bool = True, complete: bool = False) -> RetrievalTrace:
        """The trace so far, without its ``attempts`` where only its facts are read; ``complete`` adds the sums that are
        known only at the end."""
        snapshot, knobs = self.snapshot, self.knobs
        generation = snapshot.generation if snapshot else None
        stages = lookup_stages(self.recorder)
        everywhere = [reason for attempt in self.attempts for reason in attempt.degraded]
        what_if = self.request.what_if
        trace = RetrievalTrace(
            trace_id=self.trace_id,
            created_at=self.created_at.isoformat(timespec="microseconds"),
            mode=knobs.mode if knobs else Mode.HYBRID,
            fusion=knobs.fusion if knobs else Fusion.CLIENT,
            kb_scope=str(self.scopes) if self.scopes else "",
            plan=self.plan,
            attempts=tuple(a.trace(self.scopes) for a in self.attempts if self.scopes and attempts),
            selected_attempt=self.selected,
            fallback_reason=self.fallback,
            stages=stages,
            gate=knobs.gate if knobs else None,
            degraded=tuple(dict.fromkeys([*self.degraded, *everywhere])),
            origin=self.request.origin,
            session_id=self.request.session_id,
            run_id=self.request.run_id,
            tool_call_id=self.tool_call_id,
            what_if=what_if.changes() if what_if else {},
            fingerprint=self._fingerprint,
            generation=generation.number if generation else None,
            collection=generation.collection if generation else "",
            corpus_snapshot=generation.corpus_snapshot if generation else "",
            embedding_profile=generation.profile.profile_id if generation else "",
            reranker_model=self.reranker_model,
            analysis_version=generation.analysis_version if generation else "",
            code_version=self._code_version,
        )
        if not complete:
            return trace
        spent: Costs = costs(self.attempts, self.packed_text)
        spent = replace(spent, trace_bytes=trace_bytes(replace(trace, costs=spent)))
        times: Timings = timings(self.attempts, stages, (time.perf_counter() - self._began) * 1000)
        return replace(trace, costs=spent, timings=times)
