"""Protocols and values of what SQL remembers beside the knowledge itself: rebuilds, traces, settings, console queries,
evaluation runs.

Every method raises StoreUnavailable when the database is away. Times are UTC with microseconds and tzinfo. Lists that
may grow are read page by page: ``before`` is the ``cursor`` of the page that came before (newest first).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from core.model import LookupResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a list ordered by time, then by an id that tells rows of the same moment apart."""

    at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """``cursor`` is None on the last page."""

    rows: tuple[T, ...]
    cursor: Cursor | None


# --------------------------------------------------------------------------------------------- rebuilds


@dataclass(frozen=True, slots=True)
class RunLogLine:
    at: datetime
    stage: str
    message: str


@dataclass(frozen=True, slots=True)
class RebuildRun:
    """One guarded piece of work on the index: who holds it, why, how far it is. ``held`` while it owns the lease."""

    run_id: str
    alias: str
    kind: str
    holder: str
    who: str
    why: str
    state: str
    started_at: datetime
    heartbeat_at: datetime
    expires_at: datetime
    held: bool
    stage: str = ""
    done: int | None = None
    total: int | None = None
    message: str = ""
    generation: int | None = None
    finished_at: datetime | None = None
    cancel_requested: bool = False
    cancelled_by: str = ""
    took_over: str | None = None  # run_id of a dead holder's run that this one displaced
    outcome: Mapping[str, Any] = field(default_factory=dict)
    log: tuple[RunLogLine, ...] = ()


class RunStore(Protocol):
    """``rebuild_run``: history and the lease, one holder an alias over all processes and machines."""

    def acquire(
        self, alias: str, *, holder: str, who: str, why: str, ttl: float, kind: str = "rebuild", state: str = "PLANNED"
    ) -> RebuildRun:
        """Takes the lease for ``ttl`` seconds. Raises Busy naming the holder, who and since when while another lives.

        A lease whose time ran out is taken over: its run becomes INTERRUPTED and is named in ``took_over``.
        """

    def heartbeat(self, run_id: str, *, ttl: float) -> bool:
        """Prolongs the lease. False: it was lost (expired and taken over, or finished); the holder must stop."""

    def progress(
        self,
        run_id: str,
        *,
        state: str | None = None,
        stage: str | None = None,
        done: int | None = None,
        total: int | None = None,
        message: str | None = None,
        generation: int | None = None,
    ) -> bool:
        """Writes what is given; a ``message`` is also a line of the log. False: the lease was lost."""

    def finish(self, run_id: str, state: str, outcome: Mapping[str, Any] | None = None) -> RebuildRun:
        """Ends the run and gives the lease back. Finishing twice changes nothing."""

    def request_cancel(self, run_id: str, *, who: str) -> bool:
        """False when the run is not under way any more."""

    def cancel_requested(self, run_id: str) -> bool: ...

    def current(self, alias: str) -> RebuildRun | None:
        """The run that holds a live lease, or None."""

    def expired(self, alias: str) -> RebuildRun | None:
        """The run whose holder died: it still has the lease but its time ran out. What recovery looks for."""

    def get(self, run_id: str) -> RebuildRun | None:
        """With its log."""

    def history(self, alias: str, *, limit: int = 50, before: Cursor | None = None) -> Page[RebuildRun]:
        """Newest first, without the logs."""


# --------------------------------------------------------------------------------------------- traces and events


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A lookup as it was recorded. Under ``redacted`` and ``none`` its texts are empty, keys, ranks and hashes stay.

    ``cut``: the record was larger than the store takes and lists or long texts were shortened.
    """

    result: LookupResult
    content: str
    created_at: datetime
    query_sha256: str
    query_chars: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """One line of a list of traces."""

    trace_id: str
    created_at: datetime
    session_id: str | None
    run_id: str | None
    kb_scope: str
    status: str
    evidence_status: str
    relevance_level: str | None
    selected_attempt: str | None
    fallback_reason: str | None
    mode: str
    generation: int | None
    total_ms: float | None
    query_sha256: str


@dataclass(frozen=True, slots=True)
class DiagnosisEvent:
    """One entry of the event stream: metadata only, never text from a query or a document."""

    invocation_id: str
    sequence: int
    event_type: str
    created_at: datetime
    session_id: str | None = None
    run_id: str | None = None
    trace_id: str | None = None
    attempt: str | None = None
    stage: str | None = None
    status: str | None = None
    count_in: int | None = None
    count_out: int | None = None
    ms: float | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


class TraceStore(Protocol):
    """``rag_query_trace``, ``rag_candidate_trace``, ``diagnosis_event``. The audit writes them with its record."""

    def save(self, result: LookupResult) -> None:
        """For a lookup that no audit record goes with. Saving the same ``trace_id`` twice changes nothing."""

    def load(self, trace_id: str) -> StoredTrace | None: ...

    def list(
        self,
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        limit: int = 50,
        before: Cursor | None = None,
    ) -> Page[TraceSummary]:
        """Newest first."""

    def events(
        self, *, trace_id: str | None = None, session_id: str | None = None, run_id: str | None = None
    ) -> Sequence[DiagnosisEvent]:
        """In order of time; at least one of the three is given. At most 10,000."""


# --------------------------------------------------------------------------------------------- settings and queries


class SettingsSnapshots(Protocol):
    """``settings_snapshot``: the settings behind a fingerprint, stored once."""

    def put(self, fingerprint: str, settings: Mapping[str, Any]) -> None: ...

    def get(self, fingerprint: str) -> Mapping[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class ConsoleQuery:
    """The text of a console lookup: serves history, shared addresses, replay and promotion."""

    trace_id: str
    query: str
    created_at: datetime
    mode: str = ""
    kb_scope: str = ""
    actor: str = ""
    session_id: str | None = None
    evidence_status: str = ""
    relevance_level: str | None = None
    generation: int | None = None
    what_if: Mapping[str, Any] = field(default_factory=dict)


class ConsoleQueries(Protocol):
    """``console_query``. Only ``Origin.CONSOLE`` lookups belong here (DESIGN 3.11)."""

    def add(self, query: ConsoleQuery) -> None:
        """The same ``trace_id`` twice changes nothing. A text over 8,000 characters is cut."""

    def get(self, trace_id: str) -> ConsoleQuery | None: ...

    def recent(
        self, *, limit: int = 50, text: str = "", actor: str | None = None, before: Cursor | None = None
    ) -> Page[ConsoleQuery]:
        """Newest first; ``text`` is looked for in the query, without regard to case."""

    def prune(self, *, days: int, now: datetime) -> int:
        """Removes what is older than ``days`` days; how many went."""


# --------------------------------------------------------------------------------------------- evaluation


@dataclass(frozen=True, slots=True)
class EvalRun:
    """One evaluation run. ``data`` is the report as JSON data, the other fields are what lists and filters need."""

    run_id: str
    kind: str
    created_at: datetime
    mode: str = ""
    label: str = ""
    fingerprint: str = ""
    generation: int | None = None
    embedding_profile: str = ""
    corpus_snapshot: str = ""
    cases: int = 0
    passed: int = 0
    failed: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvalCaseResult:
    case_id: str
    status: str
    passed: bool | None = None
    hit_level: str | None = None
    first_rank: int | None = None
    primary_failure: str | None = None
    trace_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


class EvalStore(Protocol):
    """``eval_run`` and ``eval_case_result``."""

    def save(self, run: EvalRun, cases: Iterable[EvalCaseResult]) -> None:
        """In one transaction; a run of the same id is replaced."""

    def get(self, run_id: str) -> EvalRun | None: ...

    def cases(self, run_id: str) -> Sequence[EvalCaseResult]:
        """By case id."""

    def list(self, *, kind: str | None = None, limit: int = 50, before: Cursor | None = None) -> Page[EvalRun]:
        """Newest first, without ``data``."""

    def delete(self, run_id: str) -> None: ...
