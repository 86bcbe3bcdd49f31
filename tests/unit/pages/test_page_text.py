"""Foreign text is shown, never interpreted."""

from __future__ import annotations

import pytest

from pages.parts.text import cell, fit, in_figure, literal, one_line, visible, width


def test_case_14_bidirectional_and_invisible_characters_are_written_out() -> None:
    assert visible("a\u202eb\u200bc\ufeffd\u00ade\x00f") == "a⟨U+202E⟩b⟨U+200B⟩c⟨U+FEFF⟩d⟨U+00AD⟩e⟨U+0000⟩f"


def test_line_feeds_tabs_and_emoji_sequences_stay() -> None:
    family = "👩\u200d👩\u200d👧"
    assert visible(f"一\n\t二 {family}") == f"一\n\t二 {family}"


def test_a_joiner_that_joins_nothing_is_written_out() -> None:
    assert visible("a\u200db") == "a⟨U+200D⟩b"


def test_a_lone_surrogate_cannot_break_the_page() -> None:
    assert visible("x\ud800y") == "x⟨U+D800⟩y"
    visible("\ud800").encode("utf-8")


def test_case_111_a_huge_text_is_cut_with_a_mark_that_counts() -> None:
    assert visible("x" * 1_000_000, 10) == "x" * 10 + "… ⟨999,990 more characters⟩"


def test_empty_text_stays_empty_and_a_label_of_it_is_a_dash() -> None:
    assert visible("") == ""
    assert literal("") == "–"


@pytest.mark.parametrize(
    "text",
    [
        "费用为 $114.22 至 $167.88，变量 $PATH 与 $HOME，$$",
        "范围 10~20 与 30~40",
        "![p](https://kb.example.invalid/p.png?q=LEAK)",
        ":red[x] :smile: :material/home: -> <b>粗</b>",
        "# heading",
    ],
)
def test_case_105_and_115_a_label_is_one_code_span_with_the_text_unchanged(text: str) -> None:
    assert literal(text) == f"`{text}`"


def test_a_label_with_backticks_is_fenced_by_a_longer_run() -> None:
    assert literal("a `` b") == "```a `` b```"
    assert literal("`x`") == "`` `x` ``"


def test_case_113_figure_text_is_escaped() -> None:
    assert in_figure("<b>粗</b> & <img src=x onerror=alert(1)>") == (
        "&lt;b&gt;粗&lt;/b&gt; &amp; &lt;img src=x onerror=alert(1)&gt;"
    )


@pytest.mark.parametrize("text", ['=HYPERLINK("https://kb.example.invalid")', "+1+1", "@SUM(1)", "-2", "\t=1", "\r=1"])
def test_case_121_a_table_cell_never_begins_a_formula(text: str) -> None:
    assert cell(text).startswith("'")


def test_a_plain_cell_is_unchanged() -> None:
    assert cell("Redis 连接池耗尽") == "Redis 连接池耗尽"


def test_one_line_folds_white_space_and_cuts_with_an_ellipsis() -> None:
    assert one_line("a\n b\t c") == "a b c"
    assert one_line("abcdef", 4) == "abc…"


def test_chinese_counts_double_when_a_label_is_fitted() -> None:
    assert width("连接a") == 5
    assert fit("连接池耗尽", 6) == "连接…"
    assert fit("short", 6) == "short"
