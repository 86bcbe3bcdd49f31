"""The trace tables."""

import sqlalchemy as sa

from core.adapters.sql.migrations.steps import create_index, create_table
from core.adapters.sql.types import UtcDateTime, long_text

revision = "0003_traces"
down_revision = "0002_record"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "rag_query_trace",
        sa.Column("trace_id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=255), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=True),
        sa.Column("run_id", sa.String(length=128), nullable=True),
        sa.Column("query_hash", sa.String(length=64), nullable=False),
        sa.Column("query_type", sa.String(length=32), nullable=True),
        sa.Column("corpus_snapshot", sa.String(length=64), nullable=False),
        sa.Column("index_alias", sa.String(length=128), nullable=False),
        sa.Column("physical_index", sa.String(length=255), nullable=False),
        sa.Column("pipeline_version", sa.String(length=64), nullable=False),
        sa.Column("embedding_model", sa.String(length=255), nullable=True),
        sa.Column("reranker_model", sa.String(length=128), nullable=True),
        sa.Column("generator_model", sa.String(length=128), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("total_latency_ms", sa.Double(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("evidence_status", sa.String(length=16), nullable=False),
        sa.Column("relevance_level", sa.String(length=16), nullable=True),
        sa.Column("selected_attempt", sa.String(length=32), nullable=True),
        sa.Column("fallback_reason", sa.String(length=32), nullable=True),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("content", sa.String(length=16), nullable=False),
        sa.Column("query_chars", sa.Integer(), nullable=False),
        sa.Column("cut", sa.Boolean(), nullable=False),
        sa.Column("trace_json", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", name="pk_rag_query_trace"),
    )
    create_index("idx_pipeline", "rag_query_trace", ["pipeline_version", "created_at"])
    create_index("idx_tenant_time", "rag_query_trace", ["tenant_id", "created_at"])
    create_index("ix_rag_query_trace_created", "rag_query_trace", ["created_at"])
    create_index("ix_rag_query_trace_run", "rag_query_trace", ["run_id", "created_at"])
    create_index("ix_rag_query_trace_session", "rag_query_trace", ["session_id", "created_at"])
    create_table(
        "rag_candidate_trace",
        sa.Column("trace_id", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.String(length=32), nullable=False),
        sa.Column("chunk_id", sa.String(length=512), nullable=False),
        sa.Column("retriever", sa.String(length=32), nullable=False),
        sa.Column("document_id", sa.String(length=512), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=True),
        sa.Column("original_rank", sa.Integer(), nullable=True),
        sa.Column("original_score", sa.Double(), nullable=True),
        sa.Column("fused_rank", sa.Integer(), nullable=True),
        sa.Column("fused_score", sa.Double(), nullable=True),
        sa.Column("rerank_rank", sa.Integer(), nullable=True),
        sa.Column("rerank_score", sa.Double(), nullable=True),
        sa.Column("context_rank", sa.Integer(), nullable=True),
        sa.Column("selected", sa.Boolean(), nullable=False),
        sa.Column("drop_reason", sa.String(length=64), nullable=True),
        sa.Column("metadata_json", long_text(), nullable=True),
        sa.PrimaryKeyConstraint("trace_id", "attempt", "chunk_id", "retriever", name="pk_rag_candidate_trace"),
    )
    create_index("idx_chunk", "rag_candidate_trace", ["chunk_id"])
    create_index("idx_trace_selected", "rag_candidate_trace", ["trace_id", "selected"])
    create_table(
        "rag_answer_claim",
        sa.Column("trace_id", sa.String(length=64), nullable=False),
        sa.Column("claim_id", sa.String(length=64), nullable=False),
        sa.Column("claim_text_hash", sa.String(length=64), nullable=False),
        sa.Column("claim_order", sa.Integer(), nullable=False),
        sa.Column("support_status", sa.String(length=32), nullable=False),
        sa.Column("verifier_score", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("trace_id", "claim_id", name="pk_rag_answer_claim"),
    )
    create_table(
        "rag_claim_citation",
        sa.Column("trace_id", sa.String(length=64), nullable=False),
        sa.Column("claim_id", sa.String(length=64), nullable=False),
        sa.Column("chunk_id", sa.String(length=512), nullable=False),
        sa.Column("entailment_score", sa.Double(), nullable=True),
        sa.Column("citation_status", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "claim_id", "chunk_id", name="pk_rag_claim_citation"),
    )
