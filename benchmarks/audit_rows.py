"""Synthetic rows of ``tool_invocation`` in large numbers: plausible shares of everything that is filtered by."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from core.adapters.sql.engine import Database
from core.adapters.sql.rows import batches
from core.adapters.sql.tables import INVOCATION
from core.audit.columns import Status
from core.model import AttemptName, EvidenceStatus, FallbackReason, RelevanceLevel

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
STEP: Final = timedelta(seconds=20)
"""Between two calls: a million of them are 231 days."""


ERRORS: Final = {
    "DeadlineExceeded": Status.TIMEOUT.value,
    "StoreUnavailable": Status.ERROR.value,
    "InvalidQuery": Status.REFUSED.value,
}


def rows(count: int, seed: int = 7) -> Iterator[dict[str, Any]]:
    """``count`` rows in order of their writing: in threes of the same moment, some delivered late."""
    chance = random.Random(seed)
    empty: dict[str, Any] = dict.fromkeys(column.name for column in INVOCATION.columns if column.name != "id")
    for number in range(count):
        yield empty | _row(number, chance)


def _row(number: int, chance: random.Random) -> dict[str, Any]:
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    late = timedelta(seconds=chance.randrange(3600)) if chance.random() < 0.001 else timedelta()
    moment = START + STEP * (number // 3 * 3) - late
    failed, empty = chance.random() < 0.02, chance.random() < 0.08
    error = chance.choice(list(ERRORS)) if failed else None
    found = not failed and not empty
    level = chance.choice([*RelevanceLevel, None]) if found else None
    retried = not failed and chance.random() < 0.1
    total = chance.lognormvariate(4, 0.6)
    return {
        "writer": "benchmark",
        "seq": number + 1,
        "prev_hash": digest,
        "row_hash": digest[::-1],
        "hash_version": 1,
        "created_at": moment,
        "recorded_at": moment + late,
        "invocation_id": digest[:32],
        "tool_name": "lookup_knowledge",
        "origin": chance.choice(["agent"] * 6 + ["console", "cli", "eval"]),
        "actor": "",
        "session_id": f"session-{number // 40}",
        "run_id": f"run-{number // 8}",
        "trace_id": digest[32:],
        "tool_call_id": f"call_{digest[:24]}",
        "status": ERRORS[error] if error else Status.OK.value,
        "error_class": error,
        "error_message": "the lookup used up its time (retrieval.lookup_timeout)" if failed else None,
        "evidence_status": _evidence(failed, found),
        "relevance_level": level,
        "selected_attempt": _attempt(failed, retried),
        "fallback_reason": FallbackReason.LOW_QUALITY if retried else None,
        "mode": "hybrid",
        "fusion": "client",
        "kb_scope": chance.choice(["default", "default", "payments", "default,payments"]),
        "language": chance.choice(["zh", "zh", "en"]),
        "collection": "biz_g3",
        "embedding_profile": "multilingual-e5-small:384:query/passage",
        "fingerprint": "f" * 64,
        "analysis_version": "3",
        "code_version": "0.1.0",
        "corpus_snapshot": "c" * 64,
        "content": "redacted",
        "found": found,
        "degraded": chance.random() < 0.03,
        "truncated": chance.random() < 0.2,
        "what_if": False,
        "cut": False,
        "query_sha256": digest,
        "query_chars": 12 + number % 40,
        "generation": 1,
        "attempt_count": 1 + retried,
        "candidate_count": 0 if failed or empty else chance.randrange(8, 36),
        "returned_count": 5 if found else 0,
        "retries": int(chance.random() < 0.01),
        "unique_sources": chance.randrange(1, 6) if found else 0,
        "scope_violations": 0,
        "stale_count": int(chance.random() < 0.02),
        "pack_dropped": int(chance.random() < 0.15),
        "top_quality": chance.random() if found else None,
        "quality_gap": chance.random() / 5 if found else None,
        "overlap_at_10": chance.randrange(11) / 10,
        "query_rewrite_ms": total * 0.02,
        "embedding_ms": total * 0.5,
        "dense_ms": total * 0.2,
        "bm25_ms": total * 0.22,
        "fusion_ms": total * 0.01,
        "evidence_ms": total * 0.02,
        "context_pack_ms": total * 0.01,
        "project_ms": total * 0.01,
        "total_ms": total,
        "embedding_tokens": 12,
        "context_tokens": 900,
        "trace_bytes": 24_000,
        "embedding_cache_hit": False,
        "trace_sha256": digest,
        "events_sha256": digest,
        "search_text": f"lookup_knowledge agent session-{number // 40} run-{number // 8} {digest[:32]} {digest[32:]}",
        "agent_result": '{"evidence": [' + ", ".join([f'{{"excerpt_sha256": "{digest}", "chars": 800}}'] * 5) + "]}",
        "details": '{"dropped": {"document_limit": 3, "return_limit": 9}}',
    }


def _evidence(failed: bool, found: bool) -> EvidenceStatus:
    if failed:
        return EvidenceStatus.ERROR
    return EvidenceStatus.READY if found else EvidenceStatus.NO_EVIDENCE


def _attempt(failed: bool, retried: bool) -> AttemptName | None:
    if failed:
        return None
    return AttemptName.UNFILTERED_VECTOR_RETRY if retried else AttemptName.FILTERED_VECTOR


def fill(database: Database, count: int) -> None:
    """Puts ``count`` rows into an empty table: a tenth is made here, the rest are copies of it, later in time, made by
    the engine itself."""
    part = max(1, count // 10)
    with database.engine.connect() as connection:
        for batch in batches(rows(part), 2_000):
            connection.execute(INVOCATION.insert(), batch)
            connection.commit()
        names = [column.name for column in INVOCATION.columns if column.name != "id"]
        for copy in range(1, -(-count // part)):
            later = dict(zip(names, names, strict=True)) | _later(database.sqlite, copy, part)
            columns, values = ", ".join(later), ", ".join(later.values())
            last = min(part, count - copy * part)
            connection.exec_driver_sql(
                f"INSERT INTO tool_invocation ({columns}) SELECT {values} FROM tool_invocation WHERE seq <= {last} ORDER BY seq"
            )
            connection.commit()


def _later(sqlite: bool, copy: int, part: int) -> dict[str, str]:
    """What is another value in the ``copy``-th copy, as SQL."""
    seconds = int(STEP.total_seconds()) * part * copy
    if sqlite:
        moment = f"strftime('%Y-%m-%dT%H:%M:%f000Z', {{}}, '+{seconds} seconds')"
        named = f"{{}} || '-{copy}'"
    else:
        moment, named = f"{{}} + INTERVAL {seconds} SECOND", f"CONCAT({{}}, '-{copy}')"
    return {
        "seq": f"seq + {copy * part}",
        "generation": f"{copy + 1}",
        "created_at": moment.format("created_at"),
        "recorded_at": moment.format("recorded_at"),
        **{name: named.format(name) for name in ("invocation_id", "trace_id", "session_id", "run_id")},
    }
