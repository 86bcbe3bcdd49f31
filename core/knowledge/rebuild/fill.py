"""Documents into a new generation: vectors from the cache or the model, while a second thread writes what is ready.

At most ``QUEUED`` batches wait between the two, so the memory that this takes grows with a batch, not with the corpus.
"""

from __future__ import annotations

import hashlib
import queue
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final

from core.analysis import ANALYSIS_VERSION, search_text
from core.knowledge.rebuild.rows import DocumentRows, Item, items
from core.knowledge.source import Rejected
from core.model import Document, Generation, IndexRow
from core.ports import Embedder, EmbeddingCache, GenerationStore, IndexAdmin, SearchTexts

ROWS: Final = 128  # a batch: one cache look-up, one insert; Milvus' rate is flat from 100 on
QUEUED: Final = 2
SAMPLE: Final = 24
INSERT_SECONDS: Final = 300.0


@dataclass(slots=True)
class Filled:
    """What went in. ``sample`` is an even random choice of rows, for the proof. Seconds are of the two threads."""

    documents: int = 0
    chunks: int = 0
    embedded: int = 0
    from_cache: int = 0
    embed_seconds: float = 0.0
    insert_seconds: float = 0.0
    kept: list[str] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    sample: list[IndexRow] = field(default_factory=list)
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class _Batch:
    """``rows`` None: the writer makes them. ``documents`` are those whose last chunk is in here."""

    items: tuple[Item, ...]
    vectors: dict[str, Any]
    documents: tuple[Document, ...]
    rows: tuple[IndexRow, ...] | None


class Filler:
    """Fills one generation. ``advance`` is told how many chunks have their vector; it may raise to stop the work."""

    def __init__(
        self,
        generation: Generation,
        *,
        store: GenerationStore,
        admin: IndexAdmin,
        cache: EmbeddingCache,
        search_texts: SearchTexts,
        embedder: Embedder,
        batch_size: int,
        batch_timeout: float,
        advance: Callable[[int], None],
    ) -> None:
        self._generation, self._store, self._admin = generation, store, admin
        self._cache, self._search_texts, self._embedder = cache, search_texts, embedder
        self._batch_size, self._batch_timeout = batch_size, batch_timeout
        self._advance = advance
        self._filled = Filled()
        self._random = random.Random(generation.number)
        self._queue: queue.Queue[_Batch | None] = queue.Queue(QUEUED)
        self._failure: BaseException | None = None
        self._ready = self._seen = 0

    def run(self, corpus: Iterable[DocumentRows | Rejected]) -> Filled:
        """Raises what the model, a store or ``advance`` raises; then the generation is incomplete."""
        writer = threading.Thread(target=self._write, name="rebuild-writer", daemon=True)
        writer.start()
        try:
            self._feed(corpus)
        except BaseException:
            self._failure = self._failure or InterruptedError()
            raise
        finally:
            self._end(writer)
        if self._failure is not None:
            raise self._failure
        self._advance(self._ready)
        return self._filled

    def _feed(self, corpus: Iterable[DocumentRows | Rejected]) -> None:
        filled, waiting = self._filled, list[Item]()
        documents: list[Document] = []
        digest = hashlib.sha256()
        for entry in corpus:
            if isinstance(entry, Rejected):
                filled.rejected.append(entry)
                continue
            self._count(entry)
            digest.update(f"{entry.document.doc_id}\0{entry.document.revision}\n".encode("utf-8", "surrogatepass"))
            for item in items(entry):
                waiting.append(item)
                if len(waiting) == ROWS:
                    self._hand_over(waiting, documents)
                    waiting, documents = [], []
            documents.append(entry.document)
        self._hand_over(waiting, documents)
        filled.snapshot = digest.hexdigest()

    def _count(self, entry: DocumentRows) -> None:
        filled, document = self._filled, entry.document
        filled.documents += 1
        filled.chunks += len(entry.pieces)
        filled.warnings.extend(document.warnings)
        if entry.kept:
            filled.kept.append(document.doc_id)

    def _hand_over(self, items: Sequence[Item], documents: Sequence[Document]) -> None:
        embedded = self._filled.embedded
        ready = _Batch(tuple(items), self._vectors(items), tuple(documents), None)
        if self._filled.embedded == embedded:
            # analysis takes its time: beside the model in the writer's thread, else here beside the insertion
            ready = replace(ready, rows=self._rows(ready))
        self._ready += len(items)
        while self._failure is None:
            try:
                self._queue.put(ready, timeout=0.2)
                break
            except queue.Full:
                self._advance(self._ready)
        if self._failure is not None:
            raise self._failure
        self._advance(self._ready)

    def _vectors(self, batch: Sequence[Item]) -> dict[str, Any]:
        """Vectors by cache key; what the model makes goes into the cache at once, so that a crash loses little."""
        profile_id = self._generation.profile.profile_id
        passages = {item.key: item.passage for item in batch}
        vectors = self._cache.get(profile_id, list(passages))
        missing = [key for key in passages if key not in vectors]
        self._filled.from_cache += len(batch) - len(missing)  # a text that stands there twice is embedded once
        self._filled.embedded += len(missing)
        for start in range(0, len(missing), self._batch_size):
            keys = missing[start : start + self._batch_size]
            began = perf_counter()
            made = self._embedder.embed_passages([passages[key] for key in keys], timeout=self._batch_timeout)
            self._filled.embed_seconds += perf_counter() - began
            fresh = dict(zip(keys, made, strict=True))
            self._cache.put(profile_id, fresh)
            vectors |= fresh
            if self._failure is not None:
                raise self._failure
            self._advance(self._ready + len(batch) - max(0, len(missing) - start - len(keys)))
        return vectors

    def _rows(self, batch: _Batch) -> tuple[IndexRow, ...]:
        """Analysed where that was not done before."""
        tokens = self._search_texts.get(ANALYSIS_VERSION, [item.key for item in batch.items])
        fresh = {item.key: search_text(item.passage) for item in batch.items if item.key not in tokens}
        if fresh:
            self._search_texts.put(ANALYSIS_VERSION, fresh)
            tokens |= fresh
        return tuple(item.row(tokens[item.key], batch.vectors[item.key]) for item in batch.items)

    def _choose(self, rows: Sequence[IndexRow]) -> None:
        """Reservoir sampling: each row of the whole has the same chance, whatever the size of the whole."""
        for row in rows:
            self._seen += 1
            if len(self._filled.sample) < SAMPLE:
                self._filled.sample.append(row)
            elif (place := self._random.randrange(self._seen)) < SAMPLE:
                self._filled.sample[place] = row

    def _write(self) -> None:
        while (batch := self._queue.get()) is not None:
            if self._failure is not None:
                continue  # the feeder must never wait for a full queue
            try:
                self._store_batch(batch)
            except BaseException as exc:  # noqa: BLE001 - it belongs to the thread that feeds
                self._failure = exc

    def _store_batch(self, batch: _Batch) -> None:
        generation = self._generation
        rows = batch.rows or self._rows(batch)
        self._choose(rows)
        began = perf_counter()
        if rows:
            self._admin.insert(generation, rows, timeout=INSERT_SECONDS)
        self._filled.insert_seconds += perf_counter() - began
        chunks = [item.stored(generation.number) for item in batch.items]
        self._store.put_chunks(generation.alias, generation.number, chunks)
        self._store.put_documents(generation.alias, generation.number, batch.documents)

    def _end(self, writer: threading.Thread) -> None:
        while writer.is_alive():
            try:
                self._queue.put(None, timeout=0.2)
                break
            except queue.Full:
                continue
        writer.join()
