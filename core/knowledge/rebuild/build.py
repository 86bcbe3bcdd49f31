"""From a corpus to a verified generation beside the active one."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from core.analysis import ANALYSIS_VERSION
from core.errors import RagError, RebuildRefused, redact
from core.knowledge.rebuild import verify
from core.knowledge.rebuild.corpus import Corpus
from core.knowledge.rebuild.fill import Filled, Filler
from core.knowledge.rebuild.parts import Parts
from core.knowledge.rebuild.rows import chunking_version
from core.knowledge.rebuild.values import Step
from core.knowledge.rebuild.verify import Proof
from core.knowledge.rebuild.work import LeaseLost, Work, is_cancel, reason_of
from core.model import Generation, GenerationState, Hit

log = logging.getLogger(__name__)
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

    parts: Parts

    def build(
        self, work: Work, corpus: Corpus, *, chunks: int, base: Generation | None, facts: Mapping[str, Any]
    ) -> Built:
        """``chunks`` is the forecast; ``base`` the generation that carried-over documents come from; ``facts`` are
        recorded with the new generation. Raises what goes wrong, after the new generation was taken away."""
        generation = self._planned(chunks, work.run.who)
        work.generation(generation.number)
        try:
            return self._built(work, corpus, generation, chunks, base, facts)
        except (Exception, KeyboardInterrupt, SystemExit) as exc:
            self.give_up(work, generation, exc)
            raise

    def give_up(self, work: Work, generation: Generation, exc: BaseException) -> None:
        """Takes ``generation`` away because of ``exc``, unless the lease was lost: then its new holder does."""
        if isinstance(exc, LeaseLost) or work.lost:
            return
        state = GenerationState.CANCELLED if is_cancel(exc) else GenerationState.FAILED
        try:
            self.parts.leftovers.discard(generation, state, reason_of(exc)[:500])
        except RagError as problem:
            log.warning("generation %s is taken away by the next run: %s", generation.number, redact(problem))

    def _planned(self, chunks: int, who: str) -> Generation:
        """A number whose collection name is free: a collection that SQL knows nothing of is never overwritten."""
        parts = self.parts
        exact = parts.settings.milvus.uri.endswith(".db")
        index_params, search_params = verify.first_parameters(chunks, exact=exact)
        wanted = Generation(
            number=0,
            alias=parts.alias,
            collection="",
            state=GenerationState.PLANNED,
            profile=parts.embedder.profile,
            analysis_version=ANALYSIS_VERSION,
            chunking_version=chunking_version(parts.settings.knowledge),
            index_params=index_params,
            search_params=search_params,
            built_by=who,
            fingerprint=parts.settings.fingerprint,
        )
        taken = parts.admin.names(f"{parts.alias}_g", timeout=CREATE_SECONDS)
        while (generation := parts.store.plan(wanted)).collection in taken:
            reason = f"collection {generation.collection} exists and belongs to nobody here"
            # without its name: whoever drops leftovers must not take somebody else's collection for this one's
            parts.store.set_state(
                parts.alias, generation.number, GenerationState.CANCELLED, collection="", reason=reason
            )
        return generation

    def _built(
        self,
        work: Work,
        corpus: Corpus,
        generation: Generation,
        chunks: int,
        base: Generation | None,
        facts: Mapping[str, Any],
    ) -> Built:
        parts, number = self.parts, generation.number
        work.step(Step.BUILD, f"building generation {number}", state=GenerationState.BUILDING)
        parts.store.set_state(parts.alias, number, GenerationState.BUILDING, run_id=work.run_id, **facts)
        work.step(Step.CREATE, f"creating collection {generation.collection}")
        parts.admin.create(generation, timeout=CREATE_SECONDS)
        work.step(Step.FILL, f"embedding and inserting {chunks} chunks", total=chunks)
        filler = Filler(
            generation,
            store=parts.store,
            admin=parts.admin,
            cache=parts.cache,
            search_texts=parts.search_texts,
            embedder=parts.embedder,
            batch_size=parts.settings.embedding.batch_size,
            batch_timeout=parts.settings.embedding.batch_timeout,
            advance=lambda done: work.advance(min(done, chunks), chunks),
        )
        filled = filler.run(corpus.read(parts.chunks_of(base), parts.settings.knowledge))
        parts.search_texts.drop_others(ANALYSIS_VERSION)
        work.step(Step.SEAL, "flushing and building the indexes")
        parts.admin.seal(generation, timeout=SEAL_SECONDS)
        work.step(Step.VERIFY, f"counting {filled.chunks} chunks, finding {len(filled.sample)} of them again")
        proof = self._proof(generation, filled)
        verified = parts.store.set_state(
            parts.alias,
            number,
            GenerationState.VERIFIED,
            documents=filled.documents,
            chunks=filled.chunks,
            corpus_snapshot=filled.snapshot,
            built_at=parts.clock.now().isoformat(timespec="microseconds"),
            index_params=dict(proof.generation.index_params),
            search_params=dict(proof.generation.search_params),
            rejected=[[r.source, r.reason, r.line] for r in filled.rejected[:LISTED]],
            kept=filled.kept,
            warnings=filled.warnings[:LISTED],
            proof={"chunks": proof.chunks, "sampled": proof.sampled, "recall": proof.recall},
        )
        return Built(verified, filled, proof)

    def _proof(self, generation: Generation, filled: Filled) -> Proof:
        """Raises RebuildRefused when the new index is not complete, not found again, or not exact enough."""
        verify.count_all(generation, filled.chunks, self.parts.admin, self.parts.store)
        near = verify.nearest(generation, filled.sample, self.parts.index)
        verify.find_again(generation, filled.sample, near, self.parts.index)
        recall, generation = self._recall(generation, filled, near)
        return Proof(generation, filled.chunks, len(filled.sample), recall)

    def _recall(
        self, generation: Generation, filled: Filled, near: Sequence[Sequence[Hit]]
    ) -> tuple[float | None, Generation]:
        """Measured by the answers ``near``; below the limit again with more probes, at last with exact search."""
        parts = self.parts
        titles = {d.doc_id: d.title for d in parts.store.documents(parts.alias, generation.number)}
        vectors = verify.stored_vectors(generation, titles, parts.store, parts.cache)
        truth = verify.true_distances(filled.sample, vectors)
        while True:
            recall = verify.recall(near, truth)
            if recall is None or recall >= verify.MIN_RECALL:
                return recall, generation
            tried = verify.more_probes(generation)
            if tried is None and generation.index_params:
                tried = replace(generation, index_params={}, search_params={})
                parts.admin.set_index(tried, {"index_type": "FLAT"}, timeout=SEAL_SECONDS)
            if tried is None:
                break
            generation = tried
            near = verify.nearest(generation, filled.sample, parts.index)
        raise RebuildRefused(
            f"exact search over the new index returns only {recall:.0%} of the true neighbours: what is stored is not "
            "what was embedded; rebuild again"
        )
