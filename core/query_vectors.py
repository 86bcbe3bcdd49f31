"""Query vectors kept in memory: the retry, a repeated question and a what-if do not embed the same text again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any


class QueryVectors:
    """Least-recently-used cache by (profile, text); ``size`` 0 keeps nothing. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, profile_id: str, text: str) -> Any:
        """The vector, or None."""
        with self._lock:
            vector = self._kept.get((profile_id, text))
            if vector is not None:
                self._kept.move_to_end((profile_id, text))
            return vector

    def put(self, profile_id: str, text: str, vector: Any) -> None:
        with self._lock:
            self._kept[(profile_id, text)] = vector
            self._kept.move_to_end((profile_id, text))
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
