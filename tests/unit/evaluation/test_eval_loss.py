"""First evidence loss: for each code the smallest lookup that deserves it."""

from __future__ import annotations

from typing import Any

import pytest

from core.evaluation.fixtures import Fixture
from core.evaluation.loss import CaseLoss, count_losses, first_loss
from tests.unit.evaluation.eval_samples import a_case, a_fixture, attempt, evidence, lookup, row

G = "gold#chunk-0"
OTHER = evidence("other#chunk-0", "something else")
GOLD = evidence(G, "the pool holds 8 connections")


def _loss(result: dict[str, Any] | None, probe: dict[str, Any] | None = None, **fields: Any) -> CaseLoss:
    case = a_case(**{"expectedDocIds": ["gold"], "goldSources": [{"docId": "gold"}], "poolDepth": 5, **fields})
    return first_loss(case, _fixture(case, result, probe))


def _fixture(case: Any, result: dict[str, Any] | None, probe: dict[str, Any] | None = None) -> Fixture:
    return a_fixture(case, result, **({"probe": probe} if probe else {}))


def _codes(loss: CaseLoss) -> tuple[str | None, list[str]]:
    return loss.primary.code.value if loss.primary else None, [item.code.value for item in loss.contributing]


def test_gold_that_arrives_everywhere_is_no_loss() -> None:
    rows = [row(G, dense_rank=1, bm25_rank=1, rrf_rank=1, original_rank=1)]
    loss = _loss(lookup([GOLD], [attempt(rows=rows)]))
    assert _codes(loss) == (None, [])
    assert (loss.ladders[0].evidence, loss.ladders[0].context, loss.ladders[0].projected) == (1, 1, 1)


@pytest.mark.parametrize(
    ("reason", "code", "cause"),
    [
        ("fusion_window", "FUSION_DROP", "fusion_window"),
        ("rerank_limit", "RERANK_DROP", "rerank_limit"),
        ("scope_violation", "ACL_FALSE_NEGATIVE", "scope"),
        ("stale_revision", "STALE_EVIDENCE", "stale_revision"),
        ("duplicate_evidence", "EVIDENCE_DROP", "duplicate_evidence"),
        ("duplicate_content", "EVIDENCE_DROP", "duplicate_content"),
        ("document_limit", "EVIDENCE_DROP", "document_limit"),
        ("return_limit", "EVIDENCE_DROP", "return_limit"),
    ],
)
def test_a_drop_reason_names_the_code(reason: str, code: str, cause: str) -> None:
    rows = [row(G, dense_rank=9, bm25_rank=9, rrf_rank=9, original_rank=9, drop_reason=reason)]
    loss = _loss(lookup([OTHER], [attempt(rows=rows)]))
    assert loss.primary is not None
    assert (loss.primary.code.value, loss.primary.cause) == (code, cause)


def test_gold_in_a_branch_and_not_in_the_fused_list_fell_in_fusion() -> None:
    loss = _loss(lookup([OTHER], [attempt(rows=[row(G, dense_rank=1, bm25_rank=3)])]))
    assert _codes(loss) == ("FUSION_DROP", [])


def test_fusion_that_pushes_a_first_place_out_contributes() -> None:
    rows = [row(G, dense_rank=1, bm25_rank=9, rrf_rank=7, original_rank=7, drop_reason="return_limit")]
    assert _codes(_loss(lookup([OTHER], [attempt(rows=rows)]))) == ("EVIDENCE_DROP", ["FUSION_DROP"])


def test_a_reranker_that_pushes_gold_beyond_the_kept_ones_is_a_rerank_drop() -> None:
    rows = [row(G, dense_rank=1, bm25_rank=1, rrf_rank=1, rerank_rank=6, original_rank=6, drop_reason="return_limit")]
    assert _codes(_loss(lookup([OTHER], [attempt(rows=rows)]))) == ("RERANK_DROP", [])


def test_the_chunk_that_went_furthest_speaks_for_its_document() -> None:
    rows = [
        row(G, dense_rank=2, bm25_rank=2, rrf_rank=2, original_rank=2, drop_reason="return_limit"),
        row("gold#chunk-1", dense_rank=20, bm25_rank=20, rrf_rank=30, drop_reason="fusion_window"),
    ]
    assert _loss(lookup([OTHER], [attempt(rows=rows)])).primary.cause == "return_limit"  # type: ignore[union-attr]


def test_no_branch_had_it_and_the_probe_tells_deeper_from_never() -> None:
    result = lookup([OTHER], [attempt(rows=[])])
    assert _codes(_loss(result)) == ("CANDIDATE_MISS", [])
    deep = {"depth": 100, "dense": [{"docId": "gold", "evidenceKey": G, "rank": 37}]}
    loss = _loss(result, deep)
    assert loss.primary is not None
    assert (loss.primary.cause, loss.primary.text) == ("deeper", "no branch returned gold: dense rank 37")
    never = _loss(result, {"depth": 100})
    assert never.primary is not None
    assert never.primary.cause == "never_found"


def test_a_failed_branch_is_named_and_not_taken_for_a_miss_of_the_query() -> None:
    broken = [{"branch": "dense", "status": "complete"}, {"branch": "bm25", "status": "error"}]
    loss = _loss(lookup([OTHER], [attempt(rows=[], branches=broken)]))
    assert loss.primary is not None
    assert loss.primary.cause == "branch_failed"


@pytest.mark.parametrize(("ranks", "code"), [({"dense_rank": 1}, "LEXICAL_MISS"), ({"bm25_rank": 1}, "SEMANTIC_MISS")])
def test_a_miss_of_one_branch_only_contributes(ranks: dict[str, int], code: str) -> None:
    found = _loss(lookup([GOLD], [attempt(rows=[row(G, rrf_rank=1, original_rank=1, **ranks)])]))
    assert _codes(found) == (None, [code])
    rows = [row(G, rrf_rank=8, original_rank=8, drop_reason="document_limit", **ranks)]
    assert _codes(_loss(lookup([OTHER], [attempt(rows=rows)]))) == ("EVIDENCE_DROP", [code])


def test_a_branch_that_did_not_run_misses_nothing() -> None:
    dense_only = [{"branch": "dense", "status": "complete"}]
    rows = [row(G, dense_rank=1, original_rank=1)]
    assert _codes(_loss(lookup([GOLD], [attempt(rows=rows, branches=dense_only)]))) == (None, [])


def test_gold_that_is_not_in_the_index_is_missing_from_the_corpus() -> None:
    probe = {"depth": 100, "documents": {"gold": {"chunks": 0}}}
    assert _codes(_loss(lookup([OTHER], [attempt(rows=[])]), probe)) == ("CORPUS_MISSING", [])


def test_gold_whose_passage_stands_whole_in_no_chunk_was_lost_in_parsing() -> None:
    probe = {
        "depth": 100,
        "documents": {"gold": {"chunks": 3}},
        "passages": [{"path": "gold.md", "anchor": "8 connections", "evidenceKeys": []}],
    }
    passages = [{"path": "gold.md", "anchor": "8 connections"}]
    assert _codes(_loss(lookup([OTHER], [attempt(rows=[])]), probe, goldPassages=passages)) == ("PARSE_LOSS", [])


def test_a_category_filter_that_removes_gold_is_an_acl_false_negative_by_category() -> None:
    probe = {"depth": 100, "documents": {"gold": {"chunks": 1, "category": "redis", "kbScope": "rag-eval"}}}
    filtered = attempt("FILTERED_VECTOR", rows=[], category_filter="mysql")
    loss = _loss(lookup([OTHER], [filtered]), probe)
    assert loss.primary is not None
    assert (loss.primary.code.value, loss.primary.cause) == ("ACL_FALSE_NEGATIVE", "category")


def test_gold_that_only_the_replaced_attempt_had_is_a_retry_drop() -> None:
    rows = [row(G, dense_rank=1, rrf_rank=1, original_rank=1, evidence_rank=1, drop_reason="attempt_replaced")]
    attempts = [
        attempt("FILTERED_VECTOR", rows=rows, category_filter="redis"),
        attempt("UNFILTERED_VECTOR_RETRY", rows=[]),
    ]
    loss = _loss(lookup([OTHER], attempts, fallback="FALLBACK_LOW_QUALITY"))
    assert _codes(loss) == ("RETRY_DROP", ["CANDIDATE_MISS"])


def test_evidence_that_the_pack_left_out_is_a_packing_drop() -> None:
    loss = _loss(lookup([OTHER, GOLD], packed=["other#chunk-0"]))
    assert _codes(loss) == ("PACKING_DROP", [])


def test_evidence_that_the_agent_does_not_see_is_a_projection_drop() -> None:
    assert _codes(_loss(lookup([OTHER, GOLD], agent=[("other#chunk-0", "x")]))) == ("PROJECTION_DROP", [])


def test_some_of_the_necessary_documents_are_incomplete_evidence() -> None:
    gold = [{"docId": "gold"}, {"docId": "second"}]
    rows = [row(G, dense_rank=1, bm25_rank=1, rrf_rank=1, original_rank=1)]
    result = lookup([GOLD], [attempt(rows=rows)])
    loss = _loss(result, expectedDocIds=["gold", "second"], goldSources=gold)
    assert _codes(loss) == ("EVIDENCE_INCOMPLETE", ["CANDIDATE_MISS"])
    assert _codes(_loss(result, expectedDocIds=[], goldSources=gold)) == (None, [])


def test_a_required_fact_that_no_evidence_holds_is_incomplete_evidence() -> None:
    facts = [
        {"fact": "eight", "path": "gold.md", "anchor": "8  connections"},
        {"fact": "sixty-four", "path": "gold.md", "anchor": "raise it to 64"},
    ]
    loss = _loss(lookup([GOLD]), requiredFacts=facts)
    assert loss.primary is not None
    assert loss.primary.text == "the evidence covers 1 of 2 required facts; missing: sixty-four"
    cut = _loss(lookup([GOLD], packed_text="the pool..."), requiredFacts=facts[:1])
    assert _codes(cut) == ("EVIDENCE_INCOMPLETE", ["PACKING_DROP"])
    shown = _loss(lookup([GOLD], agent=[(G, "the po")]), requiredFacts=facts[:1])
    assert _codes(shown) == ("EVIDENCE_INCOMPLETE", ["PROJECTION_DROP"])


def test_a_missing_fact_is_followed_to_the_chunk_that_holds_it() -> None:
    facts = [{"fact": "sixty-four", "path": "gold.md", "anchor": "raise it to 64"}]
    found = [row(G, dense_rank=1, bm25_rank=1, rrf_rank=1, original_rank=1)]
    second = row("gold#chunk-1", dense_rank=2, bm25_rank=2, rrf_rank=2, original_rank=2, drop_reason="document_limit")

    def losses(rows: list[dict[str, Any]], *keys: str) -> CaseLoss:
        passages = [{"path": "gold.md", "anchor": "raise it to 64", "evidenceKeys": list(keys)}]
        return _loss(lookup([GOLD], [attempt(rows=rows)]), {"depth": 100, "passages": passages}, requiredFacts=facts)

    dropped = losses([*found, second], "gold#chunk-1")
    assert _codes(dropped) == ("EVIDENCE_INCOMPLETE", ["EVIDENCE_DROP"])
    assert (dropped.contributing[0].cause, dropped.contributing[0].doc_id) == ("document_limit", "gold")
    assert dropped.layer == "evidence"
    never = losses(found, "gold#chunk-1")
    assert (_codes(never), never.layer) == (("EVIDENCE_INCOMPLETE", ["CANDIDATE_MISS"]), "retrieve")
    split = losses(found)
    assert (_codes(split), split.layer) == (("EVIDENCE_INCOMPLETE", ["PARSE_LOSS"]), "chunking")


def test_incomplete_evidence_of_which_nothing_more_is_known_stays_with_the_context() -> None:
    facts = [{"fact": "sixty-four", "path": "gold.md", "anchor": "raise it to 64"}]
    rows = [row(G, dense_rank=1, rrf_rank=1, original_rank=1)]  # BM25 missed it, which lost nothing
    loss = _loss(lookup([GOLD], [attempt(rows=rows)]), requiredFacts=facts)
    assert (_codes(loss), loss.layer) == (("EVIDENCE_INCOMPLETE", ["LEXICAL_MISS"]), "context")
    assert _loss(lookup([GOLD], [attempt(rows=rows)])).layer is None


def test_evidence_of_an_older_revision_than_the_index_holds_is_stale() -> None:
    probe = {"depth": 100, "documents": {"gold": {"chunks": 1, "revision": 4}}}
    assert _codes(_loss(lookup([{**GOLD, "revision": 3}]), probe)) == ("STALE_EVIDENCE", [])
    assert _codes(_loss(lookup([{**GOLD, "revision": 4}]), probe)) == (None, [])


def test_a_level_for_a_question_without_an_answer_should_have_been_refused() -> None:
    none: dict[str, Any] = {"expectedDocIds": [], "goldSources": [], "answerability": "unanswerable"}
    assert _codes(_loss(lookup([OTHER], level="REFERENCE"), **none)) == ("SHOULD_REFUSE", [])
    assert _codes(_loss(lookup([OTHER]), **none)) == (None, [])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"expectedDocIds": [], "goldSources": []}, "no gold document is labelled"),
        ({"answerability": "unanswerable"}, "marked unanswerable, but gold is labelled relevant"),
        ({"adjudicationStatus": "disputed"}, "adjudicate"),
        ({"kbScope": "default"}, "gold gold is in scope 'rag-eval', the case asks 'default'"),
    ],
)
def test_labels_that_cannot_carry_a_verdict_say_what_is_missing(fields: dict[str, Any], says: str) -> None:
    probe = {"depth": 100, "documents": {"gold": {"chunks": 1, "kbScope": "rag-eval"}}}
    loss = _loss(lookup([OTHER], [attempt(rows=[])]), probe, **fields)
    assert loss.primary is not None
    assert loss.primary.code.value == "EVAL_INCOMPLETE"
    assert any(says in text for text in loss.missing)
    assert loss.counts is False


def test_another_scope_than_the_labels_is_incomplete() -> None:
    case = a_case(expectedDocIds=["gold"])
    loss = first_loss(case, a_fixture(case, lookup([GOLD]), kbScope="default"))
    assert loss.missing == ("labelled in scope 'rag-eval', looked up in 'default'",)


def test_case_101_labels_that_resolve_to_nothing_make_the_case_incomplete() -> None:
    case = a_case(expectedDocIds=["gold"])
    loss = first_loss(case, a_fixture(case, lookup([GOLD])), ["goldSources 'gold'"])
    assert loss.missing == ("gold that resolves to nothing: goldSources 'gold'",)


def test_an_unlabelled_equivalent_is_the_labels_fault() -> None:
    twin = evidence("twin#chunk-0", "As said, the pool HOLDS\n8 connections.")
    passages = [{"path": "gold.md", "anchor": "the pool holds 8 connections"}]
    loss = _loss(lookup([twin], [attempt(rows=[])]), goldPassages=passages)
    assert _codes(loss) == ("EVAL_INCOMPLETE", ["CANDIDATE_MISS"])
    assert loss.missing == ("twin holds the gold passage too and is not labelled: grade it",)


def test_too_many_unjudged_results_are_the_labels_fault_unless_the_pool_settles_it() -> None:
    result = lookup([evidence(f"d{n}#chunk-0") for n in range(5)], [attempt(rows=[])])
    open_labels = _loss(result, poolDepth=0)
    assert _codes(open_labels) == ("EVAL_INCOMPLETE", ["CANDIDATE_MISS"])
    assert open_labels.missing[0].startswith("5 of the first 5 documents are unjudged (limit 50%): grade d0, d1")
    assert _codes(_loss(result, poolDepth=5)) == ("CANDIDATE_MISS", [])


def test_a_case_that_was_not_run_or_failed_has_no_loss_and_counts_nowhere() -> None:
    missing, failed = first_loss(a_case("m", expectedDocIds=["gold"]), None), _loss(None)
    assert (missing.primary, missing.counts, missing.reason) == (None, False, "it was not run")
    assert failed.reason == "the lookup failed: DeadlineExceeded"
    assert count_losses([missing, failed]) == {}


def test_losses_are_counted_by_primary_code() -> None:
    losses = [_loss(lookup([OTHER], [attempt(rows=[])])), _loss(lookup([GOLD]))]
    assert count_losses(losses) == {"CANDIDATE_MISS": ("c1",)}
