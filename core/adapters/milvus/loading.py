"""Getting a collection ready to answer: described once, checked against its generation, loaded, healed if need be."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Final

from core.adapters.milvus import schema
from core.adapters.milvus.connection import Connection, Deadline
from core.adapters.milvus.errors import Kind, kind_of, message_of
from core.errors import ProfileMismatch, SchemaMismatch, StoreUnavailable, redact
from core.model import Generation

_log = logging.getLogger(__name__)
_LOAD_TRIES: Final = 3
_PAUSE: Final = 0.2


class Collections:
    """Remembers, per connection, which collections have been found good and loaded. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._ready: dict[str, schema.Found] = {}
        self._epoch = -1

    def ready(self, client: Any, generation: Generation, deadline: Deadline) -> schema.Found:
        """Loads on first use. Raises SchemaMismatch (not our shape) or ProfileMismatch (other dimension)."""
        name = generation.collection
        found = self._known(name)
        if found is None:
            found = self.describe(client, name, deadline)
            check(found, generation)
            self.load(client, name, deadline)
            with self._lock:
                self._ready[name] = found
        else:
            check(found, generation)
        return found

    def forget(self, name: str) -> None:
        with self._lock:
            self._ready.pop(name, None)

    def describe(self, client: Any, name: str, deadline: Deadline) -> schema.Found:
        """The collection as it is, with the metric read back from its index (None: it has none yet)."""
        what = f"reading collection {name}"
        description = client.describe_collection(name, timeout=deadline.left(what))
        index = vector_index(client, name, deadline)
        return schema.read(description, str(index["metric_type"]) if index else None)

    def load(self, client: Any, name: str, deadline: Deadline) -> None:
        """Loads; a Milvus Lite collection whose index file was cut short by a crash gets its indexes built anew.

        The rows themselves are intact then: only the index file, which is written in place, cannot be read.
        """
        what = f"loading collection {name}"
        for attempt in range(1, _LOAD_TRIES + 1):
            try:
                client.load_collection(name, timeout=deadline.left(what))
                return
            except Exception as exc:
                if kind_of(exc) is not Kind.FAILED or not self._connection.is_file:
                    raise
                if attempt == _LOAD_TRIES:
                    reason = redact(message_of(exc), self._connection.secrets)[:200]
                    _log.warning("collection %s cannot be loaded (%s): building its indexes anew", name, reason)
                else:
                    time.sleep(min(_PAUSE, deadline.left(what)))
        self.rebuild_indexes(client, name, deadline)
        client.load_collection(name, timeout=deadline.left(what))

    def rebuild_indexes(self, client: Any, name: str, deadline: Deadline) -> None:
        what = f"building the indexes of {name}"
        index = vector_index(client, name, deadline) or {}
        for field in indexed_fields(client, name, deadline):
            client.drop_index(name, schema.index_name(field), timeout=deadline.left(what))
        create_indexes(client, name, schema.index_params(client, schema.normalized(index)), deadline)

    def _known(self, name: str) -> schema.Found | None:
        with self._lock:
            if self._epoch != self._connection.epoch:  # another client, perhaps another server: nothing is loaded there
                self._epoch = self._connection.epoch
                self._ready.clear()
            return self._ready.get(name)


def vector_index(client: Any, name: str, deadline: Deadline) -> dict[str, Any] | None:
    """``describe_index`` of the vector field, whatever the index is called; None while there is none."""
    what = f"reading the indexes of {name}"
    for index in client.list_indexes(name, field_name="vector", timeout=deadline.left(what)):
        return dict(client.describe_index(name, index, timeout=deadline.left(what)) or {}) or None
    return None


def indexed_fields(client: Any, name: str, deadline: Deadline) -> list[str]:
    names = client.list_indexes(name, timeout=deadline.left(f"reading the indexes of {name}"))
    return [schema.field_of(str(index)) for index in names]


def create_indexes(client: Any, name: str, indexes: Any, deadline: Deadline) -> None:
    """Orders every index, then waits for all of them. (The client's own wait sleeps half a second an index, and has no
    end when its timeout is no whole number.) Raises StoreUnavailable when one cannot be built."""
    what = f"building the indexes of {name}"
    if not indexes:
        return
    client.create_index(name, indexes, timeout=deadline.left(what), sync=False)
    for index in indexes:
        pause = 0.01
        while True:
            found = client.describe_index(name, index.index_name, timeout=deadline.left(what)) or {}
            state = str(found.get("state"))
            if state == "Finished":
                break
            if state == "Failed":
                raise StoreUnavailable(f"{what}: Milvus could not build that of {index.field_name}; look at its log")
            time.sleep(min(pause, deadline.left(what)))
            pause = min(2 * pause, 1.0)


def check(found: schema.Found, generation: Generation) -> None:
    """Raises SchemaMismatch or ProfileMismatch when the collection cannot serve this generation."""
    problems = found.problems()
    if problems:
        raise SchemaMismatch(f"collection {generation.collection} {'; '.join(problems)}: rebuild the index")
    if found.dimension != generation.profile.dimension:
        raise ProfileMismatch(
            f"collection {generation.collection} holds vectors of {found.dimension} dimensions, the profile "
            f"{generation.profile.profile_id} has {generation.profile.dimension}: rebuild the index"
        )
