"""The documents of a generation as an operator reads them: their list, their chunks with search tokens, and the text
behind the keys of a stored trace."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from core.analysis import search_text
from core.errors import NotFound
from core.knowledge.chunk import passage_text
from core.model import Candidate, Document, Evidence, LookupResult, Origin, ToolEvidence, evolve
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


@dataclass(frozen=True, slots=True)
class Restored:
    """A stored trace as it may be shown. ``texts`` by evidence key: None where the text is no longer in the index, or no
    longer the one that the lookup saw. ``result`` is the stored one; of a console lookup, whose question is kept too,
    it has the texts of its evidence again. An agent's lookup keeps what its record left out, left out."""

    result: LookupResult
    texts: dict[str, str | None]


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

    def restored(self, stored: StoredTrace) -> Restored:
        """A stored trace with its texts read back from the recorded generation, each only where its hash is the one that
        the lookup saw."""
        hashes = _hashes(stored.result)
        number = stored.result.retrieval_trace.generation
        kept = self._chunks.read_back(self._alias, number, list(hashes)) if number is not None and hashes else {}
        same = {key: chunk for key, chunk in kept.items() if _same(chunk, hashes[key])}
        result = stored.result
        if same and result.retrieval_trace.origin is Origin.CONSOLE:
            titles = {document.doc_id: document.title for document in self.all(number)}
            result = _with_texts(result, same, titles)
        return Restored(result, {key: same[key].content if key in same else None for key in hashes})


def _with_texts(result: LookupResult, kept: Mapping[str, StoredChunk], titles: Mapping[str, str]) -> LookupResult:
    """``result`` with the titles, breadcrumbs and texts that its record left out. Excerpts are the beginnings that the
    projection let through."""
    known = {key: (titles.get(chunk.doc_id, ""), chunk.breadcrumb, chunk.content) for key, chunk in kept.items()}
    shown = {item.evidence_key: item.chars_after for item in result.projection.items} if result.projection else {}

    def named(candidate: Candidate) -> Candidate:
        title, breadcrumb, _ = known.get(candidate.evidence_key, ("", "", ""))
        return evolve(candidate, title=candidate.title or title, breadcrumb=candidate.breadcrumb or breadcrumb)

    def whole(piece: Evidence) -> Evidence:
        title, breadcrumb, text = known.get(piece.evidence_key, ("", "", ""))
        return replace(
            piece,
            title=piece.title or title,
            breadcrumb=piece.breadcrumb or breadcrumb,
            content=piece.content or text,
        )

    def read(piece: ToolEvidence) -> ToolEvidence:
        title, breadcrumb, text = known.get(piece.document_id, ("", "", ""))
        return replace(
            piece,
            title=piece.title or title,
            breadcrumb=piece.breadcrumb or breadcrumb,
            excerpt=piece.excerpt or text[: shown.get(piece.document_id, 0)],
        )

    trace, tool = result.retrieval_trace, result.tool_result
    attempts = tuple(replace(a, candidates=tuple(named(c) for c in a.candidates)) for a in trace.attempts)
    return replace(
        result,
        evidence=tuple(whole(piece) for piece in result.evidence),
        retrieval_trace=replace(trace, attempts=attempts),
        tool_result=replace(tool, evidence=tuple(read(piece) for piece in tool.evidence)) if tool else None,
    )


def _hashes(result: LookupResult) -> dict[str, str]:
    candidates = (c for attempt in result.retrieval_trace.attempts for c in attempt.candidates)
    return {c.evidence_key: c.content_sha256 for c in candidates if c.content_sha256}


def _same(chunk: StoredChunk, sha256: str) -> bool:
    return hashlib.sha256(chunk.content.encode("utf-8", "surrogatepass")).hexdigest() == sha256
