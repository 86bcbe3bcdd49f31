"""``core.stores.SettingsSnapshots``: the settings behind a fingerprint, stored once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from core.adapters.sql.engine import Database
from core.adapters.sql.rows import add_new
from core.adapters.sql.tables import SETTINGS
from core.codec import to_json


class SqlSettingsSnapshots:
    def __init__(self, database: Database) -> None:
        self._db = database

    def put(self, fingerprint: str, settings: Mapping[str, Any]) -> None:
        """The same fingerprint twice changes nothing: it stands for the same settings."""
        if self.get(fingerprint) is not None:
            return
        text = to_json(dict(settings))

        def work(connection: Connection) -> None:
            row = {"fingerprint": fingerprint, "settings": text, "created_at": self._db.now(connection)}
            add_new(connection, SETTINGS, [row])

        self._db.write(work)

    def get(self, fingerprint: str) -> Mapping[str, Any] | None:
        query = select(SETTINGS.c.settings).where(SETTINGS.c.fingerprint == fingerprint)
        text = self._db.read(lambda c: c.execute(query).scalar_one_or_none())
        if text is None:
            return None
        data: dict[str, Any] = json.loads(text)
        return data
