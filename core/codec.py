"""JSON of the frozen values, both ways.

Strict: a number that JSON cannot hold (NaN, infinity) becomes null on the way out, so one bad score never loses the
record. Ids are texts. Vectors are never written.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

T = TypeVar("T")
_SKIPPED = {"vector"}


def to_data(value: Any) -> Any:
    """``value`` as plain JSON data: dataclasses as objects in field order, enums by value, non-finite numbers as null."""
    if value is None or isinstance(value, bool | int):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_data(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in _SKIPPED}
    if isinstance(value, BaseModel):
        return to_data(value.model_dump(mode="json"))
    if isinstance(value, Mapping):
        return {str(k.value if isinstance(k, Enum) else k): to_data(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [to_data(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(to_data(item) for item in value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and not hasattr(value, "__len__"):  # a numpy scalar
        return to_data(value.item())
    raise TypeError(f"{type(value).__name__} has no JSON form")


def to_json(value: Any) -> str:
    """Compact, UTF-8 as it is, no NaN."""
    return json.dumps(to_data(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """The one text of a value: keys sorted. What hashes are taken over."""
    return json.dumps(to_data(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def from_data(kind: type[T], data: Any) -> T:
    """``data`` as a frozen value; unknown keys are ignored. Raises ValueError naming the place that does not fit."""
    try:
        return cast(T, _adapter(cast(Any, kind)).validate_python(data))
    except ValidationError as exc:
        raise ValueError(_first(kind, exc)) from exc


def from_json(kind: type[T], text: str | bytes) -> T:
    """The inverse of ``to_json``. Raises ValueError for text that is no JSON or no such value."""
    try:
        return cast(T, _adapter(cast(Any, kind)).validate_json(text))
    except ValidationError as exc:
        raise ValueError(_first(kind, exc)) from exc


def _first(kind: Any, exc: ValidationError) -> str:
    error = exc.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in error["loc"])
    return f"{getattr(kind, '__name__', kind)}{'.' + place if place else ''}: {error['msg']}"
