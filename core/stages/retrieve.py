"""Asks the store: dense and BM25 at the same time, each call with a deadline, a failed branch kept apart from an empty
one (DESIGN 3.2)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from core.analysis import search_text
from core.errors import (
    BadInput,
    DeadlineExceeded,
    IndexNotReady,
    ModelUnavailable,
    RagError,
    StoreUnavailable,
    Unavailable,
    redact,
)
from core.model import Branch, BranchTrace, Fusion, Generation, Hit, Mode, SearchFilter, StageStatus
from core.ports import Embedder, FusedRow, SearchAnswer, VectorIndex

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Search:
    """What one attempt asks. Timeouts in seconds, ``time_left`` for all of it together; ``with_vectors``: BM25 hits bring
    their stored vector; ``vector`` is the query's, where it is already known."""

    query: str
    generation: Generation
    where: SearchFilter
    limit: int
    mode: Mode
    fusion: Fusion
    rrf_k: int
    embedding_timeout: float
    branch_timeout: float
    time_left: float = math.inf
    with_vectors: bool = True
    vector: Any = None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What came back. ``branches`` holds a trace for each branch that was meant to run; ``hits`` only those that
    completed, so a failed branch is absent and an empty one is ``()``. ``rows`` is the store's own fusion."""

    hits: Mapping[Branch, tuple[Hit, ...]]
    branches: tuple[BranchTrace, ...]
    rows: tuple[FusedRow, ...] | None = None
    vector: Any = None
    embedding_ms: float | None = None
    fusion_ms: float | None = None
    degraded: tuple[str, ...] = ()
    errors: tuple[RagError, ...] = field(default=(), compare=False)

    @property
    def failed(self) -> bool:
        return not self.hits

    @property
    def whole(self) -> bool:
        return not self.errors


def retrieve(index: VectorIndex, embedder: Embedder, pool: Executor, search: Search) -> Retrieved:
    """Runs the branches of ``search.mode`` concurrently.

    A branch that fails is reported in ``branches`` and ``degraded``. Raises only what makes the whole attempt
    meaningless: IndexNotReady (the collection must be rebuilt) and BadInput (a filter that is none).
    """
    expression = index.expression(search.where)
    wanted = (Branch.DENSE, Branch.BM25) if search.mode is Mode.HYBRID else (Branch.DENSE,)
    if not search.where.scopes.everything and not search.where.scopes.names:
        return _nothing(wanted, search, expression)  # an empty set of scopes admits nothing: no store need be asked

    ends = time.perf_counter() + search.time_left
    text = search_text(search.query) if Branch.BM25 in wanted else ""
    bm25 = None
    if Branch.BM25 in wanted:
        bm25 = _start(
            pool,
            lambda: _cleaned(
                index.search_bm25(
                    search.generation,
                    text,
                    search.where,
                    search.limit,
                    timeout=search.branch_timeout,
                    with_vectors=search.with_vectors,
                ),
                search.limit,
            ),
        )
    embedded = _embed(embedder, pool, search)
    dense = server = None
    timeout = min(search.branch_timeout, ends - time.perf_counter())
    if embedded.value is not None and timeout <= 0:
        embedded = replace(embedded, error=DeadlineExceeded("the lookup's time was used up before the dense search"))
    elif embedded.value is not None:
        vector = embedded.value
        dense = _start(
            pool,
            lambda: _cleaned(
                index.search_dense(search.generation, vector, search.where, search.limit, timeout=timeout), search.limit
            ),
        )
        if search.fusion is Fusion.SERVER and bm25 is not None:
            server = _start(
                pool,
                lambda: index.search_hybrid(
                    search.generation,
                    vector,
                    text,
                    search.where,
                    search.limit,
                    window=2 * search.limit,  # the union, so that what lies beyond the window has a rank too
                    rrf_k=search.rrf_k,
                    timeout=timeout,
                ),
            )

    settled: dict[Branch, _Settled[SearchAnswer]] = {
        Branch.DENSE: _finish(dense, timeout, "the dense search") if dense else _Settled(error=embedded.error)
    }
    if bm25:
        settled[Branch.BM25] = _finish(bm25, search.branch_timeout, "the BM25 search")
    rows: _Settled[tuple[FusedRow, ...]] = _finish(server, timeout, "the store's fusion") if server else _Settled()
    return _gather(search, expression, settled, embedded, rows)


# --------------------------------------------------------------------------------------------- one call, one deadline


@dataclass(frozen=True, slots=True)
class _Settled(Generic[T]):
    """How a call ended: a value, or an error of ours. ``ms`` is its own time, or the time waited for it."""

    value: T | None = None
    error: RagError | None = None
    ms: float | None = None


@dataclass(frozen=True, slots=True)
class _Running(Generic[T]):
    future: Future[tuple[T, float]]
    started: float


def _start(pool: Executor, call: Callable[[], T]) -> _Running[T]:
    def timed() -> tuple[T, float]:
        begin = time.perf_counter()
        value = call()
        return value, (time.perf_counter() - begin) * 1000

    return _Running(pool.submit(timed), time.perf_counter())


def _finish(running: _Running[T], timeout: float, what: str, failure: type[RagError] = StoreUnavailable) -> _Settled[T]:
    """Waits until ``timeout`` seconds after the start, and not longer, however deep the call hangs. A foreign error
    becomes a ``failure``."""
    left = running.started + timeout - time.perf_counter()
    try:
        value, ms = running.future.result(timeout=max(left, 0.0))
        return _Settled(value, ms=ms)
    except FutureTimeout:
        running.future.cancel()
        error: RagError = DeadlineExceeded(f"{what} gave no answer within {timeout:g} s")
    except RagError as exc:
        error = exc
    except Exception as exc:  # noqa: BLE001 - the edge: whatever a store or model raises is a failed call, not a crash
        error = failure(f"{what} failed ({type(exc).__name__}: {redact(exc)}); run: python -m core doctor")
    return _Settled(error=error, ms=(time.perf_counter() - running.started) * 1000)


def _embed(embedder: Embedder, pool: Executor, search: Search) -> _Settled[Any]:
    if search.vector is not None:
        return _Settled(search.vector)
    timeout = search.embedding_timeout
    dimension = search.generation.profile.dimension
    running = _start(pool, lambda: _checked(embedder.embed_query(search.query, timeout=timeout), dimension))
    return _finish(running, timeout, "the embedding model", ModelUnavailable)


def _checked(answer: Any, dimension: int) -> Any:
    """A query vector, float32 of shape (dimension,). Raises ModelUnavailable for anything else."""
    vector = np.asarray(answer, dtype=np.float32)
    if vector.shape != (dimension,):
        raise ModelUnavailable(
            f"the model gave a vector of shape {vector.shape}, the index holds {dimension} dimensions: rebuild it"
        )
    if not np.isfinite(vector).all():
        raise ModelUnavailable("the model gave a vector that is not finite; look at the embedding model")
    return vector


# --------------------------------------------------------------------------------------------- what came back


def _gather(
    search: Search,
    expression: str,
    settled: Mapping[Branch, _Settled[SearchAnswer]],
    embedded: _Settled[Any],
    rows: _Settled[tuple[FusedRow, ...]],
) -> Retrieved:
    hits: dict[Branch, tuple[Hit, ...]] = {}
    traces, degraded, errors = [], [], []
    for branch, answer in settled.items():
        if answer.value is not None:
            hits[branch] = answer.value.hits
            if unscored := _unscored(answer.value.hits):
                degraded.append(f"{branch}: {unscored}")
        traces.append(_trace(branch, answer, search, expression, len(hits.get(branch, ()))))
        if answer.error is not None:
            errors.append(answer.error)
            degraded.append(f"{branch}: {redact(answer.error)}")
    if rows.error is not None:
        errors.append(rows.error)
        degraded.append(f"server fusion: {redact(rows.error)}; fused here instead")
    for error in errors:
        if isinstance(error, IndexNotReady | BadInput):
            raise error
    return Retrieved(
        hits, tuple(traces), rows.value, embedded.value, embedded.ms, rows.ms, tuple(degraded), tuple(errors)
    )


def _cleaned(answer: SearchAnswer, limit: int) -> SearchAnswer:
    hits = clean_hits(answer, limit)
    return answer if hits == answer.hits else replace(answer, hits=hits)


def clean_hits(answer: SearchAnswer, limit: int) -> tuple[Hit, ...]:
    """The hits as ranked by position, at most ``limit``, a score that is not finite as None (never a NaN)."""
    return tuple(
        hit
        if hit.rank == rank and hit.score is not None and math.isfinite(hit.score)
        else replace(hit, rank=rank, score=finite(hit.score))
        for rank, hit in enumerate(answer.hits[:limit], start=1)
    )


def _unscored(hits: Sequence[Hit]) -> str | None:
    """What is said of hits whose score is no number: they keep their rank, and null stands for the score."""
    count = sum(hit.score is None for hit in hits)
    return f"{count} of {len(hits)} scores are no finite numbers and left out" if count else None


def finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _trace(branch: Branch, answer: _Settled[SearchAnswer], search: Search, expression: str, hits: int) -> BranchTrace:
    sent = answer.value
    trace = BranchTrace(
        branch,
        StageStatus.COMPLETE,
        collection=search.generation.collection,
        expression=sent.expression if sent else expression,
        limit=sent.limit if sent else search.limit,
        params=dict(sent.params) if sent else {},
        hits=hits if sent else None,
        ms=answer.ms,
        retries=sent.retries if sent else 0,
    )
    error = answer.error
    if error is None:
        return replace(trace, reason=_unscored(sent.hits) if sent else None)
    away = isinstance(error, Unavailable) and not isinstance(error, DeadlineExceeded)
    status = StageStatus.UNAVAILABLE if away else StageStatus.ERROR
    return replace(trace, status=status, reason=redact(error), error_class=error.error_class)


def _nothing(wanted: tuple[Branch, ...], search: Search, expression: str) -> Retrieved:
    traces = tuple(
        BranchTrace(
            branch,
            StageStatus.NOT_RUN,
            search.generation.collection,
            expression,
            search.limit,
            hits=0,
            reason="no scope is admitted",
        )
        for branch in wanted
    )
    return Retrieved(dict.fromkeys(wanted, ()), traces)
