"""The store and the model as a lookup reaches them: deadlines, the warm-up, query vectors already known."""

from __future__ import annotations

import logging
import math

from core.errors import DeadlineExceeded, ProfileMismatch, RagError, StoreUnavailable, redact
from core.lookup_run import Ready, Run
from core.model import Branch, EmbeddingProfile, Generation, Mode, QualityBasis, SearchFilter, StageStatus
from core.ports import Embedder, VectorIndex
from core.query_vectors import QueryVectors
from core.settings import Settings
from core.stages.retrieve import Retrieved, Search, retrieve
from core.workers import Workers

log = logging.getLogger(__name__)


class Searcher:
    """Shared by all lookups of a process. A branch of a collection is cold until a search over it has succeeded: calls
    are given ``retrieval.warming_timeout`` until then."""

    def __init__(self, index: VectorIndex, embedder: Embedder, pool: Workers, settings: Settings) -> None:
        self.index = index
        self.embedder = embedder
        self.pool = pool
        self.vectors = QueryVectors(settings.embedding.query_cache)
        self._settings = settings
        self._warm: frozenset[tuple[str, Branch]] = frozenset()
        self._profile_known = False

    @property
    def warming(self) -> bool:
        return not self._warm

    def warm(self, generation: Generation) -> None:
        """Loads model and collection. Raises what the model or the store raises."""
        self.embedder.warm()
        self.index.warm(generation, timeout=self._settings.retrieval.warming_timeout)
        self._warm |= {(generation.collection, branch) for branch in Branch}

    def lookup_timeout(self, generation: Generation | None = None) -> float:
        """Seconds for a whole lookup on ``generation`` (None: not known yet)."""
        limits = self._settings.retrieval
        cold = self.warming if generation is None else (generation.collection, Branch.DENSE) not in self._warm
        return max(limits.lookup_timeout, limits.warming_timeout) if cold else limits.lookup_timeout

    def profile(self, run: Run, generation: Generation) -> EmbeddingProfile:
        """The running model's profile (its calibration may be newer than the generation), or the generation's while
        the model is away. Raises ProfileMismatch: vectors of two models are never compared."""
        stored = generation.profile
        try:
            if self._profile_known:
                running = self.embedder.profile
            else:  # an endpoint may have to be asked for its dimension first, and may hang
                timeout = run.left(self._settings.embedding.timeout)
                running = self.pool.call(lambda: self.embedder.profile, timeout, "the embedding model")
                self._profile_known = True
        except Exception as exc:  # noqa: BLE001 - whatever the model raises, the dense branch will report it
            log.warning("the embedding model does not say what it is: %s: %s", type(exc).__name__, redact(exc))
            return stored
        if running.profile_id != stored.profile_id:
            raise ProfileMismatch(
                f"generation {generation.number} holds vectors of {stored.profile_id}, this process embeds with "
                f"{running.profile_id}: rebuild, or set embedding.provider and embedding.model back"
            )
        return running

    def search(self, run: Run, ready: Ready, query: str, where: SearchFilter) -> tuple[Retrieved, bool | None]:
        """What the branches found, and whether the query's vector was already known (None: there is no vector)."""
        generation, knobs, settings = ready.snapshot.generation, ready.knobs, self._settings
        profile_id = generation.profile.profile_id
        known = self.vectors.get(profile_id, query)
        warm, slow = self._is_warm(generation, knobs.mode), settings.retrieval.warming_timeout
        embeds_slowly = not warm and self.embedder.loads_here
        search = Search(
            query=query,
            generation=generation,
            where=where,
            limit=knobs.retrieve_k,
            mode=knobs.mode,
            fusion=knobs.fusion,
            rrf_k=knobs.rrf_k,
            embedding_timeout=run.left(slow if embeds_slowly else settings.embedding.timeout),
            branch_timeout=run.left(settings.retrieval.branch_timeout if warm else slow),
            time_left=run.left(math.inf),
            with_vectors=knobs.bm25_only is QualityBasis.DENSE_EXACT,
            vector=known,
        )
        found = retrieve(self.index, self.embedder, self.pool, search)
        if found.vector is not None and known is None:
            self.vectors.put(profile_id, query, found.vector)
        answered = {(generation.collection, b.branch) for b in found.branches if b.status is StageStatus.COMPLETE}
        if not answered <= self._warm:
            self._warm |= answered
        return found, None if found.vector is None else known is not None

    def _is_warm(self, generation: Generation, mode: Mode) -> bool:
        wanted = Branch if mode is Mode.HYBRID else (Branch.DENSE,)
        return all((generation.collection, branch) in self._warm for branch in wanted)


def no_branch(found: Retrieved) -> RagError:
    """Why an attempt has no result at all, as one error."""
    if len(found.errors) == 1:
        return found.errors[0]
    text = "no branch answered: " + "; ".join(found.degraded) + "; look at `python -m core doctor`"
    late = all(isinstance(error, DeadlineExceeded) for error in found.errors)
    return DeadlineExceeded(text) if late else StoreUnavailable(text)
