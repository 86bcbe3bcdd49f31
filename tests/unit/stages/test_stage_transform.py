"""Queries that are refused, normalised and explained."""

from __future__ import annotations

import pytest

from core.errors import InvalidQuery, StoreUnavailable
from core.model import Chunk, L0Match, Scopes, StageStatus
from core.stages.transform import clean_query, explainer, rewrite, transform
from tests.unit.lookup_world import FixedL0

DEFAULT = Scopes(frozenset({"default"}))


@pytest.mark.parametrize(
    "query", ["+", "???", "。，！", ":) (", '"', " ", "\u3000", "", "\t\n", "🔥", "👨‍👩‍👧‍👦🔥", "\u200b", "\x00"]
)
def test_case_36_a_query_without_a_single_token_is_refused_with_a_hint(query: str) -> None:
    with pytest.raises(InvalidQuery, match="write"):
        clean_query(query)


@pytest.mark.parametrize("query", ["介绍一下+断路器", "AND OR NOT", "E-1024", "库", "a", "redis 🔥 down", "*:* (x"])
def test_case_36_operators_are_text_and_words_beside_symbols_are_searched(query: str) -> None:
    assert clean_query(query) == query


def test_case_38_full_width_forms_white_space_and_invisible_characters_are_folded() -> None:
    assert clean_query("１１０ｋＶ　母线（Ⅰ段）") == "110kV 母线(I段)"
    assert clean_query("  断\u200b路\ufeff器\n\t跳闸 ") == "断路器 跳闸"


def test_the_length_is_counted_after_normalising() -> None:
    assert clean_query("x" * 8000) == "x" * 8000
    assert clean_query("redis" + " " * 9000) == "redis"
    with pytest.raises(InvalidQuery, match="8,001 characters, at most 8,000"):
        clean_query("x" * 8001)
    with pytest.raises(InvalidQuery, match="at most 8,000"):
        clean_query("x" * 100_000)


@pytest.mark.parametrize("query", ["redis \ud800", "\udfff", "a\ud83d\ude00"])
def test_half_a_character_is_refused_with_its_place(query: str) -> None:
    with pytest.raises(InvalidQuery, match=r"half a character \(U\+D"):
        clean_query(query)


def test_the_message_can_always_be_printed() -> None:
    with pytest.raises(InvalidQuery) as caught:
        clean_query("x \ud800")
    str(caught.value).encode("utf-8")


# ------------------------------------------------------------------------------------------------ the plan


def test_without_an_alias_the_rewritten_query_is_the_normalised_one() -> None:
    plan = transform("ＯＯＭ", DEFAULT, FixedL0(L0Match(category_filter="jvm", domain_hints=("jvm",))))

    assert (plan.original_query, plan.normalized_query, plan.rewritten_query) == ("ＯＯＭ", "OOM", "OOM")
    assert plan.l0.category_filter == "jvm"
    assert plan.l0_status is StageStatus.COMPLETE


def test_each_matched_alias_adds_its_canonical_term_once() -> None:
    plan = transform("OOM 了", DEFAULT, FixedL0(L0Match(canonical_terms=("OutOfMemory", "OutOfMemory"))))
    assert plan.rewritten_query == "OOM 了 OutOfMemory"


def test_a_term_that_the_query_already_holds_is_not_added_again() -> None:
    assert rewrite("OutOfMemory on redis", ("OutOfMemory", "kafka")) == "OutOfMemory on redis kafka"
    assert rewrite("redisson", ("redis",)) == "redisson redis"


def test_a_missing_document_index_is_unavailable_and_not_an_empty_match() -> None:
    plan = transform("redis", DEFAULT, None, l0_reason="the database is away")

    assert (plan.l0_status, plan.reason) == (StageStatus.UNAVAILABLE, "the database is away")
    assert plan.l0.category_filter is None
    assert plan.rewritten_query == "redis"


def test_a_failing_document_index_costs_the_filter_and_not_the_lookup() -> None:
    class Broken:
        def match(self, text: str, scopes: Scopes) -> L0Match:
            raise StoreUnavailable(f"gone: {text} {scopes}")

    plan = transform("redis", DEFAULT, Broken())
    assert (plan.l0_status, plan.reason, plan.l0) == (StageStatus.ERROR, "gone: redis default", L0Match())


# ------------------------------------------------------------------------------------------------ explaining


def chunk(**fields: str) -> Chunk:
    return Chunk(**{"evidence_key": "k", "doc_id": "d", "chunk_index": 0, "content": "text", **fields})  # type: ignore[arg-type]  # all fields given here are strings


def test_a_chunk_in_a_named_domain_or_document_says_so() -> None:
    explain = explainer(L0Match(domain_hints=("redis",), l0_doc_ids=("named",)))

    assert explain(chunk(category="redis")) == ("l0_domain_overlap",)
    assert explain(chunk(doc_id="named")) == ("l0_domain_overlap",)
    assert explain(chunk(category="kafka")) == ()


def test_a_chunk_that_holds_an_aliass_canonical_term_says_so() -> None:
    explain = explainer(L0Match(aliases=(("OOM", "OutOfMemory"),)))

    assert explain(chunk(content="java.lang.OutOfMemoryError")) == ("alias:OOM→OutOfMemory",)
    assert explain(chunk(content="disk full")) == ()
