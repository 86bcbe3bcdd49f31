"""Every table, in one metadata."""

from core.adapters.sql.tables.audit import CONSOLE_QUERY, EVENT, INVOCATION, PRUNE, SETTINGS, WRITER
from core.adapters.sql.tables.base import METADATA
from core.adapters.sql.tables.knowledge import CHUNK, DOCUMENT, EMBEDDING, GENERATION, REVISION, RUN, SEARCH_TEXT
from core.adapters.sql.tables.trace import CANDIDATE_TRACE, CITATION, CLAIM, EVAL_CASE, EVAL_RUN, QUERY_TRACE

__all__ = [
    "CANDIDATE_TRACE",
    "CHUNK",
    "CITATION",
    "CLAIM",
    "CONSOLE_QUERY",
    "DOCUMENT",
    "EMBEDDING",
    "EVAL_CASE",
    "EVAL_RUN",
    "EVENT",
    "GENERATION",
    "INVOCATION",
    "METADATA",
    "PRUNE",
    "QUERY_TRACE",
    "REVISION",
    "RUN",
    "SEARCH_TEXT",
    "SETTINGS",
    "WRITER",
]
