"""Snapshots freeze all or nothing, live writes nothing, a promoted lookup is a draft."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import BadInput, CheckFailed, DeadlineExceeded, InvalidCases, NotFound
from core.evaluation.cases import Case, load_cases
from core.evaluation.fixtures import DeepHit, IndexedDocument, Probe, load_fixtures
from core.evaluation.promote import Reviewed, add_case, promote, remove_case, replace_case, reviewed
from core.evaluation.snapshot import live, snapshot
from core.model import (
    AttemptName,
    AttemptTrace,
    Candidate,
    Evidence,
    EvidenceStatus,
    Fusion,
    LookupResult,
    Mode,
    RerankTrace,
    RetrievalTrace,
    StageStatus,
)
from tests.unit.evaluation.eval_samples import a_case, cases_of

CASES = cases_of(a_case("one", expectedDocIds=["a"]), a_case("two", expectedDocIds=["b"]))


def _answer(case: Case, mode: Mode) -> LookupResult:
    key = "a#chunk-0"
    candidate = Candidate(key, "a", 0, dense_rank=1, dense_distance=0.2, rrf_rank=1, original_rank=1)
    attempt = AttemptTrace(AttemptName.UNFILTERED_VECTOR, StageStatus.COMPLETE, candidates=(candidate,))
    trace = RetrievalTrace(
        trace_id="t", created_at="2026-09-01T00:00:00Z", mode=mode, fusion=Fusion.CLIENT, kb_scope=case.kb_scope,
        plan=None, attempts=(attempt,), selected_attempt=AttemptName.UNFILTERED_VECTOR, generation=7,
        embedding_profile="e5", fingerprint="f", corpus_snapshot="s",
    )  # fmt: skip
    piece = Evidence(key, "a", 0, "a.md", "A", "", "text of a")
    return LookupResult(
        trace_id="t", query=case.query, found=True, evidence_status=EvidenceStatus.READY, evidence=(piece,),
        candidate_count=1, returned_count=1, relevance_level=None, top_quality=0.5, context_pack=None,
        completeness_hint="", message="", retrieval_trace=trace, rerank_trace=RerankTrace(),
    )  # fmt: skip


def _second_fails(case: Case, mode: Mode) -> LookupResult:
    if case.case_id == "two":
        raise DeadlineExceeded("no answer from mysql://u:hunter2@db in 8 s")
    return _answer(case, mode)


def test_a_snapshot_freezes_every_mode_with_its_origin(tmp_path: Path) -> None:
    done = snapshot(CASES, [Mode.HYBRID, Mode.DENSE], _answer, tmp_path, seeded=lambda: None)
    assert [item.mode for item in done] == ["hybrid", "dense"]
    fixture = load_fixtures(tmp_path, "dense").fixtures["one"]
    assert (fixture.search_mode, fixture.generation, fixture.profile) == ("dense", 7, "e5")
    assert (fixture.fingerprint, fixture.corpus_snapshot, fixture.kb_scope) == ("f", "s", "rag-eval")
    assert fixture.observed is not None
    assert fixture.observed.evidence[0].content == "text of a"
    assert fixture.observed.attempts[0].rows[0].dense_distance == 0.2


def test_without_the_seed_corpus_nothing_is_asked(tmp_path: Path) -> None:
    def never(case: Case, mode: Mode) -> LookupResult:
        raise AssertionError(case, mode)

    with pytest.raises(CheckFailed, match="without the seed corpus: 0 of 40 documents"):
        snapshot(CASES, [Mode.HYBRID], never, tmp_path, seeded=lambda: "0 of 40 documents are indexed")
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_with_failures_is_not_written_unless_allowed(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="1 of 2 lookups failed in mode hybrid") as caught:
        snapshot(CASES, [Mode.HYBRID], _second_fails, tmp_path, seeded=lambda: None)
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    done = snapshot(CASES, [Mode.HYBRID], _second_fails, tmp_path, seeded=lambda: None, failure_limit=0.5)
    assert done[0].failed == ("two",)
    assert load_fixtures(tmp_path, "hybrid").fixtures["two"].failed


def test_the_probe_keeps_labelled_documents_and_its_failure_costs_only_itself(tmp_path: Path) -> None:
    def probe(case: Case, _: Mode) -> Probe:
        if case.case_id == "two":
            raise DeadlineExceeded("late")
        hits = (DeepHit("x#chunk-0", "x", 30), DeepHit("a#chunk-0", "a", 31))
        return Probe(100, dense=hits, documents=(IndexedDocument("a", 1),))

    snapshot(CASES, [Mode.HYBRID], _answer, tmp_path, seeded=lambda: None, probe=probe)
    fixtures = load_fixtures(tmp_path, "hybrid").fixtures
    one = fixtures["one"].probe
    assert one is not None
    assert [hit.doc_id for hit in one.dense] == ["a"]
    assert fixtures["two"].probe is None


def test_case_70_a_score_that_is_no_number_is_written_as_null_and_stays_known(tmp_path: Path) -> None:
    def answer(case: Case, mode: Mode) -> LookupResult:
        return replace(_answer(case, mode), top_quality=float("nan"))

    snapshot(CASES, [Mode.HYBRID], answer, tmp_path, seeded=lambda: None)
    fixture = load_fixtures(tmp_path, "hybrid").fixtures["one"]
    assert fixture.invalid_scores == ("top_quality",)
    assert fixture.observed is not None
    assert fixture.observed.top_quality is None


def test_live_judges_at_once_and_tells_progress() -> None:
    seen: list[tuple[int, int, str]] = []
    report = live(CASES, Mode.HYBRID, _second_fails, progress=lambda *step: seen.append(step))
    assert [row.status.value for row in report.rows] == ["EVALUATED", "FAILED"]
    assert seen == [(1, 2, "one"), (2, 2, "two")]


def test_a_promoted_lookup_is_a_draft_that_expects_nothing() -> None:
    result = _answer(a_case("x", query="连接池"), Mode.HYBRID)
    case = promote(result, who="pat")
    assert (case.query, case.review.status, case.gates) == ("连接池", "draft", False)
    assert (case.expected_doc_ids, case.gold_sources) == ((), ())
    assert "1. a" in case.notes
    with pytest.raises(BadInput, match="no longer holds its query"):
        promote(replace(result, query=""), who="pat")
    assert promote(replace(result, query=""), who="pat", query="kept apart").query == "kept apart"


def test_drafts_are_kept_edited_and_reviewed(tmp_path: Path) -> None:
    path = tmp_path / "draft-cases.json"
    draft = promote(_answer(a_case("x", query="q"), Mode.HYBRID), who="pat")
    add_case(path, draft)
    with pytest.raises(BadInput, match="asks this already"):
        add_case(path, draft)
    with pytest.raises(BadInput, match="expects nothing yet"):
        reviewed(draft, Reviewed("kim", "reviewed"))
    with pytest.raises(BadInput, match="needs the name"):
        reviewed(draft, Reviewed(" ", "reviewed"))
    edited = draft.model_copy(update={"expected_doc_ids": ("a",)})
    with pytest.raises(InvalidCases):
        reviewed(edited, Reviewed("kim", "perhaps"))
    done = reviewed(edited, Reviewed("kim", "reviewed"))
    replace_case(path, done)
    stored = load_cases(path).cases[0]
    assert (stored.gates, stored.review.who, stored.tags) == (True, "kim", ())
    remove_case(path, stored.case_id)
    assert load_cases(path).cases == ()
    with pytest.raises(NotFound):
        remove_case(path, "none")
    with pytest.raises(NotFound):
        replace_case(path, done)
