"""What is asked of the record, and what it answers: filters that fit into an address, pages, one record whole, trends.

Times are UTC with tzinfo. Lists are newest first; a page is named by a row of it (keyset), never by a number of rows to
skip, so the last page costs what the first does and new rows move nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from core.audit.params import (
    ANY,
    NONE,
    READERS,
    TEXT_CHARS,
    TIMES,
    Only,
    cursor_from_param,
    cursor_to_param,
    read_moment,
    written,
    zone_info,
)
from core.errors import BadInput
from core.stores import Cursor

__all__ = [
    "ANY",
    "NONE",
    "TEXT_CHARS",
    "AuditFilter",
    "AuditLog",
    "AuditPage",
    "AuditRecordView",
    "AuditRow",
    "Bucket",
    "Facets",
    "Neighbours",
    "Only",
    "Percentiles",
    "TrendBucket",
    "Trends",
    "cursor_from_param",
    "cursor_to_param",
    "zone_info",
]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions that all hold; None: no condition. ``since`` includes its moment, ``until`` does not.

    ``relevance_level``, ``attempt`` and ``fallback`` take ``none``; ``fallback`` takes ``any``. All of ``only`` hold.
    ``scope`` is one scope among those of the lookup. ``model`` is the embedding profile. ``text`` is looked for in what is
    stored, without regard to case.
    """

    since: datetime | None = None
    until: datetime | None = None
    status: str | None = None
    error: str | None = None
    relevance_level: str | None = None
    evidence_status: str | None = None
    attempt: str | None = None
    fallback: str | None = None
    degraded: bool | None = None
    only: tuple[Only, ...] = ()
    tool: str | None = None
    origin: str | None = None
    session: str | None = None
    run: str | None = None
    trace: str | None = None
    scope: str | None = None
    language: str | None = None
    generation: int | None = None
    model: str | None = None
    reranker: str | None = None
    min_ms: float | None = None
    max_ms: float | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        for name in TIMES:
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise BadInput(f"{name}: a time without a zone; give it tzinfo")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise BadInput("since, until: since must be before until")
        if self.min_ms is not None and self.max_ms is not None and self.min_ms > self.max_ms:
            raise BadInput("min_ms, max_ms: min_ms must not be above max_ms")

    @classmethod
    def from_params(cls, params: Mapping[str, str], zone: str = "UTC") -> AuditFilter:
        """The filter of an address or a command line; empty values are no condition, unknown names belong to others.

        A time without an offset is one of ``zone``. Raises BadInput naming the parameter and what it takes.
        """
        given = {f.name: text for f in fields(cls) if (text := str(params.get(f.name, "")).strip())}
        values: dict[str, Any] = {name: READERS[name](name, text) for name, text in given.items() if name not in TIMES}
        values |= {name: read_moment(name, given[name], zone) for name in TIMES if name in given}
        return cls(**values)

    def to_params(self) -> dict[str, str]:
        """What ``from_params`` reads back as an equal filter; conditions that are None are left out."""
        return {f.name: written(value) for f in fields(self) if (value := getattr(self, f.name)) not in {None, "", ()}}


# --------------------------------------------------------------------------------------------- records


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line of the list and of the export: every narrow column of ``tool_invocation`` under its own name.

    ``query_text`` is null unless the content was stored in full; in a list it is cut to 300 characters and ends in "…".
    """

    invocation_id: str
    created_at: datetime
    tool_name: str
    origin: str
    status: str
    evidence_status: str
    relevance_level: str | None = None
    selected_attempt: str | None = None
    fallback_reason: str | None = None
    degraded: bool = False
    truncated: bool = False
    what_if: bool = False
    found: bool = False
    error_class: str | None = None
    error_message: str | None = None
    actor: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    trace_id: str | None = None
    tool_call_id: str | None = None
    mode: str | None = None
    fusion: str | None = None
    kb_scope: str | None = None
    category_filter: str | None = None
    language: str = ""
    generation: int | None = None
    embedding_profile: str | None = None
    reranker_model: str | None = None
    degraded_reasons: str | None = None
    attempt_count: int | None = None
    candidate_count: int | None = None
    returned_count: int | None = None
    retries: int | None = None
    unique_sources: int | None = None
    scope_violations: int | None = None
    stale_count: int | None = None
    pack_dropped: int | None = None
    top_quality: float | None = None
    quality_gap: float | None = None
    overlap_at_10: float | None = None
    query_rewrite_ms: float | None = None
    embedding_ms: float | None = None
    dense_ms: float | None = None
    bm25_ms: float | None = None
    fusion_ms: float | None = None
    rerank_ms: float | None = None
    evidence_ms: float | None = None
    context_pack_ms: float | None = None
    project_ms: float | None = None
    total_ms: float | None = None
    content: str = ""
    fingerprint: str | None = None
    code_version: str | None = None
    query_sha256: str = ""
    query_chars: int = 0
    query_text: str | None = None


def stored_data(text: Any) -> dict[str, Any]:
    """The object that a JSON column holds. What is none was put there by somebody, and is shown as what it is."""
    try:
        data = json.loads(text)
    except (ValueError, TypeError):
        data = None
    return data if isinstance(data, dict) else {"unreadable": shown(text)}


def shown(value: Any) -> Any:
    """``value`` as text where it is bytes, which no column of ours holds."""
    return f"bytes {value.hex()}" if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class AuditRecordView:
    """One record whole. ``columns``: every column of the row as stored, in the table's order, chain and hashes too."""

    row: AuditRow
    columns: Mapping[str, Any]

    def json(self, name: str) -> Any:
        """The data of a JSON column (``agent_result``, ``raw_result``, ``details``); None where nothing is stored,
        ``{"unreadable": …}`` where somebody put something else there."""
        text = self.columns.get(name)
        return None if text is None else stored_data(text)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page, newest first. ``newer`` and ``older`` lead to the next ones (``after=``, ``before=``), None at the ends.

    ``total`` counts all records of the filter; ``total_exact`` is False where counting stopped and there may be more.
    A condition that no index holds (text, reranker, most of ``only``) is looked for in a bounded number of records a
    page, so a page may hold few rows or none and still lead on.
    """

    rows: tuple[AuditRow, ...]
    total: int
    total_exact: bool
    newer: Cursor | None
    older: Cursor | None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Invocation ids beside a record in the list of a filter."""

    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class Facets:
    """Values that the newest ``rows`` records have, sorted; what select boxes offer."""

    status: tuple[str, ...] = ()
    error: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    generation: tuple[int, ...] = ()
    model: tuple[str, ...] = ()
    reranker: tuple[str, ...] = ()
    rows: int = 0


# --------------------------------------------------------------------------------------------- trends


class Bucket(StrEnum):
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"  # from Monday


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds by nearest rank: each is a time that was measured. ``count`` of them there were."""

    p50: float
    p90: float
    p95: float
    p99: float
    count: int


@dataclass(frozen=True, slots=True)
class TrendBucket:
    """The calls of ``[start, end)``. Counts are calls unless said otherwise; means are null where none had a value.

    ``failures``, ``timeouts`` and ``refused`` are the statuses error, timeout and refused. ``retries``: calls in which a
    store call was repeated. ``zero_results`` found nothing and did not fail. ``levels`` has PRECISE, REFERENCE and none.
    ``candidate_count``, ``overlap_at_10`` (both branches' chunks / either's), ``quality_gap`` (first minus second, a
    feature of model and query type, no confidence) and ``unique_sources`` are means. ``scope_violations``: dropped
    hits. ``stale_rate``: share of candidates of an older revision. ``budget_drop_rate``: share of the evidence that did
    not fit into the context pack. ``latency``: by column (``total_ms``, ``dense_ms``, …), without stages that never ran.
    """

    start: datetime
    end: datetime
    volume: int = 0
    failures: int = 0
    timeouts: int = 0
    refused: int = 0
    retries: int = 0
    zero_results: int = 0
    fallbacks: int = 0
    degraded: int = 0
    levels: Mapping[str, int] = field(default_factory=dict)
    candidate_count: float | None = None
    overlap_at_10: float | None = None
    quality_gap: float | None = None
    unique_sources: float | None = None
    scope_violations: int = 0
    stale_rate: float | None = None
    budget_drop_rate: float | None = None
    latency: Mapping[str, Percentiles] = field(default_factory=dict)

    def rate(self, name: str) -> float | None:
        """Share of the lookups: ``rate("failures")``, ``rate("fallbacks")``, …; None without a lookup."""
        count: int = getattr(self, name)
        return count / self.volume if self.volume else None


@dataclass(frozen=True, slots=True)
class Trends:
    """``buckets`` in order of time, empty ones too, their borders in ``zone``; ``total`` is the whole of them.

    ``measured`` records stand behind means, the last two rates and percentiles: all, or of a large set a sample drawn
    evenly. Counts are always exact.
    """

    buckets: tuple[TrendBucket, ...]
    total: TrendBucket | None
    bucket: Bucket
    zone: str
    measured: int = 0


# --------------------------------------------------------------------------------------------- the protocol


class AuditLog(Protocol):
    """The record, read only. Every call sees what is committed at its moment. Raises StoreUnavailable."""

    def page(
        self,
        where: AuditFilter = ...,
        *,
        limit: int = 50,
        before: Cursor | None = None,
        after: Cursor | None = None,
        oldest: bool = False,
    ) -> AuditPage:
        """The newest page; with ``before`` the next older one, with ``after`` the next newer one, with ``oldest`` the
        last one. At most one of the three. ``limit`` from 1 to 1,000, else BadInput."""

    def get(self, invocation_id: str) -> AuditRecordView | None: ...

    def neighbours(self, where: AuditFilter, invocation_id: str) -> Neighbours:
        """What stands beside a record in the filter's list, as far as one page looks; also for a record that is not in
        it. Raises NotFound."""

    def trends(self, where: AuditFilter = ..., bucket: Bucket | None = None, *, zone: str = "UTC") -> Trends:
        """``bucket``: None takes the one that makes a readable number of bars. Raises BadInput for one that makes too
        many."""

    def export(self, where: AuditFilter = ...) -> Iterator[AuditRow]:
        """Every record of the filter in the order of the list, streamed; texts whole."""

    def export_records(self, where: AuditFilter = ...) -> Iterator[AuditRecordView]:
        """Like ``export``, each record whole."""

    def facets(self) -> Facets: ...
