"""Front matter in every odd form: typed, bounded, refused with its line, or left in the body with a warning."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.knowledge.frontmatter import MAX_TERMS_BYTES, BadFrontMatter, FrontMatter, parse_front_matter


def parsed(block: str, body: str = "正文。\n") -> FrontMatter:
    return parse_front_matter(f"---\n{block}\n---\n{body}")


def test_every_known_key_is_read() -> None:
    found = parsed("title: 连接池\ncategory: redis\nkb_scope: ops\nkeywords: [池, 超时]\naliases: {OOM: OutOfMemory}")
    assert (found.title, found.category, found.kb_scope) == ("连接池", "redis", "ops")
    assert found.keywords == ("池", "超时")
    assert found.aliases == {"OOM": "OutOfMemory"}
    assert (found.body, found.body_line, found.warnings) == ("正文。\n", 8, ())


@pytest.mark.parametrize("text", ["", "正文", "# 标题\n---\ntitle: x\n---\n", "\n---\ntitle: x\n---\n"])
def test_a_text_without_a_block_on_line_1_is_all_body(text: str) -> None:
    found = parse_front_matter(text)
    assert (found.body, found.body_line, found.warnings) == (text, 1, ())
    assert (found.title, found.category, found.kb_scope, found.keywords, found.aliases) == ("", "", "default", (), {})


@pytest.mark.parametrize(
    "block", ["", "# a comment", "title:", "title: ~\ncategory: ''\nkb_scope: ''\nkeywords:\naliases:"]
)
def test_case_34_missing_null_and_empty_are_one_value(block: str) -> None:
    found = parsed(block)
    assert (found.title, found.category, found.kb_scope, found.keywords, found.aliases) == ("", "", "default", (), {})
    assert found.body == "正文。\n"


# --------------------------------------------------------------------------------------------- rules and prose


def test_case_3_rules_further_down_stay_in_the_body() -> None:
    body = "\nALPHA 一。\n\n---\n\nBRAVO 二。\n\n---\n\nCHARLIE 三。\n"
    assert parsed("title: 分隔", body).body == body


def test_case_3_an_unclosed_block_is_body_with_a_warning() -> None:
    text = "---\n\n没有元数据的一篇。\n\n第二段 DELTA。\n"
    found = parse_front_matter(text)
    assert (found.body, found.body_line) == (text, 1)
    assert "no line closes the front matter" in found.warnings[0]


@pytest.mark.parametrize(
    "prose",
    [
        "只有一句话",
        "\n注意: 本文已过期。\n",
        "注意: 本文已过期",
        "\nTo mend it: run `kubectl get x: y`\n",
        "- 一\n- 二",
        "see also: x",
    ],
)
def test_case_3_prose_between_two_rules_on_top_stays_in_the_body(prose: str) -> None:
    text = f"---\n{prose}\n---\n正文。\n"
    found = parse_front_matter(text)
    assert (found.body, found.body_line) == (text, 1)
    assert "no metadata" in found.warnings[0]


def test_metadata_of_other_tools_is_metadata_and_says_so() -> None:
    found = parsed("layout: post\nauthor: ops")
    assert found.body == "正文。\n"
    assert found.warnings == (
        "no known key in the front matter (layout, author); known: title, category, keywords, aliases, kb_scope",
    )


@pytest.mark.parametrize(("close", "line"), [("---", 4), ("---  ", 4), ("...", 4)])
def test_the_closing_line_may_be_dots_or_have_blanks_behind(close: str, line: int) -> None:
    found = parse_front_matter(f"---\ntitle: 甲\n{close}\nx")
    assert (found.title, found.body, found.body_line) == ("甲", "x", line)


# --------------------------------------------------------------------------------------------- refused, with the line


@pytest.mark.parametrize(
    ("block", "line", "reason"),
    [
        ("title: 答复: 切换窗口: 3月1日", 2, "mapping values are not allowed here"),
        ("title: 制表\nowner:\n\tname: ops", 4, "cannot start any token"),
        ("title: [a", 2, "front matter is no YAML"),
        ("x: 1\ntitle: [a, b]", 3, "title: expected one text, found a list"),
        ("title: {a: b}", 2, "title: expected one text, found a mapping"),
        ("keywords: {a: b}", 2, "keywords: expected a list of texts"),
        ("aliases: {a: {b: c}}", 2, "aliases: expected alias: term"),
        ("title: 甲\ncategory: |\n  a\n  b", 3, "category: holds U+000A"),
        ('category: "a\\tb"', 2, "category: holds U+0009"),
        (f"category: {'类' * 90}", 2, "category: 90 characters, at most 64"),
        ("x: 1\nKB-Scope: '*'", 3, "'*' means all scopes"),
        ("nested:\n  kb_scope: x\nkb_scope: '*'", 4, "'*' means all scopes"),
        ("title: 甲\ntitle: 乙", 3, "'title' stands twice"),
        ("title: 甲\nTitle: 乙", 3, "title: stands twice, also as 'Title'"),
        ("a: &x 甲\ntitle: *x", 2, "anchors and aliases are not allowed"),
        ("title: !!timestamp x", 2, "tag 'tag:yaml.org,2002:timestamp' is not allowed"),
        ("title: !!python/object:os.system {}", 2, "is not allowed"),
        ("? [a]\n: b", 2, "unhashable key"),
        ("a: " + "[" * 3000, 1, "front matter is no YAML"),
        ("a: " + "x" * 300_000, 1, "300003 characters, at most 262144"),
    ],
)
def test_cases_5_10_31_bad_metadata_is_refused_with_line_and_reason(block: str, line: int, reason: str) -> None:
    with pytest.raises(BadFrontMatter) as caught:
        parsed(block)
    assert caught.value.line == line
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_case_5_a_full_width_colon_needs_no_quotes() -> None:
    assert parsed("title: 答复：切换窗口：3月1日").title == "答复：切换窗口：3月1日"


# --------------------------------------------------------------------------------------------- values are texts


def test_case_6_dates_numbers_and_booleans_are_the_texts_that_stand_there() -> None:
    found = parsed(
        "title: 2026-05-24\nupdated: 2026-05-24\nhistory: [2025-01-02, {when: 2024-12-31}]\n"
        "keywords: [2026-05-24T09:30:00+08:00, 1.0, 0x1F, yes, 1e3, .nan]\naliases: {1: 2}"
    )
    assert found.title == "2026-05-24"
    assert found.keywords == ("2026-05-24T09:30:00+08:00", "1.0", "0x1F", "yes", "1e3", ".nan")
    assert found.aliases == {"1": "2"}
    json.dumps([found.title, found.keywords, dict(found.aliases)], allow_nan=False)


@pytest.mark.parametrize(
    ("line", "keywords"),
    [
        ("keywords: 熔断, 巡检", ("熔断", "巡检")),
        ("keywords:", ()),
        ("keywords: [GB1234, 2016, true, [嵌套, [更深]]]", ("GB1234", "2016", "true", "嵌套", "更深")),
        ("keywords: 熔断、巡检，温升；湿度;风速", ("熔断", "巡检", "温升", "湿度", "风速")),
        ("keywords: 断路器", ("断路器",)),
        ("keywords: [a, a, ' a ', '', ~]", ("a",)),
        ("KEYWORDS: x", ("x",)),
    ],
)
def test_case_8_keywords_come_in_every_form_and_never_letter_by_letter(line: str, keywords: tuple[str, ...]) -> None:
    assert parsed(line).keywords == keywords


@pytest.mark.parametrize(
    ("value", "aliases"),
    [
        ("{OOM: OutOfMemory}", {"OOM": "OutOfMemory"}),
        ("{OutOfMemory: [OOM, 内存溢出]}", {"OOM": "OutOfMemory", "内存溢出": "OutOfMemory"}),
        ("[OOM, 内存溢出]", {"OOM": None, "内存溢出": None}),
        ("OOM、内存溢出", {"OOM": None, "内存溢出": None}),
        ("{x: ~, ~: y}", {}),
        ("{x: '  '}", {}),
    ],
)
def test_aliases_point_to_a_term_or_to_the_title(value: str, aliases: dict[str, str | None]) -> None:
    assert parsed(f"aliases: {value}").aliases == aliases


def test_a_scope_in_another_spelling_is_still_the_scope() -> None:
    assert parsed("KB-Scope: secret").kb_scope == "secret"


def test_a_title_is_one_line_of_whole_characters() -> None:
    assert parsed("title: |\n  第一行\n  第二行").title == "第一行 第二行"
    assert parsed('title: "a\\0\\a b\\ud83d\\ude00 c\\ud800"').title == "a b😀 c"


def test_a_long_title_is_cut_with_a_warning() -> None:
    found = parsed("title: " + "题" * 301)
    assert found.title == "题" * 300
    assert found.warnings == ("title: 301 characters, cut at 300",)


def test_case_123_a_huge_keyword_list_is_trimmed_and_the_warning_names_its_size() -> None:
    words = [f"告警关键词之第{n:04}号" for n in range(4000)]
    size = sum(len(word.encode()) for word in words)
    found = parsed("keywords: [" + ", ".join(words) + "]")
    kept = MAX_TERMS_BYTES // len(words[0].encode())
    assert found.keywords == tuple(words[:kept])
    assert found.warnings == (f"keywords: {size} bytes, at most {MAX_TERMS_BYTES}; the first {kept} of 4000 kept",)


def test_a_term_longer_than_a_filter_value_is_left_out_and_counted() -> None:
    found = parsed(f"keywords: [{'长' * 65}, 短]\naliases: [{'长' * 65}]")
    assert (found.keywords, found.aliases) == (("短",), {})
    assert found.warnings == (
        "keywords: 1 longer than 64 characters left out",
        "aliases: 1 longer than 64 characters left out",
    )


def outcome(text: str) -> FrontMatter | BadFrontMatter:
    try:
        return parse_front_matter(text)
    except BadFrontMatter as refused:
        return refused


@given(st.text(alphabet=st.sampled_from("abtitle:-#[]{}&*!|>'\"%@`~,?<=\\ \t\n\0é题。0\ud800"), max_size=60))
def test_any_block_is_metadata_body_or_refused_with_a_line(block: str) -> None:
    text = f"---\n{block}\n---\n末尾"
    found = outcome(text)
    if isinstance(found, BadFrontMatter):
        assert 1 <= found.line <= text.count("\n") + 1
        return
    assert text.endswith(found.body)
    assert "\n".join(text.split("\n")[found.body_line - 1 :]) == found.body
    assert "末尾" in found.body
