"""The end of a lookup, good or bad: projected for the agent, audited, handed over (DESIGN 3.10 and 3.11)."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from core.errors import Busy, DeadlineExceeded, InvalidSettings, RagError, redact
from core.lookup_request import LookupOutcome
from core.lookup_run import Run
from core.model import EvidenceStatus, LookupResult, RagToolResult, Stage, StageStatus, StageTrace
from core.ports import AuditReceipt, AuditRecord, AuditSink
from core.stages.assemble import assemble_failure
from core.stages.project import Bounds, Projected, project, readable
from core.stages.transform import MAX_QUERY_CHARS
from core.workers import Workers

log = logging.getLogger("core.lookup")
FAILED: Final = "failed"
_GRACE: Final = 1.0  # seconds for a sink to find its outbox after the database has let its time pass


def project_result(result: LookupResult, tool_call_id: str, bounds: Bounds) -> Projected:
    return project(
        result.evidence,
        status=result.evidence_status,
        level=result.relevance_level,
        query=result.query,
        tool_call_id=tool_call_id,
        bounds=bounds,
    )


def failure(run: Run, error: RagError, bounds: Bounds) -> LookupResult:
    """The result of a refused or failed lookup, with whatever trace there is. The agent's part is ``ERROR``."""
    query = readable(run.request.query[:MAX_QUERY_CHARS])
    result = assemble_failure(query, error, run.trace())
    try:
        projected = run.recorder.count(Stage.PROJECT, project_result, result, run.tool_call_id, bounds)
        tool, report = projected.tool_result, projected.report
    except InvalidSettings:  # bounds that hold nothing at all: the smallest answer goes out regardless
        tool, report = RagToolResult(EvidenceStatus.ERROR, readable(run.tool_call_id), "", (), None, True, 0), None
    return replace(result, tool_result=tool, projection=report, retrieval_trace=run.trace(complete=True))


def unexpected(run: Run, exc: Exception) -> RagError:
    """An error nobody foresaw, as one of ours. The log has its place in the code; its text may hold what it likes and
    is redacted."""
    frames = traceback.extract_tb(exc.__traceback__)[-3:]
    place = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
    log.error("lookup %s failed: %s: %s at %s", run.trace_id, type(exc).__name__, redact(exc), place)
    return RagError(f"the lookup failed inside ({type(exc).__name__}); the log names trace {run.trace_id}")


def hand_over(
    run: Run,
    result: LookupResult,
    error: RagError | None,
    audit: AuditSink,
    pool: Workers,
    *,
    settings_snapshot: Mapping[str, Any],
    timeout: float,
) -> LookupOutcome:
    """Writes the audit record, then returns. The stored times end before the audit; the returned object adds its own.

    The sink keeps to ``timeout`` by itself; one that hangs all the same is left after a second more.
    """
    request = run.request
    record = AuditRecord(
        invocation_id=run.invocation_id,
        tool_name=request.tool_name,
        created_at=run.created_at,
        query=request.query,
        result=result,
        settings_snapshot=settings_snapshot,
        actor=request.actor,
    )
    began = time.perf_counter()
    try:
        receipt = _recorded(audit, record, pool, timeout)
    except Exception as exc:  # noqa: BLE001 - an answer that was found is not lost because its record was
        log.error("lookup %s was not audited: %s: %s", run.trace_id, type(exc).__name__, redact(exc))
        receipt = AuditReceipt(run.invocation_id, FAILED, 0.0, f"{type(exc).__name__}: {redact(exc)}")
    ms = (time.perf_counter() - began) * 1000
    trace = result.retrieval_trace
    status = StageStatus.ERROR if receipt.state == FAILED else StageStatus.COMPLETE
    audited = StageTrace(Stage.AUDIT, status, ms=ms, reason=receipt.reason)
    trace = replace(trace, timings=replace(trace.timings, audit_ms=ms), stages=(*trace.stages, audited))
    return LookupOutcome(replace(result, retrieval_trace=trace), receipt, error)


def _recorded(audit: AuditSink, record: AuditRecord, pool: Workers, timeout: float) -> AuditReceipt:
    try:
        return pool.call(lambda: audit.record(record, timeout=timeout), timeout + _GRACE, "the audit")
    except DeadlineExceeded as exc:
        raise DeadlineExceeded(f"{redact(exc)}; the record may still be written") from exc
    except Busy:  # every thread hangs in a store: the record of that is the last thing to leave out
        return audit.record(record, timeout=timeout)
