"""What the agent sees: four bounds, always valid JSON, every loss said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidSettings
from core.model import (
    Candidate,
    DropReason,
    Evidence,
    EvidenceStatus,
    RelevanceLevel,
    Stage,
)
from core.stages.project import Bounds, Projected, mark_projected, plain, project, to_json

ROOMY = Bounds(max_query_chars=500, max_excerpt_chars=1200, max_evidence=8, max_bytes=16_384)


def bounds(**changes: int) -> Bounds:
    values = {name: getattr(ROOMY, name) for name in ROOMY.__dataclass_fields__}
    return Bounds(**{**values, **changes})


def piece(key: str = "d#chunk-0", content: str = "text", **fields: Any) -> Evidence:
    return Evidence(
        **{
            "evidence_key": key,
            "doc_id": key.split("#")[0],
            "chunk_index": 0,
            "source": "d.md",
            "title": "标题",
            "breadcrumb": "a > b",
            "content": content,
            **fields,
        }
    )


def projected(*pieces: Evidence, limits: Bounds = ROOMY, query: str = "q", **options: Any) -> Projected:
    values: dict[str, Any] = {
        "status": EvidenceStatus.READY if pieces else EvidenceStatus.NO_EVIDENCE,
        "level": RelevanceLevel.PRECISE if pieces else None,
        "query": query,
        "tool_call_id": "call_1",
        "bounds": limits,
    }
    return project(pieces, **{**values, **options})


def size(result: Projected) -> int:
    return len(to_json(result.tool_result).encode())


def test_the_agent_sees_these_fields_and_nothing_else() -> None:
    result = projected(piece())

    assert json.loads(to_json(result.tool_result)) == {
        "evidence_status": "READY",
        "tool_call_id": "call_1",
        "query": "q",
        "evidence": [
            {"document_id": "d#chunk-0", "source": "d.md", "title": "标题", "breadcrumb": "a > b", "excerpt": "text"}
        ],
        "relevance_level": "PRECISE",
        "truncated": False,
        "returned_count": 1,
    }
    assert not result.report.truncated
    assert (result.count_in, result.count_out) == (1, 1)


def test_what_is_measured_is_what_is_printed() -> None:
    result = projected(piece(content="正文"))
    printed = json.dumps(plain(result.tool_result), ensure_ascii=False, indent=2)

    assert to_json(result.tool_result) == printed
    assert result.report.bytes_after == len(printed.encode())


# ------------------------------------------------------------------------------------------------ the four bounds


def test_a_long_query_is_cut_and_said_to_be() -> None:
    result = projected(piece(), query="问" * 501)

    assert result.tool_result.query == "问" * 500
    assert result.tool_result.truncated
    assert (result.report.query_chars_before, result.report.query_chars_after) == (501, 500)


def test_a_long_excerpt_is_a_verbatim_beginning() -> None:
    content = "字" * 1500
    result = projected(piece(content=content))
    (item,) = result.report.items

    assert result.tool_result.evidence[0].excerpt == content[:1200]
    assert result.tool_result.truncated
    assert (item.kept, item.bound, item.chars_before, item.chars_after) == (True, "max_excerpt_chars", 1500, 1200)
    assert item.bytes_before - item.bytes_after == 300 * 3


def test_an_excerpt_is_not_cut_inside_a_grapheme() -> None:
    result = projected(piece(content="ab👨‍👩‍👧‍👦cd"), limits=bounds(max_excerpt_chars=5))
    assert result.tool_result.evidence[0].excerpt == "ab"


def test_surplus_evidence_goes_from_the_end() -> None:
    result = projected(*(piece(f"d{i}#chunk-0") for i in range(10)))

    assert [e.document_id for e in result.tool_result.evidence] == [f"d{i}#chunk-0" for i in range(8)]
    assert [i.drop_reason for i in result.report.items[8:]] == [DropReason.PROJECTION_LIMIT] * 2
    assert result.tool_result.returned_count == 8
    assert result.tool_result.truncated


def test_five_full_chinese_excerpts_exceed_the_bytes_and_the_last_goes() -> None:
    result = projected(*(piece(f"d{i}#chunk-0", "字" * 1200) for i in range(5)))

    assert len(result.tool_result.evidence) == 4
    assert result.report.items[4].drop_reason is DropReason.PROJECTION_BYTES
    assert size(result) <= 16_384
    assert result.tool_result.truncated


def test_the_last_piece_left_is_shortened_to_the_byte() -> None:
    result = projected(piece(content="字" * 1000), piece("e#chunk-0"), limits=bounds(max_bytes=700))
    excerpt = result.tool_result.evidence[0].excerpt

    assert excerpt == "字" * len(excerpt)
    assert 700 - 3 < size(result) + 1 <= 700 + 1  # one more character of three bytes would not fit
    assert [i.bound for i in result.report.items] == ["max_bytes", "max_bytes"]
    assert result.tool_result.evidence_status is EvidenceStatus.READY


def test_when_nothing_fits_the_answer_is_an_honest_no_evidence_without_a_level() -> None:
    result = projected(piece(title="t" * 900), limits=bounds(max_bytes=500))

    assert result.tool_result.evidence_status is EvidenceStatus.NO_EVIDENCE
    assert (result.tool_result.evidence, result.tool_result.relevance_level) == ((), None)
    assert (result.tool_result.returned_count, result.tool_result.truncated) == (0, True)
    assert result.report.items[0].drop_reason is DropReason.PROJECTION_BYTES


def test_where_not_even_the_query_fits_it_is_shortened_too() -> None:
    result = projected(piece(), query="问" * 400, limits=bounds(max_bytes=256))

    assert size(result) <= 256
    assert result.tool_result.query == "问" * len(result.tool_result.query)
    assert 0 < len(result.tool_result.query) < 400


@pytest.mark.parametrize("budget", [0, 1, 2, 10, 64, 65, 66, 67, 500, 4096])
def test_case_67_json_is_whole_within_the_budget_or_clearly_refused(budget: int) -> None:
    pieces = [piece(f"文档{i}#chunk-0", f"第{i}条证据，" * 40) for i in range(20)]
    if budget < 100:
        with pytest.raises(InvalidSettings, match=rf"projection\.max_bytes: {budget} is too small"):
            projected(*pieces, limits=bounds(max_bytes=budget))
        return
    result = projected(*pieces, limits=bounds(max_bytes=budget))

    read = json.loads(to_json(result.tool_result))
    assert size(result) <= budget
    assert read["truncated"] is True
    assert read["returned_count"] == len(read["evidence"])
    kept = [e["document_id"] for e in read["evidence"]]
    assert kept == [p.evidence_key for p in pieces][: len(kept)]
    assert sum(not item.kept for item in result.report.items) == 20 - len(kept)


# ------------------------------------------------------------------------------------------------ identity


def test_the_same_piece_twice_is_one_and_sets_truncated() -> None:
    result = projected(piece("d#chunk-0"), piece("d#chunk-0"), piece("d#chunk-1"))

    assert [e.document_id for e in result.tool_result.evidence] == ["d#chunk-0", "d#chunk-1"]
    assert result.report.items[1].drop_reason is DropReason.PROJECTION_DUPLICATE
    assert result.tool_result.truncated


def test_without_a_key_the_identity_is_the_chunk_and_else_the_ordinal() -> None:
    result = projected(
        piece("", doc_id="d", chunk_index=3),
        piece("", doc_id="d", chunk_index=3),
        piece("", doc_id="", chunk_index=None),
    )
    assert [e.document_id for e in result.tool_result.evidence] == ["d#chunk-3", "rank:3"]


def test_case_69_ids_are_strings() -> None:
    keys = ["vector:457901496685504801", "vector:457901496685504802", "vector:9007199254740993"]
    read = json.loads(to_json(projected(*(piece(k) for k in keys)).tool_result))

    assert [e["document_id"] for e in read["evidence"]] == keys
    assert all(isinstance(e["document_id"], str) for e in read["evidence"])


# ------------------------------------------------------------------------------------------------ other states


def test_an_error_carries_no_evidence_and_no_level() -> None:
    result = projected(piece(), status=EvidenceStatus.ERROR)

    assert result.tool_result.evidence_status is EvidenceStatus.ERROR
    assert (result.tool_result.evidence, result.tool_result.relevance_level) == ((), None)


def test_nothing_found_is_no_loss() -> None:
    result = projected()
    assert result.tool_result.evidence_status is EvidenceStatus.NO_EVIDENCE
    assert not result.tool_result.truncated


def test_half_characters_and_controls_make_no_invalid_json() -> None:
    result = projected(piece(content="a\ud800b\x00\u202ec"), query="\udfff")

    text = to_json(result.tool_result).encode("utf-8").decode("utf-8")
    assert json.loads(text)["evidence"][0]["excerpt"] == "a\ufffdb\x00\u202ec"
    assert json.loads(text)["query"] == "\ufffd"


texts = st.text(st.characters(codec="utf-8") | st.sampled_from('字👨‍👩‍👧‍👦e\u0301\x00"\\\n'), max_size=300)


@given(st.lists(st.tuples(texts, texts), max_size=12), texts, st.integers(256, 3000), st.integers(1, 200))
def test_no_input_breaks_a_bound_and_no_loss_is_silent(
    pieces: list[tuple[str, str]], query: str, max_bytes: int, max_excerpt: int
) -> None:
    evidence = [piece(f"d{i}#chunk-0", content, title=title) for i, (title, content) in enumerate(pieces)]
    limits = bounds(max_bytes=max_bytes, max_excerpt_chars=max_excerpt, max_query_chars=50)
    result = projected(*evidence, limits=limits, query=query)
    tool = result.tool_result

    assert size(result) == result.report.bytes_after <= max_bytes
    assert len(tool.query) <= 50
    assert len(tool.evidence) == tool.returned_count <= 8
    by_key = {e.evidence_key: e for e in evidence}
    for shown in tool.evidence:
        assert len(shown.excerpt) <= max_excerpt
        assert by_key[shown.document_id].content.startswith(shown.excerpt)
    lossless = (
        tool.query == query
        and len(tool.evidence) == len(evidence)
        and all(by_key[e.document_id].content == e.excerpt for e in tool.evidence)
    )
    assert tool.truncated is not lossless
    assert (tool.evidence_status is EvidenceStatus.READY) == bool(tool.evidence)
    assert bool(tool.relevance_level) == bool(tool.evidence)


# ------------------------------------------------------------------------------------------------ marks on candidates


def test_candidates_carry_their_place_or_the_bound_that_took_it() -> None:
    candidates = [
        Candidate("a#chunk-0", "a", evidence_rank=1),
        Candidate("b#chunk-0", "b", evidence_rank=2, drop_stage=Stage.PACK, drop_reason=DropReason.PACK_BUDGET),
        Candidate("c#chunk-0", "c", evidence_rank=3),
        Candidate("z#chunk-0", "z", drop_stage=Stage.EVIDENCE, drop_reason=DropReason.RETURN_LIMIT),
    ]
    result = projected(*(piece(f"{k}#chunk-0") for k in "abc"), limits=bounds(max_evidence=2))
    first, second, third, fourth = mark_projected(candidates, result.report)

    assert (first.projection_rank, first.drop_reason) == (1, None)
    assert (second.projection_rank, second.drop_reason) == (2, DropReason.PACK_BUDGET)  # out of the pack, yet shown
    assert (third.projection_rank, third.drop_stage, third.drop_reason) == (
        None,
        Stage.PROJECT,
        DropReason.PROJECTION_LIMIT,
    )
    assert fourth is candidates[3]
