"""What a generation is made of, document by document: read from files, or taken over from an earlier generation.

A file that is rejected now while the index holds a good version of its document does not take that version away: it is
carried over with a warning until an operator mends or removes the document.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.knowledge.rebuild.rows import DocumentRows, carried, from_source, problem
from core.knowledge.source import Rejected, SourceFile, SourceListing, doc_id_of, load_file
from core.model import Document
from core.ports import StoredChunk
from core.settings import KnowledgeSettings

ChunksOf = Callable[[Sequence[str]], Mapping[str, Sequence[StoredChunk]]]
AHEAD: Final = 50  # documents whose chunks are fetched at once


@dataclass(frozen=True, slots=True)
class Corpus:
    """``files`` are read; ``over`` are documents taken over as they are; ``earlier`` are the active generation's
    documents by id, which a rejected file falls back to. ``known``: doc_id -> (revision, content hash) of all times."""

    files: tuple[SourceFile, ...]
    over: tuple[Document, ...] = ()
    earlier: Mapping[str, Document] = field(default_factory=dict)
    known: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    rejected: tuple[Rejected, ...] = ()
    skipped: tuple[Rejected, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)  # of documents in ``over`` that should have been read

    def read(self, chunks_of: ChunksOf, settings: KnowledgeSettings) -> Iterator[DocumentRows | Rejected]:
        """Every document in order of its id, each rejected file before what stands in for it. Some at a time: nothing
        is kept. ``chunks_of`` gives the earlier generation's chunks of documents by id."""
        yield from self.rejected
        waiting: dict[str, SourceFile | Document] = {d.doc_id: d for d in self.over}
        waiting |= {file.doc_id: file for file in self.files}
        order = sorted(waiting)
        ahead: dict[str, Sequence[StoredChunk]] = {}
        over = [doc_id for doc_id in order if isinstance(waiting[doc_id], Document)]
        fetched = 0
        for doc_id in order:
            entry = waiting[doc_id]
            if isinstance(entry, Document):
                if doc_id not in ahead:
                    batch = over[fetched : fetched + AHEAD]
                    fetched += len(batch)
                    known = chunks_of(batch)
                    ahead = {name: known.get(name, ()) for name in batch}
                yield carried(entry, ahead.pop(doc_id), self.reasons.get(doc_id, ""))
                continue
            found = self._read(entry, settings)
            yield found
            if isinstance(found, Rejected) and doc_id in self.earlier:
                chunks = chunks_of([doc_id]).get(doc_id, ())
                yield carried(self.earlier[doc_id], chunks, _kept(found))

    def _read(self, file: SourceFile, settings: KnowledgeSettings) -> DocumentRows | Rejected:
        source = load_file(file)
        if isinstance(source, Rejected):
            return source
        rows = from_source(source, file, self.known, settings)
        reason = problem(rows)
        return Rejected(file.source, reason) if reason else rows


def whole(listing: SourceListing, earlier: Mapping[str, Document], known: Mapping[str, tuple[int, str]]) -> Corpus:
    """All files of a listing, and those documents of the active generation whose file or folder cannot be listed."""
    listed = {file.doc_id for file in listing.files}
    reasons: dict[str, str] = {}
    for document in earlier.values():
        if document.doc_id not in listed:
            reason = next((r for r in listing.rejected if _covers(r, document)), None)
            if reason:
                reasons[document.doc_id] = _kept(reason)
    return Corpus(
        files=listing.files,
        over=tuple(earlier[doc_id] for doc_id in reasons),
        earlier=earlier,
        known=known,
        rejected=listing.rejected,
        skipped=listing.skipped,
        reasons=reasons,
    )


def delta(
    files: Sequence[SourceFile],
    removed: frozenset[str],
    earlier: Mapping[str, Document],
    known: Mapping[str, tuple[int, str]],
    rejected: Sequence[Rejected],
    kept: Collection[str],
) -> Corpus:
    """The active generation's documents with ``files`` added or replaced and ``removed`` (ids) left out. ``rejected``
    and ``kept`` (ids) are recorded with that generation and stay true of every document that is taken over."""
    read = {file.doc_id for file in files}
    gone = removed | read
    over = tuple(d for doc_id, d in earlier.items() if doc_id not in gone)
    return Corpus(
        files=tuple(files),
        over=over,
        earlier=earlier,
        known=known,
        rejected=tuple(r for r in rejected if not _names(r, gone)),
        reasons={d.doc_id: d.warnings[0] for d in over if d.doc_id in kept and d.warnings},
    )


def _names(rejected: Rejected, doc_ids: Collection[str]) -> bool:
    return rejected.source.lower().endswith(".md") and doc_id_of(rejected.source) in doc_ids


def _covers(rejected: Rejected, document: Document) -> bool:
    """Whether ``rejected`` is the document's own file, or a folder above it that cannot be read."""
    name = rejected.source
    if name.lower().endswith(".md"):
        return doc_id_of(name) == document.doc_id
    return document.source.startswith(name.rstrip("/") + "/")


def _kept(rejected: Rejected) -> str:
    return f"{rejected.source}: rejected now ({rejected.reason}); its earlier version stays in the index"
