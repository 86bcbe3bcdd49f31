"""``core.ports.EmbeddingCache``: vectors as little-endian float32 bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from sqlalchemy import func, select

from core.adapters.sql.engine import Database
from core.adapters.sql.rows import add_new, batches, cut, fetch, key_hash
from core.adapters.sql.tables import EMBEDDING

_FLOAT32: Final = np.dtype("<f4")
_AT_ONCE: Final = 200  # 32,768 dimensions of them are 26 MB; the usual 384 are 0.3 MB


class SqlEmbeddingCache:
    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, profile_id: str, keys: Sequence[str]) -> dict[str, Any]:
        """key -> float32 vector of its own memory; missing keys are absent."""
        profile = _profile(profile_id)
        found: dict[str, Any] = {}
        for batch in batches(dict.fromkeys(keys)):
            query = select(EMBEDDING.c.text_hash, EMBEDDING.c.vector).where(
                EMBEDDING.c.profile_id == profile, EMBEDDING.c.text_hash.in_(batch)
            )
            rows = self._db.read(partial(fetch, query=query))
            found |= {row.text_hash: np.frombuffer(row.vector, _FLOAT32).astype(np.float32) for row in rows}
        return found

    def put(self, profile_id: str, vectors: Mapping[str, Any]) -> None:
        """Keys that are there already keep their vector: the same text gives the same one."""
        profile = _profile(profile_id)
        for batch in batches(vectors.items(), _AT_ONCE):
            rows = [
                {"profile_id": profile, "text_hash": key, "dimension": len(vector), "vector": _bytes(vector)}
                for key, vector in batch
            ]
            self._db.write(partial(add_new, table=EMBEDDING, rows=rows))

    def count(self, profile_id: str) -> int:
        query = select(func.count()).select_from(EMBEDDING).where(EMBEDDING.c.profile_id == _profile(profile_id))
        return self._db.read(lambda c: c.execute(query).scalar_one())


def _bytes(vector: Any) -> bytes:
    return np.ascontiguousarray(vector, dtype=_FLOAT32).tobytes()


def _profile(profile_id: str) -> str:
    """The profile as a key: whole, or for a very long one (prefixes belong to it) with a hash for its end."""
    return profile_id if len(profile_id) <= 255 else cut(profile_id, 190) + "~" + key_hash(profile_id)
