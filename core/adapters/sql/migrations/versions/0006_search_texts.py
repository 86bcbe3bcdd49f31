"""Analysed texts: a rebuild of what did not change need not analyse it again."""

import sqlalchemy as sa

from core.adapters.sql.migrations.steps import create_table
from core.adapters.sql.types import long_text

revision = "0006_search_texts"
down_revision = "0005_audit_list"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "search_text_cache",
        sa.Column("analysis_version", sa.String(length=64), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("tokens", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("analysis_version", "text_hash", name="pk_search_text_cache"),
    )
