"""The trace tables (retrieval-quality-and-observability, section 9) and the evaluation.

Section 9 with DESIGN's readings: ``attempt`` belongs to the key, ``original_rank`` and ``original_score`` are the
branch's, ``fused_rank`` is ``rrf_rank``, ``context_rank`` is ``pack_rank``, ``tenant_id`` holds the ``kb_scope``,
``pipeline_version`` the settings fingerprint.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Double, Index, Integer, PrimaryKeyConstraint, Table

from core.adapters.sql.tables.base import HASH, chars, table
from core.adapters.sql.types import Flag, UtcDateTime, big_id, long_text
from core.audit.columns import KEY_CHARS

QUERY_TRACE: Final[Table] = table(
    "rag_query_trace",
    chars("trace_id", 64),
    chars("tenant_id", 255),
    chars("session_id", 128, null=True),
    chars("run_id", 128, null=True),
    chars("query_hash", HASH),
    chars("query_type", 32, null=True),
    chars("corpus_snapshot", 64),
    chars("index_alias", 128),
    chars("physical_index", 255),
    chars("pipeline_version", 64),
    chars("embedding_model", 255, null=True),
    chars("reranker_model", 128, null=True),
    chars("generator_model", 128, null=True),
    chars("status", 32),
    Column("total_latency_ms", Double, nullable=True),
    Column("created_at", UtcDateTime, nullable=False),
    chars("evidence_status", 16),
    chars("relevance_level", 16, null=True),
    chars("selected_attempt", 32, null=True),
    chars("fallback_reason", 32, null=True),
    chars("mode", 16),
    Column("generation", Integer, nullable=True),
    chars("content", 16),
    Column("query_chars", Integer, nullable=False),
    Column("cut", Flag, nullable=False),
    Column("trace_json", long_text(), nullable=False),
    PrimaryKeyConstraint("trace_id", name="pk_rag_query_trace"),
    Index("idx_tenant_time", "tenant_id", "created_at"),
    Index("idx_pipeline", "pipeline_version", "created_at"),
    Index("ix_rag_query_trace_created", "created_at"),
    Index("ix_rag_query_trace_session", "session_id", "created_at"),
    Index("ix_rag_query_trace_run", "run_id", "created_at"),
)

CANDIDATE_TRACE: Final[Table] = table(
    "rag_candidate_trace",
    chars("trace_id", 64),
    chars("attempt", 32),
    chars("chunk_id", KEY_CHARS),
    chars("retriever", 32),
    chars("document_id", KEY_CHARS),
    Column("revision", BigInteger, nullable=True),
    Column("original_rank", Integer, nullable=True),
    Column("original_score", Double, nullable=True),
    Column("fused_rank", Integer, nullable=True),
    Column("fused_score", Double, nullable=True),
    Column("rerank_rank", Integer, nullable=True),
    Column("rerank_score", Double, nullable=True),
    Column("context_rank", Integer, nullable=True),
    Column("selected", Flag, nullable=False),
    chars("drop_reason", 64, null=True),
    Column("metadata_json", long_text(), nullable=True),
    PrimaryKeyConstraint("trace_id", "attempt", "chunk_id", "retriever", name="pk_rag_candidate_trace"),
    Index("idx_chunk", "chunk_id"),
    Index("idx_trace_selected", "trace_id", "selected"),
)

CLAIM: Final[Table] = table(
    "rag_answer_claim",
    chars("trace_id", 64),
    chars("claim_id", 64),
    chars("claim_text_hash", HASH),
    Column("claim_order", Integer, nullable=False),
    chars("support_status", 32),
    Column("verifier_score", Double, nullable=True),
    PrimaryKeyConstraint("trace_id", "claim_id", name="pk_rag_answer_claim"),
)

CITATION: Final[Table] = table(
    "rag_claim_citation",
    chars("trace_id", 64),
    chars("claim_id", 64),
    chars("chunk_id", KEY_CHARS),
    Column("entailment_score", Double, nullable=True),
    chars("citation_status", 32),
    PrimaryKeyConstraint("trace_id", "claim_id", "chunk_id", name="pk_rag_claim_citation"),
)

EVAL_RUN: Final[Table] = table(
    "eval_run",
    Column("id", big_id(), autoincrement=True, nullable=False),
    chars("run_id", 64),
    chars("kind", 32),
    Column("created_at", UtcDateTime, nullable=False),
    chars("mode", 16),
    chars("label", 255),
    chars("fingerprint", 64),
    Column("generation", Integer, nullable=True),
    chars("embedding_profile", 255),
    chars("corpus_snapshot", 64),
    Column("cases", Integer, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("data", long_text(), nullable=False),
    PrimaryKeyConstraint("id", name="pk_eval_run"),
    Index("uq_eval_run_id", "run_id", unique=True),
    Index("ix_eval_run_kind", "kind", "created_at"),
    Index("ix_eval_run_created", "created_at"),
)

EVAL_CASE: Final[Table] = table(
    "eval_case_result",
    chars("run_id", 64),
    chars("case_id", 255),
    chars("status", 32),
    Column("passed", Flag, nullable=True),
    chars("hit_level", 32, null=True),
    Column("first_rank", Integer, nullable=True),
    chars("primary_failure", 64, null=True),
    chars("trace_id", 64, null=True),
    Column("data", long_text(), nullable=False),
    PrimaryKeyConstraint("run_id", "case_id", name="pk_eval_case_result"),
    Index("ix_eval_case_result_case", "case_id"),
)
