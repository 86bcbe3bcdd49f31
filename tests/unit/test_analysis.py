"""Text to search tokens: identifiers, width, composition, invisible characters, traditional forms, stems."""

from __future__ import annotations

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from core import analysis
from core.analysis import (
    bigrams,
    cut_graphemes,
    fold,
    has_tokens,
    near_copy_key,
    normalize,
    search_text,
    tokens,
)

FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)} | {0x20: 0x3000}
MIXED = st.text(
    alphabet=st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("aZ09._-/:@+断路器連接がぎé\u0301\u200b\u200d\ufe0f\u00ad👩🏽🇨🇳가ᄀ\u1161\n\t #"),
    ),
    max_size=60,
)


# --------------------------------------------------------------------------------------------- identifiers


@pytest.mark.parametrize(
    ("text", "whole", "parts"),
    [
        ("E-1024", "ex1024", {"1024"}),
        ("CVE-2024-1234", "cvex2024x1234", {"cve", "2024", "1234"}),
        ("v2.3.1", "v2x3x1", {"2x3x1"}),
        ("GB/T 50150-2016", "gbxt", {"50150x2016", "50150", "2016", "gb"}),
        ("10kV-Ⅱ", "10kvxii", {"10kv", "kv", "10", "ii"}),
        ("foo_bar.baz()", "fooxbarxbaz", {"fooxbar", "foo", "bar", "baz"}),
        ("node_exporter", "nodexexporter", {"node", "export"}),
        ("10.0.0.1:6379", "10x0x0x1x6379", {"10x0x0x1", "6379"}),
        ("redis-v2.3.1", "redisxv2x3x1", {"v2x3x1", "2x3x1", "redi"}),
    ],
)
def test_case_41_an_identifier_is_found_whole_and_by_its_parts(text: str, whole: str, parts: set[str]) -> None:
    found = tokens(text)
    assert found[0] == whole
    assert parts <= set(found)


@pytest.mark.parametrize("code", ["E-1024", "CVE-2024-1234", "v2.3.1", "GB/T 50150-2016", "10kV-Ⅱ", "foo_bar.baz()"])
def test_case_41_upper_and_lower_case_give_the_same_tokens(code: str) -> None:
    assert set(tokens(code)) == set(tokens(code.lower())) == set(tokens(code.upper()))


def test_case_41_a_version_is_no_beginning_of_a_longer_one() -> None:
    assert not {token for token in tokens("v2.3.1") if "x" in token} & set(tokens("旧版本 v2.3.10"))
    assert set(tokens("2.3.1")) <= set(tokens("当前版本 v2.3.1，依据"))


def test_a_part_alone_meets_the_part_inside_the_longer_name() -> None:
    inside = set(tokens("http://kube-state-metrics.monitoring:8080/metrics"))
    for part in ("kube-state-metrics", "monitoring", "metrics", "8080", "kube-state-metrics.monitoring"):
        assert tokens(part)[0] in inside, part


def test_camel_case_is_found_whole_in_any_case_and_by_its_words() -> None:
    found = tokens("KubePodCrashLooping")
    assert tokens("kubepodcrashlooping") == tokens("KUBEPODCRASHLOOPING") == found[:1]
    assert {*tokens("pod crash looping")} <= {*found}


def test_an_identifier_inside_chinese_text_needs_no_spaces() -> None:
    assert {"ex1024", "通信", "v2"} <= set(tokens("错误E-1024表示通信中断（v2）"))


# --------------------------------------------------------------------------------------------- one form of writing


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("１１０ｋＶ　母线（Ⅰ段）", "110kV 母线(I段)"),
        ("質量 ５㎏，ﾃｽﾄ", "質量 5kg，テスト"),
        ("Ångström café がぎ", unicodedata.normalize("NFD", "Ångström café がぎ")),
        ("断\u200b路\u200b器 的温\u00ad升，中\ufeff间，方向\u202eabc\u202c结束", "断路器 的温升，中间，方向abc结束"),
        ("e\u200d\u0301tat", "état"),
        ("連接池耗盡，資料庫", "连接池耗尽，资料库"),
        ("ﬁle ½", "file 1⁄2"),
    ],
    ids=["38 width", "38 katakana and units", "40 decomposed", "14 invisible", "joiner", "traditional", "ligature"],
)
def test_cases_14_38_40_two_ways_to_write_the_same_give_the_same_tokens(one: str, other: str) -> None:
    assert tokens(one) == tokens(other) != ()


def test_case_42_a_chinese_word_meets_itself_in_a_sentence() -> None:
    sentence = set(tokens("差动保护动作后应检查定值。Differential protection must be checked after it operates."))
    assert set(tokens("差动保护")) <= sentence
    assert set(tokens("differential protection")) <= sentence


def test_english_words_meet_their_other_forms() -> None:
    assert tokens("consumers lagging") == tokens("Consumer lagged") == ("consum", "lag")


def test_asking_words_are_left_out_only_where_others_remain() -> None:
    assert tokens("how to restart redis") == tokens("restart redis")
    assert tokens("Redis 连接池耗尽怎么办") == ("redi", "连接", "连接池", "耗尽")
    assert tokens("怎么办") != ()
    assert tokens("to be or") == ("to", "be", "or")


@pytest.mark.parametrize("char", ["a", "9", "é", "я", "断", "가"])
def test_an_endless_word_becomes_tokens_of_bounded_length(char: str) -> None:
    assert 0 < max(map(len, tokens(char * 500))) <= 64


def test_words_of_other_scripts_are_kept() -> None:
    assert tokens("привет 한국어 naïve") == ("привет", "한국어", "naïve")


def test_text_is_shown_on_one_line_without_invisible_characters() -> None:
    assert normalize("  ａ\u200b\x00\ud800 \u3000 b\r\n\tc\u202e  ") == "a b c"
    assert fold("ＲＥＤＩＳ　連接池") == "redis 连接池"


# --------------------------------------------------------------------------------------------- nothing to search for


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\u3000",
        "+",
        "???",
        "。，！",
        ":) (",
        '"',
        "🔥",
        "👨\u200d👩\u200d👧",
        "\u200b\u200d",
        "\u0301",
        "\ud800",
        "→ ★ ─",
    ],
)
def test_case_36_symbols_alone_hold_no_token(text: str) -> None:
    assert tokens(text) == ()
    assert search_text(text) == ""
    assert not has_tokens(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [("介绍一下+断路器", ("介绍", "断路", "断路器")), ("AND OR NOT", ("not",)), ("\ud800abc", ("abc",)), ("①", ("1",))],
)
def test_case_36_words_among_operators_are_searched(text: str, found: tuple[str, ...]) -> None:
    assert tokens(text) == found
    assert has_tokens(text)


# --------------------------------------------------------------------------------------------- any text


@given(MIXED)
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once
    assert once == once.strip()
    assert unicodedata.is_normalized("NFKC", once)


@given(MIXED)
def test_a_token_holds_letters_and_digits_only_and_is_bounded(text: str) -> None:
    for token in tokens(text):
        assert regex.fullmatch(r"[\p{L}\p{N}]{1,64}", token), token
        assert token == token.lower()
    assert tuple(search_text(text).split(" ")) == (tokens(text) or ("",))


@given(MIXED)
def test_composition_and_width_do_not_change_the_tokens(text: str) -> None:
    found = tokens(text)
    assert tokens(unicodedata.normalize("NFC", text)) == found
    assert tokens(unicodedata.normalize("NFD", text)) == found
    assert tokens(text.translate(FULL_WIDTH)) == found


@given(MIXED)
def test_there_are_tokens_exactly_where_a_letter_or_digit_stands(text: str) -> None:
    assert has_tokens(text) == bool(tokens(text)) == bool(regex.search(r"[\p{L}\p{N}]", normalize(text)))


@given(MIXED, st.integers(-1, 70))
def test_a_cut_never_falls_inside_a_grapheme_and_takes_what_fits(text: str, limit: int) -> None:
    borders = [0, *(match.end() for match in regex.finditer(r"\X", text))]
    assert cut_graphemes(text, limit) == text[: max(border for border in borders if border <= max(limit, 0))]


@pytest.mark.parametrize("unit", ["👨\u200d👩\u200d👧", "e\u0301", "🇨🇳", "가", "断", "a", "\u0301"])
def test_a_long_text_is_cut_at_the_same_borders(unit: str) -> None:
    text = unit * (12_000 // len(unit))
    borders = [0, *(match.end() for match in regex.finditer(r"\X", text))]
    for limit in (1, 1199, 9_001, len(text) - 1):
        assert len(cut_graphemes(text, limit)) == max(border for border in borders if border <= limit)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit",
    [
        "连接池耗尽 redis v2.3.1 ",
        "a",
        "a.b-",
        "/+",
        "A1",
        "👨\u200d👩\u200d👧",
        "\u0301",
        "1-1-",
        "! ",
        "2024-",
        "\ud800",
        "ﷺ",
    ],
)
def test_a_hundred_thousand_characters_of_anything_come_to_an_end(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    assert has_tokens(text) == bool(tokens(text))
    assert (near_copy_key(text) == "") == (not has_tokens(text))
    assert bool(bigrams(text)) == has_tokens(text)
    assert len(cut_graphemes(text, 99_999)) <= 99_999


# --------------------------------------------------------------------------------------------- comparing texts


def test_bigrams_stay_within_runs_of_letters_and_digits() -> None:
    assert bigrams("ＡＢＣ，断路") == {"ab", "bc", "断路"}
    assert bigrams("x") == {"x"}
    assert bigrams("") == bigrams("!?") == frozenset()


@pytest.mark.parametrize(
    "copy",
    ["重启 redis，观察。", "重啟REDIS 观察", "重启 Redis：观察（2024-05-06）", "重启 Redis，观察 2024 年 5 月 6 日。"],
)
def test_a_near_copy_differs_in_width_case_marks_or_a_last_date_only(copy: str) -> None:
    assert near_copy_key(copy) == near_copy_key("重启 Redis，观察")


def test_other_words_or_a_date_inside_are_no_copy() -> None:
    base = near_copy_key("重启 Redis，观察")
    assert near_copy_key("重启 Redis 2024-05-06，观察") != base
    assert near_copy_key("重启 Redis 7，观察") != base
    assert near_copy_key("2024-05-06") == "20240506"
    assert near_copy_key("—！") == ""


def test_the_dictionary_of_folding_is_made_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Counted:
        def __init__(self, config: str) -> None:
            made.append(config)

        def convert(self, text: str, _punctuation: bool) -> str:
            return text.replace("連", "连")

    monkeypatch.setattr(analysis.opencc_jieba_pyo3, "OpenCC", Counted)
    analysis._converter.cache_clear()
    try:
        with ThreadPoolExecutor(4) as pool:
            assert [fold("連接"), *pool.map(fold, ["連接"] * 8)] == ["连接"] * 9
        assert made == ["t2s"]
    finally:
        analysis._converter.cache_clear()
