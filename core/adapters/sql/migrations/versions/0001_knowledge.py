"""Generations, documents, chunks, revisions, the embedding cache and rebuilds."""

import sqlalchemy as sa

from core.adapters.sql.migrations.steps import create_index, create_table
from core.adapters.sql.types import UtcDateTime, long_bytes, long_text

revision = "0001_knowledge"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "knowledge_generation",
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("active_alias", sa.String(length=64), nullable=True),
        sa.Column("collection", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("analysis_version", sa.String(length=64), nullable=False),
        sa.Column("chunking_version", sa.String(length=64), nullable=False),
        sa.Column("corpus_snapshot", sa.String(length=64), nullable=False),
        sa.Column("documents", sa.Integer(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("built_at", sa.String(length=40), nullable=True),
        sa.Column("activated_at", sa.String(length=40), nullable=True),
        sa.Column("built_by", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("profile", long_text(), nullable=False),
        sa.Column("index_params", long_text(), nullable=False),
        sa.Column("search_params", long_text(), nullable=False),
        sa.Column("facts", long_text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("changed_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("alias", "number", name="pk_knowledge_generation"),
        sa.UniqueConstraint("active_alias", name="uq_knowledge_generation_active"),
    )
    create_table(
        "api_document",
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("doc_hash", sa.String(length=64), nullable=False),
        sa.Column("doc_id", sa.String(length=1000), nullable=False),
        sa.Column("source", sa.String(length=1024), nullable=False),
        sa.Column("title", sa.String(length=1024), nullable=False),
        sa.Column("category", sa.String(length=64), nullable=False),
        sa.Column("kb_scope", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("chunk_count", sa.Integer(), nullable=False),
        sa.Column("document", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("alias", "generation", "doc_hash", name="pk_api_document"),
    )
    create_index("ix_api_document_scope", "api_document", ["alias", "generation", "kb_scope", "category"])
    create_table(
        "document_revision",
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("doc_hash", sa.String(length=64), nullable=False),
        sa.Column("doc_id", sa.String(length=1000), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("alias", "doc_hash", name="pk_document_revision"),
    )
    create_table(
        "knowledge_chunk",
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("doc_hash", sa.String(length=64), nullable=False),
        sa.Column("evidence_key", sa.String(length=1024), nullable=False),
        sa.Column("doc_id", sa.String(length=1000), nullable=False),
        sa.Column("chunk_index", sa.Integer(), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("span_start", sa.Integer(), nullable=False),
        sa.Column("span_end", sa.Integer(), nullable=False),
        sa.Column("breadcrumb", long_text(), nullable=False),
        sa.Column("content", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("alias", "generation", "key_hash", name="pk_knowledge_chunk"),
    )
    create_index("ix_knowledge_chunk_document", "knowledge_chunk", ["alias", "generation", "doc_hash", "chunk_index"])
    create_table(
        "embedding_cache",
        sa.Column("profile_id", sa.String(length=255), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("vector", long_bytes(), nullable=False),
        sa.PrimaryKeyConstraint("profile_id", "text_hash", name="pk_embedding_cache"),
    )
    create_table(
        "rebuild_run",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("lease_alias", sa.String(length=64), nullable=True),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("why", sa.String(length=1000), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("stage", sa.String(length=64), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=True),
        sa.Column("total", sa.BigInteger(), nullable=True),
        sa.Column("message", sa.String(length=1000), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("cancelled_by", sa.String(length=255), nullable=False),
        sa.Column("took_over", sa.String(length=64), nullable=True),
        sa.Column("outcome", long_text(), nullable=False),
        sa.Column("log", long_text(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_rebuild_run"),
        sa.UniqueConstraint("alias", "sequence", name="uq_rebuild_run_sequence"),
        sa.UniqueConstraint("lease_alias", name="uq_rebuild_run_lease"),
    )
    create_index("ix_rebuild_run_started", "rebuild_run", ["alias", "started_at"])
