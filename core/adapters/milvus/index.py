"""Both sides of the index over one shared client."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from core.adapters.milvus.admin import MilvusAdmin
from core.adapters.milvus.connection import Connection
from core.adapters.milvus.loading import Collections
from core.adapters.milvus.reader import MilvusReader
from core.knowledge.snapshots import properties_of
from core.model import Generation


class MilvusIndex(MilvusReader, MilvusAdmin):
    """``core.ports.VectorIndex`` and ``core.ports.IndexAdmin``. Thread-safe; nothing is opened before the first call.

    ``uri``: an absolute path ending in ``.db`` (its local server is found or started, and ends after ``idle_seconds``
    without a call) or ``http(s)://host:port``. ``secrets``: values that no message may hold; the token is added.
    ``describe`` gives the collection's properties.
    """

    def __init__(
        self,
        uri: str,
        token: str = "",
        *,
        connect_timeout: float = 10.0,
        idle_seconds: float = 1800.0,
        secrets: tuple[str, ...] = (),
        describe: Callable[[Generation], Mapping[str, str]] = properties_of,
    ) -> None:
        connection = Connection(uri, token, connect_timeout=connect_timeout, idle_seconds=idle_seconds, secrets=secrets)
        collections = Collections(connection)
        MilvusReader.__init__(self, connection, collections)
        MilvusAdmin.__init__(self, connection, collections, describe)

    def close(self) -> None:
        """Closes the client, not the server; a later call opens a new one."""
        self._connection.close()
