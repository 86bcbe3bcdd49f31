"""How wide the columns of the record are, in characters (code points), the unit in which both engines are held to it.

SQLite does not enforce widths and MySQL refuses or cuts by its mode: so the record is cut to these before the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """``status`` of a record: what became of the call."""

    OK = "ok"  # it was answered, degraded or with nothing found also
    REFUSED = "refused"  # what was asked cannot be searched (exit 2 on the command line)
    TIMEOUT = "timeout"
    ERROR = "error"


INVOCATION_CHARS: Final[Mapping[str, int]] = {
    "invocation_id": 64,
    "tool_name": 64,
    "origin": 16,
    "actor": 128,
    "session_id": 128,
    "run_id": 128,
    "trace_id": 64,
    "tool_call_id": 128,
    "status": 16,
    "error_class": 64,
    "error_message": 500,
    "evidence_status": 16,
    "relevance_level": 16,
    "selected_attempt": 32,
    "fallback_reason": 32,
    "mode": 16,
    "fusion": 16,
    "kb_scope": 255,
    "category_filter": 64,
    "language": 8,
    "collection": 255,
    "embedding_profile": 255,
    "reranker_model": 128,
    "fingerprint": 64,
    "analysis_version": 64,
    "code_version": 64,
    "corpus_snapshot": 64,
    "degraded_reasons": 500,
    "content": 16,
}
"""Text columns of ``tool_invocation`` that are bounded. Longer values are cut and named in ``cut_columns``."""

QUERY_CHARS: Final = 8_000
KEY_CHARS: Final = 512
"""Of an evidence key or document id inside an index key (4 bytes a character, 3,072 bytes a key)."""

JSON_BYTES: Final = 1024 * 1024
"""Of one JSON column (UTF-8). Larger values are shortened as data, so that what is stored always parses. All of them in
one statement, escaped, stay below the 16 MiB that MariaDB takes by default (``max_allowed_packet``)."""

SEARCH_CHARS: Final = 4_000
"""Of ``search_text``: lines of what is stored and may be looked for, each through ``fold``."""


def fold(text: str) -> str:
    """``text`` as ``search_text`` holds it: what is looked for goes through the same function."""
    return text.lower()


TIMES: Final = (
    "query_rewrite_ms",
    "embedding_ms",
    "dense_ms",
    "bm25_ms",
    "fusion_ms",
    "rerank_ms",
    "evidence_ms",
    "context_pack_ms",
    "project_ms",
    "total_ms",
)
"""Milliseconds of a lookup, one column each; null where the stage did not run."""
