"""Post-processing in its order: merge, near-copies, document limit, return limit; and the decision to fall back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.analysis import near_copy_key
from core.model import Candidate, DropReason, FallbackReason, Stage
from core.stages.evidence import Selected, by_document, copy_keys, fallback_reason, replaced, select


def candidate(key: str, content: str = "", doc: str = "", **fields: Any) -> Candidate:
    return Candidate(
        **{
            "evidence_key": key,
            "doc_id": doc or key,
            "chunk_index": 0,
            "content": content or f"content of {key}",
            "quality_score": 0.5,
            "hit_reasons": ("dense",),
            **fields,
        }
    )


def chosen(*candidates: Candidate, per_document: int = 2, n: int = 5) -> Selected:
    return select(candidates, max_chunks_per_document=per_document, return_n=n)


def keys(result: Selected) -> list[str]:
    return [piece.evidence_key for piece in result.evidence]


def reasons(result: Selected) -> dict[str, DropReason]:
    return {drop.key: drop.reason for drop in result.dropped}


def test_case_57_copies_are_removed_before_the_cut() -> None:
    same = "the same text"
    result = chosen(
        candidate("A", same), candidate("A1", same), candidate("A2", same), candidate("B"), candidate("C"), n=3
    )

    assert keys(result) == ["A", "B", "C"]
    assert reasons(result) == {"A1": DropReason.DUPLICATE_CONTENT, "A2": DropReason.DUPLICATE_CONTENT}
    assert result.counts == {
        "in": 5,
        "duplicate_evidence": 0,
        "duplicate_content": 2,
        "document_limit": 0,
        "return_limit": 0,
        "out": 3,
        "documents": 3,
    }


def test_case_56_copies_that_differ_in_case_space_width_punctuation_or_a_last_date_leave_room_for_another_source() -> (
    None
):
    result = chosen(
        candidate("dup1", "请于 Friday 前完成 SF6 气体检测。"),
        candidate("dup2", "请于 friday 前完成  sf6 气体检测。"),
        candidate("dup3", "请于Friday前完成SF６气体检测．"),
        candidate("dup4", "请于 Friday 前完成 SF6 气体检测。（2026-01-01）"),
        candidate("other", "SF6 气体检测使用露点仪，量程见铭牌。"),
        n=3,
    )

    assert keys(result) == ["dup1", "other"]
    assert [(d.key, d.duplicate_of) for d in result.dropped] == [
        ("dup2", "dup1"),
        ("dup3", "dup1"),
        ("dup4", "dup1"),
    ]


def test_case_61_identical_text_in_two_documents_is_one_row_that_names_both() -> None:
    result = chosen(
        candidate("v2#chunk-0", "定值单须双人核对。SAMEBODY", "v2", category="现行"),
        candidate("v1#chunk-0", "定值单须双人核对。SAMEBODY", "v1", category="旧版"),
    )

    (piece,) = result.evidence
    assert (piece.doc_id, piece.also_in) == ("v2", ("v1",))
    assert [(m.key, m.kept, m.reason) for m in result.merged] == [
        ("v1#chunk-0", "v2#chunk-0", DropReason.DUPLICATE_CONTENT)
    ]


def test_case_61_under_the_filter_that_admits_one_of_them_that_one_is_returned() -> None:
    outside = candidate(
        "v1", "SAMEBODY", category="旧版", drop_stage=Stage.FUSE, drop_reason=DropReason.SCOPE_VIOLATION
    )
    result = chosen(outside, candidate("v2", "SAMEBODY", category="现行"))

    assert keys(result) == ["v2"]
    assert result.evidence[0].also_in == ()


def test_a_copy_within_the_same_document_is_no_second_source() -> None:
    (piece,) = chosen(candidate("d#chunk-0", "x y z", "d"), candidate("d#chunk-1", "x y z", "d")).evidence
    assert piece.also_in == ()


def test_case_59_one_document_gives_at_most_two_pieces_and_sources_are_counted_by_document() -> None:
    sections = [candidate(f"one#chunk-{i}", doc="one") for i in range(5)]
    result = chosen(*sections, candidate("second#chunk-0", doc="second"))

    assert keys(result) == ["one#chunk-0", "one#chunk-1", "second#chunk-0"]
    assert result.counts["documents"] == 2
    assert result.counts["document_limit"] == 3
    grouped = by_document(result.evidence)
    assert {doc: [e.evidence_key for e in pieces] for doc, pieces in grouped.items()} == {
        "one": ["one#chunk-0", "one#chunk-1"],
        "second": ["second#chunk-0"],
    }


def test_chunks_without_a_document_are_not_taken_for_one_document() -> None:
    unknown = [Candidate(f"vector:{i}", "", content=f"text {i}") for i in range(4)]
    assert len(chosen(*unknown, per_document=1).evidence) == 4


def test_the_return_limit_comes_last_and_names_what_it_cut() -> None:
    result = chosen(*(candidate(f"k{i}") for i in range(7)), n=5)

    assert keys(result) == ["k0", "k1", "k2", "k3", "k4"]
    assert reasons(result) == {"k5": DropReason.RETURN_LIMIT, "k6": DropReason.RETURN_LIMIT}
    assert [c.evidence_rank for c in result.candidates] == [1, 2, 3, 4, 5, None, None]
    assert {c.drop_stage for c in result.candidates if not c.live} == {Stage.EVIDENCE}


def test_a_copy_far_down_is_a_copy_and_no_victim_of_the_return_limit() -> None:
    result = chosen(candidate("a", "same"), candidate("b"), candidate("c"), candidate("late", "Same!"), n=2)
    assert reasons(result) == {"c": DropReason.RETURN_LIMIT, "late": DropReason.DUPLICATE_CONTENT}


def test_equal_keys_are_merged_reasons_united_and_gaps_filled() -> None:
    result = chosen(
        candidate("a", original_rank=1, breadcrumb=""),
        candidate("b", original_rank=2),
        candidate("a", original_rank=3, breadcrumb="x > y", hit_reasons=("bm25", "dense")),
    )

    assert keys(result) == ["a", "b"]
    first = result.evidence[0]
    assert (first.breadcrumb, first.hit_reasons) == ("x > y", ("dense", "bm25"))
    assert [(m.key, m.kept, m.reason) for m in result.merged] == [("a", "a", DropReason.DUPLICATE_EVIDENCE)]
    assert (result.count_in, result.count_out, result.counts["duplicate_evidence"]) == (3, 2, 1)


def test_every_candidate_is_kept_or_has_a_reason() -> None:
    pool = [candidate(f"d{i % 3}#chunk-{i}", f"text {i % 7}", f"d{i % 3}") for i in range(20)]
    result = chosen(*pool, n=3)

    assert len(result.candidates) == 20
    assert result.count_in == result.count_out + len(result.dropped) == 20
    assert all(c.live == (c.evidence_rank is not None) for c in result.candidates)


def test_quality_does_not_change_the_order() -> None:
    assert keys(chosen(candidate("weak", quality_score=0.1), candidate("strong", quality_score=0.9))) == [
        "weak",
        "strong",
    ]


def test_empty_texts_are_not_copies_of_each_other() -> None:
    blank = [Candidate(f"k{i}", f"d{i}", content="") for i in range(3)]
    assert len(chosen(*blank).evidence) == 3


def test_nothing_in_nothing_out() -> None:
    result = chosen()
    assert (result.evidence, result.candidates, result.count_in, result.count_out) == ((), (), 0, 0)


# ------------------------------------------------------------------------------------------------ finding copies


bodies = st.sampled_from(
    ["連接池耗盡", "连接池耗尽", "Redis pool", "REDIS  POOL", "ＲＥＤＩＳ", "e\u0301té", "2026-01-02", "①②", "!", " "]
)


@given(st.lists(st.lists(bodies, max_size=30).map("".join), max_size=12))
def test_the_short_way_to_copies_finds_the_same_as_folding_every_text(contents: list[str]) -> None:
    whole = [near_copy_key(text) for text in contents]
    found = copy_keys(contents)

    for i, key in enumerate(whole):
        for j in range(i):
            assert (found[i] == found[j] != "") == (key == whole[j] != "")


def test_long_copies_with_other_spacing_width_and_script_are_found() -> None:
    text = "連接池耗盡時，先看應用端的連接數。" * 20
    other = "连接池耗尽时,先看应用端的连接数." * 20
    spaced = "   " + " ".join(text)
    keys_ = copy_keys([text, "另一段文字" * 40, other, spaced])

    assert keys_[0] == keys_[2] == keys_[3] != ""
    assert keys_[1] == ""


# ------------------------------------------------------------------------------------------------ fallback


@pytest.mark.parametrize(
    ("category", "candidates", "low", "expected"),
    [
        ("redis", 4, True, FallbackReason.LOW_QUALITY),
        ("redis", 0, True, FallbackReason.NO_EVIDENCE),
        ("redis", 4, False, None),
        (None, 4, True, None),
        (None, 0, True, None),
        ("", 0, True, FallbackReason.NO_EVIDENCE),  # "" is the category of documents without one: a filter like any
    ],
)
def test_only_a_filtered_attempt_of_low_quality_falls_back(
    category: str | None, candidates: int, low: bool, expected: FallbackReason | None
) -> None:
    assert fallback_reason(category_filter=category, candidates=candidates, low_quality=low) is expected


def test_what_had_survived_a_replaced_attempt_leaves_with_it_and_keeps_its_rank() -> None:
    result = chosen(candidate("a"), candidate("b"), n=1)
    first, second = replaced(result.candidates)

    assert (first.drop_stage, first.drop_reason, first.evidence_rank) == (
        Stage.EVIDENCE,
        DropReason.ATTEMPT_REPLACED,
        1,
    )
    assert second.drop_reason is DropReason.RETURN_LIMIT
