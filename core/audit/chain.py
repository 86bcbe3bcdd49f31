"""The chain over the record: each row's hash covers its content, its number, its writer and the hash before it.

With a key the hashes are HMAC-SHA-256 and nobody without the key can write a row that fits. Without one they are plain
SHA-256: whoever can write to the database and knows this file can compute a whole new chain, head included. Neither
kind can tell that the whole database was set back to an older copy; a head noted elsewhere (``ChainReport.heads``) can.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from core.audit.entry import columns

VERSION: Final = 1
GENESIS: Final = "0" * 64
"""``prev_hash`` of a writer's first row, and the hash of a head without rows."""
LONG_CHARS: Final = 1_000
_LONG_COLUMNS: Final = frozenset({"attributes", "metadata_json", "trace_json"})
"""Of the rows beside the record; every other column of theirs is bounded below ``LONG_CHARS``."""
_UNHASHED: Final = frozenset({"id", "row_hash"})
_SMALL, _LARGE = 1e-4, 1e16
"""Between them, and at 0, every writer of JSON gives a float the same shortest digits without an exponent."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a writer's chain ends. ``key_id`` names the HMAC key, empty without one."""

    writer: str
    seq: int
    row_hash: str
    seal: str
    key_id: str


class Hasher:
    """Hashes of one key; ``""`` is no key."""

    def __init__(self, key: str = "") -> None:
        self._key = key.encode("utf-8", "surrogatepass")
        self.key_id = hashlib.sha256(b"key\0" + self._key).hexdigest()[:16] if key else ""

    def row(self, row: Mapping[str, Any]) -> str:
        """The ``row_hash`` of a whole row, its chain columns included. A column that a later version adds does not
        change the hash of rows in which it is null."""
        return self._digest(b"row\0", {k: _short(v) for k, v in row.items() if v is not None and k not in _UNHASHED})

    def seal(self, writer: str, seq: int, row_hash: str) -> str:
        """What the head carries beside the last hash, so that it cannot be moved without the key."""
        return self._digest(b"head\0", {"writer": writer, "seq": seq, "row_hash": row_hash})

    def fits(self, head: Head) -> bool:
        fitting = self.seal(head.writer, head.seq, head.row_hash)
        return hmac.compare_digest(fitting.encode(), str(head.seal).encode("utf-8", "surrogatepass"))

    def _digest(self, kind: bytes, value: dict[str, Any]) -> str:
        data = kind + _quick(value, [value.values()])
        if self._key:
            return hmac.new(self._key, data, hashlib.sha256).hexdigest()
        return hashlib.sha256(data).hexdigest()


def canonical(value: Any) -> bytes:
    """The bytes that are hashed: JSON with sorted keys, times in UTC with microseconds, floats as Python writes them. NaN
    and the infinities, which no record of ours holds, have names of their own: such a row fits no hash. Raises TypeError
    for what is no part of a record."""
    return _ENCODER.encode(value).encode()


def rows_hash(rows: Sequence[Mapping[str, Any]]) -> str:
    """One plain SHA-256 over rows of one table that belong to a record (its events, its trace); it stands in the
    chained row. A column that is null in all of them counts as absent, so that a later version may add one."""
    found = columns(rows)
    names = sorted(found)
    ordered = [map(_short, found[name]) if name in _LONG_COLUMNS else found[name] for name in names]
    values = list(zip(*ordered, strict=True)) if names else [()] * len(rows)
    return hashlib.sha256(_quick([names, values], found.values())).hexdigest()


def _quick(value: Any, columns_of_it: Iterable[Collection[Any]]) -> bytes:
    """``canonical(value)`` at a third of its time, where a faster writer gives the same bytes."""
    if all(map(_alike, columns_of_it)):
        try:
            return orjson.dumps(value, default=_moment, option=_OPTIONS)
        except TypeError:  # beyond 64 bits, half a surrogate pair, a foreign type
            pass
    return canonical(value)


def _alike(values: Collection[Any]) -> bool:
    """Whether both writers give the floats among ``values`` the same digits."""
    if float not in set(map(type, values)):
        return True
    return all(v == 0.0 or _SMALL <= abs(v) < _LARGE for v in values if type(v) is float)


def writer_of(hasher: Hasher) -> str:
    """The name of the chain that is kept with a key: another key begins another chain, and the old one stays whole."""
    return f"main-{hasher.key_id}" if hasher.key_id else "main"


def link(row: Mapping[str, Any], *, writer: str, seq: int, prev_hash: str, hasher: Hasher) -> dict[str, Any]:
    """``row`` as the next of the chain."""
    linked = {**row, "writer": writer, "seq": seq, "prev_hash": prev_hash, "hash_version": VERSION}
    return {**linked, "row_hash": hasher.row(linked)}


def _short(value: Any) -> Any:
    """A long text stands in the hashed bytes by its own hash."""
    if isinstance(value, str) and len(value) > LONG_CHARS:
        return ["sha256", hashlib.sha256(value.encode()).hexdigest()]
    return value


def _moment(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, bytes):  # never written by us: it makes a hash that fits nothing
        return f"bytes {value.hex()}"
    raise TypeError(f"a {type(value).__name__} is no part of a record")


_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_moment)
