"""Text cut by our analysis, in every store: what is written one way is found when it is asked another way, by BM25."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

import pytest

from core.analysis import search_text
from core.model import Generation, IndexRow
from tests.contract.generations import EVERYWHERE, Build, Index, T, row

FULL = "１１０ｋＶ　母线（Ⅰ段）额定电流 １２５０Ａ，质量 ５㎏，ﾃｽﾄ。"
HALF = "35kV 母线(II段)额定电流 630A，质量 3kg，テスト。"
NAMES = "Ångström café がぎ"
CODES = {
    "error": "E-1024 表示通信中断，见 CVE-2024-1234。",
    "version": "当前版本 v2.3.1，依据 GB/T 50150-2016。",
    "older": "旧版本 v2.3.10，编号 E-1025。",
    "api": "10kV-Ⅱ 段调用 foo_bar.baz() 采样。",
}


def stored(build: Build, texts: Mapping[str, str]) -> Generation:
    rows = [row(doc, text) for doc, text in texts.items()]
    return build([IndexRow(made.chunk, search_text(made.chunk.content), made.vector) for made in rows])


def ranked(index: Index, built: Generation, query: str) -> list[tuple[str, float]]:
    answer = index.search_bm25(built, search_text(query), EVERYWHERE, 20, timeout=T)
    return [(hit.chunk.doc_id, abs(hit.score)) for hit in answer.hits]


def found(index: Index, built: Generation, query: str) -> list[str]:
    return [doc for doc, _ in ranked(index, built, query)]


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("110kV 母线(I段)", "full"),
        ("1250A", "full"),
        ("5kg", "full"),
        ("３５ｋＶ　母线（Ⅱ段）", "half"),
        ("６３０Ａ", "half"),
        ("３㎏", "half"),
    ],
)
def test_case_38_full_width_and_half_width_forms_meet_in_both_directions(
    index: Index, build: Build, query: str, document: str
) -> None:
    built = stored(build, {"full": FULL, "half": HALF})
    assert found(index, built, query)[0] == document


def test_case_38_half_width_katakana_meets_its_full_width_form_and_the_text_is_shown_as_written(
    index: Index, build: Build
) -> None:
    built = stored(build, {"full": FULL, "half": HALF})
    for query in ("テスト", "ﾃｽﾄ"):
        assert set(found(index, built, query)) == {"full", "half"}
    answer = index.search_bm25(built, search_text("テスト"), EVERYWHERE, 20, timeout=T)
    assert {hit.chunk.content for hit in answer.hits} == {FULL, HALF}


def test_case_40_composed_and_decomposed_text_is_one_text_with_one_score(index: Index, build: Build) -> None:
    forms = {form: unicodedata.normalize(form, NAMES) for form in ("NFC", "NFD")}
    assert forms["NFC"] != forms["NFD"]
    built = stored(build, forms)
    for query in forms.values():
        answers = ranked(index, built, query)
        assert {doc for doc, _ in answers} == {"NFC", "NFD"}
        assert answers[0][1] == pytest.approx(answers[1][1])


@pytest.mark.parametrize(
    ("code", "document"),
    [
        ("E-1024", "error"),
        ("e-1024", "error"),
        ("CVE-2024-1234", "error"),
        ("cve-2024-1234", "error"),
        ("v2.3.1", "version"),
        ("V2.3.1", "version"),
        ("v2.3.10", "older"),
        ("GB/T 50150-2016", "version"),
        ("10kV-Ⅱ", "api"),
        ("10KV-II", "api"),
        ("foo_bar.baz()", "api"),
        ("FOO_BAR.BAZ", "api"),
    ],
)
def test_case_41_a_whole_code_ranks_its_own_chunk_first(index: Index, build: Build, code: str, document: str) -> None:
    assert found(index, stored(build, CODES), code)[0] == document


@pytest.mark.parametrize(
    ("part", "document"),
    [
        ("1024", "error"),
        ("CVE", "error"),
        ("1234", "error"),
        ("50150", "version"),
        ("2016", "version"),
        ("10kV", "api"),
        ("foo_bar", "api"),
        ("baz", "api"),
    ],
)
def test_case_41_a_part_of_a_code_finds_it_too(index: Index, build: Build, part: str, document: str) -> None:
    assert document in found(index, stored(build, CODES), part)


def test_case_41_one_number_does_not_match_every_number(index: Index, build: Build) -> None:
    built = stored(build, CODES)
    assert "older" not in found(index, built, "E-1024")[:1]
    assert found(index, built, "1025") == ["older"]


@pytest.mark.parametrize("query", ["差动保护", "保护", "differential protection", "Differential", "差動保護"])
def test_case_42_a_question_in_either_language_and_script_hits_by_words(index: Index, build: Build, query: str) -> None:
    built = stored(
        build,
        {
            "bilingual": "差动保护动作后应检查定值。\n\nDifferential protection must be checked after it operates.",
            "other": "消费者延迟升高时先看分区。\n\nConsumer lag grows.",
        },
    )
    assert found(index, built, query) == ["bilingual"]
