"""``core.ports.SearchTexts``: analysed texts in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import Connection, select

from core.adapters.sql.engine import Database
from core.adapters.sql.rows import add_new, batches, fetch
from core.adapters.sql.tables import SEARCH_TEXT

_KEYS = SEARCH_TEXT.c


class SqlSearchTexts:
    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, version: str, keys: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for batch in batches(dict.fromkeys(keys)):
            query = select(_KEYS.text_hash, _KEYS.tokens).where(
                _KEYS.analysis_version == version, _KEYS.text_hash.in_(batch)
            )
            found |= {row.text_hash: row.tokens for row in self._db.read(partial(fetch, query=query))}
        return found

    def put(self, version: str, texts: Mapping[str, str]) -> None:
        for batch in batches(texts.items()):
            rows = [{"analysis_version": version, "text_hash": key, "tokens": tokens} for key, tokens in batch]
            self._db.write(partial(add_new, table=SEARCH_TEXT, rows=rows))

    def drop_others(self, version: str) -> None:
        def work(connection: Connection) -> None:
            connection.execute(SEARCH_TEXT.delete().where(_KEYS.analysis_version != version))

        self._db.write(work)
