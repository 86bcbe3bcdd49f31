"""Markdown as a tree: what is a heading, a fence, a table, and what only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given

from core.knowledge.outline import Block, Kind, Section, clean_heading, outline
from tests.unit.knowledge.markdown_samples import MARKDOWN


def headings(section: Section, depth: int = 0) -> list[str]:
    """The tree, one heading a line, two blanks a level."""
    lines: list[str] = []
    for child in section.children:
        lines += [f"{'  ' * depth}{child.heading}", *headings(child, depth + 1)]
    return lines


def blocks(section: Section) -> list[Block]:
    return [*section.blocks, *(block for child in section.children for block in blocks(child))]


def kinds(body: str) -> list[tuple[Kind, str]]:
    return [(block.kind, body[block.start : block.end].strip("\n")) for block in blocks(outline(body))]


def test_headings_form_a_tree_by_their_levels() -> None:
    body = "# A\n\nx\n\n## B\n\n#### C\n\n## D\n\n# E\n"
    assert headings(outline(body)) == ["A", "  B", "    C", "  D", "E"]


def test_a_level_that_is_left_out_or_comes_first_is_no_fault() -> None:
    assert headings(outline("### C\n\n# A\n\n### C2\n\n## B")) == ["C", "A", "  C2", "  B"]


def test_an_empty_body_is_an_empty_tree() -> None:
    tree = outline("")
    assert (tree.level, tree.heading, tree.start, tree.end, tree.children) == (0, "", 0, 0, [])


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("# 标题", "标题"),
        ("   ## 标题 ##", "标题"),
        ("#\t标题", "标题"),
        ("# C# 与 F#", "C# 与 F#"),
        ("# [文档](https://kb.example.invalid) 与 `code` **粗**", "文档 与 code 粗"),
        ('### `mode` <span class="mark">从 v6.2 引入</span> {#mode}', "mode 从 v6.2 引入"),
        ("# 扩容 <NODE_POOL>", "扩容 <NODE_POOL>"),
        ("# <svg onload=alert(3)>", "<svg onload=alert(3)>"),
        ("标题\n===", "标题"),
        ("标题\n---", "标题"),
        ("甲 | 乙\n---", "甲 | 乙"),
    ],
)
def test_a_heading_is_read_as_its_words(line: str, heading: str) -> None:
    assert headings(outline(f"{line}\n\n文\n")) == [heading]


@pytest.mark.parametrize(
    "text",
    [
        "#标题",
        "####### 七级",
        "    # 缩进的代码",
        "\\# 转义",
        "# ",
        "# \u200b",
        "#",
        "# " + "长" * 201,
        "# a" + " " * 2000 + "b",
        "- 项\n---",
        "> 引文\n===",
        "第一行\n第二行\n---",
        "文\n\n---\n\n文",
        "| a |\n| --- |",
        "```\n# 注释\n```",
        "~~~~sh\n```\n# 注释\n```\n# 注释\n~~~~",
        "- 项\n\n    ```sh\n    # 注释\n# 注释\n    ```",
        "```sh\n# 没有结束\n\n# 注释",
        "<!--\n# 注释\n-->",
        "  <!-- a -->\n",
    ],
)
def test_case_19_what_only_looks_like_a_heading_is_text(text: str) -> None:
    tree = outline(text)
    assert headings(tree) == []
    assert "".join(text[b.start : b.end] for b in tree.blocks) == text


@pytest.mark.parametrize("opening", ["<!--", "    ```sh", "```a`b"])
def test_an_opening_that_is_never_closed_or_is_none_hides_no_heading(opening: str) -> None:
    assert headings(outline(f"{opening}\n\n# 后面的标题\n\n文")) == ["后面的标题"]


def test_text_fences_and_tables_are_told_apart_and_blank_lines_end_a_paragraph() -> None:
    body = "一\n二\n\n三\n```py\nx\n\n# y\n```\n四\n| a | b |\n|:--|--:|\n| 1 | 2 |\n\n五 | 六\n"
    assert kinds(body) == [
        (Kind.TEXT, "一\n二"),
        (Kind.TEXT, "三"),
        (Kind.FENCE, "```py\nx\n\n# y\n```"),
        (Kind.TEXT, "四"),
        (Kind.TABLE, "| a | b |\n|:--|--:|\n| 1 | 2 |"),
        (Kind.TEXT, "五 | 六"),
    ]


@pytest.mark.parametrize("body", ["    ```sh\n    ls\n    ```", "  ~~~\nx\n~~~~~", "```\n```"])
def test_a_fence_may_be_indented_and_end_with_a_longer_mark(body: str) -> None:
    assert kinds(body) == [(Kind.FENCE, body)]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("a | b\n--|--\n1 | 2", Kind.TABLE),
        ("| a |\n|---|", Kind.TABLE),
        ("   | a |\n   |---|\n   | 1 |", Kind.TABLE),
        ("a | b\n1 | 2", Kind.TEXT),
        ("a | b\n|--x|", Kind.TEXT),
        ("a | b\n| - - |", Kind.TEXT),
    ],
)
def test_a_table_needs_its_delimiter_line(body: str, kind: Kind) -> None:
    assert [k for k, _ in kinds(body)] == [kind]


def test_a_heading_is_text_only() -> None:
    assert clean_heading("  **a**  `b` ![c](d.png) _e_  ") == "a b c _e_"
    assert clean_heading("") == ""


@given(MARKDOWN)
def test_headings_and_blocks_are_contiguous_and_give_the_text_back(body: str) -> None:
    at = 0

    def walk(section: Section) -> None:
        nonlocal at
        assert section.start == at
        at = section.body_start
        for block in section.blocks:
            assert block.start == at < block.end
            at = block.end
        for child in section.children:
            assert child.level > section.level
            walk(child)
        assert section.end == at

    walk(outline(body))
    assert at == len(body)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit",
    [
        "<!--\n",
        "    ```x\n",
        "    ~~~y\n```x`\n",
        "# a" + " " * 50,
        "| ",
        "-- ",
        "a|b\n",
        "|-",
        "# a\n",
        "===\n",
        "\n",
        " ",
    ],
)
def test_half_a_million_characters_of_anything_are_read_in_one_pass(unit: str) -> None:
    body = unit * (500_000 // len(unit)) + "x\n\nEND"
    tree = outline(body)
    assert tree.end == len(body)
    assert blocks(tree)[-1].end == len(body)
