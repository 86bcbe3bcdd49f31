"""The record: calls, events, the chain's heads, what was pruned, console queries, settings."""

import sqlalchemy as sa

from core.adapters.sql.migrations.steps import create_index, create_table
from core.adapters.sql.types import UtcDateTime, big_id, long_text

revision = "0002_record"
down_revision = "0001_knowledge"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "tool_invocation",
        sa.Column("id", big_id(), autoincrement=True, nullable=False),
        sa.Column("writer", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("prev_hash", sa.String(length=64), nullable=False),
        sa.Column("row_hash", sa.String(length=64), nullable=False),
        sa.Column("hash_version", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("recorded_at", UtcDateTime(), nullable=False),
        sa.Column("invocation_id", sa.String(length=64), nullable=False),
        sa.Column("tool_name", sa.String(length=64), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=True),
        sa.Column("session_id", sa.String(length=128), nullable=True),
        sa.Column("run_id", sa.String(length=128), nullable=True),
        sa.Column("trace_id", sa.String(length=64), nullable=True),
        sa.Column("tool_call_id", sa.String(length=128), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("error_class", sa.String(length=64), nullable=True),
        sa.Column("error_message", sa.String(length=500), nullable=True),
        sa.Column("evidence_status", sa.String(length=16), nullable=False),
        sa.Column("relevance_level", sa.String(length=16), nullable=True),
        sa.Column("selected_attempt", sa.String(length=32), nullable=True),
        sa.Column("fallback_reason", sa.String(length=32), nullable=True),
        sa.Column("mode", sa.String(length=16), nullable=True),
        sa.Column("fusion", sa.String(length=16), nullable=True),
        sa.Column("kb_scope", sa.String(length=255), nullable=True),
        sa.Column("category_filter", sa.String(length=64), nullable=True),
        sa.Column("language", sa.String(length=8), nullable=False),
        sa.Column("collection", sa.String(length=255), nullable=True),
        sa.Column("embedding_profile", sa.String(length=255), nullable=True),
        sa.Column("reranker_model", sa.String(length=128), nullable=True),
        sa.Column("fingerprint", sa.String(length=64), nullable=True),
        sa.Column("analysis_version", sa.String(length=64), nullable=True),
        sa.Column("code_version", sa.String(length=64), nullable=True),
        sa.Column("corpus_snapshot", sa.String(length=64), nullable=True),
        sa.Column("degraded_reasons", sa.String(length=500), nullable=True),
        sa.Column("content", sa.String(length=16), nullable=False),
        sa.Column("found", sa.Boolean(), nullable=False),
        sa.Column("degraded", sa.Boolean(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.Column("what_if", sa.Boolean(), nullable=False),
        sa.Column("cut", sa.Boolean(), nullable=False),
        sa.Column("cut_columns", sa.String(length=255), nullable=True),
        sa.Column("query_sha256", sa.String(length=64), nullable=False),
        sa.Column("query_chars", sa.Integer(), nullable=False),
        sa.Column("query_text", long_text(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("attempt_count", sa.Integer(), nullable=True),
        sa.Column("candidate_count", sa.Integer(), nullable=True),
        sa.Column("returned_count", sa.Integer(), nullable=True),
        sa.Column("retries", sa.Integer(), nullable=True),
        sa.Column("unique_sources", sa.Integer(), nullable=True),
        sa.Column("scope_violations", sa.Integer(), nullable=True),
        sa.Column("stale_count", sa.Integer(), nullable=True),
        sa.Column("pack_dropped", sa.Integer(), nullable=True),
        sa.Column("top_quality", sa.Double(), nullable=True),
        sa.Column("quality_gap", sa.Double(), nullable=True),
        sa.Column("overlap_at_10", sa.Double(), nullable=True),
        sa.Column("query_rewrite_ms", sa.Double(), nullable=True),
        sa.Column("embedding_ms", sa.Double(), nullable=True),
        sa.Column("dense_ms", sa.Double(), nullable=True),
        sa.Column("bm25_ms", sa.Double(), nullable=True),
        sa.Column("fusion_ms", sa.Double(), nullable=True),
        sa.Column("rerank_ms", sa.Double(), nullable=True),
        sa.Column("evidence_ms", sa.Double(), nullable=True),
        sa.Column("context_pack_ms", sa.Double(), nullable=True),
        sa.Column("project_ms", sa.Double(), nullable=True),
        sa.Column("total_ms", sa.Double(), nullable=True),
        sa.Column("embedding_tokens", sa.Integer(), nullable=True),
        sa.Column("reranker_documents", sa.Integer(), nullable=True),
        sa.Column("context_tokens", sa.Integer(), nullable=True),
        sa.Column("trace_bytes", sa.Integer(), nullable=True),
        sa.Column("embedding_cache_hit", sa.Boolean(), nullable=True),
        sa.Column("trace_sha256", sa.String(length=64), nullable=True),
        sa.Column("events_sha256", sa.String(length=64), nullable=True),
        sa.Column("search_text", long_text(), nullable=False),
        sa.Column("agent_result", long_text(), nullable=True),
        sa.Column("raw_result", long_text(), nullable=True),
        sa.Column("details", long_text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tool_invocation"),
        sa.UniqueConstraint("invocation_id", name="uq_tool_invocation_id"),
        sa.UniqueConstraint("writer", "seq", name="uq_tool_invocation_seq"),
    )
    create_index("ix_tool_invocation_fallback", "tool_invocation", ["fallback_reason", "created_at"])
    create_index(
        "ix_tool_invocation_filters",
        "tool_invocation",
        [
            "created_at",
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
        ],
    )
    create_index("ix_tool_invocation_query", "tool_invocation", ["query_sha256", "created_at"])
    create_index("ix_tool_invocation_run", "tool_invocation", ["run_id", "created_at"])
    create_index("ix_tool_invocation_session", "tool_invocation", ["session_id", "created_at"])
    create_index("ix_tool_invocation_status", "tool_invocation", ["status", "relevance_level", "created_at"])
    create_index("ix_tool_invocation_trace", "tool_invocation", ["trace_id"])
    create_table(
        "diagnosis_event",
        sa.Column("id", big_id(), autoincrement=True, nullable=False),
        sa.Column("invocation_id", sa.String(length=64), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("event_type", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=True),
        sa.Column("run_id", sa.String(length=128), nullable=True),
        sa.Column("trace_id", sa.String(length=64), nullable=True),
        sa.Column("attempt", sa.String(length=32), nullable=True),
        sa.Column("stage", sa.String(length=32), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=True),
        sa.Column("count_in", sa.Integer(), nullable=True),
        sa.Column("count_out", sa.Integer(), nullable=True),
        sa.Column("ms", sa.Double(), nullable=True),
        sa.Column("attributes", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_diagnosis_event"),
        sa.UniqueConstraint("invocation_id", "sequence", name="uq_diagnosis_event_sequence"),
    )
    create_index("ix_diagnosis_event_run", "diagnosis_event", ["run_id", "created_at"])
    create_index("ix_diagnosis_event_session", "diagnosis_event", ["session_id", "created_at"])
    create_index("ix_diagnosis_event_trace", "diagnosis_event", ["trace_id"])
    create_table(
        "audit_writer",
        sa.Column("writer", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("row_hash", sa.String(length=64), nullable=False),
        sa.Column("seal", sa.String(length=64), nullable=False),
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("changed_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("writer", name="pk_audit_writer"),
    )
    create_table(
        "audit_prune",
        sa.Column("writer", sa.String(length=64), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("prev_hash", sa.String(length=64), nullable=False),
        sa.Column("last_hash", sa.String(length=64), nullable=False),
        sa.Column("older_than", UtcDateTime(), nullable=False),
        sa.Column("pruned_at", UtcDateTime(), nullable=False),
        sa.Column("who", sa.String(length=128), nullable=False),
        sa.Column("invocation_id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("writer", "first_seq", name="pk_audit_prune"),
    )
    create_table(
        "console_query",
        sa.Column("id", big_id(), autoincrement=True, nullable=False),
        sa.Column("trace_id", sa.String(length=64), nullable=False),
        sa.Column("query", long_text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("kb_scope", sa.String(length=255), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=True),
        sa.Column("evidence_status", sa.String(length=16), nullable=False),
        sa.Column("relevance_level", sa.String(length=16), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("what_if", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_console_query"),
        sa.UniqueConstraint("trace_id", name="uq_console_query_trace"),
    )
    create_index("ix_console_query_created", "console_query", ["created_at"])
    create_table(
        "settings_snapshot",
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("settings", long_text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name="pk_settings_snapshot"),
    )
