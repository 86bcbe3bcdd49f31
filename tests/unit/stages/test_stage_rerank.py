"""The reranker changes the order or, when it fails in any way, nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from core.errors import DeadlineExceeded, ModelUnavailable
from core.model import Candidate, DropReason, Stage, StageStatus
from core.stages.rerank import document_text, rerank
from core.workers import Workers


class Scores:
    """Answers with fixed scores, or with whatever ``answer`` raises."""

    model = "fixed"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.documents: list[str] = []

    def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> list[float]:
        del query, timeout
        self.documents = list(documents)
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(self.answer)


@pytest.fixture
def pool() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    workers.shutdown()


def candidate(key: str, rank: int, **fields: Any) -> Candidate:
    return Candidate(key, key, rrf_rank=rank, original_rank=rank, content=f"text {key}", **fields)


THREE = [candidate("a", 1), candidate("b", 2), candidate("c", 3)]


def test_the_order_becomes_the_rerankers_and_its_score_is_kept(pool: Workers) -> None:
    result = rerank(THREE, "q", Scores([0.1, 0.9, 0.5]), pool, top_n=20, timeout=1)

    assert [(c.evidence_key, c.rerank_rank, c.rerank_score, c.original_rank) for c in result.candidates] == [
        ("b", 1, 0.9, 1),
        ("c", 2, 0.5, 2),
        ("a", 3, 0.1, 3),
    ]
    assert [c.rrf_rank for c in result.candidates] == [2, 3, 1]  # the fused rank is not overwritten
    assert (result.documents, result.status) == (3, StageStatus.COMPLETE)


def test_equal_scores_keep_the_fused_order(pool: Workers) -> None:
    result = rerank(THREE, "q", Scores([0.5, 0.5, 0.5]), pool, top_n=20, timeout=1)
    assert [c.evidence_key for c in result.candidates] == ["a", "b", "c"]


def test_what_ranks_beyond_top_n_is_dropped_and_never_sent(pool: Workers) -> None:
    scores = Scores([0.2, 0.3])
    result = rerank(THREE, "q", scores, pool, top_n=2, timeout=1)

    assert scores.documents == ["text a", "text b"]
    last = result.candidates[-1]
    assert (last.evidence_key, last.drop_stage, last.drop_reason) == ("c", Stage.RERANK, DropReason.RERANK_LIMIT)
    assert (result.count_in, result.count_out) == (3, 2)


def test_a_candidate_that_was_dropped_before_is_never_sent(pool: Workers) -> None:
    secret = candidate("secret", 1, drop_stage=Stage.FUSE, drop_reason=DropReason.SCOPE_VIOLATION)
    scores = Scores([0.4])
    result = rerank([secret, candidate("a", 2)], "q", scores, pool, top_n=20, timeout=1)

    assert scores.documents == ["text a"]
    assert [c.evidence_key for c in result.candidates] == ["a", "secret"]


@pytest.mark.parametrize(
    "answer",
    [
        ModelUnavailable("away"),
        ValueError("nonsense"),
        [0.1],
        [0.1, float("nan")],
        [0.1, 7.0],
        ["x", "y"],
    ],
    ids=["away", "foreign error", "too few", "nan", "out of range", "no numbers"],
)
def test_any_failure_leaves_the_fusion_order_and_says_why(answer: Any, pool: Workers) -> None:
    result = rerank(THREE, "q", Scores(answer), pool, top_n=2, timeout=1)

    assert result.candidates == tuple(THREE)  # nothing dropped by a limit that never applied
    assert result.status is StageStatus.ERROR
    assert isinstance(result.error, ModelUnavailable)
    assert "the fusion order stays" in (result.reason or "")


def test_a_hanging_reranker_holds_up_nobody_past_its_deadline(pool: Workers) -> None:
    release = threading.Event()

    class Hanging(Scores):
        def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> list[float]:
            del query, documents, timeout
            release.wait(30)
            return []

    began = time.monotonic()
    result = rerank(THREE, "q", Hanging([]), pool, top_n=20, timeout=0.05)
    release.set()

    assert time.monotonic() - began < 1.0
    assert isinstance(result.error, DeadlineExceeded)
    assert result.candidates == tuple(THREE)


def test_nothing_to_rerank_asks_nobody(pool: Workers) -> None:
    scores = Scores(ModelUnavailable("never asked"))
    assert rerank([], "q", scores, pool, top_n=20, timeout=1).status is StageStatus.COMPLETE


def test_a_document_is_title_path_and_content() -> None:
    assert document_text(Candidate("k", "d", title="t", breadcrumb="a > b", content="c")) == "t\na > b\nc"
    assert document_text(Candidate("k", "d", content="c")) == "c"
