"""A document's body as chunks that follow its headings: at most ``maximum`` characters each, nothing lost.

The spans of a document's chunks partition its body: joined in order they are the body, character by character. A chunk's
text is its span without outer white space and without the headings that its breadcrumb already names; a piece of a split
table or fence repeats the table's head or the fence's marks so that it can be read alone.
Rules: a subtree that fits in ``target`` is one chunk; small neighbours under one parent share a chunk, with the parent's
breadcrumb; fences and tables stay whole up to ``maximum``, then tables are cut at row ends and fences at line ends; a
heading without text of its own gives no chunk and lives on in the breadcrumbs below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from core.analysis import cut_graphemes, has_tokens
from core.knowledge.outline import Block, Kind, Section, outline
from core.knowledge.source import visible_text
from core.knowledge.split import split_block

CHUNKING_VERSION: Final = "1"
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
    """A chunk in the making: ``end`` is where its part of the body ends."""

    path: tuple[str, ...]
    text: str
    end: int


def chunk_body(title: str, body: str, *, target: int = 800, maximum: int = 1200) -> tuple[ChunkPiece, ...]:
    """The chunks of ``body`` in order; () when it holds no text. ``title`` is the first part of every breadcrumb."""
    if not 0 < target <= maximum:
        raise ValueError(f"target {target} must lie between 1 and maximum {maximum}")
    cutter = _Cutter(body, target, maximum)
    pieces = [piece for piece in cutter.section(outline(body), (title,)) if has_tokens(visible_text(piece.text))]
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

    def section(self, section: Section, path: tuple[str, ...]) -> Iterator[_Piece]:
        """The pieces of a subtree whose own heading is already the end of ``path``."""
        whole = self._body[section.body_start : section.end].strip()
        if len(whole) <= self._target:
            only = self._only_child(section)
            if only is not None:
                yield from self.section(only, _down(path, only.heading))
                return
            if whole:
                yield _Piece(path, whole, section.end)
            return
        waiting: list[Section] = []
        yield from self._blocks(section.blocks, path)
        for child in section.children:
            if self._size(child) > self._target or self._closed(waiting, child):
                yield from self._neighbours(waiting, path)
                waiting = []
            if self._size(child) > self._target:
                yield from self.section(child, _down(path, child.heading))
            else:
                waiting.append(child)
        yield from self._neighbours(waiting, path)

    def _only_child(self, section: Section) -> Section | None:
        """The one child that holds all of a section's text: its heading then belongs into the breadcrumb."""
        if any(self._body[block.start : block.end].strip() for block in section.blocks):
            return None
        told = [child for child in section.children if self._told(child)]
        return told[0] if len(told) == 1 else None

    def _told(self, section: Section) -> bool:
        return any(self._body[b.start : b.end].strip() for b in section.blocks) or any(
            map(self._told, section.children)
        )

    def _closed(self, waiting: list[Section], child: Section) -> bool:
        """Small sections are gathered until they reach half the target, never beyond it."""
        size = sum(self._size(section) for section in waiting)
        return bool(waiting) and (size >= self._target // 2 or size + self._size(child) > self._target)

    def _size(self, section: Section) -> int:
        return len(self._body[section.start : section.end].strip())

    def _neighbours(self, sections: list[Section], path: tuple[str, ...]) -> Iterator[_Piece]:
        told = [section for section in sections if self._told(section)]
        if len(told) == 1 and len(sections) == 1:
            yield from self.section(told[0], _down(path, told[0].heading))
        elif told:
            text = self._body[sections[0].start : sections[-1].end].strip()
            yield _Piece(path, text, sections[-1].end)

    def _blocks(self, blocks: list[Block], path: tuple[str, ...]) -> Iterator[_Piece]:
        """A section's own text: blocks gathered up to the target, a larger one cut by its kind."""
        start = end = None
        for block in blocks:
            if start is not None and end is not None:
                if len(self._body[start : block.end].strip()) <= self._target:
                    end = block.end
                    continue
                yield from self._piece(path, start, end)
            start, end = block.start, block.end
            if len(self._body[start:end].strip()) > self._limit(block):
                yield from (
                    _Piece(path, text, at) for text, at in split_block(self._body, block, self._target, self._maximum)
                )
                start = end = None
        if start is not None and end is not None:
            yield from self._piece(path, start, end)

    def _limit(self, block: Block) -> int:
        return self._target if block.kind is Kind.TEXT else self._maximum

    def _piece(self, path: tuple[str, ...], start: int, end: int) -> Iterator[_Piece]:
        text = self._body[start:end].strip()
        if text:
            yield _Piece(path, text, end)


def _down(path: tuple[str, ...], heading: str) -> tuple[str, ...]:
    """A first heading that repeats the title adds nothing to the path."""
    return path if len(path) == 1 and heading.casefold() == path[0].casefold() else (*path, heading)


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
