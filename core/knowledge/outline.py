"""Markdown as a tree of headings over blocks, by character offsets: what a chunk may be cut from.

Only structure is read: headings (ATX and setext), fences, tables, HTML comments, blank lines. A heading inside a fence or a
comment is text. Blocks of a section are contiguous, so offsets always give the text back. Fences and tables may be indented
as they are below list items; an indented fence or a comment that is never closed is text, so that a slip hides no heading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from core.analysis import normalize

MAX_HEADING_CHARS: Final = 200
_MAX_HEADING_LINE: Final = 1000  # with its marks and links; a longer line is text

_ATX: Final = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?[ \t]*$")
_CLOSING: Final = re.compile(r"(?:^|[ \t]+)#+$")
_FENCE: Final = re.compile(r"^([ \t]*)(`{3,}|~{3,})(.*)$")
_INDENT: Final = 3  # deeper than this is a list item's text, or code by its indent
_SETEXT: Final = re.compile(r"^ {0,3}(=+|-{2,})[ \t]*$")
_DELIMITER_CELL: Final = re.compile(r":?-+:?")
_PLAIN: Final = re.compile(r"^ {0,3}(?![-*+>|#`~]|\d+[.)][ \t])\S")
_MARKUP: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[`*]{1,3}|</?(?:span|a|b|i|em|strong|code|sub|sup|kbd)\b[^>]*>")
_ANCHOR: Final = re.compile(r"\s*\{#[\w.:-]+\}\s*$")


class Kind(StrEnum):
    TEXT = "text"
    FENCE = "fence"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Block:
    """``body[start:end]``, blank lines behind it included."""

    kind: Kind
    start: int
    end: int


@dataclass(slots=True)
class Section:
    """A heading with its own blocks and the sections below it. ``start`` is where its heading line starts,
    ``body_start`` where the text behind the heading does."""

    level: int
    heading: str
    start: int
    body_start: int
    end: int = 0
    blocks: list[Block] = field(default_factory=list)
    children: list[Section] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    start: int
    end: int


def outline(body: str) -> Section:
    """The tree of ``body``. The root has level 0, an empty heading and what stands before the first heading."""
    root = Section(0, "", 0, 0, len(body))
    stack = [root]
    for item in _parse(_lines(body)):
        if isinstance(item, Section):
            while stack[-1].level >= item.level:
                stack.pop().end = item.start
            stack[-1].children.append(item)
            stack.append(item)
        else:
            stack[-1].blocks.append(item)
    for section in stack:
        section.end = len(body)
    return root


def _lines(body: str) -> list[_Line]:
    lines, start = [], 0
    for text in body.split("\n"):
        end = min(start + len(text) + 1, len(body))
        if start < end:  # not what is behind the last line feed
            lines.append(_Line(text, start, end))
        start = end
    return lines


def _parse(lines: list[_Line]) -> Iterator[Section | Block]:
    at, open_from = 0, None  # open_from: where an unfinished text block started
    ends = _Ends(lines)
    while at < len(lines):
        line = lines[at]
        end, item = at + 1, None
        if fence := _FENCE.match(line.text):
            if closed := ends.of_fence(at, fence):
                end, item = closed, Kind.FENCE
        elif line.text.lstrip().startswith("<!--"):
            if closed := ends.of_comment(at):
                end, item = closed, Kind.TEXT
        elif "|" in line.text and at + 1 < len(lines) and _is_delimiter(lines[at + 1].text):
            end, item = _while(lines, at + 2, lambda text: "|" in text), Kind.TABLE
        heading = None if item else _heading(lines, at)
        if item is None and heading is None:
            if line.text.strip():
                open_from = at if open_from is None else open_from
            elif open_from is not None:
                end = _while(lines, at, lambda text: not text.strip())
                yield Block(Kind.TEXT, lines[open_from].start, lines[end - 1].end)
                open_from = None
            else:
                end = _while(lines, at, lambda text: not text.strip())
                yield Block(Kind.TEXT, line.start, lines[end - 1].end)
            at = end
            continue
        if open_from is not None:
            yield Block(Kind.TEXT, lines[open_from].start, line.start)
            open_from = None
        if heading is not None:
            section, at = heading
            yield section
        else:
            end = _while(lines, end, lambda text: not text.strip())
            yield Block(item or Kind.TEXT, line.start, lines[end - 1].end)
            at = end
    if open_from is not None:
        yield Block(Kind.TEXT, lines[open_from].start, lines[-1].end)


def _heading(lines: list[_Line], at: int) -> tuple[Section, int] | None:
    """The heading that starts at line ``at`` with the line behind it. A line of more than 200 characters is text."""
    line = lines[at]
    if len(line.text) > _MAX_HEADING_LINE:
        return None
    if match := _ATX.match(line.text):
        text = clean_heading(_CLOSING.sub("", match[2] or ""))
        if normalize(text) and len(text) <= MAX_HEADING_CHARS:
            return Section(len(match[1]), text, line.start, line.end), at + 1
        return None
    if at + 1 < len(lines) and _PLAIN.match(line.text) and (under := _SETEXT.match(lines[at + 1].text)):
        alone = at == 0 or not lines[at - 1].text.strip()
        text = clean_heading(line.text)
        if alone and normalize(text) and len(text) <= MAX_HEADING_CHARS:
            return Section(1 if under[1][0] == "=" else 2, text, line.start, lines[at + 1].end), at + 2
    return None


def _is_delimiter(text: str) -> bool:
    """The second line of a table: ``|---|:--:|``."""
    cells = text.strip().removeprefix("|").removesuffix("|").split("|")
    return "|" in text and all(_DELIMITER_CELL.fullmatch(cell.strip()) for cell in cells)


def clean_heading(text: str) -> str:
    """A heading as text: links by their words, no emphasis, code marks, inline tags and anchors, single spaces."""
    return " ".join(_ANCHOR.sub("", _MARKUP.sub(lambda m: m[1] or "", text)).split())


class _Ends:
    """Where fences and comments end: the line behind them, or 0. Remembers what was looked for in vain, so that a file of
    nothing but openings is read in one pass."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines = lines
        self._last_comment_end = max((i for i, line in enumerate(lines) if "-->" in line.text), default=-1)
        self._in_vain: dict[str, int] = {}  # mark character -> the length from which on no closing line follows

    def of_fence(self, at: int, fence: re.Match[str]) -> int:
        indent, mark, info = fence.groups()
        if mark[0] == "`" and "`" in info:
            return 0
        deep = len(indent.expandtabs(4)) > _INDENT
        length = self._in_vain.get(mark[0])
        if length is None or len(mark) < length:
            for number in range(at + 1, len(self._lines)):
                text = self._lines[number].text.strip()
                if len(text) >= len(mark) and not text.strip(mark[0]):
                    return number + 1
            self._in_vain[mark[0]] = len(mark)
        return 0 if deep else len(self._lines)

    def of_comment(self, at: int) -> int:
        if at <= self._last_comment_end:
            return next(number for number in range(at, len(self._lines)) if "-->" in self._lines[number].text) + 1
        return 0


def _while(lines: list[_Line], at: int, test: Callable[[str], bool]) -> int:
    while at < len(lines) and test(lines[at].text):
        at += 1
    return at
