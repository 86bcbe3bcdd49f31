"""What a whole lookup costs beside the model and the store: its own work, and against one bare ``hybrid_search``.

Overhead: whole lookups on a store that answers at once with 20 recorded hits a branch, the query's vector known; what
is left is the pipeline. Ratio: pairs of a whole lookup and of ``embed_query`` + ``hybrid_search`` with the same question,
20 a branch and the same fields (the lookup reads the vectors of BM25 hits besides), turn about in one run on Milvus
Lite. The audit is left out of both.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from pymilvus import AnnSearchRequest, MilvusClient, RRFRanker

from benchmarks.corpus import CATEGORIES, documents_of, queries, rows
from core.adapters import milvus_server
from core.adapters.embedders import E5Embedder
from core.adapters.memory_index import MemoryIndex
from core.adapters.milvus import MilvusIndex, schema
from core.analysis import search_text
from core.knowledge.l0 import DocumentL0
from core.lookup import LookupRequest, LookupService
from core.model import (
    AttemptName,
    Branch,
    EmbeddingProfile,
    Generation,
    GenerationState,
    L0Match,
    LookupResult,
    Scopes,
    SearchFilter,
    Stage,
)
from core.ports import AuditReceipt, AuditRecord, SearchAnswer, Snapshot
from core.settings import load

DIMENSION: Final = 384
BRANCH: Final = 20
DEADLINE: Final = 120.0
SCOPE: Final = SearchFilter(Scopes(frozenset({"default"})))


class Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class NoAudit:
    def record(self, record: AuditRecord, *, timeout: float) -> AuditReceipt:
        del timeout
        return AuditReceipt(record.invocation_id, "recorded", 0.0)


class FixedSnapshots:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def current(self) -> Snapshot:
        return self.snapshot

    def of(self, number: int) -> Snapshot:
        del number
        return self.snapshot


class FixedL0:
    """Narrows every query to one category, or none."""

    def __init__(self, category: str | None) -> None:
        self._match = L0Match(category_filter=category)

    def match(self, text: str, scopes: Scopes) -> L0Match:
        del text, scopes
        return self._match


class Known:
    """A model whose answers are there already: no time passes in it."""

    loads_here = False

    def __init__(self, profile: EmbeddingProfile, vector: Any) -> None:
        self.profile = profile
        self._vector = vector

    def embed_query(self, text: str, *, timeout: float) -> Any:
        del text, timeout
        return self._vector

    def embed_passages(self, texts: Sequence[str], *, timeout: float) -> Any:
        raise NotImplementedError

    def warm(self) -> None:
        return None


class Recorded(MemoryIndex):
    """A store that has answered each question before, and answers at once."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[tuple[Branch, str], SearchAnswer] = {}

    def search_dense(
        self, generation: Generation, vector: Any, where: SearchFilter, limit: int, *, timeout: float
    ) -> SearchAnswer:
        key = (Branch.DENSE, str(where))
        if key not in self._answers:
            self._answers[key] = super().search_dense(generation, vector, where, limit, timeout=timeout)
        return self._answers[key]

    def search_bm25(
        self,
        generation: Generation,
        search_text: str,
        where: SearchFilter,
        limit: int,
        *,
        timeout: float,
        with_vectors: bool = True,
    ) -> SearchAnswer:
        key = (Branch.BM25, search_text + str(where))
        if key not in self._answers:
            self._answers[key] = super().search_bm25(
                generation, search_text, where, limit, timeout=timeout, with_vectors=with_vectors
            )
        return self._answers[key]


def generation(profile: EmbeddingProfile) -> Generation:
    return Generation(1, "bench", "bench_g1", GenerationState.ACTIVE, profile, "1", "1", "synthetic")


def service(index: Any, embedder: Any, snapshot: Snapshot) -> LookupService:
    """The product's own service with its default settings; nothing is remembered between lookups, the gate stays open."""
    return LookupService(
        index=index,
        embedder=embedder,
        reranker=None,
        snapshots=FixedSnapshots(snapshot),
        audit=NoAudit(),
        clock=Clock(),
        settings=load(
            environ={},
            embedding={"query_cache": 0},
            retrieval={"branch_timeout": 30.0, "lookup_timeout": DEADLINE},
            quality={"reference_threshold": 0.0, "precise_threshold": 0.0},
            knowledge={"drop_after_seconds": 0},  # nothing is dropped here
        ),
    )


def milliseconds(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    value = call()
    return (time.perf_counter() - began) * 1000, value


def ask(made: LookupService, query: str) -> LookupResult:
    outcome = made.lookup(LookupRequest(query))
    if outcome.error is not None or outcome.result.retrieval_trace.degraded:
        raise RuntimeError(f"{outcome.error}, {outcome.result.retrieval_trace.degraded}")
    return outcome.result


# ------------------------------------------------------------------------------------------------ the pipeline alone


def overhead(times: int) -> float:
    """Prints and returns the median milliseconds of a lookup whose store and model take no time."""
    stored = list(rows(250, 4, DIMENSION))
    numbers = np.random.default_rng(3)
    vector = numbers.standard_normal(DIMENSION).astype(np.float32)
    profile = EmbeddingProfile("bench/384", "bench", DIMENSION)
    built, index = generation(profile), Recorded()
    index.create(built, timeout=DEADLINE)
    index.insert(built, stored, timeout=DEADLINE)
    revisions = {r.chunk.doc_id: 1 for r in stored}
    made = service(
        index,
        Known(profile, vector / np.linalg.norm(vector)),
        Snapshot(built, DocumentL0(documents_of(stored)), revisions),
    )
    questions = queries(25)
    for question in questions:  # records the answers, warms everything
        ask(made, question)
    taken, stages, candidates = [], [], 0
    processor = time.process_time()
    for number in range(times):
        began = time.perf_counter()
        result = ask(made, questions[number % len(questions)])
        taken.append((time.perf_counter() - began) * 1000)
        stages.append(own_time(result))
        candidates = result.candidate_count
        hits = [b.hits for b in result.retrieval_trace.attempts[0].branches]
        if hits != [BRANCH, BRANCH]:
            raise RuntimeError(f"the branches returned {hits}")
    processor = (time.process_time() - processor) / times * 1000
    made.close()
    median = statistics.median(taken)
    print(
        f"pipeline overhead, {BRANCH} a branch, {candidates} candidates: median {median:.2f} ms, "
        f"p95 {np.percentile(taken, 95):.2f} ms, processor time {processor:.2f} ms "
        f"({times} lookups; goal: at most 5 ms)"
    )
    each = {stage: statistics.median(s.get(stage, 0.0) for s in stages) for stage in Stage}
    print("  of it: " + ", ".join(f"{stage} {ms:.2f}" for stage, ms in each.items() if ms >= 0.005))
    return median


def own_time(result: LookupResult) -> dict[Stage, float]:
    """Milliseconds of the stages that reach no store."""
    trace = result.retrieval_trace
    found = [*trace.stages, *(stage for attempt in trace.attempts for stage in attempt.stages)]
    return {s.stage: s.ms or 0.0 for s in found if s.stage not in {Stage.DENSE, Stage.BM25, Stage.AUDIT}}


# ------------------------------------------------------------------------------------------------ against the bare store


def ratios(chunks: int, pairs: int) -> float:
    """Prints the ratio of the medians, without and with a category filter; returns the median of a whole lookup without
    one, in milliseconds."""
    folder = Path(tempfile.mkdtemp(prefix="bench-lookup-"))
    index = MilvusIndex(str(folder / "bench.db"), connect_timeout=60.0)
    try:
        embedder = E5Embedder()
        stored = list(rows(chunks // 5, 5, DIMENSION))
        built = generation(embedder.profile)
        index.create(built, timeout=DEADLINE)
        index.insert(built, stored, timeout=600.0)
        index.seal(built, timeout=600.0)
        client = MilvusClient(milvus_server.ensure(folder / "bench.db"))
        revisions = {r.chunk.doc_id: 1 for r in stored}
        medians = [
            _ratio(name, index, client, embedder, Snapshot(built, l0, revisions), category, pairs)
            for name, l0, category in (
                ("without a category filter", FixedL0(None), None),
                ("with a category filter", FixedL0(CATEGORIES[0]), CATEGORIES[0]),
            )
        ]
        client.close()
        return medians[0]
    finally:
        index.close()
        milvus_server.stop(folder / "bench.db")
        shutil.rmtree(folder, ignore_errors=True)


def _ratio(
    name: str,
    index: MilvusIndex,
    client: MilvusClient,
    embedder: E5Embedder,
    snapshot: Snapshot,
    category: str | None,
    pairs: int,
) -> float:
    made = service(index, embedder, snapshot)
    made.warm()
    where = SearchFilter(SCOPE.scopes, category)
    expected = AttemptName.UNFILTERED_VECTOR if category is None else AttemptName.FILTERED_VECTOR

    dense = {"metric_type": schema.METRIC, "params": {}}
    filtered = index.expression(where)

    def bare(question: str) -> Any:
        vector = embedder.embed_query(question, timeout=DEADLINE).tolist()
        requests = [
            AnnSearchRequest([vector], "vector", dense, BRANCH, expr=filtered),
            AnnSearchRequest([search_text(question)], "sparse_vector", {"metric_type": "BM25"}, BRANCH, expr=filtered),
        ]
        return client.hybrid_search(
            snapshot.generation.collection,
            requests,
            RRFRanker(60),
            limit=BRANCH,
            output_fields=schema.OUTPUT_FIELDS,
            timeout=DEADLINE,
        )

    whole_ms, bare_ms = [], []
    for number, question in enumerate(queries(pairs + 5)):
        sides: list[Callable[[], Any]] = [lambda q=question: ask(made, q), lambda q=question: bare(q)]
        order = (0, 1) if number % 2 else (1, 0)
        spent: dict[int, float] = {}
        for side in order:
            spent[side], value = milliseconds(sides[side])
            if side == 0 and value.retrieval_trace.selected_attempt is not expected:
                raise RuntimeError(f"the lookup went another way: {value.retrieval_trace.selected_attempt}")
        if number >= 5:  # the first ones warm both sides up
            whole_ms.append(spent[0])
            bare_ms.append(spent[1])
    made.close()
    whole, single = statistics.median(whole_ms), statistics.median(bare_ms)
    goal = 1.05 if category is None else 1.2
    print(
        f"whole lookup {name}: median {whole:.1f} ms, embedding + bare hybrid_search {single:.1f} ms, "
        f"ratio {whole / single:.2f} ({pairs} pairs; goal: at most {goal})"
    )
    return whole


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lookup_overhead", description=__doc__)
    parser.add_argument("--times", type=int, default=300, help="lookups on the store that answers at once")
    parser.add_argument("--chunks", type=int, default=5000, help="in Milvus Lite")
    parser.add_argument("--pairs", type=int, default=60)
    chosen = parser.parse_args(argv or [])
    own = overhead(chosen.times)
    whole = ratios(chosen.chunks, chosen.pairs)
    print(f"share of the pipeline in a whole lookup: {own / whole:.1%} (goal: at most 10 %)")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
