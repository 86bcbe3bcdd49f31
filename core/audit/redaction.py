"""What a record may hold (``audit.content``): ``full`` everything, ``redacted`` and ``none`` no text of a query or a
document.

Keys, paths, ranks, scores, counts and hashes stay; so does the scope, which is a name and no text. Words that L0 found
in the query are text of the query. ``redacted`` keeps the agent's answer as hashes and lengths, ``none`` not at all.
Credentials are left out of all three.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from core.codec import to_data
from core.errors import redact
from core.model import (
    AttemptTrace,
    BranchTrace,
    Candidate,
    Evidence,
    LookupResult,
    QueryPlan,
    RagToolResult,
    RetrievalTrace,
    StageTrace,
    evolve,
)

HIDDEN: Final = "[query]"


class Content(StrEnum):
    REDACTED = "redacted"
    FULL = "full"
    NONE = "none"


def text_hash(text: str) -> str:
    """SHA-256 of ``text`` as UTF-8: the ``query_sha256`` of a query, and comparable to ``content_sha256``."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def described(text: str) -> dict[str, Any]:
    """``text`` by its hash and its length in characters."""
    return {"sha256": text_hash(text), "chars": len(text)}


def redact_result(
    result: LookupResult, content: Content | str, *, query: str | None = None, secrets: tuple[str, ...] = ()
) -> LookupResult:
    """``result`` as ``content`` allows it to be kept; the same value for ``full``.

    ``query`` is the text as it was asked, where the result holds it shortened. Raises ValueError for a word that is no
    ``Content``.
    """
    if Content(content) is Content.FULL:
        return result
    hide = _Hider(_spoken(result, query), secrets)
    pack, tool = result.context_pack, result.tool_result
    return replace(
        result,
        query="",
        evidence=tuple(_evidence(piece) for piece in result.evidence),
        context_pack=replace(pack, packed_text="") if pack else None,
        completeness_hint=hide.text(result.completeness_hint),
        message=hide.text(result.message),
        retrieval_trace=_trace(result.retrieval_trace, hide),
        tool_result=_without_text(tool) if tool else None,
    )


def redact_answer(answer: RagToolResult) -> dict[str, Any]:
    """What the agent saw as JSON data: texts by hash and length, the rest as it was."""
    data: dict[str, Any] = to_data(answer)
    data["query"] = described(answer.query)
    for item in data["evidence"]:
        for name in ("title", "breadcrumb", "excerpt"):
            item[name] = described(item[name])
    return data


def masked(data: Any, secrets: Sequence[str]) -> Any:
    """JSON data whose strings hold none of the ``secrets``."""
    if isinstance(data, str):
        for secret in filter(None, secrets):
            data = data.replace(secret, "***")
        return data
    if isinstance(data, dict):
        return {key: masked(value, secrets) for key, value in data.items()}
    if isinstance(data, list):
        return [masked(value, secrets) for value in data]
    return data


# --------------------------------------------------------------------------------------------- parts


class _Hider:
    """Takes the query's own text and credentials out of messages that foreign software may have put them into."""

    def __init__(self, spoken: Iterable[str], secrets: tuple[str, ...]) -> None:
        self._spoken = sorted({text for text in spoken if _telling(text)}, key=len, reverse=True)
        self._secrets = secrets

    def text(self, text: str) -> str:
        if not text:
            return text
        line = redact(text, self._secrets)
        for spoken in self._spoken:
            line = line.replace(spoken, HIDDEN)
        return line

    def maybe(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def all(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.text(text) for text in texts)


def _spoken(result: LookupResult, query: str | None) -> set[str]:
    plan = result.retrieval_trace.plan
    spoken = {query or "", result.query, *(attempt.query or "" for attempt in result.retrieval_trace.attempts)}
    if plan is not None:
        spoken |= {plan.original_query, plan.normalized_query, plan.rewritten_query}
    return {" ".join(text.split()) for text in spoken} | spoken


def _telling(text: str) -> bool:
    """One letter or a short ASCII word says nothing and would be found everywhere."""
    return len(text) >= (4 if text.isascii() else 2)


def _trace(trace: RetrievalTrace, hide: _Hider) -> RetrievalTrace:
    return replace(
        trace,
        plan=_plan(trace.plan, hide) if trace.plan else None,
        attempts=tuple(_attempt(attempt, hide) for attempt in trace.attempts),
        stages=tuple(_stage(stage, hide) for stage in trace.stages),
        degraded=hide.all(trace.degraded),
    )


def _plan(plan: QueryPlan, hide: _Hider) -> QueryPlan:
    l0 = replace(plan.l0, matched_keywords=(), entities=(), l0_titles=(), canonical_terms=(), aliases=())
    return replace(
        plan, original_query="", normalized_query="", rewritten_query="", l0=l0, reason=hide.maybe(plan.reason)
    )


def _attempt(attempt: AttemptTrace, hide: _Hider) -> AttemptTrace:
    return replace(
        attempt,
        query=None if attempt.query is None else "",
        branches=tuple(_branch(branch, hide) for branch in attempt.branches),
        stages=tuple(_stage(stage, hide) for stage in attempt.stages),
        candidates=tuple(_candidate(candidate) for candidate in attempt.candidates),
        degraded=hide.all(attempt.degraded),
    )


def _stage(stage: StageTrace, hide: _Hider) -> StageTrace:
    return stage if stage.reason is None else replace(stage, reason=hide.text(stage.reason))


def _branch(branch: BranchTrace, hide: _Hider) -> BranchTrace:
    return branch if branch.reason is None else replace(branch, reason=hide.text(branch.reason))


def _candidate(candidate: Candidate) -> Candidate:
    return evolve(candidate, title="", breadcrumb="", content=None, hit_reasons=_kinds(candidate.hit_reasons))


def _evidence(piece: Evidence) -> Evidence:
    return replace(piece, title="", breadcrumb="", content="", hit_reasons=_kinds(piece.hit_reasons))


@lru_cache(maxsize=256)
def _kinds(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """``alias:OOM→OutOfMemory`` names words of the query: its kind is what may stay."""
    if not any(":" in reason for reason in reasons):
        return reasons
    return tuple(dict.fromkeys(reason.partition(":")[0] for reason in reasons))


def _without_text(tool: RagToolResult) -> RagToolResult:
    evidence = tuple(replace(piece, title="", breadcrumb="", excerpt="") for piece in tool.evidence)
    return replace(tool, query="", evidence=evidence)
