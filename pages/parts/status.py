"""The strip at the top of a result: level, evidence status, attempt, fallback, time, generation and audit at a glance."""

from __future__ import annotations

from dataclasses import dataclass

from core.model import EvidenceStatus, FallbackReason, LookupResult, RelevanceLevel
from core.ports import AuditReceipt
from core.wording import evidence_pieces
from pages.parts.numbers import NONE, count, ms, score

_ATTEMPTS = {
    "FILTERED_VECTOR": "filtered",
    "UNFILTERED_VECTOR": "unfiltered",
    "UNFILTERED_VECTOR_RETRY": "retry",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One number of the strip, all of our own words. ``tone`` is a Streamlit colour name."""

    label: str
    value: str
    help: str = ""
    tone: str = ""


def status_facts(result: LookupResult, receipt: AuditReceipt | None = None) -> tuple[Fact, ...]:
    """The facts of the strip; ``receipt`` only for a lookup just made here (a stored one is recorded by being there)."""
    trace = result.retrieval_trace
    level = result.relevance_level.value if result.relevance_level else "none"
    good = "green" if result.relevance_level else ""  # READY without a level is evidence that may not be good enough
    tones = {EvidenceStatus.READY: good, EvidenceStatus.NO_EVIDENCE: "orange", EvidenceStatus.ERROR: "red"}
    tool = result.tool_result
    status = tool.evidence_status if tool else result.evidence_status
    levels = {RelevanceLevel.PRECISE: "green", RelevanceLevel.REFERENCE: "orange"}
    return (
        Fact("Evidence", status.value, "What the agent is told: READY, NO_EVIDENCE or ERROR.", tones[status]),
        Fact(
            "Level",
            level,
            f"Best quality {score(result.top_quality)} against the thresholds of the gate.",
            levels[result.relevance_level] if result.relevance_level else "gray",
        ),
        Fact(
            "Returned",
            f"{count(tool.returned_count if tool else None)} of {count(result.candidate_count)}",
            "Pieces of evidence that the agent sees, of all candidates.",
        ),
        Fact(
            "Attempt",
            _ATTEMPTS.get(trace.selected_attempt.value, NONE) if trace.selected_attempt else NONE,
            trace.selected_attempt.value if trace.selected_attempt else "No attempt was made.",
        ),
        Fact(
            "Fallback", _fallback(trace.fallback_reason), trace.fallback_reason.value if trace.fallback_reason else ""
        ),
        Fact("Total", ms(trace.timings.total_ms), "From the question to the result."),
        Fact("Generation", count(trace.generation), "The build of the index that was searched."),
        Fact(
            "Audit",
            receipt.state if receipt else "recorded",
            "What became of the record of this lookup.",
            _audit(receipt),
        ),
    )


def _fallback(reason: FallbackReason | None) -> str:
    return {FallbackReason.LOW_QUALITY: "low quality", FallbackReason.NO_EVIDENCE: "no evidence", None: "none"}[reason]


def _audit(receipt: AuditReceipt | None) -> str:
    return {"recorded": "", "queued": "orange", "failed": "red"}.get(receipt.state if receipt else "recorded", "")


def made_with(result: LookupResult) -> str:
    """What this result was made with, whatever the knobs say by now. Our own words and numbers."""
    trace = result.retrieval_trace
    limits = [branch.limit for attempt in trace.attempts for branch in attempt.branches if branch.limit]
    asked = f"retrieve_k {max(limits)} · " if limits else ""
    return f"Made with: {trace.mode.value} · {asked}{evidence_pieces(len(result.evidence))} kept"


def remarks(result: LookupResult) -> tuple[str, ...]:
    """Everything that makes this lookup less, or other, than a plain one. May hold foreign text: draw it as text."""
    trace = result.retrieval_trace
    lines = [
        f"Degraded: {reason}"
        for reason in dict.fromkeys((*trace.degraded, *(d for a in trace.attempts for d in a.degraded)))
    ]
    if trace.what_if:
        knobs = ", ".join(f"{name} = {value}" for name, value in trace.what_if.items())
        lines.append(f"What-if, not the saved settings: {knobs}")
    if trace.gate and not trace.gate.calibrated:
        lines.append("The distance scale of this embedding profile is not calibrated: levels and gate are a guess.")
    violations = sum(attempt.scope_violations for attempt in trace.attempts)
    if violations:
        lines.append(f"{violations} hits outside the scope were dropped: the store's filter did not hold.")
    if any(attempt.candidates_truncated for attempt in trace.attempts):
        lines.append("More candidates were found than a trace keeps: the lists below are cut.")
    return tuple(lines)
