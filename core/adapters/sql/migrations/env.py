"""Alembic's entry: runs the history on the connection that ``core.adapters.sql.schema`` hands over."""

from __future__ import annotations

from alembic import context

from core.adapters.sql.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transaction_per_migration=False,
    render_as_batch=False,
)
with context.begin_transaction():
    context.run_migrations()
