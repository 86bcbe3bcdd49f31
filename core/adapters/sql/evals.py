"""``core.stores.EvalStore``: evaluation runs with the result of each case."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Connection, Row, Table, select

from core.adapters.sql.engine import Database
from core.adapters.sql.listing import newest_first
from core.adapters.sql.rows import batches, cut
from core.adapters.sql.tables import EVAL_CASE, EVAL_RUN
from core.codec import to_json
from core.stores import Cursor, EvalCaseResult, EvalRun, Page

_WITHOUT_DATA: Final = [column for column in EVAL_RUN.columns if column.name != "data"]


class SqlEvals:
    def __init__(self, database: Database) -> None:
        self._db = database

    def save(self, run: EvalRun, cases: Iterable[EvalCaseResult]) -> None:
        head = _values(EVAL_RUN, run)
        rows = [{"run_id": run.run_id} | _values(EVAL_CASE, case) for case in cases]

        def work(connection: Connection) -> None:
            _remove(connection, run.run_id)
            connection.execute(EVAL_RUN.insert(), [head])
            for batch in batches(rows):
                connection.execute(EVAL_CASE.insert(), batch)

        self._db.write(work)

    def get(self, run_id: str) -> EvalRun | None:
        query = select(EVAL_RUN).where(EVAL_RUN.c.run_id == run_id)
        row = self._db.read(lambda c: c.execute(query).first())
        return EvalRun(**_fields(row, "id")) if row else None

    def cases(self, run_id: str) -> Sequence[EvalCaseResult]:
        query = select(EVAL_CASE).where(EVAL_CASE.c.run_id == run_id).order_by(EVAL_CASE.c.case_id)
        rows = self._db.read(lambda c: c.execute(query).all())
        return [EvalCaseResult(**_fields(row, "run_id")) for row in rows]

    def list(self, *, kind: str | None = None, limit: int = 50, before: Cursor | None = None) -> Page[EvalRun]:
        query = newest_first(select(*_WITHOUT_DATA), EVAL_RUN, limit=limit, before=before)
        if kind is not None:
            query = query.where(EVAL_RUN.c.kind == kind)
        rows = self._db.read(lambda c: c.execute(query).all())
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(
            tuple(EvalRun(**_fields(row, "id")) for row in rows[:limit]),
            Cursor(last.created_at, str(last.id)) if last is not None else None,
        )

    def delete(self, run_id: str) -> None:
        self._db.write(lambda c: _remove(c, run_id))


def _remove(connection: Connection, run_id: str) -> None:
    connection.execute(EVAL_CASE.delete().where(EVAL_CASE.c.run_id == run_id))
    connection.execute(EVAL_RUN.delete().where(EVAL_RUN.c.run_id == run_id))


def _values(table: Table, value: EvalRun | EvalCaseResult) -> dict[str, Any]:
    """The columns of a row: short texts cut to their width, ``data`` as JSON."""
    row: dict[str, Any] = asdict(value)
    for name, text in row.items():
        width = getattr(table.c[name].type, "length", None)
        if isinstance(text, str) and width:
            row[name] = cut(text, width)
    return row | {"data": to_json(row["data"])}


def _fields(row: Row[Any], *without: str) -> Mapping[str, Any]:
    data: dict[str, Any] = {name: value for name, value in row._mapping.items() if name not in without}
    if "data" in data:
        data["data"] = json.loads(data["data"])
    return data
