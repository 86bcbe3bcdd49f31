"""Evaluation runs and their cases."""

import sqlalchemy as sa

from core.adapters.sql.migrations.steps import create_index, create_table
from core.adapters.sql.types import UtcDateTime, big_id, long_text

revision = "0004_evaluation"
down_revision = "0003_traces"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "eval_run",
        sa.Column("id", big_id(), autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("label", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("embedding_profile", sa.String(length=255), nullable=False),
        sa.Column("corpus_snapshot", sa.String(length=64), nullable=False),
        sa.Column("cases", sa.Integer(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("data", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_eval_run"),
    )
    create_index("ix_eval_run_created", "eval_run", ["created_at"])
    create_index("ix_eval_run_kind", "eval_run", ["kind", "created_at"])
    create_index("uq_eval_run_id", "eval_run", ["run_id"], unique=True)
    create_table(
        "eval_case_result",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("case_id", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=True),
        sa.Column("hit_level", sa.String(length=32), nullable=True),
        sa.Column("first_rank", sa.Integer(), nullable=True),
        sa.Column("primary_failure", sa.String(length=64), nullable=True),
        sa.Column("trace_id", sa.String(length=64), nullable=True),
        sa.Column("data", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "case_id", name="pk_eval_case_result"),
    )
    create_index("ix_eval_case_result_case", "eval_case_result", ["case_id"])
