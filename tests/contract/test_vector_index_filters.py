"""Filters are boundaries: every store reads them alike, whatever a value holds."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from core.errors import InvalidFilter, RagError
from tests.contract.generations import EVERYWHERE, Build, Index, T, keys, row, within

TRICKY = [
    'A "重点" 类',
    "O'Brien 手册",
    "“中文引号”",
    'it\'s "both"',
    "back\\slash",
    'ends with \\"',
    "tab\there",
    "两\n行",
    "emoji 👩‍👩‍👧 and {x} 100% ${y}",
    'x" or category != "',
    "x' || 1==1 || '",
    'x"] or id > 0 or category in ["',
    "null",
    "*",
]


def test_cases_28_and_31_each_category_finds_exactly_its_own_document(index: Index, build: Build) -> None:
    built = build([row(f"d{i}", "redis", category=name) for i, name in enumerate(TRICKY)])
    for i, name in enumerate(TRICKY):
        where = within("default", category=name)
        assert keys(index.search_dense(built, np.ones(4), where, 50, timeout=T)) == [f"d{i}#chunk-0"], name
        assert keys(index.search_bm25(built, "redis", where, 50, timeout=T)) == [f"d{i}#chunk-0"], name


@pytest.mark.parametrize("value", ['x" or category != "', "x' || 1==1 || '", 'x"] or id > 0 or category in ["'])
def test_case_30_an_expression_inside_a_value_widens_nothing(index: Index, build: Build, value: str) -> None:
    built = build([row("a", "redis", category="db"), row("b", "redis", category="mq")])
    for where in (within("default", category=value), within(value), within(value, "other")):
        assert index.search_dense(built, np.ones(4), where, 50, timeout=T).hits == ()
        assert index.search_bm25(built, "redis", where, 50, timeout=T).hits == ()
        assert index.search_hybrid(built, np.ones(4), "redis", where, 50, window=50, rrf_k=60, timeout=T) == ()
    assert index.fetch(built, [value], timeout=T) == {}
    with contextlib.suppress(RagError):  # refused or nothing of that name: in no case anything is dropped
        index.drop(value, timeout=T)
    assert index.count(built, timeout=T) == 2


def test_a_filter_value_with_control_characters_is_refused(index: Index, build: Build) -> None:
    built = build([row("a")])
    with pytest.raises(InvalidFilter, match=r"U\+0000"):
        index.search_dense(built, np.ones(4), within("default", category="a\x00"), 5, timeout=T)


def test_case_33_no_scope_at_all_admits_nothing(index: Index, build: Build) -> None:
    built = build([row("a", "redis")])
    assert index.search_dense(built, np.ones(4), within(), 5, timeout=T).hits == ()
    assert index.search_bm25(built, "redis", within(), 5, timeout=T).hits == ()
    assert index.search_hybrid(built, np.ones(4), "redis", within(), 5, window=5, rrf_k=60, timeout=T) == ()


def test_case_34_the_empty_category_is_one_of_its_own(index: Index, build: Build) -> None:
    built = build([row("with", "redis", category="甲"), row("without", "redis", category="")])

    def found(category: str | None) -> set[str]:
        return set(keys(index.search_bm25(built, "redis", within("default", category=category), 5, timeout=T)))

    assert found("") == {"without#chunk-0"}
    assert found("甲") == {"with#chunk-0"}
    assert found(None) == {"with#chunk-0", "without#chunk-0"}


def test_case_35_a_filter_reaches_every_branch_and_the_stores_own_fusion(index: Index, build: Build) -> None:
    built = build([row("jia", "zeta 77", category="甲"), row("yi", "zeta 77", category="乙")])
    where = within("default", category="甲")
    assert keys(index.search_dense(built, np.ones(4), where, 20, timeout=T)) == ["jia#chunk-0"]
    assert keys(index.search_bm25(built, "zeta 77", where, 20, timeout=T)) == ["jia#chunk-0"]
    fused = index.search_hybrid(built, np.ones(4), "zeta 77", where, 20, window=40, rrf_k=60, timeout=T)
    assert [r.chunk.evidence_key for r in fused] == ["jia#chunk-0"]


def test_scopes_admit_one_several_or_all(index: Index, build: Build) -> None:
    built = build([row(s, "redis", kb_scope=s) for s in ("default", "ops", "rag-eval")])

    def found(where: Any) -> set[str]:
        return {hit.chunk.kb_scope for hit in index.search_dense(built, np.ones(4), where, 20, timeout=T).hits}

    assert found(within("ops")) == {"ops"}
    assert found(within("default", "ops")) == {"default", "ops"}
    assert found(EVERYWHERE) == {"default", "ops", "rag-eval"}


def test_case_46_a_selective_filter_returns_all_that_match(index: Index, build: Build) -> None:
    common = [row(f"c{i:03}", "redis", (1, i / 1000, 0, 0), category="COMMON") for i in range(300)]
    rare = [row(f"r{i}", "redis", (-9, i, 0, 0), category="RARE") for i in range(5)]
    built = build([*common, *rare])
    where = within("default", category="RARE")
    wanted = {f"r{i}#chunk-0" for i in range(5)}

    assert set(keys(index.search_dense(built, np.array([1, 0, 0, 0]), where, 5, timeout=T))) == wanted
    assert set(keys(index.search_bm25(built, "redis", where, 5, timeout=T))) == wanted
