"""Which stage sent a lookup another way than its case expects: what the attempts on record say of it."""

from __future__ import annotations

from typing import Final

from core.evaluation.cases import NONE, Case
from core.evaluation.observed import Observed
from core.model import AttemptName, Stage

RETRIEVE: Final = "retrieve"
GATE: Final = "gate"
FALLBACK: Final = "fallback"


def stage_of_way(case: Case, observed: Observed) -> str:
    """The stage at which the expected way was left. Meaningful only where it was left.

    ``transform``: a category filter that was expected is not there, or one is there that was not. ``retrieve``: the
    first attempt has no candidate at all. ``gate``: it called the first attempt good or low against expectation.
    ``fallback``: the retry did not do what the gate's answer asks for, or the attempts are not on record.
    """
    first = observed.attempts[0] if observed.attempts else None
    if first is None:
        return FALLBACK
    filtered, retried = first.category_filter is not None, len(observed.attempts) > 1
    wants_filter, wants_retry = _wanted(case)
    if wants_filter is not None and wants_filter is not filtered:
        return Stage.TRANSFORM.value
    if not first.rows:
        return RETRIEVE
    if wants_retry is retried:
        return GATE if retried else FALLBACK  # retried for another reason than the expected one
    return GATE if bool(first.low_quality) is retried else FALLBACK


def too_few(observed: Observed, least: int) -> str:
    """Why there are fewer than ``least`` pieces of evidence: fewer chunks were found, or they were dropped later."""
    found = len(observed.selected.rows) if observed.selected else least
    return RETRIEVE if found < least else Stage.EVIDENCE.value


def _wanted(case: Case) -> tuple[bool | None, bool | None]:
    """Whether the case expects a category filter and a retry; None: it does not say."""
    attempt, reason = case.expected_selected_attempt, case.expected_fallback_reason
    if attempt is None:
        retry = None if reason is None else reason != NONE
        return (True if retry else None), retry
    return attempt != AttemptName.UNFILTERED_VECTOR, attempt == AttemptName.UNFILTERED_VECTOR_RETRY
