"""One block that is too large for a chunk, cut by its kind. Every cut moves forward, whatever stands in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from core.analysis import cut_graphemes
from core.knowledge.outline import Block, Kind

# After a sentence, then after a clause, then at white space: the last such place inside the limit.
_BREAKS: Final = (
    re.compile(r"\n\s*\n|\n"),
    re.compile(r"[。！？；!?;](?=.)|\.(?=\s)"),
    re.compile(r"[，、,:：]"),
    re.compile(r"\s"),
)


def split_block(body: str, block: Block, target: int, maximum: int) -> Iterator[tuple[str, int]]:
    """``(text, end)`` of each piece; texts are at most ``maximum`` characters, ends rise to ``block.end``."""
    if block.kind is Kind.TABLE:
        yield from _table(body, block, target, maximum)
    elif block.kind is Kind.FENCE:
        yield from _fence(body, block, target, maximum)
    else:
        yield from _text(body, block.start, block.end, target)


def _text(body: str, start: int, end: int, limit: int) -> Iterator[tuple[str, int]]:
    at = start
    while at < end:
        stop = (
            end
            if end - at <= limit
            else at + _break(body[at : min(at + limit, end)], body[at : min(at + limit + 1, end)])
        )
        text = body[at:stop].strip()
        if text:
            yield text, stop
        at = stop


def _break(window: str, wider: str) -> int:
    """How much of ``window`` to take: up to its last good place in the second half, else a grapheme border."""
    for pattern in _BREAKS:
        places = [match.end() for match in pattern.finditer(window)]
        if places and places[-1] >= len(window) // 2:
            return places[-1]
    return len(cut_graphemes(wider, len(window))) or len(window)


def _lines(body: str, start: int, end: int) -> Iterator[tuple[str, int]]:
    at = start
    while at < end:
        stop = body.find("\n", at, end)
        stop = end if stop < 0 else stop + 1
        yield body[at:stop].rstrip("\n"), stop
        at = stop


def _table(body: str, block: Block, target: int, maximum: int) -> Iterator[tuple[str, int]]:
    """Cut at row ends; header and delimiter begin every piece and count. A row that does not fit is cut as text."""
    lines = list(_lines(body, block.start, block.end))
    head = "\n".join(text for text, _ in lines[:2])
    if len(head) > maximum // 2:
        yield from _text(body, block.start, block.end, target)
        return
    yield from _gather(lines[2:], head, "", lines[1][1] if len(lines) > 1 else block.start, body, target, maximum)


def _fence(body: str, block: Block, target: int, maximum: int) -> Iterator[tuple[str, int]]:
    """Cut at line ends; every piece is fenced again with the opening line's mark and language."""
    lines = list(_lines(body, block.start, block.end))
    opening = lines[0][0]
    mark = re.match(r" {0,3}([`~]+)", opening)
    closing = mark[1] if mark else "```"
    if len(opening) > maximum // 2:
        yield from _text(body, block.start, block.end, target)
        return
    inner = [line for line in lines[1:] if line[0].strip() != closing]
    yield from _gather(inner, opening, closing, lines[0][1], body, target, maximum)


def _gather(
    lines: list[tuple[str, int]], head: str, tail: str, start: int, body: str, target: int, maximum: int
) -> Iterator[tuple[str, int]]:
    frame = len(head) + len(tail) + 2
    room = max(target - frame, maximum - frame if target - frame < target // 2 else 1, 1)
    kept: list[str] = []
    size, end = 0, start
    for text, stop in lines:
        if kept and size + len(text) + 1 > room:
            yield _framed(head, kept, tail), end
            kept, size = [], 0
        if len(text) > room:
            for piece, at in _text(body, stop - len(body[end:stop]), stop, room):
                yield _framed(head, [piece], tail), at
        else:
            kept.append(text)
            size += len(text) + 1
        end = stop
    if any(line.strip() for line in kept):
        yield _framed(head, kept, tail), end


def _framed(head: str, lines: list[str], tail: str) -> str:
    return "\n".join([head, *lines] + ([tail] if tail else [])).strip()
