"""The event stream of one call (``diagnosis_event``): what happened, in order, as metadata only.

A stage knows how long it took, not when it began: its event stands where the durations before it add up to, the two
branches side by side, never later than the end of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from core.audit.bounds import clean, cut, number, whole
from core.audit.columns import Status
from core.codec import to_json
from core.model import AttemptTrace, LookupResult, Stage, StageStatus, StageTrace

STARTED: Final = "lookup.started"
STAGE: Final = "stage.{}"
ATTEMPT: Final = "attempt.finished"
FALLBACK: Final = "lookup.fallback"
FINISHED: Final = "lookup.finished"
_BEFORE: Final = (Stage.TRANSFORM,)
_PARALLEL: Final = (Stage.DENSE, Stage.BM25)


def events(
    result: LookupResult, *, invocation_id: str, created_at: datetime, status: Status, facts: Mapping[str, Any]
) -> tuple[dict[str, Any], ...]:
    """Rows of ``diagnosis_event``, numbered from 1. ``facts`` are attributes of the start (tool, origin, lengths);
    ``result`` is redacted already."""
    trace = result.retrieval_trace
    total = trace.timings.total_ms
    common = {
        "invocation_id": cut(invocation_id, 64),
        "session_id": cut(trace.session_id, 128),
        "run_id": cut(trace.run_id, 128),
        "trace_id": cut(trace.trace_id, 64),
    }
    rows: list[dict[str, Any]] = []
    for at, event in _happened(result, status, facts):
        ms = min(at, total) if total is not None else at
        rows.append(
            {
                **_EMPTY,
                **common,
                **event,
                "sequence": len(rows) + 1,
                "created_at": created_at + timedelta(milliseconds=ms),
            }
        )
    return tuple(rows)


_EMPTY: Final = dict.fromkeys(("attempt", "stage", "status", "count_in", "count_out", "ms"))


def _happened(result: LookupResult, status: Status, facts: Mapping[str, Any]) -> Iterator[tuple[float, dict[str, Any]]]:
    """Milliseconds since the start, and what there is of a row."""
    trace = result.retrieval_trace
    at = 0.0
    yield at, _event(STARTED, facts)
    for stage in trace.stages:
        if stage.stage in _BEFORE:
            at += stage.ms or 0.0
            yield from _stage(at, stage, None)
    for number_, attempt in enumerate(trace.attempts):
        if number_ and trace.fallback_reason is not None:
            yield at, _event(FALLBACK, {"reason": trace.fallback_reason.value}, attempt=attempt.name.value)
        began, branches = at, 0.0
        for stage in attempt.stages:
            if stage.stage in _PARALLEL:
                branches = max(branches, stage.ms or 0.0)
                yield from _stage(began + (stage.ms or 0.0), stage, attempt)
                at = began + branches
            else:
                at += stage.ms or 0.0
                yield from _stage(at, stage, attempt)
        yield at, _attempt(attempt)
    for stage in trace.stages:
        if stage.stage not in _BEFORE:
            at += stage.ms or 0.0
            yield from _stage(at, stage, None)
    total = trace.timings.total_ms
    end = {
        "status": status.value,
        "evidence_status": result.evidence_status.value,
        "relevance_level": result.relevance_level.value if result.relevance_level else None,
        "returned": result.returned_count,
        "error_class": result.error_class,
        "degraded": len(trace.degraded),
        "truncated": bool(result.tool_result and result.tool_result.truncated),
    }
    yield at if total is None else total, _event(FINISHED, end, status=status.value, ms=number(total))


def _stage(at: float, stage: StageTrace, attempt: AttemptTrace | None) -> Iterator[tuple[float, dict[str, Any]]]:
    if stage.status is StageStatus.NOT_RUN:
        return
    yield (
        at,
        _event(
            STAGE.format(stage.stage.value),
            {"error_class": stage.error_class} if stage.error_class else {},
            attempt=attempt.name.value if attempt else None,
            stage=stage.stage.value,
            status=stage.status.value,
            count_in=whole(stage.count_in),
            count_out=whole(stage.count_out),
            ms=number(stage.ms),
        ),
    )


def _attempt(attempt: AttemptTrace) -> dict[str, Any]:
    attributes = {
        "low_quality": attempt.low_quality,
        "top_quality": number(attempt.top_quality),
        "relevance_level": attempt.relevance_level.value if attempt.relevance_level else None,
        "filtered": attempt.category_filter is not None,
        "scope_violations": attempt.scope_violations,
        "degraded": len(attempt.degraded),
    }
    return _event(
        ATTEMPT,
        attributes,
        attempt=attempt.name.value,
        status=attempt.status.value,
        count_out=whole(attempt.candidate_count),
    )


def _event(kind: str, attributes: Mapping[str, Any], **columns: Any) -> dict[str, Any]:
    return {"event_type": kind, **columns, "attributes": clean(to_json(dict(attributes)))}
