"""The list of the record by one index in its own order, (created_at, id); scope violations by one of their own."""

import sqlalchemy as sa
from alembic import op

from core.adapters.sql.migrations.steps import create_index

revision = "0005_audit_list"
down_revision = "0004_evaluation"
branch_labels = None
depends_on = None

_OLD = "ix_tool_invocation_filters"


def upgrade() -> None:
    create_index(
        "ix_tool_invocation_list",
        "tool_invocation",
        [
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
        ],
    )
    create_index("ix_tool_invocation_violations", "tool_invocation", ["scope_violations", "created_at"])
    if _OLD in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("tool_invocation")}:
        op.drop_index(_OLD, "tool_invocation")
