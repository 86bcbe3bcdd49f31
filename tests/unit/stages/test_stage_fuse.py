"""Reciprocal Rank Fusion by its formula, the boundary after it, and the store's own engine beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from core.errors import InvalidSettings
from core.model import (
    Branch,
    Candidate,
    Chunk,
    DropReason,
    Hit,
    Scopes,
    SearchFilter,
    Stage,
    StageStatus,
)
from core.ports import FusedRow
from core.stages.fuse import Fused, Guard, dense_order, fuse

DEFAULT = Scopes(frozenset({"default"}))
OPEN = Guard(SearchFilter(DEFAULT), {})
EQUAL = {Branch.DENSE: 1.0, Branch.BM25: 1.0}
K = 60


def chunk(key: Any, **fields: Any) -> Chunk:
    return Chunk(**{"evidence_key": key, "doc_id": f"doc-{key}", "chunk_index": 0, "content": f"text {key}", **fields})


def hits(branch: Branch, keys: Sequence[Any], **fields: Any) -> tuple[Hit, ...]:
    return tuple(Hit(chunk(key, **fields), branch, rank, float(rank)) for rank, key in enumerate(keys, start=1))


def fused(dense: Sequence[Any] | None, bm25: Sequence[Any] | None, guard: Guard = OPEN, **options: Any) -> Fused:
    found = {}
    if dense is not None:
        found[Branch.DENSE] = hits(Branch.DENSE, dense)
    if bm25 is not None:
        found[Branch.BM25] = hits(Branch.BM25, bm25)
    defaults: dict[str, Any] = {"k": K, "weights": EQUAL, "window": 20, "explain": lambda _: ()}
    return fuse(found, guard, **{**defaults, **options})


def keys(result: Fused) -> list[str]:
    return [c.evidence_key for c in result.candidates]


def by_key(result: Fused) -> dict[str, Candidate]:
    return {c.evidence_key: c for c in result.candidates}


def test_case_52_ranks_start_at_one_and_an_absent_chunk_adds_nothing() -> None:
    result = fused(["X", "a", "Y"], ["b", "c", "Y"])

    assert keys(result) == ["Y", "X", "b", "a", "c"]
    scores = {key: c.rrf_score for key, c in by_key(result).items()}
    assert scores == pytest.approx(
        {"Y": 1 / (60 + 3) + 1 / (60 + 3), "X": 1 / (60 + 1), "b": 1 / (60 + 1), "a": 1 / (60 + 2), "c": 1 / (60 + 2)}
    )
    assert [c.rrf_rank for c in result.candidates] == [1, 2, 3, 4, 5]
    assert [c.original_rank for c in result.candidates] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("dense", "bm25", "expected"),
    [
        (["a", "b"], [], ["a", "b"]),
        ([], ["b", "a"], ["b", "a"]),
        (["a", "b"], None, ["a", "b"]),
        ([], [], []),
        (["only"], [], ["only"]),
    ],
)
def test_case_52_with_one_branch_empty_or_failed_the_order_is_the_other_branchs(
    dense: list[str], bm25: list[str] | None, expected: list[str]
) -> None:
    assert keys(fused(dense, bm25)) == expected


def test_case_52_a_list_of_one_and_a_list_of_a_hundred() -> None:
    hundred = [f"h{i:03}" for i in range(1, 101)]
    result = fused(["h100"], hundred, window=100)

    assert keys(result)[0] == "h100"  # 1/61 + 1/160 > 1/61
    assert result.candidates[0].rrf_score == pytest.approx(1 / 61 + 1 / 160)
    assert keys(result)[1:] == hundred[:99]


def test_case_50_a_chunk_that_both_branches_found_is_one_candidate_with_both_ranks() -> None:
    dense = hits(Branch.DENSE, ["c7", "c1", "c2"])
    bm25 = hits(Branch.BM25, ["c3", "c7", "c9"], title="from the sparse branch", breadcrumb="a > b")
    result = fuse({Branch.BM25: bm25, Branch.DENSE: dense}, OPEN, k=K, weights=EQUAL, window=20, explain=lambda _: ())

    first = result.candidates[0]
    assert keys(result).count("c7") == 1
    assert (first.evidence_key, first.dense_rank, first.bm25_rank) == ("c7", 1, 2)
    assert first.rrf_score == pytest.approx(1 / 61 + 1 / 62)
    assert first.hit_reasons == ("dense", "bm25")
    assert first.breadcrumb == "a > b"  # what one branch does not know the other fills in


def test_case_50_ids_of_another_type_are_the_same_key() -> None:
    result = fused(["7", "1"], [3, 7])

    assert keys(result)[0] == "7"
    assert by_key(result)["7"].bm25_rank == 2


def test_case_53_ties_break_by_best_single_rank_then_by_key() -> None:
    assert keys(fused(["p", "q"], ["q", "p"])) == ["p", "q"]
    assert keys(fused(["z"], ["a"])) == ["a", "z"]
    swapped = fused(["a1", "b1", "c1"], ["c1", "b1", "a1"])
    # 1/61 + 1/63 > 2/62; a1 and c1 are level and both have a best rank of 1
    assert keys(swapped) == ["a1", "c1", "b1"]
    level = fused(["z", "m", "n", "a"], ["p", "q", "r", "a"], k=2)
    # 1/(2+1) = 1/(2+4) + 1/(2+4): p and z were first in a branch, a was fourth in both
    assert keys(level)[:3] == ["p", "z", "a"]


_ORDER = """
import json, sys
from tests.unit.stages.test_stage_fuse import fused, keys
names = [f"chunk-{i}" for i in range(40)]
print(json.dumps([keys(fused(names[:20], names[20:], window=40)), keys(fused(names[::2], names[1::2], window=40))]))
"""


def test_case_53_the_order_is_the_same_in_every_process() -> None:
    outputs = set()
    for seed in ("0", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", _ORDER], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        outputs.add(done.stdout)

    assert len(outputs) == 1
    first, second = json.loads(outputs.pop())
    assert first[:4] == ["chunk-0", "chunk-20", "chunk-1", "chunk-21"]
    assert second[:4] == ["chunk-0", "chunk-1", "chunk-2", "chunk-3"]


def test_case_53_twenty_runs_give_one_order() -> None:
    assert len({tuple(keys(fused(["p", "q", "r"], ["q", "p", "s"]))) for _ in range(20)}) == 1


def test_weights_multiply_each_branchs_share() -> None:
    result = fused(["a"], ["b"], weights={Branch.DENSE: 1.0, Branch.BM25: 0.5})

    assert [c.rrf_score for c in result.candidates] == pytest.approx([1.0 / 61, 0.5 / 61])
    silent = fused(["a", "b"], ["b"], weights={Branch.DENSE: 1.0, Branch.BM25: 0.0})
    assert keys(silent) == ["a", "b"]


def test_another_k_changes_the_scores() -> None:
    assert fused(["a"], ["a"], k=1).candidates[0].rrf_score == pytest.approx(2 / (1 + 1))


def test_what_ranks_beyond_the_window_is_dropped_and_still_shows_its_rank() -> None:
    result = fused(["a", "b", "c"], ["d"], window=2)

    beyond = [c for c in result.candidates if not c.live]
    assert keys(result) == ["a", "d", "b", "c"]
    assert [(c.rrf_rank, c.drop_stage, c.drop_reason) for c in beyond] == [
        (3, Stage.FUSE, DropReason.FUSION_WINDOW),
        (4, Stage.FUSE, DropReason.FUSION_WINDOW),
    ]
    assert (result.count_in, result.count_out) == (4, 2)


def test_raw_scores_keep_their_own_names() -> None:
    result = by_key(fused(["a"], ["a", "b"]))

    assert (result["a"].dense_distance, result["a"].bm25_score) == (1.0, 1.0)
    assert (result["b"].dense_rank, result["b"].dense_distance, result["b"].bm25_score) == (None, None, 2.0)


def test_a_key_that_a_branch_returns_twice_keeps_its_first_rank_and_is_reported() -> None:
    result = fused(["a", "a", "b"], [])

    assert keys(result) == ["a", "b"]
    assert by_key(result)["a"].rrf_score == pytest.approx(1 / 61)
    assert [(m.key, m.reason) for m in result.merged] == [("a", DropReason.DUPLICATE_EVIDENCE)]


# ------------------------------------------------------------------------------------------------ the boundary


def test_case_35_a_hit_outside_the_filter_in_one_branch_is_dropped_after_fusion() -> None:
    guard = Guard(SearchFilter(DEFAULT, category="甲"), {})
    dense = hits(Branch.DENSE, ["jia"], category="甲")
    bm25 = hits(Branch.BM25, ["yi", "jia"], category="乙")[:1] + hits(Branch.BM25, ["x", "jia"], category="甲")[1:]
    result = fuse({Branch.DENSE: dense, Branch.BM25: bm25}, guard, k=K, weights=EQUAL, window=20, explain=lambda _: ())

    assert [c.evidence_key for c in result.candidates if c.live] == ["jia"]
    assert by_key(result)["yi"].drop_reason is DropReason.SCOPE_VIOLATION


def test_a_scope_violation_is_counted_and_its_text_goes_nowhere() -> None:
    foreign = Hit(chunk("secret", kb_scope="rag-eval", content="CANARY", title="CANARY"), Branch.BM25, 1, 1.0)
    found = {Branch.DENSE: hits(Branch.DENSE, ["a"]), Branch.BM25: (foreign,)}
    result = fuse(found, OPEN, k=K, weights=EQUAL, window=20, explain=lambda _: ())

    dropped = by_key(result)["secret"]
    assert result.scope_violations == 1
    assert (dropped.drop_stage, dropped.drop_reason) == (Stage.FUSE, DropReason.SCOPE_VIOLATION)
    assert (dropped.kb_scope, dropped.content, dropped.content_sha256, dropped.original_rank) == (
        "rag-eval",
        None,
        None,
        None,
    )
    assert "CANARY" not in repr(result)


def test_a_chunk_of_which_one_branch_says_another_scope_is_a_violation() -> None:
    foreign = Hit(chunk("a", kb_scope="other"), Branch.BM25, 1, 1.0)
    found = {Branch.DENSE: hits(Branch.DENSE, ["a"]), Branch.BM25: (foreign,)}
    result = fuse(found, OPEN, k=K, weights=EQUAL, window=20, explain=lambda _: ())

    assert [c.drop_reason for c in result.candidates] == [DropReason.SCOPE_VIOLATION]


def test_a_violation_beyond_the_window_is_counted_too() -> None:
    guard = Guard(SearchFilter(Scopes(frozenset({"elsewhere"}))), {})
    assert fused(["a", "b", "c"], [], guard, window=1).scope_violations == 3


def test_a_chunk_of_another_revision_or_of_an_unknown_document_is_stale() -> None:
    guard = Guard(SearchFilter(DEFAULT), {"doc-a": 2, "doc-b": 1})
    found = hits(Branch.DENSE, ["a", "b", "gone"], revision=2)
    result = fuse({Branch.DENSE: found}, guard, k=K, weights=EQUAL, window=20, explain=lambda _: ())

    assert {c.evidence_key: c.drop_reason for c in result.candidates} == {
        "a": None,
        "b": DropReason.STALE_REVISION,
        "gone": DropReason.STALE_REVISION,
    }


def test_unknown_revisions_make_nothing_stale() -> None:
    assert fused(["a"], []).count_out == 1


# ------------------------------------------------------------------------------------------------ dense mode


def test_in_dense_mode_the_dense_order_is_the_original_rank_and_no_fused_rank_exists() -> None:
    result = dense_order(hits(Branch.DENSE, ["near", "far"]), OPEN, lambda _: ())

    assert [(c.evidence_key, c.original_rank, c.dense_rank) for c in result.candidates] == [
        ("near", 1, 1),
        ("far", 2, 2),
    ]
    assert {(c.rrf_rank, c.rrf_score, c.bm25_rank) for c in result.candidates} == {(None, None, None)}
    assert dense_order((), OPEN, lambda _: ()).candidates == ()


# ------------------------------------------------------------------------------------------------ the store's engine


def rows(*scored: tuple[str, float]) -> tuple[FusedRow, ...]:
    return tuple(FusedRow(chunk(key), rank, score) for rank, (key, score) in enumerate(scored, start=1))


def test_the_servers_order_is_taken_and_its_ties_break_by_our_rule() -> None:
    answer = rows(("Y", 2 / 63), ("b", 1 / 61), ("X", 1 / 61), ("c", 1 / 62), ("a", 1 / 62))
    server = fused(["X", "a", "Y"], ["b", "c", "Y"], rows=answer)
    client = fused(["X", "a", "Y"], ["b", "c", "Y"])

    assert keys(server) == keys(client)
    assert [c.rrf_rank for c in server.candidates] == [1, 2, 3, 4, 5]
    assert [(c.dense_rank, c.bm25_rank) for c in server.candidates] == [
        (c.dense_rank, c.bm25_rank) for c in client.candidates
    ]


def test_what_the_server_did_not_return_has_no_fused_rank_and_lies_beyond_the_window() -> None:
    result = fused(["a", "b"], [], rows=rows(("a", 1 / 61)), window=1)

    assert by_key(result)["b"].rrf_rank is None
    assert by_key(result)["b"].drop_reason is DropReason.FUSION_WINDOW


def test_the_servers_engine_refuses_unequal_weights() -> None:
    with pytest.raises(InvalidSettings, match="equal weights"):
        fused(["a"], ["a"], rows=rows(("a", 1.0)), weights={Branch.DENSE: 1.0, Branch.BM25: 2.0})


def test_status_words_are_the_contracts() -> None:
    assert [s.value for s in StageStatus] == ["complete", "not_run", "unavailable", "error"]
