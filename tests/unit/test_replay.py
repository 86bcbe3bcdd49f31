"""A recorded lookup asked again: same, or what moved and what moved it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from core.difference import compare
from core.errors import BadInput, NotFound
from core.lookup_request import LookupOutcome, LookupRequest
from core.model import (
    AttemptName,
    AttemptTrace,
    Candidate,
    Document,
    DropReason,
    EvidenceStatus,
    Fusion,
    LookupResult,
    Mode,
    RelevanceLevel,
    RerankTrace,
    RetrievalTrace,
    StageStatus,
)
from core.ports import AuditReceipt
from core.replay import Cause, Replayer
from core.stores import StoredTrace

QUERY = "redis 连接池耗尽"


def candidate(doc: str, *, dense: int | None, evidence: int | None, drop: DropReason | None = None) -> Candidate:
    text_hash = hashlib.sha256(doc.encode()).hexdigest()
    return Candidate(
        f"{doc}#chunk-0",
        doc,
        0,
        doc,
        dense_rank=dense,
        evidence_rank=evidence,
        drop_reason=drop,
        content_sha256=text_hash,
    )


def result(
    *candidates: Candidate,
    generation: int | None = 1,
    fingerprint: str = "f1",
    level: RelevanceLevel | None = RelevanceLevel.PRECISE,
    query: str = QUERY,
) -> LookupResult:
    name = AttemptName.UNFILTERED_VECTOR
    trace = RetrievalTrace(
        trace_id="t1",
        created_at="2026-03-01T08:00:00+00:00",
        mode=Mode.HYBRID,
        fusion=Fusion.CLIENT,
        kb_scope="default",
        plan=None,
        attempts=(AttemptTrace(name, StageStatus.COMPLETE, candidates=candidates),),
        selected_attempt=name,
        generation=generation,
        fingerprint=fingerprint,
    )
    return LookupResult(
        trace_id="t1",
        query=query,
        found=bool(candidates),
        evidence_status=EvidenceStatus.READY,
        relevance_level=level,
        top_quality=0.9,
        evidence=(),
        candidate_count=len(candidates),
        returned_count=0,
        context_pack=None,
        completeness_hint="",
        message="",
        retrieval_trace=trace,
        rerank_trace=RerankTrace(),
    )


A, B = candidate("a", dense=1, evidence=1), candidate("b", dense=2, evidence=2)


def document(doc_id: str, revision: int = 1) -> Document:
    return Document(doc_id, f"{doc_id}.md", doc_id, "", "default", revision, f"hash-{doc_id}-{revision}")


def test_equal_runs_are_the_same_whatever_else_changed() -> None:
    found = compare(result(A, B), result(A, B, generation=2, fingerprint="f2"))
    assert found.same
    assert [(c.kind, c.name) for c in found.causes] == [("version", "generation"), ("setting", "fingerprint")]


def test_two_empty_answers_are_the_same() -> None:
    assert compare(result(), result()).same


def test_a_lost_chunk_names_the_document_that_left_the_index() -> None:
    found = compare(
        result(A, B),
        result(replace(B, evidence_rank=1, dense_rank=1), generation=2),
        documents_then=[document("a"), document("b")],
        documents_now=[document("b")],
    )
    assert not found.same
    lost, risen = found.evidence
    assert (lost.evidence_key, lost.evidence_then, lost.evidence_now) == ("a#chunk-0", 1, None)
    assert lost.why == "its document is no longer in the index"
    assert risen.why == "moved: dense rank 2 to 1"
    assert [(c.name, c.then, c.now) for c in found.causes if c.kind == "document"] == [("a", "revision 1", "absent")]


def test_a_chunk_that_is_now_dropped_says_by_which_rule_and_where_the_runs_part() -> None:
    dropped = replace(A, dense_rank=3, evidence_rank=None, drop_reason=DropReason.DOCUMENT_LIMIT)
    found = compare(result(A), result(dropped))
    assert found.evidence[0].why == "now dropped by document_limit (dense rank 1 to 3)"


def test_a_revised_document_is_named_with_both_revisions() -> None:
    other = replace(A, content_sha256="0" * 64, evidence_rank=2)
    found = compare(result(A), result(other), documents_then=[document("a")], documents_now=[document("a", 2)])
    assert found.evidence[0].why == "its document changed (revision 1 to 2)"


def test_changed_documents_among_the_candidates_come_before_the_others() -> None:
    found = compare(
        result(B),
        result(B, generation=2),
        documents_then=[document("a"), document("b")],
        documents_now=[document("a", 2), document("b", 2)],
    )
    assert [c.name for c in found.causes if c.kind == "document"] == ["b", "a"]


def test_settings_that_differ_are_named_key_by_key() -> None:
    found = compare(
        result(A),
        result(A, fingerprint="f2"),
        settings_then={"rag": {"return_n": 5, "retrieve_k": 20}},
        settings_now={"rag": {"return_n": 3, "retrieve_k": 20}},
    )
    assert [(c.name, c.then, c.now) for c in found.causes] == [("rag.return_n", "5", "3")]


def test_settings_that_were_not_kept_are_said_to_be_so() -> None:
    (change,) = compare(result(A), result(A, fingerprint="f2")).causes
    assert "not kept" in change.then


@dataclass
class Lookups:
    """Answers by generation; None is the active one."""

    answers: Mapping[int | None, LookupResult | BadInput]
    requests: list[LookupRequest] = field(default_factory=list)

    def lookup(self, request: LookupRequest) -> LookupOutcome:
        self.requests.append(request)
        answer = self.answers[request.generation]
        receipt = AuditReceipt("i", "recorded", 1.0)
        if isinstance(answer, BadInput):
            return LookupOutcome(result(), receipt, answer)
        return LookupOutcome(answer, receipt)


def replayer(answers: Mapping[int | None, Any], kept: str | None = None) -> tuple[Replayer, Lookups]:
    lookups = Lookups(answers)
    queries: Any = SimpleNamespace(get=lambda _: SimpleNamespace(query=kept) if kept else None)
    snapshots: Any = SimpleNamespace(get=lambda _: None)
    documents: Any = SimpleNamespace(all=lambda _=None: [document("a"), document("b")])
    return Replayer(lookups, queries, snapshots, documents, {}), lookups


def stored(found: LookupResult) -> StoredTrace:
    digest = hashlib.sha256(QUERY.encode()).hexdigest()
    return StoredTrace(found, "redacted", datetime(2026, 3, 1, tzinfo=UTC), digest, len(QUERY))


def test_the_old_index_that_still_gives_the_old_answer_is_the_cause() -> None:
    then, now = result(A, B), result(B, generation=2)
    found, lookups = replayer({None: now, 1: then})
    replay = found.replay(stored(then), actor="kim")
    assert replay.cause is Cause.INDEX
    assert [r.generation for r in lookups.requests] == [None, 1]
    assert {(r.tool_name, r.actor) for r in lookups.requests} == {("replay", "kim")}
    assert replay.sentence.startswith("Evidence differs: 1 lost.")


def test_settings_are_the_cause_when_the_old_index_answers_like_the_new_one() -> None:
    then, now = result(A, B), result(B, generation=2)
    found, _ = replayer({None: now, 1: result(B)})
    assert found.replay(stored(then)).cause is Cause.SETTINGS


def test_both_have_a_part_when_the_old_index_gives_a_third_answer() -> None:
    then, now = result(A, B), result(B, generation=2)
    found, _ = replayer({None: now, 1: result(A)})
    assert found.replay(stored(then)).cause is Cause.BOTH


def test_a_generation_that_is_gone_leaves_the_cause_open_and_says_why() -> None:
    then, now = result(A, B), result(B, generation=2)
    found, _ = replayer({None: now, 1: NotFound("generation 1 was dropped")})
    replay = found.replay(stored(then))
    assert (replay.cause, replay.old_index) == (Cause.UNKNOWN, None)
    assert "generation 1 was dropped" in replay.note


def test_the_same_answer_needs_no_second_lookup() -> None:
    then = result(A)
    found, lookups = replayer({None: result(A, generation=2)})
    assert found.replay(stored(then)).cause is Cause.NOTHING
    assert len(lookups.requests) == 1


def test_the_scope_of_the_recorded_lookup_bounds_its_replay() -> None:
    then = result(A)
    then = replace(then, retrieval_trace=replace(then.retrieval_trace, kb_scope="rag-eval,team"))
    found, lookups = replayer({None: then})
    found.replay(stored(then))
    assert lookups.requests[0].kb_scope == ["rag-eval", "team"]


def test_a_question_that_is_not_stored_has_to_be_typed_and_is_checked() -> None:
    without = stored(result(A, query=""))
    found, _ = replayer({None: result(A)})
    with pytest.raises(BadInput, match="type it again"):
        found.replay(without)
    with pytest.raises(BadInput, match="SHA-256 differs"):
        found.replay(without, typed="another question")
    assert found.question(without, QUERY) == QUERY


def test_a_console_question_is_taken_from_the_history() -> None:
    found, lookups = replayer({None: result(A)}, kept="kept question")
    found.replay(stored(result(A, query="")))
    assert lookups.requests[0].query == "kept question"


def test_a_failing_replay_is_an_error_and_not_a_difference() -> None:
    found, _ = replayer({None: BadInput("the query is empty")})
    with pytest.raises(BadInput, match="empty"):
        found.replay(stored(result(A)))


def test_the_same_place_with_another_text_is_a_difference() -> None:
    found = compare(result(A), result(replace(A, content_sha256="0" * 64)))
    assert not found.same
    assert (found.evidence[0].why, found.evidence[0].rewritten) == ("the same place, another text", True)


def test_a_generation_that_is_no_longer_kept_is_not_asked() -> None:
    then, now = result(A, B, generation=1), result(B, generation=2)
    found, lookups = replayer({None: now})
    found._documents = SimpleNamespace(all=lambda number=None: [] if number == 1 else [document("b")])  # type: ignore[assignment]
    replay = found.replay(stored(then))
    assert [r.generation for r in lookups.requests] == [None]
    assert "no longer kept" in replay.note
