"""JSON with positions: on which line of a file a value stands, so that a complaint can name it."""

from __future__ import annotations

import json
import re
from typing import Any

Path = tuple[str | int, ...]
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class NotJson(ValueError):
    """The text is no JSON; ``line`` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class DuplicateKey(ValueError):
    """An object holds one key twice: which of the two counts would be chance."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def parse(text: str) -> Any:
    """``text`` as Python data. Raises NotJson (bare NaN and Infinity are no JSON), DuplicateKey."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as exc:
        raise NotJson(exc.msg, exc.lineno) from exc
    except _Constant as exc:
        at = re.search(rf"(?<![\w\"]){re.escape(str(exc))}(?![\w\"])", text)
        raise NotJson(f"{exc} is no JSON value", text.count("\n", 0, at.start() if at else 0) + 1) from exc


def line_of(text: str, path: Path) -> int:
    """The line (from 1) of the value at ``path``, or of its nearest parent that exists."""
    at = _skip(text, 0)
    for part in path:
        found = _child(text, at, part)
        if found is None:
            break
        at = found
    return text.count("\n", 0, at) + 1


def item_lines(text: str, path: Path) -> list[int]:
    """The line on which each item of the array at ``path`` begins; empty when there is no such array."""
    at: int | None = _skip(text, 0)
    for part in path:
        at = _child(text, at, part) if at is not None else None
    lines: list[int] = []
    if at is None or text[at : at + 1] != "[":
        return lines
    at, line, counted = _skip(text, at + 1), 1, 0
    while text[at : at + 1] not in {"]", ""}:
        line += text.count("\n", counted, at)
        counted = at
        lines.append(line)
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return lines


def line_of_duplicate(text: str, key: str) -> int:
    """The line of the second occurrence of ``key`` inside one object (an estimate by text when nested)."""
    pattern = re.compile(rf"{re.escape(json.dumps(key, ensure_ascii=False))}\s*:")
    for match in pattern.finditer(text):
        depth, at = 0, match.start() - 1
        while at >= 0:
            char = text[at]
            depth += (char in "}]") - (char in "{[")
            if depth < 0:
                break
            at -= 1
        if pattern.search(text, at, match.start()):
            return text.count("\n", 0, match.start()) + 1
    return 1


class _Constant(ValueError):
    pass


def _no_constant(name: str) -> Any:
    raise _Constant(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(key)
            seen.add(key)
    return values


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _child(text: str, at: int, part: str | int) -> int | None:
    opener = text[at : at + 1]
    if opener not in {"{", "["} or (opener == "{") != isinstance(part, str):
        return None
    at, index = _skip(text, at + 1), 0
    while text[at : at + 1] not in {"}", "]", ""}:
        key: str | int = index
        if opener == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        if key == part:
            return at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        index += 1
    return None
