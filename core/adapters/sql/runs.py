"""``core.stores.RunStore``: rebuild runs and the lease that allows one at a time.

The lease is a unique column, so the database itself admits one holder. Its times are those of the server, since the
clocks of two machines differ.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.exc import IntegrityError

from core.adapters.sql.engine import Database
from core.adapters.sql.rows import cut
from core.adapters.sql.tables import RUN
from core.codec import from_json, to_json
from core.errors import Busy, CheckFailed, NotFound
from core.stores import Cursor, Page, RebuildRun, RunLogLine

INTERRUPTED: Final = "INTERRUPTED"
LOG_LINES: Final = 1_000
_WITHOUT_LOG: Final = [column for column in RUN.columns if column.name != "log"]


class SqlRuns:
    def __init__(self, database: Database) -> None:
        self._db = database

    def acquire(
        self, alias: str, *, holder: str, who: str, why: str, ttl: float, kind: str = "rebuild", state: str = "PLANNED"
    ) -> RebuildRun:
        run_id = uuid.uuid4().hex

        def work(connection: Connection) -> RebuildRun:
            now = self._db.now(connection)
            rival = connection.execute(select(RUN).where(RUN.c.lease_alias == alias).with_for_update()).first()
            if rival is not None and rival.expires_at > now:
                raise _busy(rival)
            if rival is not None:
                ended = {"lease_alias": None, "state": INTERRUPTED, "finished_at": now}
                connection.execute(RUN.update().where(RUN.c.run_id == rival.run_id).values(ended))
            last = select(func.max(RUN.c.sequence)).where(RUN.c.alias == alias)
            connection.execute(
                RUN.insert().values(
                    run_id=run_id,
                    alias=alias,
                    lease_alias=alias,
                    kind=cut(kind, 32),
                    holder=cut(holder, 255),
                    who=cut(who, 255),
                    why=cut(why, 1000),
                    state=state,
                    stage="",
                    message="",
                    started_at=now,
                    heartbeat_at=now,
                    expires_at=now + timedelta(seconds=ttl),
                    cancel_requested=False,
                    cancelled_by="",
                    took_over=rival.run_id if rival is not None else None,
                    outcome="{}",
                    log="[]",
                    sequence=(connection.execute(last).scalar_one_or_none() or 0) + 1,
                )
            )
            return _run(_need(connection, run_id))

        try:
            return self._db.write(work, again=False)
        except CheckFailed as exc:
            if not isinstance(exc.__cause__, IntegrityError):
                raise
            rival = self._db.read(lambda c: c.execute(select(RUN).where(RUN.c.lease_alias == alias)).first())
            raise (
                _busy(rival) if rival else Busy(f"another rebuild of {alias!r} began this moment; look again")
            ) from exc

    def heartbeat(self, run_id: str, *, ttl: float) -> bool:
        def work(connection: Connection) -> bool:
            now = self._db.now(connection)
            return _update(connection, run_id, {"heartbeat_at": now, "expires_at": now + timedelta(seconds=ttl)})

        return self._db.write(work)

    def progress(
        self,
        run_id: str,
        *,
        state: str | None = None,
        stage: str | None = None,
        done: int | None = None,
        total: int | None = None,
        message: str | None = None,
        generation: int | None = None,
    ) -> bool:
        given: dict[str, Any] = {"state": state, "done": done, "total": total, "generation": generation}
        given |= {"stage": stage and cut(stage, 64), "message": message and cut(message, 1000)}
        values = {name: value for name, value in given.items() if value is not None}

        def work(connection: Connection) -> bool:
            if message:
                row = _need(connection, run_id)
                values["log"] = _longer(row.log, self._db.now(connection), stage or row.stage, message)
            return _update(connection, run_id, values) if values else True

        return self._db.write(work, again=message is None)

    def finish(self, run_id: str, state: str, outcome: Mapping[str, Any] | None = None) -> RebuildRun:
        def work(connection: Connection) -> RebuildRun:
            values = {
                "state": state,
                "lease_alias": None,
                "finished_at": self._db.now(connection),
                "outcome": to_json(dict(outcome or {})),
            }
            _need(connection, run_id)
            _update(connection, run_id, values)
            return _run(_need(connection, run_id))

        return self._db.write(work)

    def request_cancel(self, run_id: str, *, who: str) -> bool:
        values = {"cancel_requested": True, "cancelled_by": cut(who, 255)}
        return self._db.write(lambda c: _update(c, run_id, values))

    def cancel_requested(self, run_id: str) -> bool:
        query = select(RUN.c.cancel_requested).where(RUN.c.run_id == run_id)
        return bool(self._db.read(lambda c: c.execute(query).scalar_one_or_none()))

    def current(self, alias: str) -> RebuildRun | None:
        return self._leased(alias, live=True)

    def expired(self, alias: str) -> RebuildRun | None:
        return self._leased(alias, live=False)

    def get(self, run_id: str) -> RebuildRun | None:
        row = self._db.read(lambda c: c.execute(select(RUN).where(RUN.c.run_id == run_id)).first())
        return _run(row) if row else None

    def history(self, alias: str, *, limit: int = 50, before: Cursor | None = None) -> Page[RebuildRun]:
        query = select(*_WITHOUT_LOG).where(RUN.c.alias == alias).order_by(RUN.c.sequence.desc()).limit(limit + 1)
        if before is not None:
            query = query.where(RUN.c.sequence < int(before.id))
        rows = self._db.read(lambda c: c.execute(query).all())
        more = len(rows) > limit
        last = rows[limit - 1] if more else None
        return Page(
            tuple(_run(row) for row in rows[:limit]), Cursor(last.started_at, str(last.sequence)) if last else None
        )

    def _leased(self, alias: str, *, live: bool) -> RebuildRun | None:
        def work(connection: Connection) -> RebuildRun | None:
            row = connection.execute(select(RUN).where(RUN.c.lease_alias == alias)).first()
            return _run(row) if row and (row.expires_at > self._db.now(connection)) is live else None

        return self._db.read(work)


def _update(connection: Connection, run_id: str, values: Mapping[str, Any]) -> bool:
    """Only a run that still has its lease can be changed."""
    held = RUN.update().where(RUN.c.run_id == run_id, RUN.c.lease_alias.is_not(None)).values(dict(values))
    return connection.execute(held).rowcount == 1


def _need(connection: Connection, run_id: str) -> Row[Any]:
    row = connection.execute(select(RUN).where(RUN.c.run_id == run_id)).first()
    if row is None:
        raise NotFound(f"there is no rebuild run {run_id}; see the history on the rebuild page")
    return row


def _busy(row: Row[Any]) -> Busy:
    since = row.started_at.isoformat(timespec="seconds")
    return Busy(
        f"{row.kind} {row.run_id} by {row.who or 'somebody'} ({row.holder}) has been under way since {since}, "
        f"state {row.state}: wait for it or cancel it"
    )


def _longer(log: str, now: datetime, stage: str, message: str) -> str:
    lines = [*from_json(list[RunLogLine], log), RunLogLine(now, cut(stage, 64), cut(message, 1000))]
    return to_json(lines[-LOG_LINES:])


def _run(row: Row[Any]) -> RebuildRun:
    data: dict[str, Any] = dict(row._mapping)
    log = data.pop("log", "[]")
    data.pop("sequence")
    data["held"] = data.pop("lease_alias") is not None
    data["outcome"] = json.loads(data["outcome"])
    return RebuildRun(**data, log=tuple(from_json(list[RunLogLine], log)))
