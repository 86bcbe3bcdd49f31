"""A document's body as chunks that follow its headings: at most ``maximum`` characters each, nothing lost.

The spans of a document's chunks partition its body: joined in order they are the body, character by character. A chunk's
text is its span without outer white space and without the headings that its breadcrumb already names; a piece of a split
table or fence repeats the table's head or the fence's marks so that it can be read alone.

Rules, first that applies:

- a subtree that fits in ``target`` is one chunk, except that level-1 headings, where a document has several of them with
  text, are topics of their own: each begins a chunk and shares it with no neighbour. Where the title is only the first of
  them, the others do not stand below it in their breadcrumbs;
- small neighbours under one parent share a chunk, which has the parent's breadcrumb and their headings in its text;
- text is cut at the end of a paragraph, a sentence, a clause, a word, never inside a grapheme;
- fences and tables stay whole up to ``maximum``, then tables are cut at row ends and fences at line ends; a short text
  before one stays with it, or with its first piece, where there is room;
- a heading without text below it gives no chunk: it is added to the chunk before it under the same parent, else to the
  one behind it, and left out where neither has room; a long row of such headings counts as text;
- symbols and emoji alone are added to the chunk before them in the same section, and are a chunk where it has no room;
  comments, blank entities and rules (``---``) alone are nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from core.analysis import cut_graphemes, fold, has_tokens
from core.knowledge.outline import Block, Kind, Section, outline
from core.knowledge.source import trimmed, visible_text
from core.knowledge.split import longest_text, split_block

CHUNKING_VERSION: Final = "2"
PATH_JOINT: Final = " > "
MAX_BREADCRUMB: Final = 500
_BETWEEN: Final = "\n\n"
_NOTHING: Final = re.compile(r"[\s\-*_=#>|`~:+.]*")  # rules, empty quotes, items and fences


@dataclass(frozen=True, slots=True)
class ChunkPiece:
    """``text`` is what is stored and shown; ``span_start:span_end`` the part of the body it stands for."""

    index: int
    text: str
    breadcrumb: str
    span_start: int
    span_end: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """A chunk in the making: ``end`` is where its part of the body ends. ``bare``: headings without text."""

    path: tuple[str, ...]
    text: str
    end: int
    bare: bool = False


def chunk_body(title: str, body: str, *, target: int = 800, maximum: int = 1200) -> tuple[ChunkPiece, ...]:
    """The chunks of ``body`` in order; () when it holds no text. ``title`` is the first part of every breadcrumb,
    except below another level-1 heading of a document whose title is the first one."""
    if not 0 < target <= maximum:
        raise ValueError(f"target {target} must lie between 1 and maximum {maximum}")
    if not has_tokens(visible_text(body)):
        return ()
    cutter = _Cutter(body, target, maximum)
    pieces = _joined(cutter.section(outline(body), (title,)), maximum)
    if not pieces:  # headings alone
        pieces = _joined((replace(p, bare=False) for p in cutter.as_text(0, len(body), (title,))), maximum)
    chunks: list[ChunkPiece] = []
    start = 0
    for number, piece in enumerate(pieces):
        end = len(body) if number == len(pieces) - 1 else piece.end
        chunks.append(ChunkPiece(number, piece.text, _breadcrumb(piece.path), start, end))
        start = end
    return tuple(chunks)


class _Cutter:
    def __init__(self, body: str, target: int, maximum: int) -> None:
        self._body = body
        self._target = target
        self._maximum = maximum
        self._title_is_topic = False
        self._told_at: dict[tuple[int, int], bool] = {}

    def section(self, section: Section, path: tuple[str, ...]) -> Iterator[_Piece]:
        """The pieces of a subtree whose own heading is already the end of ``path``."""
        told = sum(map(self._told, section.children))
        topics = sum(child.level == 1 and self._told(child) for child in section.children) > 1
        if not topics and self._length(section.body_start, section.end) <= self._target:
            if told == 1 and not self._has_text(section):  # that child's heading belongs into the path
                for child in section.children:
                    yield from self._neighbours([child], path)
            else:
                yield from self._piece(path, section.body_start, section.end)
            return
        if topics and len(path) == 1:
            self._title_is_topic = any(_same(child.heading, path[0]) for child in section.children if child.level == 1)
        yield from self._blocks(section.blocks, path)
        waiting: list[Section] = []  # small ones, until they reach half the target, and never beyond the target
        size = 0
        for child in section.children:
            more = self._length(child.start, child.end)
            apart = more > self._target or (topics and child.level == 1)
            if apart or size >= self._target // 2 or size + more > self._target:
                yield from self._neighbours(waiting, path)
                waiting, size = [], 0
            if apart:
                yield from self._neighbours([child], path)
            else:
                waiting.append(child)
                size += more
        yield from self._neighbours(waiting, path)

    def as_text(self, start: int, end: int, path: tuple[str, ...]) -> Iterator[_Piece]:
        """The pieces of a part whose structure does not matter. A short one is bare."""
        for text, stop in split_block(self._body, Block(Kind.TEXT, start, end), self._target, self._maximum):
            yield _Piece(path, text, stop, bare=len(text) <= self._target // 2)

    def _neighbours(self, sections: list[Section], path: tuple[str, ...]) -> Iterator[_Piece]:
        """Sections that share a chunk; one alone has its heading in the path."""
        if not sections:
            return
        if not any(map(self._told, sections)):
            yield from self.as_text(sections[0].start, sections[-1].end, path)
        elif len(sections) == 1:
            yield from self.section(sections[0], self._down(path, sections[0]))
        else:
            yield from self._piece(path, sections[0].start, sections[-1].end)

    def _down(self, path: tuple[str, ...], section: Section) -> tuple[str, ...]:
        """A first heading that repeats the title adds nothing to the path."""
        if len(path) == 1 and _same(section.heading, path[0]):
            return path
        own = self._title_is_topic and section.level == 1
        return (section.heading,) if own else (*path, section.heading)

    def _blocks(self, blocks: list[Block], path: tuple[str, ...]) -> Iterator[_Piece]:
        """A section's own text: blocks gathered up to the target, a larger one cut by its kind."""
        gathered: list[Block] = []
        for block in blocks:
            if gathered and self._length(gathered[0].start, block.end) <= self._room(gathered[0], block):
                gathered.append(block)
                continue
            whole = self._length(block.start, block.end) <= self._limit(block)
            lead = gathered[-1:] if gathered and self._leads(gathered[-1], block) else []
            if lead and whole and self._length(lead[0].start, block.end) > self._maximum:
                lead = []
            yield from self._run(gathered[: len(gathered) - len(lead)], path)
            if whole:
                gathered = [*lead, block]
            else:
                gathered = []
                yield from self._cut(lead, block, path)
        yield from self._run(gathered, path)

    def _room(self, first: Block, block: Block) -> int:
        """How long what began with ``first`` may become with ``block``."""
        short = self._length(first.start, block.start) <= self._target // 2
        return self._maximum if short and block.kind is not Kind.TEXT else self._target

    def _limit(self, block: Block) -> int:
        return longest_text(self._target, self._maximum) if block.kind is Kind.TEXT else self._maximum

    def _leads(self, before: Block, block: Block) -> bool:
        """Whether ``before`` is the short text that says what the table or fence behind it is."""
        short = self._length(before.start, before.end) <= self._target // 2
        return short and before.kind is Kind.TEXT and block.kind is not Kind.TEXT

    def _run(self, blocks: list[Block], path: tuple[str, ...]) -> Iterator[_Piece]:
        if blocks:
            yield from self._piece(path, blocks[0].start, blocks[-1].end)

    def _cut(self, before: list[Block], block: Block, path: tuple[str, ...]) -> Iterator[_Piece]:
        """The pieces of a large block, the first with its lead."""
        lead = self._text(before[0].start, block.start) if before else ""
        for text, end in split_block(self._body, block, self._target, self._maximum):
            if lead and len(lead) + len(_BETWEEN) + len(text) > self._maximum:
                yield _Piece(path, lead, block.start)
            elif lead:
                text = lead + _BETWEEN + text
            lead = ""
            yield _Piece(path, text, end)

    def _piece(self, path: tuple[str, ...], start: int, end: int) -> Iterator[_Piece]:
        text = self._text(start, end)
        if text:
            yield _Piece(path, text, end)

    def _told(self, section: Section) -> bool:
        """Whether there is text in the subtree, other than headings."""
        key = (section.start, section.level)
        if key not in self._told_at:
            self._told_at[key] = self._has_text(section) or any(map(self._told, section.children))
        return self._told_at[key]

    def _has_text(self, section: Section) -> bool:
        return any(not _NOTHING.fullmatch(visible_text(self._body[b.start : b.end])) for b in section.blocks)

    def _text(self, start: int, end: int) -> str:
        return self._body[slice(*trimmed(self._body, start, end))]

    def _length(self, start: int, end: int) -> int:
        first, last = trimmed(self._body, start, end)
        return last - first


def _joined(pieces: Iterable[_Piece], maximum: int) -> list[_Piece]:
    """``pieces`` without empty ones; headings and symbols alone are weak and added to a neighbour."""
    done: list[_Piece] = []
    waiting: list[_Piece] = []  # bare ones that the piece before them did not take
    for piece in pieces:
        seen = visible_text(piece.text)
        if _NOTHING.fullmatch(seen):
            continue
        if (piece.bare or not has_tokens(seen)) and done and _takes(done[-1], piece, maximum):
            done[-1] = replace(done[-1], text=done[-1].text + _BETWEEN + piece.text, end=piece.end)
        elif piece.bare:
            waiting.append(piece)
        else:
            for bare in waiting:
                if _takes(piece, bare, maximum):
                    piece = replace(piece, text=piece.text + _BETWEEN + bare.text)
            waiting = []
            done.append(piece)
    return done


def _takes(piece: _Piece, weak: _Piece, maximum: int) -> bool:
    below = len(weak.path) == 1 or piece.path[: len(weak.path)] == weak.path
    return below and len(piece.text) + len(_BETWEEN) + len(weak.text) <= maximum


def _same(heading: str, title: str) -> bool:
    return fold(heading) == fold(title)


def _breadcrumb(path: tuple[str, ...]) -> str:
    """The heading path; a very deep one keeps the title and its nearest headings."""
    text = PATH_JOINT.join(path)
    while len(text) > MAX_BREADCRUMB and len(path) > 2:
        path = (path[0], *path[2:])
        text = PATH_JOINT.join(path)
    return cut_graphemes(text, MAX_BREADCRUMB)


def passage_text(title: str, breadcrumb: str, content: str) -> str:
    """The exact text that is embedded and analysed: title, path, content (architecture paper, section 5)."""
    told = breadcrumb == title or breadcrumb.startswith(title + PATH_JOINT)
    path = breadcrumb if told else f"{title}\n{breadcrumb}" if breadcrumb else title
    return f"{path}\n{content}"
