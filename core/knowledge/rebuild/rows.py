"""Documents as rows: of Milvus (``IndexRow``), of SQL (``StoredChunk``), of L0 (``Document``)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from core.analysis import search_text
from core.knowledge.chunk import CHUNKING_VERSION, ChunkPiece, chunk_body, passage_text
from core.knowledge.source import SourceDocument, SourceFile
from core.model import Chunk, Document, IndexRow, evidence_key
from core.ports import StoredChunk
from core.settings import KnowledgeSettings
from core.store_limits import oversize

_SURELY_FITS: Final = 4_000


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """A document with its pieces in order of the text. ``kept``: its file is rejected now, this is what it was."""

    document: Document
    pieces: tuple[ChunkPiece, ...]
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One chunk on its way into the index: ``passage`` is what is embedded and analysed, ``key`` its name in the
    embedding cache."""

    chunk: Chunk
    passage: str
    key: str
    piece: ChunkPiece

    def row(self, tokens: str, vector: Any) -> IndexRow:
        return IndexRow(self.chunk, tokens, vector)

    def stored(self, generation: int) -> StoredChunk:
        return StoredChunk(
            generation=generation,
            evidence_key=self.chunk.evidence_key,
            doc_id=self.chunk.doc_id,
            chunk_index=self.piece.index,
            content_hash=sha256(self.chunk.content),
            revision=self.chunk.revision or 0,
            span_start=self.piece.span_start,
            span_end=self.piece.span_end,
            breadcrumb=self.chunk.breadcrumb,
            content=self.chunk.content,
        )


def chunking_version(settings: KnowledgeSettings) -> str:
    """Version and sizes: another one gives other chunks."""
    return f"{CHUNKING_VERSION}/{settings.chunk_target}/{settings.chunk_max}"


def next_revision(doc_id: str, content_hash: str, known: Mapping[str, tuple[int, str]]) -> int:
    """1 for a new document, one more than ever given when its content hash changed, else the same. ``known`` is
    doc_id -> (highest revision ever given, its content hash)."""
    revision, last_hash = known.get(doc_id, (0, ""))
    return revision if revision and last_hash == content_hash else revision + 1


def from_source(
    source: SourceDocument, file: SourceFile, known: Mapping[str, tuple[int, str]], settings: KnowledgeSettings
) -> DocumentRows:
    """A document as read from its file, cut by ``settings``, with its revision."""
    pieces = chunk_body(source.title, source.body, target=settings.chunk_target, maximum=settings.chunk_max)
    document = Document(
        doc_id=source.doc_id,
        source=source.source,
        title=source.title,
        category=source.category,
        kb_scope=source.kb_scope,
        revision=next_revision(source.doc_id, source.content_hash, known),
        content_hash=source.content_hash,
        keywords=source.keywords,
        aliases=source.aliases,
        chunk_count=len(pieces),
        encoding=source.encoding,
        warnings=source.warnings,
        size=file.size,
        mtime_ns=file.mtime_ns,
        uploaded=file.uploaded,
    )
    return DocumentRows(document, pieces)


def carried(document: Document, chunks: Sequence[StoredChunk], warning: str = "") -> DocumentRows:
    """A document as an earlier generation holds it. ``warning`` says why it is kept though its file cannot be used."""
    pieces = tuple(ChunkPiece(c.chunk_index, c.content, c.breadcrumb, c.span_start, c.span_end) for c in chunks)
    return (
        DocumentRows(replace(document, warnings=(warning,)), pieces, True)
        if warning
        else DocumentRows(document, pieces)
    )


def items(rows: DocumentRows) -> Iterator[Item]:
    document = rows.document
    for piece in rows.pieces:
        chunk = Chunk(
            evidence_key=evidence_key(document.doc_id, piece.index),
            doc_id=document.doc_id,
            chunk_index=piece.index,
            content=piece.text,
            title=document.title,
            breadcrumb=piece.breadcrumb,
            source=document.source,
            category=document.category,
            kb_scope=document.kb_scope,
            revision=document.revision,
        )
        passage = passage_text(document.title, piece.breadcrumb, piece.text)
        yield Item(chunk, passage, sha256(passage), piece)


def passage_keys(chunks: Sequence[StoredChunk], titles: Mapping[str, str]) -> list[str]:
    """The names of stored chunks in the embedding cache, in their order. ``titles``: doc_id -> title."""
    return [sha256(passage_text(titles.get(c.doc_id, ""), c.breadcrumb, c.content)) for c in chunks]


def problem(rows: DocumentRows) -> str | None:
    """Why the document cannot be stored (a field that is too large), as one line; None when it can."""
    if not rows.pieces:
        return "no indexable text: nothing is left after cutting it into chunks"
    return next((reason for item in items(rows) if (reason := oversize(item.chunk, _long_search_text(item)))), None)


def _long_search_text(item: Item) -> str:
    """Analysis costs time and makes a text at most a few times longer: only a long one can reach the limit."""
    return search_text(item.passage) if len(item.passage) > _SURELY_FITS else ""


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
