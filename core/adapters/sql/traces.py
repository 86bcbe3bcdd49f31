"""``core.stores.TraceStore``: lookups as they were recorded, and the event stream."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, or_, select
from sqlalchemy.exc import IntegrityError

from core.adapters.sql.bulk import insert
from core.adapters.sql.engine import Database
from core.adapters.sql.failures import duplicate
from core.adapters.sql.tables import CANDIDATE_TRACE, EVENT, QUERY_TRACE
from core.audit.entry import TraceRows
from core.audit.query import stored_data
from core.audit.record import status_of
from core.audit.redaction import Content, redact_result
from core.audit.trace_rows import trace_rows
from core.codec import from_json
from core.errors import BadInput, CheckFailed
from core.model import LookupResult
from core.stores import Cursor, DiagnosisEvent, Page, StoredTrace, TraceSummary

EVENTS: Final = 10_000
_SUMMARY: Final = (
    "trace_id",
    "created_at",
    "session_id",
    "run_id",
    "status",
    "evidence_status",
    "relevance_level",
    "selected_attempt",
    "fallback_reason",
    "mode",
    "generation",
)
_LISTED: Final = [QUERY_TRACE.c[name] for name in (*_SUMMARY, "tenant_id", "total_latency_ms", "query_hash")]
_EVENT: Final = [column for column in EVENT.columns if column.name != "id"]


class SqlTraces:
    """``content`` and ``secrets`` govern what ``save`` keeps, as ``audit.content`` does for the record."""

    def __init__(
        self, database: Database, *, content: Content | str = Content.REDACTED, secrets: tuple[str, ...] = ()
    ) -> None:
        self._db = database
        self._content = Content(content)
        self._secrets = secrets

    def save(self, result: LookupResult) -> None:
        kept = redact_result(result, self._content, secrets=self._secrets)
        rows = trace_rows(
            kept,
            query=result.query,
            content=self._content,
            created_at=datetime.fromisoformat(result.retrieval_trace.created_at),
            status=status_of(result.error_class).value,
            secrets=self._secrets,
        )

        def work(connection: Connection) -> None:
            known = select(QUERY_TRACE.c.trace_id).where(QUERY_TRACE.c.trace_id == rows.trace["trace_id"])
            if connection.execute(known).first() is None:
                write_trace(connection, rows)

        self._db.write(work)

    def load(self, trace_id: str) -> StoredTrace | None:
        """Raises CheckFailed for a trace that is stored but cannot be read: somebody changed it."""
        row = self._db.read(lambda c: c.execute(select(QUERY_TRACE).where(QUERY_TRACE.c.trace_id == trace_id)).first())
        if row is None:
            return None
        try:
            result = from_json(LookupResult, row.trace_json)
        except ValueError as exc:
            raise CheckFailed(f"trace {trace_id} cannot be read ({exc}); see `python -m core audit verify`") from exc
        return StoredTrace(result, row.content, row.created_at, row.query_hash, row.query_chars, row.cut)

    def list(
        self,
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        limit: int = 50,
        before: Cursor | None = None,
    ) -> Page[TraceSummary]:
        if limit < 1:
            raise BadInput(f"limit: {limit} rows; give at least 1")
        at, key = QUERY_TRACE.c.created_at, QUERY_TRACE.c.trace_id
        query = select(*_LISTED).order_by(at.desc(), key.desc()).limit(limit + 1)
        if session_id is not None:
            query = query.where(QUERY_TRACE.c.session_id == session_id)
        if run_id is not None:
            query = query.where(QUERY_TRACE.c.run_id == run_id)
        if before is not None:  # the first condition alone finds the place in the index
            query = query.where(at <= before.at, or_(at < before.at, and_(at == before.at, key < before.id)))
        rows = self._db.read(lambda c: c.execute(query).all())
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(
            tuple(_summary(row) for row in rows[:limit]),
            Cursor(last.created_at, last.trace_id) if last is not None else None,
        )

    def events(
        self, *, trace_id: str | None = None, session_id: str | None = None, run_id: str | None = None
    ) -> Sequence[DiagnosisEvent]:
        given = {"trace_id": trace_id, "session_id": session_id, "run_id": run_id}
        conditions = [EVENT.c[name] == value for name, value in given.items() if value is not None]
        if not conditions:
            raise BadInput("events: give a trace, a session or a run")
        query = select(*_EVENT).where(*conditions).order_by(EVENT.c.created_at, EVENT.c.id).limit(EVENTS)
        return tuple(_event(row) for row in self._db.read(lambda c: c.execute(query).all()))


def write_trace(connection: Connection, rows: TraceRows) -> None:
    """Writes a trace inside a transaction; one that stands under the same id already gives way."""
    try:
        insert(connection, QUERY_TRACE, [rows.trace])  # refused, it leaves the transaction usable
    except IntegrityError as exc:
        if not duplicate(exc):
            raise
        for table in (CANDIDATE_TRACE, QUERY_TRACE):
            connection.execute(table.delete().where(table.c.trace_id == rows.trace["trace_id"]))
        insert(connection, QUERY_TRACE, [rows.trace])
    insert(connection, CANDIDATE_TRACE, rows.candidates)


def _summary(row: Row[Any]) -> TraceSummary:
    plain = {name: getattr(row, name) for name in _SUMMARY}
    return TraceSummary(**plain, kb_scope=row.tenant_id, total_ms=row.total_latency_ms, query_sha256=row.query_hash)


def _event(row: Row[Any]) -> DiagnosisEvent:
    data: dict[str, Any] = dict(row._mapping)
    return DiagnosisEvent(**data | {"attributes": stored_data(row.attributes)})
