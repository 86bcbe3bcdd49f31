"""From a corpus to a verified generation beside the active one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from core.analysis import ANALYSIS_VERSION
from core.errors import RagError, RebuildRefused, redact
from core.knowledge.rebuild import verify
from core.knowledge.rebuild.corpus import Corpus
from core.knowledge.rebuild.fill import Filled, Filler
from core.knowledge.rebuild.leftovers import Leftovers
from core.knowledge.rebuild.rows import chunking_version
from core.knowledge.rebuild.values import Step
from core.knowledge.rebuild.verify import Proof
from core.knowledge.rebuild.work import Cancelled, LeaseLost, Work
from core.model import Generation, GenerationState
from core.ports import Clock, Embedder, EmbeddingCache, GenerationStore, IndexAdmin, VectorIndex
from core.settings import Settings

CREATE_SECONDS: Final = 60.0
SEAL_SECONDS: Final = 1800.0
LISTED: Final = 1000  # rejected files and warnings kept with a generation


@dataclass(frozen=True, slots=True)
class Built:
    generation: Generation
    filled: Filled
    proof: Proof


@dataclass(frozen=True, slots=True)
class Builder:
    """Everything between PLANNED and VERIFIED. What fails is taken away again, its reason recorded."""

    alias: str
    settings: Settings
    store: GenerationStore
    cache: EmbeddingCache
    admin: IndexAdmin
    index: VectorIndex
    embedder: Embedder
    clock: Clock
    leftovers: Leftovers

    def build(
        self, work: Work, corpus: Corpus, *, chunks: int, base: Generation | None, who: str, facts: Mapping[str, Any]
    ) -> Built:
        """``chunks`` is the forecast; ``base`` the generation that carried-over documents come from; ``facts`` are
        recorded with the new generation. Raises what goes wrong, after the new generation was taken away."""
        generation = self._planned(chunks, who)
        work.generation(generation.number)
        try:
            return self._built(work, corpus, generation, chunks, base, who, facts)
        except (Exception, KeyboardInterrupt, SystemExit) as exc:
            self.give_up(work, generation, exc)
            raise

    def give_up(self, work: Work, generation: Generation, exc: BaseException) -> None:
        """Takes ``generation`` away because of ``exc``, unless the lease was lost: then its new holder does."""
        if isinstance(exc, LeaseLost) or work.lost:
            return
        cancelled = isinstance(exc, Cancelled | KeyboardInterrupt | SystemExit)
        state = GenerationState.CANCELLED if cancelled else GenerationState.FAILED
        reason = str(exc) if isinstance(exc, RagError) else redact(f"{type(exc).__name__}: {exc}")
        try:
            self.leftovers.discard(generation, state, reason[:500])
        except RagError as problem:
            work_note = f"generation {generation.number} could not be taken away yet: {redact(problem)}"
            _quietly(work, work_note)

    def _planned(self, chunks: int, who: str) -> Generation:
        """A number whose collection name is free: one that SQL knows nothing of is never overwritten."""
        exact = self.settings.milvus.uri.endswith(".db")
        index_params, search_params = verify.first_parameters(chunks, exact=exact)
        wanted = Generation(
            number=0,
            alias=self.alias,
            collection="",
            state=GenerationState.PLANNED,
            profile=self.embedder.profile,
            analysis_version=ANALYSIS_VERSION,
            chunking_version=chunking_version(self.settings.knowledge),
            index_params=index_params,
            search_params=search_params,
            built_by=who,
            fingerprint=self.settings.fingerprint,
        )
        taken = {c.name for c in self.admin.collections(f"{self.alias}_g", timeout=CREATE_SECONDS)}
        while (generation := self.store.plan(wanted)).collection in taken:
            reason = f"collection {generation.collection} exists and belongs to nobody here"
            self.store.set_state(self.alias, generation.number, GenerationState.CANCELLED, reason=reason)
        return generation

    def _built(
        self,
        work: Work,
        corpus: Corpus,
        generation: Generation,
        chunks: int,
        base: Generation | None,
        who: str,
        facts: Mapping[str, Any],
    ) -> Built:
        alias, number = self.alias, generation.number
        work.step(Step.BUILD, f"building generation {number}", state=GenerationState.BUILDING)
        self.store.set_state(alias, number, GenerationState.BUILDING, run_id=work.run_id, **facts)
        work.step(Step.CREATE, f"creating collection {generation.collection}")
        self.admin.create(generation, timeout=CREATE_SECONDS)
        work.step(Step.FILL, f"embedding and inserting {chunks} chunks", total=chunks)
        filler = Filler(
            generation,
            store=self.store,
            admin=self.admin,
            cache=self.cache,
            embedder=self.embedder,
            batch_size=self.settings.embedding.batch_size,
            batch_timeout=self.settings.embedding.batch_timeout,
            advance=lambda done: work.advance(min(done, chunks), chunks),
        )
        filled = filler.run(
            corpus.read(
                lambda doc_id: self.store.chunks(alias, base.number, doc_id) if base else (), self.settings.knowledge
            )
        )
        work.step(Step.SEAL, "flushing and building the indexes")
        self.admin.seal(generation, timeout=SEAL_SECONDS)
        work.step(Step.VERIFY, f"counting {filled.chunks} chunks, finding {len(filled.sample)} of them again")
        proof = self.prove(generation, filled)
        verified = self.store.set_state(
            alias,
            number,
            GenerationState.VERIFIED,
            documents=filled.documents,
            chunks=filled.chunks,
            corpus_snapshot=filled.snapshot,
            built_at=self.clock.now().isoformat(timespec="microseconds"),
            built_by=who,
            fingerprint=self.settings.fingerprint,
            index_params=dict(proof.generation.index_params),
            search_params=dict(proof.generation.search_params),
            rejected=[[r.source, r.reason, r.line] for r in filled.rejected[:LISTED]],
            kept=filled.kept,
            warnings=filled.warnings[:LISTED],
            proof={"chunks": proof.chunks, "sampled": proof.sampled, "recall": proof.recall},
        )
        return Built(verified, filled, proof)

    def prove(self, generation: Generation, filled: Filled) -> Proof:
        """Raises RebuildRefused when the new index is not complete, not found again, or not exact enough."""
        verify.count_all(generation, filled.chunks, self.admin, self.store)
        verify.find_again(generation, filled.sample, self.index)
        recall, generation = self._recall(generation, filled)
        return Proof(generation, filled.chunks, len(filled.sample), recall)

    def _recall(self, generation: Generation, filled: Filled) -> tuple[float | None, Generation]:
        """Measured; below the limit with more probes, at last with exact search."""
        titles = {d.doc_id: d.title for d in self.store.documents(self.alias, generation.number)}
        tried: Generation | None = generation
        recall: float | None = None
        while tried is not None:
            generation = tried
            vectors = verify.stored_vectors(generation, titles, self.store, self.cache)
            recall = verify.measure_recall(generation, filled.sample, self.index, vectors)
            if recall is None or recall >= verify.MIN_RECALL:
                return recall, generation
            tried = verify.more_probes(generation)
            if tried is None and generation.index_params:
                tried = replace(generation, index_params={}, search_params={})
                self.admin.set_index(tried, {"index_type": "FLAT"}, timeout=SEAL_SECONDS)
        raise RebuildRefused(
            f"exact search over the new index returns only {recall:.0%} of the true neighbours: what is stored is not "
            "what was embedded; rebuild again"
        )


def _quietly(work: Work, message: str) -> None:
    try:
        work.note(message)
    except RagError:
        return
