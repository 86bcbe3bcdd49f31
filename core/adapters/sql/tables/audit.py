"""The record: one row a call, the event stream, the head of the chain, what was pruned."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    UniqueConstraint,
)

from core.adapters.sql.tables.base import HASH, chars, table
from core.adapters.sql.types import Flag, UtcDateTime, big_id, long_text
from core.audit.columns import INVOCATION_CHARS, TIMES

_REQUIRED: Final = {"invocation_id", "tool_name", "origin", "status", "evidence_status", "language", "content"}


def _flag(name: str) -> Column[Any]:
    return Column(name, Flag, nullable=False)


def _count(name: str) -> Column[Any]:
    return Column(name, Integer, nullable=True)


INVOCATION: Final[Table] = table(
    "tool_invocation",
    Column("id", big_id(), autoincrement=True, nullable=False),
    chars("writer", 64),
    Column("seq", BigInteger, nullable=False),
    chars("prev_hash", HASH),
    chars("row_hash", HASH),
    Column("hash_version", SmallInteger, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("recorded_at", UtcDateTime, nullable=False),
    *(chars(name, width, null=name not in _REQUIRED) for name, width in INVOCATION_CHARS.items()),
    _flag("found"),
    _flag("degraded"),
    _flag("truncated"),
    _flag("what_if"),
    _flag("cut"),
    chars("cut_columns", 255, null=True),
    chars("query_sha256", HASH),
    Column("query_chars", Integer, nullable=False),
    Column("query_text", long_text(), nullable=True),
    _count("generation"),
    _count("attempt_count"),
    _count("candidate_count"),
    _count("returned_count"),
    _count("retries"),
    _count("unique_sources"),
    _count("scope_violations"),
    _count("stale_count"),
    _count("pack_dropped"),
    Column("top_quality", Double, nullable=True),
    Column("quality_gap", Double, nullable=True),
    Column("overlap_at_10", Double, nullable=True),
    *(Column(name, Double, nullable=True) for name in TIMES),
    _count("embedding_tokens"),
    _count("reranker_documents"),
    _count("context_tokens"),
    _count("trace_bytes"),
    Column("embedding_cache_hit", Flag, nullable=True),
    chars("trace_sha256", HASH, null=True),
    chars("events_sha256", HASH, null=True),
    Column("search_text", long_text(), nullable=False),
    Column("agent_result", long_text(), nullable=True),
    Column("raw_result", long_text(), nullable=True),
    Column("details", long_text(), nullable=True),
    PrimaryKeyConstraint("id", name="pk_tool_invocation"),
    UniqueConstraint("invocation_id", name="uq_tool_invocation_id"),
    UniqueConstraint("writer", "seq", name="uq_tool_invocation_seq"),
    # The list in its own order, with what it is filtered by most: a page of any mixture reads this index only. 16 columns
    # are what MySQL allows.
    Index(
        "ix_tool_invocation_list",
        "created_at",
        "id",
        "status",
        "relevance_level",
        "evidence_status",
        "selected_attempt",
        "fallback_reason",
        "tool_name",
        "origin",
        "kb_scope",
        "language",
        "generation",
        "degraded",
        "total_ms",
        "embedding_profile",
        "retries",
    ),
    Index("ix_tool_invocation_violations", "scope_violations", "created_at"),
    Index("ix_tool_invocation_status", "status", "relevance_level", "created_at"),
    Index("ix_tool_invocation_fallback", "fallback_reason", "created_at"),
    Index("ix_tool_invocation_session", "session_id", "created_at"),
    Index("ix_tool_invocation_run", "run_id", "created_at"),
    Index("ix_tool_invocation_trace", "trace_id"),
    Index("ix_tool_invocation_query", "query_sha256", "created_at"),
)

EVENT: Final[Table] = table(
    "diagnosis_event",
    Column("id", big_id(), autoincrement=True, nullable=False),
    chars("invocation_id", 64),
    Column("sequence", Integer, nullable=False),
    chars("event_type", 64),
    Column("created_at", UtcDateTime, nullable=False),
    chars("session_id", 128, null=True),
    chars("run_id", 128, null=True),
    chars("trace_id", 64, null=True),
    chars("attempt", 32, null=True),
    chars("stage", 32, null=True),
    chars("status", 32, null=True),
    _count("count_in"),
    _count("count_out"),
    Column("ms", Double, nullable=True),
    Column("attributes", long_text(), nullable=False),
    PrimaryKeyConstraint("id", name="pk_diagnosis_event"),
    UniqueConstraint("invocation_id", "sequence", name="uq_diagnosis_event_sequence"),
    Index("ix_diagnosis_event_session", "session_id", "created_at"),
    Index("ix_diagnosis_event_run", "run_id", "created_at"),
    Index("ix_diagnosis_event_trace", "trace_id"),
)

WRITER: Final[Table] = table(
    "audit_writer",
    chars("writer", 64),
    Column("seq", BigInteger, nullable=False),
    chars("row_hash", HASH),
    chars("seal", HASH),  # hash over the head itself, so that it cannot be set back without the key
    chars("key_id", 16),  # which HMAC key the chain is kept with; empty: none
    Column("created_at", UtcDateTime, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("writer", name="pk_audit_writer"),
)

PRUNE: Final[Table] = table(
    "audit_prune",
    chars("writer", 64),
    Column("first_seq", BigInteger, nullable=False, autoincrement=False),
    Column("last_seq", BigInteger, nullable=False),
    chars("prev_hash", HASH),
    chars("last_hash", HASH),
    Column("older_than", UtcDateTime, nullable=False),
    Column("pruned_at", UtcDateTime, nullable=False),
    chars("who", 128),
    chars("invocation_id", 64),  # the chained record of this pruning
    PrimaryKeyConstraint("writer", "first_seq", name="pk_audit_prune"),
)

CONSOLE_QUERY: Final[Table] = table(
    "console_query",
    Column("id", big_id(), autoincrement=True, nullable=False),
    chars("trace_id", 64),
    Column("query", long_text(), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    chars("mode", 16),
    chars("kb_scope", 255),
    chars("actor", 128),
    chars("session_id", 128, null=True),
    chars("evidence_status", 16),
    chars("relevance_level", 16, null=True),
    _count("generation"),
    Column("what_if", long_text(), nullable=False),
    PrimaryKeyConstraint("id", name="pk_console_query"),
    UniqueConstraint("trace_id", name="uq_console_query_trace"),
    Index("ix_console_query_created", "created_at"),
)

SETTINGS: Final[Table] = table(
    "settings_snapshot",
    chars("fingerprint", 64),
    Column("settings", long_text(), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("fingerprint", name="pk_settings_snapshot"),
)
