"""The documents of a generation as an operator reads them: their list, their chunks with search tokens, and the text
behind the keys of a stored trace."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from core.analysis import search_text
from core.errors import NotFound
from core.knowledge.chunk import passage_text
from core.model import Document, LookupResult
from core.ports import GenerationStore, StoredChunk
from core.stores import StoredTrace


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk as indexed. ``tokens`` is what BM25 sees, as long as the generation was cut by this analysis version."""

    evidence_key: str
    chunk_index: int
    breadcrumb: str
    content: str
    tokens: str
    revision: int


class ReadBack(Protocol):
    def read_back(self, alias: str, number: int, keys: list[str]) -> Mapping[str, StoredChunk]: ...


class Documents:
    """Reads of SQL only. Every method raises StoreUnavailable when the database is away."""

    def __init__(self, generations: GenerationStore, chunks: ReadBack, alias: str) -> None:
        self._generations = generations
        self._chunks = chunks
        self._alias = alias

    def all(self, generation: int | None = None) -> list[Document]:
        """By document id, of ``generation`` (None: the active one; empty when there is none)."""
        number = self._generations.active_number(self._alias) if generation is None else generation
        return [] if number is None else self._generations.documents(self._alias, number)

    def chunks(self, doc_id: str, generation: int | None = None) -> list[IndexedChunk]:
        """In the order of the text. Raises NotFound for a document that the generation does not hold."""
        number = self._generations.active_number(self._alias) if generation is None else generation
        titles = {d.doc_id: d.title for d in self.all(number)}
        if doc_id not in titles:
            raise NotFound(f"no document {doc_id!r} in the index: choose one from the list")
        stored = self._generations.chunks(self._alias, number, doc_id) if number is not None else []
        return [
            IndexedChunk(
                evidence_key=chunk.evidence_key,
                chunk_index=chunk.chunk_index,
                breadcrumb=chunk.breadcrumb,
                content=chunk.content,
                tokens=search_text(passage_text(titles[doc_id], chunk.breadcrumb, chunk.content)),
                revision=chunk.revision,
            )
            for chunk in stored
        ]

    def evidence_text(self, stored: StoredTrace) -> dict[str, str | None]:
        """The texts of a stored trace by evidence key, read back from the recorded generation. None where it is no
        longer in the index, or no longer the text that the lookup saw (its hash differs)."""
        hashes = _hashes(stored.result)
        number = stored.result.retrieval_trace.generation
        kept = self._chunks.read_back(self._alias, number, list(hashes)) if number is not None and hashes else {}
        return {key: _same(kept.get(key), sha256) for key, sha256 in hashes.items()}


def _hashes(result: LookupResult) -> dict[str, str]:
    candidates = (c for attempt in result.retrieval_trace.attempts for c in attempt.candidates)
    return {c.evidence_key: c.content_sha256 for c in candidates if c.content_sha256}


def _same(chunk: StoredChunk | None, sha256: str) -> str | None:
    if chunk is None:
        return None
    digest = hashlib.sha256(chunk.content.encode("utf-8", "surrogatepass")).hexdigest()
    return chunk.content if digest == sha256 else None
