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
    re.compile(r"[。！？；!?;…]++[”’」』）】)\]\"']*+(?=.)|\.(?=\s)"),
    re.compile(r"[，、,:：]"),
    re.compile(r"\s"),
)


def split_block(body: str, block: Block, target: int, maximum: int) -> Iterator[tuple[str, int]]:
    """``(text, end)`` of each piece; texts are at most ``maximum`` characters, ends rise up to ``block.end``."""
    if block.kind is Kind.TABLE:
        yield from _table(body, block, target, maximum)
    elif block.kind is Kind.FENCE:
        yield from _fence(body, block, target, maximum)
    else:
        yield from _text(body, block.start, block.end, target, longest_text(target, maximum))


def longest_text(target: int, maximum: int) -> int:
    """How long a text may be before it is cut: a little over the target, so that no crumb is left behind."""
    return min(target + target // 8, maximum)


def _text(body: str, start: int, end: int, limit: int, rest: int = 0) -> Iterator[tuple[str, int]]:
    """Pieces of at most ``limit`` characters; the last may have ``rest``."""
    at = start
    while at < end:
        stop = (
            end
            if end - at <= max(limit, rest)
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
    if len(head) + 2 > maximum // 2:
        yield from _text(body, block.start, block.end, target)
        return
    yield from _gather(lines[2:], head, "", lines[1][1] if len(lines) > 1 else block.start, body, target, maximum)


def _fence(body: str, block: Block, target: int, maximum: int) -> Iterator[tuple[str, int]]:
    """Cut at line ends; every piece is fenced again with the opening line's mark and language."""
    lines = list(_lines(body, block.start, block.end))
    opening = lines[0][0]
    mark = re.match(r"[ \t]*([`~]+)", opening)
    closing = mark[1] if mark else "```"
    if len(opening) + len(closing) + 2 > maximum // 2:
        yield from _text(body, block.start, block.end, target)
        return
    inner = lines[1:]
    while inner and not inner[-1][0].strip():
        inner.pop()
    last = inner[-1][0].strip() if inner else ""
    if len(last) >= len(closing) and not last.strip(closing[0]):
        inner.pop()
    yield from _gather(inner, opening, closing, lines[0][1], body, target, maximum)


def _gather(
    lines: list[tuple[str, int]], head: str, tail: str, start: int, body: str, target: int, maximum: int
) -> Iterator[tuple[str, int]]:
    frame = len(head) + len(tail) + 2
    widest = max(maximum - frame, 1)
    room = target - frame if target - frame >= target // 2 else widest
    kept: list[str] = []
    size, end = 0, start
    for text, stop in lines:
        if kept and size + len(text) + 1 > room:
            if any(line.strip() for line in kept):
                yield _framed(head, kept, tail), end
            kept, size = [], 0
        if len(text) > widest:
            for piece, at in _text(body, end, stop, widest):
                yield _framed(head, [piece], tail), at
        else:
            kept.append(text)
            size += len(text) + 1
        end = stop
    if any(line.strip() for line in kept):
        yield _framed(head, kept, tail), end


def _framed(head: str, lines: list[str], tail: str) -> str:
    return "\n".join([head, *lines] + ([tail] if tail else [])).strip()
