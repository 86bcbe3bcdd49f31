"""Generations with their documents and chunks, revisions, the embedding cache, rebuilds.

Evidence keys and document ids may be longer than an index key, so rows are keyed by the SHA-256 of theirs.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, PrimaryKeyConstraint, Table, UniqueConstraint

from core.adapters.sql.tables.base import ALIAS, HASH, chars, table
from core.adapters.sql.types import UtcDateTime, long_bytes, long_text

GENERATION: Final[Table] = table(
    "knowledge_generation",
    chars("alias", ALIAS),
    Column("number", Integer, nullable=False, autoincrement=False),
    chars("active_alias", ALIAS, null=True),  # the alias while ACTIVE: unique, so that there is never a second one
    chars("collection", 255),
    chars("state", 32),
    chars("analysis_version", 64),
    chars("chunking_version", 64),
    chars("corpus_snapshot", 64),
    Column("documents", Integer, nullable=False),
    Column("chunks", Integer, nullable=False),
    chars("built_at", 40, null=True),
    chars("activated_at", 40, null=True),
    chars("built_by", 255),
    chars("fingerprint", 64),
    Column("profile", long_text(), nullable=False),
    Column("index_params", long_text(), nullable=False),
    Column("search_params", long_text(), nullable=False),
    Column("facts", long_text(), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("alias", "number", name="pk_knowledge_generation"),
    UniqueConstraint("active_alias", name="uq_knowledge_generation_active"),
)

DOCUMENT: Final[Table] = table(
    "api_document",
    chars("alias", ALIAS),
    Column("generation", Integer, nullable=False),
    chars("doc_hash", HASH),
    chars("doc_id", 1000),
    chars("source", 1024),
    chars("title", 1024),
    chars("category", 64),
    chars("kb_scope", 64),
    Column("revision", BigInteger, nullable=False),
    chars("content_hash", HASH),
    Column("chunk_count", Integer, nullable=False),
    Column("document", long_text(), nullable=False),
    PrimaryKeyConstraint("alias", "generation", "doc_hash", name="pk_api_document"),
    Index("ix_api_document_scope", "alias", "generation", "kb_scope", "category"),
)

REVISION: Final[Table] = table(
    "document_revision",
    chars("alias", ALIAS),
    chars("doc_hash", HASH),
    chars("doc_id", 1000),
    Column("revision", BigInteger, nullable=False),
    chars("content_hash", HASH),
    PrimaryKeyConstraint("alias", "doc_hash", name="pk_document_revision"),
)

CHUNK: Final[Table] = table(
    "knowledge_chunk",
    chars("alias", ALIAS),
    Column("generation", Integer, nullable=False),
    chars("key_hash", HASH),
    chars("doc_hash", HASH),
    chars("evidence_key", 1024),
    chars("doc_id", 1000),
    Column("chunk_index", Integer, nullable=False),
    chars("content_hash", HASH),
    Column("revision", BigInteger, nullable=False),
    Column("span_start", Integer, nullable=False),
    Column("span_end", Integer, nullable=False),
    Column("breadcrumb", long_text(), nullable=False),
    Column("content", long_text(), nullable=False),
    PrimaryKeyConstraint("alias", "generation", "key_hash", name="pk_knowledge_chunk"),
    Index("ix_knowledge_chunk_document", "alias", "generation", "doc_hash", "chunk_index"),
)

EMBEDDING: Final[Table] = table(
    "embedding_cache",
    chars("profile_id", 255),
    chars("text_hash", HASH),
    Column("dimension", Integer, nullable=False),
    Column("vector", long_bytes(), nullable=False),
    PrimaryKeyConstraint("profile_id", "text_hash", name="pk_embedding_cache"),
)

SEARCH_TEXT: Final[Table] = table(
    "search_text_cache",
    chars("analysis_version", 64),
    chars("text_hash", HASH),
    Column("tokens", long_text(), nullable=False),
    PrimaryKeyConstraint("analysis_version", "text_hash", name="pk_search_text_cache"),
)

RUN: Final[Table] = table(
    "rebuild_run",
    chars("run_id", 64),
    chars("alias", ALIAS),
    chars("lease_alias", ALIAS, null=True),  # the alias while the lease is held: unique, so that one holder is all
    chars("kind", 32),
    chars("holder", 255),
    chars("who", 255),
    chars("why", 1000),
    chars("state", 32),
    chars("stage", 64),
    Column("done", BigInteger, nullable=True),
    Column("total", BigInteger, nullable=True),
    chars("message", 1000),
    Column("generation", Integer, nullable=True),
    Column("started_at", UtcDateTime, nullable=False),
    Column("heartbeat_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime, nullable=True),
    Column("cancel_requested", Boolean, nullable=False),
    chars("cancelled_by", 255),
    chars("took_over", 64, null=True),
    Column("outcome", long_text(), nullable=False),
    Column("log", long_text(), nullable=False),
    Column("sequence", Integer, nullable=False),
    PrimaryKeyConstraint("run_id", name="pk_rebuild_run"),
    UniqueConstraint("lease_alias", name="uq_rebuild_run_lease"),
    UniqueConstraint("alias", "sequence", name="uq_rebuild_run_sequence"),
    Index("ix_rebuild_run_started", "alias", "started_at"),
)
