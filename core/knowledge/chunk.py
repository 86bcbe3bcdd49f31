"""A document's body as chunks that follow its headings: at most ``maximum`` characters each, nothing lost.

The spans of a document's chunks partition its body: joined in order they are the body, character by character. A chunk's
text is its span without outer white space and without the headings that its breadcrumb already names; a piece of a split
table or fence repeats the table's head or the fence's marks so that it can be read alone.

Rules, first that applies:

- a subtree that fits in ``target`` is one chunk, except that level-1 headings, where a document has several of them with
  text, are topics of their own: each begins a chunk and shares it with no neighbour;
- small neighbours under one parent share a chunk, which has the parent's breadcrumb and their headings in its text;
- text is cut at the end of a paragraph, a sentence, a clause, a word, never inside a grapheme;
- fences and tables stay whole up to ``maximum``, then tables are cut at row ends and fences at line ends; a short text
  before one stays with it, or with its first piece, where there is room;
- a heading without text below it gives no chunk: it is added to the chunk before it under the same parent, else to the
  one behind it, and left out where neither has room. A document of nothing but headings is cut as if it were text;
- comments, blank entities and symbols alone are no text.
"""

from __future__ import annotations

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
    """The chunks of ``body`` in order; () when it holds no text. ``title`` is the first part of every breadcrumb."""
    if not 0 < target <= maximum:
        raise ValueError(f"target {target} must lie between 1 and maximum {maximum}")
    pieces = _joined(_told(_Cutter(body, target, maximum).section(outline(body), (title,))), maximum)
    if not pieces:
        headings = Block(Kind.TEXT, 0, len(body))
        pieces = list(_told(_Piece((title,), *cut) for cut in split_block(body, headings, target, maximum)))
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
        self._told_at: dict[tuple[int, int], bool] = {}

    def section(self, section: Section, path: tuple[str, ...]) -> Iterator[_Piece]:
        """The pieces of a subtree whose own heading is already the end of ``path``."""
        topics = sum(child.level == 1 and self._told(child) for child in section.children) > 1
        if not topics and self._length(section.body_start, section.end) <= self._target:
            if self._only_child(section):
                for child in section.children:
                    yield from self._neighbours([child], path)
            else:
                yield from self._piece(path, section.body_start, section.end)
            return
        waiting: list[Section] = []
        yield from self._blocks(section.blocks, path)
        for child in section.children:
            apart = self._size(child) > self._target or (topics and child.level == 1)
            if apart or self._full(waiting, child):
                yield from self._neighbours(waiting, path)
                waiting = []
            if apart:
                yield from self.section(child, _down(path, child.heading))
            else:
                waiting.append(child)
        yield from self._neighbours(waiting, path)

    def _only_child(self, section: Section) -> bool:
        """Whether one child holds all of a section's text: its heading then belongs into the breadcrumb."""
        return not self._has_text(section) and sum(map(self._told, section.children)) == 1

    def _told(self, section: Section) -> bool:
        """Whether there is text in the subtree, other than headings."""
        key = (section.start, section.level)
        if key not in self._told_at:
            self._told_at[key] = self._has_text(section) or any(map(self._told, section.children))
        return self._told_at[key]

    def _has_text(self, section: Section) -> bool:
        return any(has_tokens(visible_text(self._body[block.start : block.end])) for block in section.blocks)

    def _full(self, waiting: list[Section], child: Section) -> bool:
        """Small sections are gathered until they reach half the target, and never beyond the target."""
        size = sum(self._size(section) for section in waiting)
        return bool(waiting) and (size >= self._target // 2 or size + self._size(child) > self._target)

    def _size(self, section: Section) -> int:
        return self._length(section.start, section.end)

    def _neighbours(self, sections: list[Section], path: tuple[str, ...]) -> Iterator[_Piece]:
        if not sections:
            return
        told = any(map(self._told, sections))
        if told and len(sections) == 1:
            yield from self.section(sections[0], _down(path, sections[0].heading))
        else:
            yield from self._piece(path, sections[0].start, sections[-1].end, bare=not told)

    def _blocks(self, blocks: list[Block], path: tuple[str, ...]) -> Iterator[_Piece]:
        """A section's own text: blocks gathered up to the target, a larger one cut by its kind."""
        start = end = 0  # of what is gathered
        for block in blocks:
            short = end - start <= self._target // 2
            limit = self._maximum if short and block.kind is not Kind.TEXT else self._target
            if start < end and self._length(start, block.end) <= limit:
                end = block.end
            elif self._length(block.start, block.end) <= self._limit(block):
                yield from self._piece(path, start, end)
                start, end = block.start, block.end
            else:
                lead = start < end and short and block.kind is not Kind.TEXT
                if not lead:
                    yield from self._piece(path, start, end)
                yield from self._cut(path, self._text(start, end) if lead else "", block)
                start = end = block.end
        yield from self._piece(path, start, end)

    def _cut(self, path: tuple[str, ...], lead: str, block: Block) -> Iterator[_Piece]:
        """The pieces of a large block; ``lead`` is a short text before it."""
        for text, end in split_block(self._body, block, self._target, self._maximum):
            if lead and len(lead) + 2 + len(text) > self._maximum:
                yield _Piece(path, lead, block.start)
            elif lead:
                text = f"{lead}\n\n{text}"
            lead = ""
            yield _Piece(path, text, end)

    def _limit(self, block: Block) -> int:
        return longest_text(self._target, self._maximum) if block.kind is Kind.TEXT else self._maximum

    def _piece(self, path: tuple[str, ...], start: int, end: int, *, bare: bool = False) -> Iterator[_Piece]:
        text = self._text(start, end)
        if text:
            yield _Piece(path, text, end, bare)

    def _text(self, start: int, end: int) -> str:
        return self._body[slice(*trimmed(self._body, start, end))]

    def _length(self, start: int, end: int) -> int:
        first, last = trimmed(self._body, start, end)
        return last - first


def _told(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    return (piece for piece in pieces if has_tokens(visible_text(piece.text)))


def _joined(pieces: Iterable[_Piece], maximum: int) -> list[_Piece]:
    """``pieces`` with the bare headings added to their neighbours."""
    done: list[_Piece] = []
    waiting: list[_Piece] = []
    for piece in pieces:
        if piece.bare and done and _takes(done[-1], piece, maximum):
            done[-1] = replace(done[-1], text=f"{done[-1].text}\n\n{piece.text}", end=piece.end)
        elif piece.bare:
            waiting.append(piece)
        else:
            for bare in waiting:
                if _takes(piece, bare, maximum):
                    piece = replace(piece, text=f"{piece.text}\n\n{bare.text}")
            waiting = []
            done.append(piece)
    return done


def _takes(piece: _Piece, bare: _Piece, maximum: int) -> bool:
    return piece.path[: len(bare.path)] == bare.path and len(piece.text) + 2 + len(bare.text) <= maximum


def _down(path: tuple[str, ...], heading: str) -> tuple[str, ...]:
    """A first heading that repeats the title adds nothing to the path."""
    return path if len(path) == 1 and fold(heading) == fold(path[0]) else (*path, heading)


def _breadcrumb(path: tuple[str, ...]) -> str:
    """The heading path; a very deep one keeps the title and its nearest headings."""
    text = PATH_JOINT.join(path)
    while len(text) > MAX_BREADCRUMB and len(path) > 2:
        path = (path[0], *path[2:])
        text = PATH_JOINT.join(path)
    return cut_graphemes(text, MAX_BREADCRUMB)


def passage_text(title: str, breadcrumb: str, content: str) -> str:
    """The exact text that is embedded and analysed: title, path, content (architecture paper, section 5)."""
    path = breadcrumb if breadcrumb.startswith(title) else f"{title}\n{breadcrumb}" if breadcrumb else title
    return f"{path}\n{content}"
