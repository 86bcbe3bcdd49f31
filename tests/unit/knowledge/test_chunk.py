"""A body as chunks: nothing lost, nothing too long, tables and code readable in every piece, paths by the headings."""

from __future__ import annotations

import base64
import itertools
import random
import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from core.analysis import has_tokens, tokens
from core.knowledge.chunk import MAX_BREADCRUMB, ChunkPiece, chunk_body, passage_text
from core.knowledge.source import visible_text
from tests.unit.knowledge.markdown_samples import MARKDOWN

TARGET, MAXIMUM = 800, 1200


def chunked(body: str, title: str = "手册", **sizes: int) -> tuple[ChunkPiece, ...]:
    """The chunks, after a check of what holds for every body."""
    chunks = chunk_body(title, body, **sizes)
    if has_tokens(visible_text(body)):
        assert chunks
    assert "".join(body[c.span_start : c.span_end] for c in chunks) == (body if chunks else "")
    assert [c.index for c in chunks] == list(range(len(chunks)))
    for c in chunks:
        assert c.span_start < c.span_end
        assert 0 < len(c.text) <= sizes.get("maximum", MAXIMUM)
        assert c.text == c.text.strip()
        assert re.search(r"[^\s\-*_=#>|`~:+.]", visible_text(c.text))
        assert 0 < len(c.breadcrumb) <= MAX_BREADCRUMB
    assert chunk_body(title, body, **sizes) == chunks
    return chunks


def texts(chunks: tuple[ChunkPiece, ...]) -> list[str]:
    return [c.text for c in chunks]


def paths(chunks: tuple[ChunkPiece, ...]) -> list[str]:
    return [c.breadcrumb for c in chunks]


def sentences(count: int, length: int = 40) -> str:
    return "".join(f"第{i:03}句" + "字" * (length - 6) + "。" for i in range(count))


# --------------------------------------------------------------------------------------------- headings and paths


def test_case_19_comments_in_code_are_no_sections_and_two_topics_are_two_chunks() -> None:
    code = "```python\n# 读配置\ncfg = load()\n## 二级\nprint(cfg)\n```\n\n```sh\n# 启动\n./run.sh\n```"
    chunks = chunked(f"# 部署\n\n先看条件。\n\n{code}\n\n# 下线\n\n删目录即可。\n", "部署")
    assert texts(chunks) == [f"先看条件。\n\n{code}", "删目录即可。"]
    assert paths(chunks) == ["部署", "下线"]


def test_cases_41_59_each_first_level_section_is_a_chunk_with_its_own_path() -> None:
    body = "".join(f"# 接地{n}\n\n电阻要求第{n}条。\n\n## 附件{n}\n\n" for n in range(1, 6))
    chunks = chunked(body)
    assert texts(chunks) == [f"电阻要求第{n}条。\n\n## 附件{n}" for n in range(1, 6)]
    assert paths(chunks) == [f"手册 > 接地{n}" for n in range(1, 6)]
    alike = chunked(f"{body}# 空白一节\n", "接地1")
    assert paths(alike) == [f"接地{n}" for n in range(1, 6)]
    assert alike[-1].text.endswith("# 空白一节")


def test_case_25_headings_in_a_row_live_in_the_path_and_a_trailing_one_in_the_text() -> None:
    (chunk,) = chunked("# 总则\n\n## 范围\n\n### 用语\n\n跳闸：自动断开。\n\n\n\n\n&nbsp;\n\n\n## 附件\n", "总则")
    assert chunk.breadcrumb == "总则 > 范围 > 用语"
    assert chunk.text == "跳闸：自动断开。\n\n## 附件"


@pytest.mark.parametrize("body", ["", "\n \u3000\n", "&nbsp;\n\n&#160;", "<!-- 草稿 -->", "---\n\n***", "★ → ─"])
def test_case_25_without_text_there_is_no_chunk(body: str) -> None:
    assert chunked(body) == ()


def test_a_document_of_headings_alone_is_still_found() -> None:
    (chunk,) = chunked("# 告警一览\n\n## 磁盘\n\n## 内存\n")
    assert set(tokens("告警一览 磁盘 内存")) <= set(tokens(chunk.text))
    assert chunk.breadcrumb == "手册"


def test_case_27_text_before_the_first_heading_has_the_title_as_its_path() -> None:
    body = "PREAMBLE-1 引言。\n\nPREAMBLE-2 背景。\n\n# 正题\n\n内容。\n\n# 尾声\n\n完。"
    assert [(c.breadcrumb, c.text) for c in chunked(body)] == [
        ("手册", "PREAMBLE-1 引言。\n\nPREAMBLE-2 背景。"),
        ("手册 > 正题", "内容。"),
        ("手册 > 尾声", "完。"),
    ]


def test_case_27_a_document_without_headings_is_one_chunk() -> None:
    assert [(c.breadcrumb, c.text) for c in chunked("NOHEAD 只有一段。\n")] == [("手册", "NOHEAD 只有一段。")]


def test_case_3_text_between_rules_is_kept() -> None:
    (chunk,) = chunked("\nALPHA 一。\n\n---\n\nBRAVO 二。\n\n---\n\nCHARLIE 三。\n")
    assert all(word in chunk.text for word in ("ALPHA", "BRAVO", "CHARLIE"))


@pytest.mark.parametrize("heading", ["连接池", "連接池", "**连接池**", "Redis"])
def test_a_first_heading_that_says_the_title_is_not_said_twice(heading: str) -> None:
    title = "redis" if heading == "Redis" else "连接池"
    assert paths(chunked(f"# {heading}\n\n## 症状\n\n超时。", title)) == [f"{title} > 症状"]


def test_small_neighbours_share_a_chunk_and_a_large_one_stands_alone() -> None:
    body = f"# 手册\n\n## 甲\n\n短一。\n\n## 乙\n\n短二。\n\n## 丙\n\n{sentences(20)}\n\n## 丁\n\n短三。\n"
    assert [(c.breadcrumb, c.text) for c in chunked(body)] == [
        ("手册", "## 甲\n\n短一。\n\n## 乙\n\n短二。"),
        ("手册 > 丙", sentences(20)),
        ("手册 > 丁", "短三。"),
    ]


def test_neighbours_are_gathered_up_to_the_target_and_no_further() -> None:
    part = sentences(5)
    assert TARGET // 4 <= len(part) < TARGET // 3
    chunks = chunked("# 手册\n\n" + "".join(f"## 节{i}\n\n{part}\n\n" for i in range(6)))
    assert texts(chunks) == [f"## 节{i}\n\n{part}\n\n## 节{i + 1}\n\n{part}" for i in (0, 2, 4)]
    assert paths(chunks) == ["手册"] * 3


def test_a_heading_without_text_goes_to_the_neighbour_of_the_same_parent() -> None:
    long = sentences(25)
    before = chunked(f"# 手册\n\n## 空一\n\n## 长\n\n{long}\n")
    assert before[0].text.endswith("\n\n## 空一")
    behind = chunked(f"# 手册\n\n## 长\n\n{long}\n\n## 记得删除抓包文件\n")
    assert behind[-1].text.endswith("\n\n## 记得删除抓包文件")
    other = chunked(f"# 手册\n\n## 甲\n\n{long}\n\n## 乙\n\n### 空\n\n### 长\n\n{long}\n")
    assert [c.breadcrumb for c in other if "### 空" in c.text] == ["手册 > 乙 > 长"]


def test_a_very_deep_path_keeps_the_title_and_its_nearest_headings() -> None:
    body = "\n\n".join(f"{'#' * level} {level}{'级' * 150}" for level in range(1, 7)) + "\n\n文。"
    (chunk,) = chunked(body)
    first, *_, last = chunk.breadcrumb.split(" > ")
    assert (first, last[0]) == ("手册", "6")
    assert len(chunk.breadcrumb) <= MAX_BREADCRUMB
    assert chunk_body("长" * 600, "文")[0].breadcrumb == "长" * MAX_BREADCRUMB


def test_case_114_markup_in_text_and_headings_stays_text() -> None:
    (chunk,) = chunked("# <svg onload=alert(3)>\n\n<script>alert(4)</script>\n\nMARKER 文。")
    assert chunk.text == "<script>alert(4)</script>\n\nMARKER 文。"
    assert chunk.breadcrumb == "手册 > <svg onload=alert(3)>"


# --------------------------------------------------------------------------------------------- tables and code


def table(rows: int, width: int = 20) -> tuple[str, list[str]]:
    head = "| 编号 | 名称 | 定值 | 备注 |\n|---|:--|--:|---|"
    notes = {55: r"a\|b"}
    return head, [f"| {i} | 断路器{i:03} | {i * 7} | {notes.get(i, '备' * width)} |" for i in range(rows)]


def test_case_21_a_long_table_is_cut_between_rows_and_every_piece_has_its_header() -> None:
    head, rows = table(60)
    chunks = chunked(f"# 定值\n\n表 1 定值清单\n\n{head}\n" + "\n".join(rows) + "\n\n收尾的话。", "定值")
    pieces = [c.text for c in chunks if head in c.text]
    assert len(pieces) > 2
    assert chunks[0].text.startswith(f"表 1 定值清单\n\n{head}\n")
    assert all(text.startswith(head) for text in pieces[1:])
    assert [line for text in pieces for line in text.split("\n") if line.startswith("| ") and line not in head] == rows
    assert sum("表 1" in text for text in texts(chunks)) == 1
    (row_55,) = [text for text in pieces if "断路器055" in text]
    assert "名称" in row_55
    assert "a\\|b" in row_55
    assert texts(chunks)[-1] == "收尾的话。"


def test_a_table_that_fits_stays_whole_with_the_line_before_it() -> None:
    head, rows = table(24)
    whole = f"{head}\n" + "\n".join(rows)
    assert TARGET < len(whole) <= MAXIMUM - 50
    long = sentences(19)
    assert texts(chunked(f"# 甲\n\n{long}\n\n见下表：\n\n{whole}\n\n以上。", "甲")) == [
        long,
        f"见下表：\n\n{whole}",
        "以上。",
    ]


def test_a_row_is_whole_up_to_the_maximum_and_only_a_longer_one_is_cut() -> None:
    head = "| 键 | 值 |\n|---|---|"
    wide, huge = f"| 宽 | {'值' * 1100} |", f"| 巨 | {'值' * 2000} |"
    chunks = chunked(f"{head}\n| 短 | 1 |\n{wide}\n{huge}\n| 末 | 2 |")
    assert all(text.startswith(head) for text in texts(chunks))
    assert texts(chunks)[1] == f"{head}\n{wide}"
    assert "".join(text.removeprefix(head).strip() for text in texts(chunks)[2:-1]) == huge
    assert texts(chunks)[-1] == f"{head}\n| 末 | 2 |"


def test_a_table_with_a_header_too_long_to_repeat_is_cut_as_text() -> None:
    head = f"| {'头' * 700} |\n|---|"
    chunks = chunked(f"{head}\n" + "\n".join(f"| 行{i} |" for i in range(300)))
    assert sum("头" * 100 in text for text in texts(chunks)) == 1
    assert all(any(f"| 行{i} |" in text for text in texts(chunks)) for i in range(300))


def test_code_that_fits_stays_whole_and_longer_code_is_fenced_again() -> None:
    lines = [f"kubectl get pod app-{i:04} -n prod  # 第 {i} 步" for i in range(60)]
    whole = "```sh\n" + "\n".join(lines[:25]) + "\n```"
    assert TARGET < len(whole) <= MAXIMUM
    assert texts(chunked(whole)) == [whole]
    pieces = texts(chunked("~~~sh\n" + "\n\n".join(lines) + "\n~~~~\n\n之后。"))
    assert all(text.startswith("~~~sh\n") and text.endswith("\n~~~") for text in pieces[:-1])
    inner = [line for text in pieces[:-1] for line in text.split("\n")[1:-1] if line]
    assert inner == lines
    assert pieces[-1] == "之后。"


def test_code_below_a_list_item_stays_whole() -> None:
    code = "    ```sh\n    # 备份\n\n    cp a b\n    ```"
    body = f"{sentences(16)}\n\n1. 备份：\n\n{code}\n\n2. 继续。{sentences(8)}"
    assert sum(code in text for text in texts(chunked(body))) == 1


def test_blank_code_gives_no_piece() -> None:
    assert chunked("```python\n" + "\n" * 3000 + "```\n\n文。")[0].text == "文。"


# --------------------------------------------------------------------------------------------- long text


def test_case_23_lines_without_a_break_are_cut_and_nothing_is_lost() -> None:
    blob = base64.b64encode(random.Random(1).randbytes(15_000)).decode()
    chinese = "断路器巡检规程" * 700
    url = "https://kb.example.invalid/" + "a/b-c_d%20" * 300
    chunks = chunked(f"# 长\n\n{blob}\n\n{chinese}\n\n{url}\n", "长")
    assert "".join(texts(chunks)) == blob + chinese + url


def test_case_122_a_long_chinese_paragraph_is_cut_after_sentences() -> None:
    pieces = texts(chunked(sentences(35)))
    assert "".join(pieces) == sentences(35)
    assert all(text.endswith("。") for text in pieces)
    assert all(len(text.encode()) <= 3 * MAXIMUM for text in pieces)


@pytest.mark.parametrize("unit", ["👨\u200d👩\u200d👧", "e\u0301", "🇨🇳", "각"])
def test_case_122_a_cut_never_falls_inside_a_grapheme_and_emoji_are_not_lost(unit: str) -> None:
    pieces = texts(chunked("先看图例。\n\n" + unit * 1000))
    whole = "".join(pieces).replace("\n\n", "")
    assert whole == "先看图例。" + unit * 1000
    assert len(regex.findall(r"\X", whole)) == sum(len(regex.findall(r"\X", re.sub(r"\s", "", t))) for t in pieces)


def test_symbols_alone_join_the_text_beside_them() -> None:
    assert texts(chunked(f"# 甲\n\n{sentences(20)}\n\n★ ★ ★\n\n{sentences(20)}\n", "甲"))[0].endswith("\n\n★ ★ ★")
    assert texts(chunked(f"# 甲\n\n{sentences(2)}\n\n---\n\n{sentences(30)}", "甲"))[0] == sentences(2) + "\n\n---"


@pytest.mark.parametrize(
    ("unit", "end"),
    [
        ("他说“先停机。”", "”"),
        ("先停机；", "；"),
        ("先停机，再查", "，"),
        ("stop the node. ", "."),
        ("stop ", "p"),
    ],
)
def test_a_text_is_cut_at_its_best_place(unit: str, end: str) -> None:
    *firsts, _ = texts(chunked(unit * (4000 // len(unit))))
    assert all(text.endswith(end) for text in firsts)


def test_a_paragraph_a_little_over_the_target_leaves_no_crumb() -> None:
    paragraph = "字" * (TARGET + TARGET // 8)
    assert texts(chunked(paragraph)) == [paragraph]
    assert [len(text) for text in texts(chunked(paragraph + "字"))] == [TARGET, TARGET // 8 + 1]


@pytest.mark.parametrize("sizes", [{"target": 0}, {"target": 5, "maximum": 4}, {"target": -1}])
def test_sizes_that_cannot_be_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="target"):
        chunk_body("手册", "文", **sizes)


# --------------------------------------------------------------------------------------------- any body


@given(MARKDOWN, st.integers(1, 30), st.integers(0, 20))
def test_any_markdown_is_cut_within_the_limits_and_covered(body: str, target: int, more: int) -> None:
    chunked(body, target=target, maximum=target + more)


@given(st.text(max_size=300), st.integers(1, 40))
def test_any_text_is_cut_within_the_limits_and_covered(body: str, target: int) -> None:
    chunked(body, target=target, maximum=target + target // 2)


def test_sizes_too_small_for_a_fence_or_a_heading_lose_nothing() -> None:
    assert "".join(texts(chunked("```\n# A", target=1, maximum=6))) == "A"
    assert "".join(texts(chunked("# A", target=2, maximum=2))) == "A"


PARTS = st.lists(
    st.one_of(
        st.tuples(st.just("heading"), st.integers(1, 6)),
        st.tuples(st.just("paragraph"), st.integers(1, 12)),
        st.tuples(st.just("fence"), st.integers(1, 8)),
        st.tuples(st.just("table"), st.integers(1, 8)),
    ),
    max_size=14,
)


@given(PARTS)
def test_every_word_is_in_one_chunk_below_its_own_headings(parts: list[tuple[str, int]]) -> None:
    """Words are numbered; each is looked for with the headings above it, in path or text."""
    counter = itertools.count(1000)
    lines: list[str] = []
    above: dict[str, tuple[str, ...]] = {}
    open_headings: list[tuple[int, str]] = []
    for kind, size in parts:
        words = [f"w{next(counter)}" for _ in range(size)]
        if kind == "heading":
            name = f"h{next(counter)}"
            open_headings = [(level, n) for level, n in open_headings if level < size] + [(size, name)]
            lines.append(f"{'#' * size} {name}")
            continue
        above |= {word: tuple(name for _, name in open_headings) for word in words}
        if kind == "paragraph":
            lines.append(" ".join(words))
        elif kind == "fence":
            lines.append("\n".join(["```sh", *(f"# {word}" for word in words), "```"]))
        else:
            lines.append("\n".join(["| c |", "|---|", *(f"| {word} |" for word in words)]))
    body = "\n\n".join(lines)
    chunks = chunked(body, target=40, maximum=60)
    found = [(word, chunk) for chunk in chunks for word in re.findall(r"w\d{4}", chunk.text)]
    assert [word for word, _ in found] == list(above)
    for word, chunk in found:
        assert chunk.span_start <= body.index(word) < chunk.span_end
        path = chunk.breadcrumb.split(" > ")[1:]
        assert path == list(above[word])[: len(path)]
        assert all(name in chunk.text for name in above[word][len(path) :])


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit",
    ["<!--", "<!-- x -->", "&nbsp;", " ", "\n", "# a\n", "a\n\n", "```x\n", "| a |\n|-|\n", "。", "\u0301", "a ", "#"],
)
def test_a_large_file_of_anything_comes_to_an_end(unit: str) -> None:
    body = "开头 " + unit * (300_000 // len(unit)) + "\n\n结尾"
    chunks = chunk_body("手册", body)
    assert "".join(body[c.span_start : c.span_end] for c in chunks) == body
    assert max(len(c.text) for c in chunks) <= MAXIMUM


# --------------------------------------------------------------------------------------------- the passage


def test_a_passage_is_title_path_and_text() -> None:
    assert passage_text("甲", "甲 > 乙", "文") == "甲 > 乙\n文"
    assert passage_text("甲", "甲", "文") == "甲\n文"
    assert passage_text("甲", "乙", "文") == "甲\n乙\n文"
    assert passage_text("接地1", "接地10", "文") == "接地1\n接地10\n文"
    assert passage_text("甲", "", "文") == "甲\n文"
