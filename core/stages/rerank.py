"""A cross-encoder over the head of the list (DESIGN 3.4): it may change the order and sets the quality, or, when it
fails, changes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass

from core.errors import DeadlineExceeded, ModelUnavailable, RagError, redact
from core.model import Candidate, DropReason, Stage, StageStatus, evolve
from core.ports import Reranker


@dataclass(frozen=True, slots=True)
class Reranked:
    """``documents`` is the number of texts sent. ``error`` and ``reason`` are set when the fusion order had to stay."""

    candidates: tuple[Candidate, ...]
    count_in: int
    count_out: int
    documents: int = 0
    status: StageStatus = StageStatus.COMPLETE
    reason: str | None = None
    error: RagError | None = None


def rerank(
    candidates: Sequence[Candidate], query: str, reranker: Reranker, pool: Executor, *, top_n: int, timeout: float
) -> Reranked:
    """The live candidates by the reranker's score, best first (ties: the order they came in); those beyond ``top_n``
    are dropped with ``rerank_limit``. Any failure within ``timeout`` seconds leaves every candidate as it was."""
    live = [c for c in candidates if c.live]
    head, tail = live[:top_n], live[top_n:]
    if not head:
        return Reranked(tuple(candidates), 0, 0)
    try:
        scores = _ask(reranker, pool, query, [document_text(c) for c in head], timeout)
    except RagError as exc:
        reason = f"{redact(exc)}; the fusion order stays"
        return Reranked(tuple(candidates), len(live), len(live), len(head), StageStatus.ERROR, reason, exc)
    order = sorted(range(len(head)), key=lambda i: (-scores[i], i))
    ranked = [
        evolve(head[i], rerank_rank=rank, rerank_score=scores[i], original_rank=rank)
        for rank, i in enumerate(order, start=1)
    ]
    ranked += [evolve(c, drop_stage=Stage.RERANK, drop_reason=DropReason.RERANK_LIMIT) for c in tail]
    dropped = [c for c in candidates if not c.live]
    return Reranked(tuple(ranked + dropped), len(live), len(head), len(head))


def document_text(candidate: Candidate) -> str:
    """What the cross-encoder reads of a chunk: title, path and content, a line each."""
    return "\n".join(part for part in (candidate.title, candidate.breadcrumb, candidate.content) if part)


def _ask(reranker: Reranker, pool: Executor, query: str, documents: list[str], timeout: float) -> list[float]:
    future = pool.submit(reranker.rerank, query, documents, timeout=timeout)
    try:
        scores = list(future.result(timeout=timeout))
    except FutureTimeout as exc:
        future.cancel()
        raise DeadlineExceeded(f"the reranker gave no answer within {timeout:g} s") from exc
    except RagError:
        raise
    except Exception as exc:
        raise ModelUnavailable(f"the reranker failed: {type(exc).__name__}: {redact(exc)}") from exc
    if len(scores) != len(documents):
        raise ModelUnavailable(f"the reranker gave {len(scores)} scores for {len(documents)} documents")
    if not all(isinstance(s, int | float) and math.isfinite(s) and 0 <= s <= 1 for s in scores):
        raise ModelUnavailable("the reranker gave a score that is no number in [0, 1]")
    return [float(s) for s in scores]
