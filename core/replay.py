"""Replay: a recorded lookup asked again, and why the answer differs now.

A second counterfactual run tells the index from the settings: the same question on the recorded generation, with
today's settings, as long as that generation is kept. If it gives the recorded answer, the index made the difference.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from core.difference import Comparison, compare
from core.errors import BadInput, NotFound, RagError, redact
from core.lookup_request import LookupOutcome, LookupRequest, WhatIf
from core.model import Document, LookupResult, Origin, RetrievalTrace
from core.stores import ConsoleQueries, SettingsSnapshots, StoredTrace

TOOL: Final = "replay"


class Cause(StrEnum):
    """What made the difference, as far as it can be told."""

    NOTHING = "nothing"
    INDEX = "index"
    SETTINGS = "settings"
    BOTH = "index_and_settings"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Replay:
    """``old_index`` is the counterfactual run on the recorded generation; None where there was no need or no such
    generation any more (``note`` says so)."""

    then: LookupResult
    now: LookupResult
    comparison: Comparison
    cause: Cause
    sentence: str
    old_index: LookupResult | None = None
    note: str = ""


class Lookups(Protocol):
    def lookup(self, request: LookupRequest) -> LookupOutcome: ...


class DocumentLists(Protocol):
    def all(self, generation: int | None = None) -> list[Document]: ...


class Replayer:
    """``settings`` are today's public settings. A replay is a lookup like any other: audited, as tool ``replay``."""

    def __init__(
        self,
        lookups: Lookups,
        queries: ConsoleQueries,
        snapshots: SettingsSnapshots,
        documents: DocumentLists,
        settings: dict[str, Any],
    ) -> None:
        self._lookups = lookups
        self._queries = queries
        self._snapshots = snapshots
        self._documents = documents
        self._settings = settings

    def question(self, stored: StoredTrace, typed: str = "") -> str:
        """The question of a stored lookup: recorded, kept for the console, or ``typed`` again. Raises BadInput when it
        is not stored and the typed one is another (its SHA-256 differs)."""
        kept = self._queries.get(stored.result.trace_id)
        known = stored.result.query or (kept.query if kept else "")
        if known:
            return known
        if not typed:
            raise BadInput(
                "the question of this lookup is not stored: type it again, it is checked against its SHA-256"
            )
        if hashlib.sha256(typed.encode("utf-8", "surrogatepass")).hexdigest() != stored.query_sha256:
            raise BadInput(
                "this is not the question of that lookup: its SHA-256 differs; type it exactly as it was asked"
            )
        return typed

    def replay(self, stored: StoredTrace, *, typed: str = "", actor: str = "") -> Replay:
        """Asks again, today. Raises BadInput (see ``question``) and what the lookup itself could not get past."""
        query, recorded = self.question(stored, typed), stored.result.retrieval_trace
        now = self._ask(query, recorded, None, actor)
        comparison = self._compare(stored.result, now)
        if comparison.same:
            return Replay(stored.result, now, comparison, Cause.NOTHING, _sentence(Cause.NOTHING, comparison))
        old_index, note = self._on_old_index(query, recorded, now, actor)
        cause = self._cause(stored.result, now, old_index)
        return Replay(stored.result, now, comparison, cause, _sentence(cause, comparison), old_index, note)

    def _ask(self, query: str, recorded: RetrievalTrace, generation: int | None, actor: str) -> LookupResult:
        what_if = WhatIf(**dict(recorded.what_if)) if recorded.what_if else None
        outcome = self._lookups.lookup(
            LookupRequest(
                query,
                kb_scope=recorded.kb_scope.split(",") if recorded.kb_scope else [],
                origin=Origin.CONSOLE,
                session_id=recorded.session_id,
                run_id=recorded.run_id,
                tool_name=TOOL,
                what_if=what_if,
                generation=generation,
                actor=actor,
            )
        )
        if outcome.error is not None:
            raise outcome.error
        return outcome.result

    def _on_old_index(
        self, query: str, recorded: RetrievalTrace, now: LookupResult, actor: str
    ) -> tuple[LookupResult | None, str]:
        if recorded.generation is None:
            return None, "the recorded lookup reached no index"
        if recorded.generation == now.retrieval_trace.generation:
            return None, "the index is the same generation"
        if self._listed(recorded.generation) is None:
            return None, f"generation {recorded.generation} is no longer kept, so the old index cannot be asked"
        try:
            return self._ask(query, recorded, recorded.generation, actor), ""
        except RagError as exc:
            return None, f"generation {recorded.generation} cannot be asked any more: {redact(exc)}"

    def _cause(self, then: LookupResult, now: LookupResult, old_index: LookupResult | None) -> Cause:
        if then.retrieval_trace.generation == now.retrieval_trace.generation:
            changed = then.retrieval_trace.fingerprint != now.retrieval_trace.fingerprint
            return Cause.SETTINGS if changed or compare(then, now).causes else Cause.UNKNOWN
        if old_index is None:
            return Cause.UNKNOWN
        if compare(then, old_index).same:
            return Cause.INDEX
        return Cause.SETTINGS if compare(old_index, now).same else Cause.BOTH

    def _compare(self, then: LookupResult, now: LookupResult) -> Comparison:
        return compare(
            then,
            now,
            settings_then=self._snapshots.get(then.retrieval_trace.fingerprint),
            settings_now=self._settings,
            documents_then=self._listed(then.retrieval_trace.generation),
            documents_now=self._listed(now.retrieval_trace.generation),
        )

    def _listed(self, generation: int | None) -> list[Document] | None:
        """None when the generation's documents are no longer kept."""
        if generation is None:
            return None
        try:
            return self._documents.all(generation) or None
        except NotFound:
            return None


def _sentence(cause: Cause, comparison: Comparison) -> str:
    if cause is Cause.NOTHING:
        return "Same answer: the same evidence in the same order, by the same attempt and level."
    rows = comparison.evidence
    lost = sum(row.evidence_then is not None and row.evidence_now is None for row in rows)
    new = sum(row.evidence_then is None and row.evidence_now is not None for row in rows)
    rewritten = sum(row.rewritten for row in rows)
    moved = sum(row.moved for row in rows) - lost - new - rewritten
    found = ((lost, "lost"), (new, "new"), (rewritten, "with another text"), (moved, "moved"))
    counts = [f"{n} {word}" for n, word in found if n]
    what = f"Evidence differs: {', '.join(counts)}." if counts else "The evidence is the same, the outcome is not."
    why = {
        Cause.INDEX: "The index made the difference: the recorded generation still gives the recorded answer.",
        Cause.SETTINGS: "Settings, model or code made the difference: the index alone would not have.",
        Cause.BOTH: "Both the index and the settings (or model, or code) had a part in it.",
        Cause.UNKNOWN: "The traces cannot tell the index from the rest; see what changed below.",
    }
    return f"{what} {why[cause]}"
