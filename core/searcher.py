"""The store and the model as a lookup reaches them: deadlines, the warm-up, query vectors already known."""

from __future__ import annotations

from core.errors import DeadlineExceeded, ProfileMismatch, RagError, StoreUnavailable
from core.lookup_run import Ready, Run
from core.model import EmbeddingProfile, Generation, QualityBasis, SearchFilter
from core.ports import Embedder, VectorIndex
from core.query_vectors import QueryVectors
from core.settings import Settings
from core.stages.retrieve import Retrieved, Search, retrieve
from core.workers import Workers


class Searcher:
    """Shared by all lookups of a process. A collection is cold until one whole search over it has succeeded: calls are
    given ``retrieval.warming_timeout`` until then."""

    def __init__(self, index: VectorIndex, embedder: Embedder, pool: Workers, settings: Settings) -> None:
        self.index = index
        self.embedder = embedder
        self.pool = pool
        self.vectors = QueryVectors(settings.embedding.query_cache)
        self._settings = settings
        self._warm: frozenset[str] = frozenset()

    @property
    def warming(self) -> bool:
        return not self._warm

    def warm(self, generation: Generation) -> None:
        """Loads model and collection. Raises what the model or the store raises."""
        self.embedder.warm()
        self.index.warm(generation, timeout=self._settings.retrieval.warming_timeout)
        self._warm |= {generation.collection}

    def lookup_timeout(self, generation: Generation | None = None) -> float:
        """Seconds for a whole lookup on ``generation`` (None: not known yet)."""
        limits = self._settings.retrieval
        cold = self.warming if generation is None else generation.collection not in self._warm
        return max(limits.lookup_timeout, limits.warming_timeout) if cold else limits.lookup_timeout

    def profile(self, generation: Generation) -> EmbeddingProfile:
        """The running model's profile (its calibration may be newer than the generation), or the generation's while
        the model is away. Raises ProfileMismatch: vectors of two models are never compared."""
        stored = generation.profile
        try:
            running = self.embedder.profile
        except RagError:
            return stored
        if running.profile_id != stored.profile_id:
            raise ProfileMismatch(
                f"generation {generation.number} holds vectors of {stored.profile_id}, this process embeds with "
                f"{running.profile_id}: rebuild, or set embedding.provider back"
            )
        return running

    def search(self, run: Run, ready: Ready, query: str, where: SearchFilter) -> tuple[Retrieved, bool | None]:
        """What the branches found, and whether the query's vector was already known (None: there is no vector)."""
        generation, knobs, settings = ready.snapshot.generation, ready.knobs, self._settings
        profile_id = generation.profile.profile_id
        known = self.vectors.get(profile_id, query)
        warm, slow = generation.collection in self._warm, settings.retrieval.warming_timeout
        search = Search(
            query=query,
            generation=generation,
            where=where,
            limit=knobs.retrieve_k,
            mode=knobs.mode,
            fusion=knobs.fusion,
            rrf_k=knobs.rrf_k,
            embedding_timeout=run.left(settings.embedding.timeout if warm else slow),
            branch_timeout=run.left(settings.retrieval.branch_timeout if warm else slow),
            with_vectors=knobs.bm25_only is QualityBasis.DENSE_EXACT,
            vector=known,
        )
        found = retrieve(self.index, self.embedder, self.pool, search)
        if found.vector is not None and known is None:
            self.vectors.put(profile_id, query, found.vector)
        if found.whole:
            self._warm |= {generation.collection}
        return found, None if found.vector is None else known is not None


def no_branch(found: Retrieved) -> RagError:
    """Why an attempt has no result at all, as one error."""
    if len(found.errors) == 1:
        return found.errors[0]
    text = "no branch answered: " + "; ".join(found.degraded) + "; look at `python -m core doctor`"
    late = all(isinstance(error, DeadlineExceeded) for error in found.errors)
    return DeadlineExceeded(text) if late else StoreUnavailable(text)
