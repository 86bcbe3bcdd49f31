"""An ``AuditFilter`` as SQL, and the index that each kind of filter is read by.

Both engines are told the index: SQLite has no statistics here and would sort a million rows for a status that nearly
all of them have; MySQL guesses from a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal, true
from sqlalchemy.sql.elements import UnaryExpression
from sqlalchemy.sql.operators import custom_op

from core.adapters.sql.listing import newer_than, older_than
from core.adapters.sql.tables import INVOCATION
from core.audit.columns import Status, fold
from core.audit.query import ANY, NONE, AuditFilter, Only
from core.model import RelevanceLevel
from core.stores import Cursor

_C: Final = INVOCATION.c
LIST: Final = "ix_tool_invocation_list"
_ONLY: Final[Mapping[Only, ColumnElement[bool]]] = {
    Only.RETRIED: _C.retries > 0,
    Only.SCOPE_VIOLATION: _C.scope_violations > 0,
    Only.STALE: _C.stale_count > 0,
    Only.BUDGET_DROP: _C.pack_dropped > 0,
    Only.TRUNCATED: _C.truncated.is_(true()),
    Only.WHAT_IF: _C.what_if.is_(true()),
    Only.CUT: _C.cut.is_(true()),
}
_EQUAL: Final = {
    "status": "status",
    "error": "error_class",
    "relevance_level": "relevance_level",
    "evidence_status": "evidence_status",
    "attempt": "selected_attempt",
    "fallback": "fallback_reason",
    "degraded": "degraded",
    "tool": "tool_name",
    "origin": "origin",
    "session": "session_id",
    "run": "run_id",
    "trace": "trace_id",
    "language": "language",
    "generation": "generation",
    "model": "embedding_profile",
    "reranker": "reranker_model",
}

_NULLABLE: Final = {"relevance_level", "attempt", "fallback"}


@dataclass(frozen=True, slots=True)
class Path:
    """An index that is in the order of the list once ``leading`` columns are fixed."""

    index: str
    leading: tuple[str, ...] = ()


def path_of(where: AuditFilter) -> Path:
    """The narrowest index whose leading columns the filter fixes and which holds the rest of it too; otherwise the index
    of the list, which holds most of what is filtered by, in its order."""
    if where.trace is not None:
        return Path("ix_tool_invocation_trace", ("trace_id",))
    if where.session is not None:
        return Path("ix_tool_invocation_session", ("session_id",))
    if where.run is not None:
        return Path("ix_tool_invocation_run", ("run_id",))
    if Only.SCOPE_VIOLATION in where.only:
        return Path("ix_tool_invocation_violations", ("scope_violations",))
    also = {key for key in (*_EQUAL, *_OTHERS) if _given(where, key)} - {"since", "until"}
    if also == {"status", "relevance_level"}:
        return Path("ix_tool_invocation_status", ("status", "relevance_level"))
    if also == {"fallback"} and where.fallback not in {ANY, NONE}:
        return Path("ix_tool_invocation_fallback", ("fallback_reason",))
    return Path(LIST)


def indexed(where: AuditFilter) -> AuditFilter | None:
    """``where`` without the conditions for which every row has to be read; None when it has none or names few rows."""
    if path_of(where).index != LIST:
        return None
    only = tuple(one for one in where.only if one is Only.RETRIED)
    rest = replace(where, text=None, reranker=None, only=only)
    return None if rest == where else rest


def parts_of(where: AuditFilter) -> list[AuditFilter]:
    """Filters that find together what ``where`` does, none a record twice: a status alone is asked for level by level,
    since its index has the order of the list only below a level."""
    if where.status is None or path_of(replace(where, relevance_level=NONE)).index != "ix_tool_invocation_status":
        return [where]
    levels = (*RelevanceLevel, NONE) if where.relevance_level is None else (where.relevance_level,)
    return [replace(where, relevance_level=str(level)) for level in levels]


def matching(
    query: Select[*tuple[Any, ...]],
    where: AuditFilter,
    connection: Connection,
    *,
    path: Path | None = None,
    before: Cursor | None = None,
    after: Cursor | None = None,
) -> Select[*tuple[Any, ...]]:
    """``query`` over ``tool_invocation`` with the filter's conditions, between two places of the list, by its index or
    by ``path``."""
    path = path or path_of(where)
    lite = connection.dialect.name == "sqlite"

    def column(name: str) -> ColumnElement[Any]:
        return _unindexed(_C[name]) if lite and name not in path.leading else _C[name]

    conditions = [_equal(column(name), key, getattr(where, key)) for key, name in _EQUAL.items() if _given(where, key)]
    if where.error is not None and where.status is None:  # says no more, but the index of the list knows it
        conditions.append(_C.status != Status.OK.value)
    conditions += [make(where) for key, make in _OTHERS.items() if _given(where, key)]
    if before is not None:
        conditions.append(older_than(INVOCATION, before))
    if after is not None:
        conditions.append(newer_than(INVOCATION, after))
    return (
        query.where(*conditions)
        .with_hint(INVOCATION, f"FORCE INDEX ({path.index})", "mysql")
        .with_hint(INVOCATION, f"FORCE INDEX ({path.index})", "mariadb")
    )


def _given(where: AuditFilter, key: str) -> bool:
    return getattr(where, key) not in {None, ()}


def _equal(column: ColumnElement[Any], key: str, value: Any) -> ColumnElement[bool]:
    if key in _NULLABLE and value == NONE:
        return column.is_(None)
    return column.is_not(None) if key in _NULLABLE and value == ANY else column == value


def _unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """``+column``, by which SQLite does not look for an index."""
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type)


def _scope(where: AuditFilter) -> ColumnElement[bool]:
    listed: ColumnElement[str] = literal(",") + _C.kb_scope + literal(",")
    return func.instr(listed, f",{where.scope},") > 0


_OTHERS: Final[Mapping[str, Callable[[AuditFilter], ColumnElement[bool]]]] = {
    "since": lambda where: _C.created_at >= where.since,
    "until": lambda where: _C.created_at < where.until,
    "only": lambda where: and_(*(_ONLY[one] for one in where.only)),
    "scope": _scope,
    "min_ms": lambda where: _C.total_ms >= where.min_ms,
    "max_ms": lambda where: _C.total_ms <= where.max_ms,
    "text": lambda where: func.instr(_C.search_text, fold(str(where.text))) > 0,
}
