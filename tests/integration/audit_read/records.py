"""Rows of the record for tests, written as the tables take them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from core.adapters.sql.engine import Database
from core.adapters.sql.tables import INVOCATION
from core.audit.columns import fold

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def record(number: int, seconds: float = 0, **columns: Any) -> dict[str, Any]:
    """An answered call with ``invocation_id`` ``i<number>``, ``seconds`` after noon."""
    empty = dict.fromkeys(column.name for column in INVOCATION.columns if column.name != "id")
    plain = {
        "writer": "w",
        "seq": number,
        "prev_hash": "0" * 64,
        "row_hash": f"{number:064x}",
        "hash_version": 1,
        "created_at": at(seconds),
        "recorded_at": at(seconds),
        "invocation_id": f"i{number}",
        "tool_name": "lookup_knowledge",
        "origin": "agent",
        "trace_id": f"t{number}",
        "status": "ok",
        "evidence_status": "READY",
        "relevance_level": "PRECISE",
        "selected_attempt": "UNFILTERED_VECTOR",
        "mode": "hybrid",
        "kb_scope": "default",
        "language": "en",
        "content": "redacted",
        "found": True,
        "degraded": False,
        "truncated": False,
        "what_if": False,
        "cut": False,
        "query_sha256": "ab" * 32,
        "query_chars": 9,
        "generation": 1,
        "retries": 0,
        "scope_violations": 0,
        "stale_count": 0,
        "pack_dropped": 0,
        "total_ms": 10.0,
        "search_text": fold(f"i{number}\nt{number}"),
    }
    return empty | plain | columns


def write(database: Database, *rows: dict[str, Any]) -> None:
    database.write(lambda connection: connection.execute(INVOCATION.insert(), list(rows)))
