"""Values of filters where they enter: one printable line, refused rather than changed into another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidFilter
from core.filters import clean_filter_value, clean_scope, parse_scopes
from core.knowledge.frontmatter import BadFrontMatter, parse_front_matter
from core.model import Scopes


@pytest.mark.parametrize("value", ['A "重点" 类', "O'Brien 手册", "“中文引号”", 'it\'s "both"', "a\\b", "x || 1==1"])
def test_case_28_quotes_and_operators_are_ordinary_characters_of_a_name(value: str) -> None:
    assert clean_filter_value(value, "category") == value


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("第一行\n第二行", "U+000A"),
        ("左\t右", "U+0009"),
        ("a\x00b", "U+0000"),
        ("a\u200bb", "U+200B"),
        ("a\u202eb", "U+202E"),
        ("half \ud800", "U+D800"),
        ("a\u2028b", "U+2028"),
    ],
)
def test_case_31_line_breaks_tabs_and_invisible_characters_are_refused_by_their_code(value: str, code: str) -> None:
    with pytest.raises(InvalidFilter, match=code.replace("+", r"\+")):
        clean_filter_value(value, "category")


@pytest.mark.parametrize("category", ["|\n  第一行\n  第二行", '"左\\t右"'])
def test_case_31_a_document_with_such_a_category_is_refused_with_its_line(category: str) -> None:
    with pytest.raises(BadFrontMatter, match="category") as caught:
        parse_front_matter(f"---\ntitle: t\ncategory: {category}\n---\n\nNEWLINE-CAT\n")
    assert caught.value.line == 3


@pytest.mark.parametrize("line", ["", 'category: ""\n', "category:\n", "category: null\n", "category: '  '\n"])
def test_case_34_missing_empty_and_null_are_one_category(line: str) -> None:
    assert parse_front_matter(f"---\ntitle: t\n{line}---\n\nNOCAT\n").category == ""


def test_a_value_is_stripped_composed_and_bounded() -> None:
    assert clean_filter_value("  cafe\u0301 ", "category") == "café"
    assert clean_filter_value("x" * 64, "category") == "x" * 64
    with pytest.raises(InvalidFilter, match="65 characters, at most 64"):
        clean_filter_value("x" * 65, "category")


def test_case_33_what_an_empty_choice_means_is_fixed() -> None:
    default = Scopes(frozenset({"default"}))
    assert [parse_scopes(empty) for empty in (None, "", [""], ["  "])] == [default] * 4
    assert parse_scopes([]) == Scopes(frozenset())
    assert not parse_scopes([]).admits("default")


def test_all_scopes_are_an_explicit_choice_that_stands_alone() -> None:
    assert parse_scopes("*").admits("anything")
    assert parse_scopes(["*"]).everything
    with pytest.raises(InvalidFilter, match="stands alone"):
        parse_scopes(["*", "ops"])
    with pytest.raises(InvalidFilter, match="cannot be the scope of a document"):
        clean_scope("*")


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@given(st.sets(names, min_size=1, max_size=4))
def test_recorded_scopes_read_back_as_the_same_boundary(values: set[str]) -> None:
    try:
        scopes = parse_scopes(values)
    except InvalidFilter:
        return
    assert parse_scopes(str(scopes).split(",")) == scopes


def test_a_comma_would_read_back_as_two_scopes_and_is_refused() -> None:
    with pytest.raises(InvalidFilter, match="comma"):
        parse_scopes("ops,default")
