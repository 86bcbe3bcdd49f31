"""The documents of a generation as an operator reads them: their list, their chunks with search tokens, and the text
behind the keys of a stored trace."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from core.analysis import search_text
from core.audit.redaction import Content
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
    longer the one that the lookup saw. ``result`` is the stored one with the texts of its evidence where they could
    be read back. ``ranks_only``: an agent's lookup whose record left the texts out; nothing is read back for it."""

    result: LookupResult
    texts: dict[str, str | None]
    ranks_only: bool = False


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
        if stored.content != Content.FULL and stored.result.retrieval_trace.origin is Origin.AGENT:
            return Restored(stored.result, {}, ranks_only=True)
        hashes = _hashes(stored.result)
        number = stored.result.retrieval_trace.generation
        kept = self._chunks.read_back(self._alias, number, list(hashes)) if number is not None and hashes else {}
        same = {key: chunk for key, chunk in kept.items() if _same(chunk, hashes[key])}
        result = stored.result
        if same:
            titles = {document.doc_id: document.title for document in self.all(number)}
            result = _with_texts(result, same, titles)
        return Restored(result, {key: same[key].content if key in same else None for key in hashes})


def _with_texts(result: LookupResult, kept: Mapping[str, StoredChunk], titles: Mapping[str, str]) -> LookupResult:
    """``result`` with the titles, breadcrumbs and texts that its record left out. Excerpts are the beginnings that the
    projection let through."""
    shown = {item.evidence_key: item.chars_after for item in result.projection.items} if result.projection else {}

    def names(piece: Candidate | Evidence | ToolEvidence, key: str) -> dict[str, Any]:
        chunk = kept.get(key)
        title, breadcrumb = (titles.get(chunk.doc_id, ""), chunk.breadcrumb) if chunk else ("", "")
        return {"title": piece.title or title, "breadcrumb": piece.breadcrumb or breadcrumb}

    def text(key: str) -> str:
        return kept[key].content if key in kept else ""

    trace, tool = result.retrieval_trace, result.tool_result
    attempts = tuple(
        replace(a, candidates=tuple(evolve(c, **names(c, c.evidence_key)) for c in a.candidates))
        for a in trace.attempts
    )
    evidence = tuple(
        replace(e, content=e.content or text(e.evidence_key), **names(e, e.evidence_key)) for e in result.evidence
    )
    if tool is not None:
        read = tuple(
            replace(
                e,
                excerpt=e.excerpt or text(e.document_id)[: shown.get(e.document_id, 0)],
                **names(e, e.document_id),
            )
            for e in tool.evidence
        )
        tool = replace(tool, evidence=read)
    return replace(result, evidence=evidence, retrieval_trace=replace(trace, attempts=attempts), tool_result=tool)


def _hashes(result: LookupResult) -> dict[str, str]:
    candidates = (c for attempt in result.retrieval_trace.attempts for c in attempt.candidates)
    return {c.evidence_key: c.content_sha256 for c in candidates if c.content_sha256}


def _same(chunk: StoredChunk, sha256: str) -> bool:
    return hashlib.sha256(chunk.content.encode("utf-8", "surrogatepass")).hexdigest() == sha256
