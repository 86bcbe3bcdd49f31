"""Filter expressions as text. The round trip through the store itself is in the contract suite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.adapters.milvus.expressions import NOTHING, admits_nothing, expression, literal, one_of
from core.errors import InvalidFilter
from core.model import Scopes, SearchFilter

ANY = Scopes(frozenset(), everything=True)
UNESCAPED = {"\\": "\\", '"': '"', "n": "\n", "r": "\r", "t": "\t"}


def read_back(text: str) -> str:
    """A string literal as Milvus' grammar reads it: no bare quote, line break or unknown escape inside."""
    assert text[0] == text[-1] == '"'
    inner, out, i = text[1:-1], [], 0
    while i < len(inner):
        assert inner[i] not in '"\n\r\t'
        if inner[i] == "\\":
            out.append(UNESCAPED[inner[i + 1]])
            i += 1
        else:
            out.append(inner[i])
        i += 1
    return "".join(out)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("", '""'),
        ("db", '"db"'),
        ('A "重点" 类', '"A \\"重点\\" 类"'),
        ("O'Brien 手册", '"O\'Brien 手册"'),
        ("a\\b", '"a\\\\b"'),
        ('\\"', '"\\\\\\""'),
        ("两\n行\r\t尾", '"两\\n行\\r\\t尾"'),
        ("👩‍👩‍👧", '"👩‍👩‍👧"'),
        ('x" or category != "', '"x\\" or category != \\""'),
        ("x' || 1==1 || '", "\"x' || 1==1 || '\""),
        ('x"] or id > 0 or category in ["', '"x\\"] or id > 0 or category in [\\""'),
    ],
)
def test_cases_28_30_and_31_a_value_becomes_one_literal(value: str, written: str) -> None:
    assert literal(value) == written


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('"\\\n\r\t')))
def test_a_literal_reads_back_as_its_value(value: str) -> None:
    assert read_back(literal(value)) == value


@pytest.mark.parametrize("value", ["\x00", "a\x08", "\x1b[0m", "\x7f", "\ud83d"])
def test_what_no_literal_can_hold_is_refused(value: str) -> None:
    with pytest.raises(InvalidFilter, match=r"U\+"):
        literal(value)


def test_one_of_sorts_and_names_each_value_once() -> None:
    assert one_of("id", ["b", 'a"', "b"]) == 'id in ["a\\"", "b"]'


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (SearchFilter(ANY), ""),
        (SearchFilter(ANY, "db"), 'category == "db"'),
        (SearchFilter(ANY, ""), 'category == ""'),
        (SearchFilter(Scopes(frozenset({"default"}))), 'kb_scope == "default"'),
        (SearchFilter(Scopes(frozenset({"b", "a"})), "db"), 'kb_scope in ["a", "b"] and category == "db"'),
        (SearchFilter(Scopes(frozenset()), "db"), NOTHING),
    ],
)
def test_cases_33_and_34_a_filter_is_written_out(where: SearchFilter, text: str) -> None:
    assert expression(where) == text


def test_case_33_only_an_empty_set_of_scopes_admits_nothing() -> None:
    assert admits_nothing(SearchFilter(Scopes(frozenset())))
    assert not admits_nothing(SearchFilter(ANY))
    assert not admits_nothing(SearchFilter(Scopes(frozenset({"default"}))))
