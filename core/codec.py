"""JSON of the frozen values, written and read in one place.

Always valid JSON: NaN and the infinities become null (``non_finite`` names them for a reason field), a lone surrogate
becomes U+FFFD, numpy vectors are left out (null). Enumerations are their values, tuples and sets are lists, times are
ISO 8601. Reading ignores fields it does not know and gives absent ones their default, so older and newer records load.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import orjson
import pydantic_core
from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def to_json(value: Any) -> str:
    """``value`` (frozen values, dicts, lists, plain data) as one line of JSON, UTF-8 as it is."""
    try:
        return orjson.dumps(value, default=_jsonable, option=orjson.OPT_PASSTHROUGH_DATETIME).decode()
    except TypeError:  # keys that are no text, numbers beyond 64 bits, half a surrogate pair
        return pydantic_core.to_json(_plain(value), inf_nan_mode="null", fallback=_foreign).decode()


def to_data(value: Any) -> Any:
    """``value`` as plain JSON data: dicts, lists, strings, numbers, booleans and None."""
    return json.loads(to_json(value))


def canonical_json(value: Any) -> str:
    """JSON that is equal for equal values: keys and sets sorted, no spaces, ASCII only. What hashes are taken over."""
    return json.dumps(to_data(_plain(value)), sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_json(kind: type[T], text: str | bytes) -> T:
    """A ``kind`` read from JSON. Raises ValueError naming the place that does not fit; a bare NaN is no JSON."""
    return from_data(kind, pydantic_core.from_json(text, allow_inf_nan=False))


def from_data(kind: type[T], data: Any) -> T:
    """A ``kind`` read from plain JSON data. Raises ValueError naming the place that does not fit."""
    try:
        return cast(T, _adapter(cast(Any, kind)).validate_python(data))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join([getattr(kind, "__name__", str(kind)), *(str(part) for part in first["loc"])])
        raise ValueError(f"{place}: {first['msg']}") from exc


def non_finite(value: Any) -> tuple[str, ...]:
    """Paths (``attempts.0.top_quality``) of numbers that ``to_json`` writes as null because JSON cannot hold them."""
    return tuple(path for path, leaf in _leaves(value, "") if isinstance(leaf, float) and not math.isfinite(leaf))


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _jsonable(value: Any) -> Any:
    """What orjson does not write itself: sets, named tuples, times."""
    return pydantic_core.to_jsonable_python(value, inf_nan_mode="null", fallback=_foreign)


def _foreign(value: Any) -> Any:
    """numpy scalars are numbers; arrays and anything else unknown are no part of a record."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    return None


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    children: Any
    if is_dataclass(value):
        children = ((f.name, getattr(value, f.name)) for f in fields(value))
    elif isinstance(value, Mapping):
        children = value.items()
    elif isinstance(value, list | tuple):
        children = enumerate(value)
    else:
        yield path, value
        return
    for key, child in children:
        yield from _leaves(child, f"{path}.{key}" if path else str(key))


def _plain(value: Any) -> Any:
    """The slow path: plain containers, sets in order, every half of a surrogate pair replaced."""
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {_plain(key): _plain(child) for key, child in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(_plain(child) for child in value)
    if isinstance(value, list | tuple):
        return [_plain(child) for child in value]
    return value
