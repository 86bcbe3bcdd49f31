"""``kb_scope`` is a boundary: no setting, input or failure lets a result cross it, not even a store that ignores the
filter (DESIGN 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.codec import to_json
from core.errors import DeadlineExceeded, IndexNotReady, RagError, StoreUnavailable
from core.filters import parse_scopes
from core.lookup import LookupOutcome, WhatIf
from core.model import Branch, Chunk, DropReason, Fusion, Generation, Hit, L0Match, Mode, SearchFilter
from core.ports import FusedRow, SearchAnswer
from tests.unit.lookup_world import AxisEmbedder, FixedL0, ListAudit, World, at_distance, world

MARK = "FOREIGN-TEXT"
SCOPES = [
    "default",
    "default",
    "default",
    "ops",
    "ops",
    "rag-eval",
    "Default",
    "default ",
    "defaul",
    "*",
    "",
    "ops,default",
    "\u200bdefault",
]


class Careless:
    """A store that returns what it likes, whatever the filter says, and remembers the filters it was given."""

    def __init__(self, hits: dict[Branch, list[Chunk]], failures: dict[str, Exception]) -> None:
        self.hits = hits
        self.failures = failures
        self.filters: list[SearchFilter] = []

    def _answer(self, branch: Branch, where: SearchFilter, limit: int) -> SearchAnswer:
        self.filters.append(where)
        self._fail(f"search_{branch}")
        hits = tuple(
            Hit(chunk, branch, rank, 0.01 * rank, at_distance(0.01 * rank))
            for rank, chunk in enumerate(self.hits[branch], start=1)
        )
        return SearchAnswer(branch, hits, "", limit, {}, 1.0)

    def _fail(self, name: str) -> None:
        if name in self.failures:
            raise self.failures[name]

    def search_dense(
        self, generation: Generation, vector: Any, where: SearchFilter, limit: int, *, timeout: float
    ) -> SearchAnswer:
        del generation, vector, timeout
        return self._answer(Branch.DENSE, where, limit)

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
        del generation, search_text, timeout, with_vectors
        return self._answer(Branch.BM25, where, limit)

    def search_hybrid(
        self, generation: Generation, vector: Any, search_text: str, where: SearchFilter, limit: int, **_: Any
    ) -> tuple[FusedRow, ...]:
        del generation, vector, search_text, limit
        self.filters.append(where)
        self._fail("search_hybrid")
        chunks = {c.evidence_key: c for found in self.hits.values() for c in found}
        return tuple(
            FusedRow(c, rank, 1 / (60 + rank), at_distance(0.1)) for rank, c in enumerate(chunks.values(), start=1)
        )

    def fetch(self, *_: Any, **__: Any) -> dict[str, Hit]:
        return {}

    def expression(self, where: SearchFilter) -> str:
        return str(where.scopes)

    def warm(self, generation: Generation, *, timeout: float) -> None:
        del generation, timeout


class Sloppy:
    """A reranker of any scores, or none."""

    model = "sloppy"

    def __init__(self, score: float | Exception) -> None:
        self.score = score
        self.read: list[str] = []

    def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> list[float]:
        del query, timeout
        self.read += documents
        if isinstance(self.score, Exception):
            raise self.score
        return [self.score] * len(documents)


def chunk(number: int, scope: str, category: str, allowed: bool) -> Chunk:
    """An admitted chunk lacks its title and path, which a foreign one of the same key would offer to fill in."""
    text, extra = (f"text {number}", "") if allowed else (f"{MARK} {number}", MARK)
    return Chunk(f"d{number}#chunk-0", f"d{number}", 0, text, extra, extra, extra, category, scope, 1)


def crossed(outcome: LookupOutcome, setup: World) -> str:
    """Everything that leaves the lookup, as one text."""
    return to_json(outcome.result) + "".join(to_json(record.result) for record in setup.audit.records)


errors = st.sampled_from(
    [StoreUnavailable("away"), DeadlineExceeded("late"), IndexNotReady("gone"), RagError("odd"), KeyError("odd")]
)
found_chunks = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(SCOPES), st.sampled_from(["", "", "redis"])), max_size=6
)
asked_scopes = st.one_of(
    st.none(),
    st.sampled_from(["", "default", "ops", "a\nb", "*"]),
    st.lists(st.sampled_from(["", "default", "ops", "nowhere"]), max_size=3),
)
what_ifs = st.builds(
    WhatIf,
    mode=st.sampled_from([None, None, None, *Mode, "fuzzy"]),
    fusion=st.sampled_from([None, *Fusion]),
    retrieve_k=st.sampled_from([None, None, None, 5, 200, 0]),
    return_n=st.sampled_from([None, 1, 5, 100]),
    max_chunks_per_document=st.sampled_from([None, 1, 9]),
    rrf_k=st.sampled_from([None, 1, 60]),
    rank_window_size=st.sampled_from([None, 1, 100]),
    dense_weight=st.sampled_from([None, None, 0.0, 7.0]),
    bm25_weight=st.sampled_from([None, None, 0.0]),
    reference_threshold=st.sampled_from([None, 0.0, 1.0]),
    category_filter_off=st.sampled_from([None, True]),
    rerank=st.sampled_from([None, True, False]),
)
queries = st.one_of(
    st.sampled_from(
        [
            "redis",
            "redis",
            "redis",
            "kb_scope=*",
            '" or kb_scope != "',
            "scope:ops redis",
            "默认 kb_scope in []",
            "",
            "???",
        ]
    ),
    st.text(max_size=30),
)


@given(
    dense=found_chunks,
    lexical=found_chunks,
    asked=asked_scopes,
    configured=st.sampled_from(["", "ops", "*", ["default", "ops"]]),
    what_if=what_ifs,
    query=queries,
    category=st.sampled_from([None, "redis"]),
    failures=st.one_of(
        st.just({}),
        st.dictionaries(st.sampled_from(["search_dense", "search_bm25", "search_hybrid"]), errors, max_size=3),
    ),
    embedder=st.sampled_from([None, None, None, StoreUnavailable("away"), "nan"]),
    score=st.sampled_from([0.0, 1.0, 7.0, StoreUnavailable("away")]),
    revisions=st.sampled_from([{}, {f"d{i}": 1 for i in range(3)}]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_lets_a_result_cross_its_scope(
    dense: list[tuple[int, str, str]],
    lexical: list[tuple[int, str, str]],
    asked: Any,
    configured: Any,
    what_if: WhatIf,
    query: str,
    category: str | None,
    failures: dict[str, Exception],
    embedder: Any,
    score: Any,
    revisions: dict[str, int],
) -> None:
    try:
        scopes = parse_scopes(configured if asked is None else asked)
    except RagError:
        scopes = parse_scopes([])  # a scope that is refused admits nothing
    hits = {
        branch: [chunk(n, scope, cat, scopes.admits(scope)) for n, scope, cat in found]
        for branch, found in ((Branch.DENSE, dense), (Branch.BM25, lexical))
    }
    reranker = Sloppy(score)
    model = AxisEmbedder()
    if embedder == "nan":
        model.vector = np.full(4, np.nan, dtype=np.float32)
    elif embedder is not None:
        model.failure = embedder
    store = Careless(hits, failures)
    setup = world(
        index=store,
        embedder=model,
        reranker=reranker,
        audit=ListAudit(),
        l0=FixedL0(L0Match(category_filter=category)),
        revisions=revisions,
        retrieval={"kb_scope": configured},
        warm=False,
    )
    try:
        outcome = setup.ask(query, what_if, kb_scope=asked)
    finally:
        setup.service.close()

    assert MARK not in crossed(outcome, setup)
    assert MARK not in "".join(reranker.read)
    assert all(scopes.admits(piece.kb_scope) for piece in outcome.result.evidence)
    assert all(where.scopes == scopes for where in store.filters)
    assert len(setup.audit.records) == 1
    for attempt in outcome.result.retrieval_trace.attempts:
        for candidate in attempt.candidates:
            if not scopes.admits(candidate.kb_scope):
                assert candidate.drop_reason is DropReason.SCOPE_VIOLATION
                assert (candidate.content, candidate.title, candidate.source, candidate.breadcrumb) == (
                    None,
                    "",
                    "",
                    "",
                )
                assert candidate.evidence_rank is None


def violating(scope: str = "ops") -> World:
    hits = {Branch.DENSE: [chunk(1, scope, "", False), chunk(2, "default", "", True)], Branch.BM25: []}
    return world(index=Careless(hits, {}), revisions={"d1": 1, "d2": 1})


def test_a_hit_outside_the_scope_is_dropped_counted_and_alarmed(caplog: pytest.LogCaptureFixture) -> None:
    setup = violating()
    outcome = setup.ask("redis")
    attempt = outcome.result.retrieval_trace.attempts[0]

    assert [piece.doc_id for piece in outcome.result.evidence] == ["d2"]
    assert attempt.scope_violations == 1
    assert attempt.degraded == ("scope_violation: 1 hits outside the filter were dropped",)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert outcome.result.trace_id in caplog.text
    assert MARK not in caplog.text


def test_what_lies_outside_the_scope_sets_neither_level_nor_gate() -> None:
    hits = {Branch.DENSE: [chunk(1, "ops", "", False)], Branch.BM25: []}
    outcome = world(index=Careless(hits, {}), revisions={"d1": 1}).ask("redis")

    assert outcome.result.top_quality is None
    assert outcome.result.relevance_level is None
    assert not outcome.result.found


@pytest.mark.parametrize("value", ['x" or category != "', "x' || 1==1 || '", 'x"] or id > 0 or category in ["'])
def test_case_30_an_expression_in_a_scope_is_a_name_that_nothing_bears_and_is_recorded_as_such(value: str) -> None:
    setup = world()
    outcome = setup.ask("redis", kb_scope=value)

    assert not outcome.result.found
    assert outcome.error is None
    assert setup.audit.records[0].result.retrieval_trace.kb_scope == value
