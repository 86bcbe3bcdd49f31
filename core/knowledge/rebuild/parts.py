"""What everything here works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core.analysis import ANALYSIS_VERSION
from core.knowledge.rebuild.corpus import ChunksOf
from core.knowledge.rebuild.leftovers import Leftovers
from core.knowledge.rebuild.plan import demands
from core.knowledge.rebuild.rows import chunking_version
from core.knowledge.rebuild.shipped import ShippedVectors
from core.knowledge.rebuild.sources import Sources
from core.knowledge.rebuild.switch import Switcher
from core.model import Document, Generation
from core.ports import (
    Clock,
    Embedder,
    EmbeddingCache,
    GenerationStore,
    IndexAdmin,
    SearchTexts,
    SnapshotSource,
    VectorIndex,
)
from core.settings import Settings
from core.stores import RunStore

Gate = Callable[[int, int | None], list[str]]


@dataclass(frozen=True, slots=True)
class Parts:
    """``gate(new, old)`` gives the reviewed cases that generation ``new`` fails and ``old`` passes, a line each."""

    alias: str
    settings: Settings
    store: GenerationStore
    runs: RunStore
    cache: EmbeddingCache
    search_texts: SearchTexts
    admin: IndexAdmin
    index: VectorIndex
    embedder: Embedder
    snapshots: SnapshotSource
    clock: Clock
    gate: Gate | None = None

    @property
    def uploads(self) -> Path:
        return self.settings.path(self.settings.knowledge.uploads)

    @property
    def leftovers(self) -> Leftovers:
        grace = self.settings.knowledge.drop_after_seconds
        return Leftovers(self.alias, self.store, self.admin, self.clock, grace)

    @property
    def switcher(self) -> Switcher:
        return Switcher(self.alias, self.store, self.admin, self.uploads)

    @property
    def shipped(self) -> ShippedVectors:
        return ShippedVectors(self.settings.path(self.settings.knowledge.shipped_vectors), self.cache)

    def sources(self, root: Path | None = None) -> Sources:
        """``root`` None: the settings' source folder."""
        return Sources(root or self.settings.path(self.settings.knowledge.source), self.uploads)

    def documents_of(self, generation: Generation | None) -> dict[str, Document]:
        """By id; {} for None."""
        return {d.doc_id: d for d in self.store.documents(self.alias, generation.number)} if generation else {}

    def chunks_of(self, generation: Generation | None) -> ChunksOf:
        """Chunks of documents in ``generation``, by document id."""
        if generation is None:
            return lambda doc_ids: {}  # noqa: ARG005 - there are none, whatever is asked
        number = generation.number
        return lambda doc_ids: self.store.chunks_of(self.alias, number, doc_ids)

    def demands(self, active: Generation | None) -> tuple[str, ...]:
        """What of the present settings ``active`` was not built with, a line each."""
        return demands(active, self.embedder.profile, ANALYSIS_VERSION, chunking_version(self.settings.knowledge))
