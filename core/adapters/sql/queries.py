"""``core.stores.ConsoleQueries``: the questions of the console, kept for a while."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from core.adapters.sql.engine import Database
from core.adapters.sql.listing import holds, newest_first
from core.adapters.sql.rows import add_new, cut
from core.adapters.sql.tables import CONSOLE_QUERY
from core.audit.columns import QUERY_CHARS
from core.codec import to_json
from core.stores import ConsoleQuery, Cursor, Page


class SqlConsoleQueries:
    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, query: ConsoleQuery) -> None:
        row = {
            "trace_id": query.trace_id,
            "query": cut(query.query, QUERY_CHARS),
            "created_at": query.created_at,
            "mode": cut(query.mode, 16),
            "kb_scope": cut(query.kb_scope, 255),
            "actor": cut(query.actor, 128),
            "session_id": None if query.session_id is None else cut(query.session_id, 128),
            "evidence_status": cut(query.evidence_status, 16),
            "relevance_level": None if query.relevance_level is None else cut(query.relevance_level, 16),
            "generation": query.generation,
            "what_if": to_json(dict(query.what_if)),
        }
        self._db.write(lambda c: add_new(c, CONSOLE_QUERY, [row]))

    def get(self, trace_id: str) -> ConsoleQuery | None:
        query = select(CONSOLE_QUERY).where(CONSOLE_QUERY.c.trace_id == trace_id)
        row = self._db.read(lambda c: c.execute(query).first())
        return _query(row) if row else None

    def recent(
        self, *, limit: int = 50, text: str = "", actor: str | None = None, before: Cursor | None = None
    ) -> Page[ConsoleQuery]:
        table = CONSOLE_QUERY
        query = newest_first(select(table), table, limit=limit, before=before)
        if actor is not None:
            query = query.where(table.c.actor == actor)

        def work(connection: Connection) -> list[Row[Any]]:
            wanted = query.where(holds(connection, table.c.query, text)) if text else query
            return list(connection.execute(wanted).all())

        rows = self._db.read(work)
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(
            tuple(_query(row) for row in rows[:limit]),
            Cursor(last.created_at, str(last.id)) if last is not None else None,
        )

    def prune(self, *, days: int, now: datetime) -> int:
        old = CONSOLE_QUERY.delete().where(CONSOLE_QUERY.c.created_at < now - timedelta(days=days))
        return int(self._db.write(lambda c: c.execute(old).rowcount))


def _query(row: Row[Any]) -> ConsoleQuery:
    data: dict[str, Any] = dict(row._mapping)
    del data["id"]
    return ConsoleQuery(**data | {"what_if": json.loads(data["what_if"])})
