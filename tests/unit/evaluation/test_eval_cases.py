"""Golden cases are read whole or refused with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidCases
from core.evaluation import locate
from core.evaluation.cases import load_cases
from core.evaluation.gold import coverage, necessary, read_source, relevance, unresolved
from tests.unit.evaluation.eval_samples import a_case, cases_of


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "golden-cases.json"
    path.write_text(text, encoding="utf-8")
    return path


def _file(tmp_path: Path, *cases: dict[str, Any]) -> Path:
    body = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    return _write(tmp_path, '{"version": 1,\n"cases": [\n' + body + "\n]}\n")


def test_a_minimal_case_expects_nothing_and_does_not_gate(tmp_path: Path) -> None:
    case = load_cases(_file(tmp_path, {"caseId": "c1", "query": "连接池耗尽"})).cases[0]
    assert (case.case_id, case.kb_scope, case.expected_doc_ids, case.gates) == ("c1", "rag-eval", (), False)


@pytest.mark.parametrize(
    ("status", "gates"), [("draft", False), ("reviewed", True), ("approved", True), ("rejected", False)]
)
def test_only_a_case_that_a_person_reviewed_gates(status: str, gates: bool) -> None:
    assert a_case(review={"who": "pat", "when": "2026-09-01", "status": status}).gates is gates


@pytest.mark.parametrize(
    ("extra", "line", "says"),
    [
        ({"expectedDocId": ["a"]}, 4, "unknown key 'expectedDocId'"),
        ({"expectedKeywords": ["a", "a"]}, 4, "expectedKeywords names 'a' twice"),
        ({"expectedDocIds": ["a", None]}, 4, "is null"),
        ({"tags": None}, 4, "is null"),
        ({"query": None}, 4, "is null"),
        ({"expectedSelectedAttempt": "FILTERED"}, 4, "FILTERED_VECTOR"),
        ({"expectedDocIds": ["a"], "mustNotDocIds": ["a"]}, 4, "wanted and forbidden"),
        ({"goldSources": [{"docId": "a", "grade": 4}]}, 4, "less than or equal to 3"),
        ({"goldSources": [{"docId": "a"}, {"docId": "a"}]}, 4, "goldSources names 'a' twice"),
        ({"firstExpectedRankMax": 2}, 4, "needs expectedDocIds"),
        ({"asOf": "yesterday"}, 4, "asOf"),
        ({"caseId": "first"}, 4, "given twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_file_and_line(
    tmp_path: Path, extra: dict[str, Any], line: int, says: str
) -> None:
    path = _file(tmp_path, {"caseId": "first", "query": "q"}, {"caseId": "second", "query": "q", **extra})
    with pytest.raises(InvalidCases, match=r"golden-cases\.json") as caught:
        load_cases(path)
    assert f"golden-cases.json:{line}: " in caught.value.problems[0]
    assert says in caught.value.problems[0]


def test_every_problem_is_listed_not_only_the_first(tmp_path: Path) -> None:
    path = _file(tmp_path, {"caseId": "a"}, {"query": "q"}, {"caseId": "c", "query": "q", "x": 1})
    with pytest.raises(InvalidCases) as caught:
        load_cases(path)
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: not valid JSON"),
        ('{"version": 1,\n"cases": [\n}', ":3: not valid JSON"),
        (
            '{"version": 1, "cases": [\n{"caseId": "a", "query": "q", "minEvidenceCount": NaN}]}',
            ":2: not valid JSON (NaN",
        ),
        (
            '{"version": 1, "cases": [\n{"caseId": "a",\n "caseId": "b", "query": "q"}]}',
            ":3: key 'caseId' stands twice",
        ),
        ('{"version": 2, "cases": []}', ":1: version 2"),
        ('{"version": 1, "cases": [],\n "other": 1}', ":2: unknown key 'other'"),
        ("[]", ":1: expected"),
    ],
)
def test_a_broken_file_is_refused_on_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidCases) as caught:
        load_cases(_write(tmp_path, text))
    assert says in str(caught.value)


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InvalidCases, match="give a UTF-8 JSON file"):
        load_cases(tmp_path / "none.json")


def test_old_spellings_of_a_fallback_reason_are_read_as_ours() -> None:
    assert (
        a_case(expectedFallbackReason="filtered_vector_low_quality").expected_fallback_reason == "FALLBACK_LOW_QUALITY"
    )


def test_the_fingerprint_follows_question_and_expectation_and_nothing_else() -> None:
    base = cases_of(a_case(expectedDocIds=["a"])).fingerprint
    assert cases_of(a_case(expectedDocIds=["a"], notes="why")).fingerprint == base
    assert cases_of(a_case(query="redis pool?", expectedDocIds=["a"])).fingerprint != base
    assert cases_of(a_case(expectedDocIds=["b"])).fingerprint != base


def test_case_98_a_document_named_twice_in_gold_counts_once() -> None:
    case = a_case(
        expectedDocIds=["a"],
        goldSources=[{"docId": "a", "grade": 2}, {"docId": "b", "grade": 1}],
        goldPassages=[{"path": "a.md", "anchor": "x", "grade": 3}],
        mustNotDocIds=["d"],
    )
    assert relevance(case) == {"a": 2, "b": 1, "d": 0}
    assert necessary(case) == ("a",)


def test_case_101_gold_that_resolves_to_nothing_is_listed_with_its_case(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "pool.md").write_text("# Pool\n\nmaxActive  is\n8 by default\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("not a document", encoding="utf-8")
    good = {"path": "redis/pool.md", "anchor": "maxActive is 8 by default"}
    case = a_case(
        expectedDocIds=["redis/pool"],
        expectedSources=["redis/pool.md"],
        mustNotDocIds=["README"],
        goldSources=[{"docId": "cache/pool"}],
        goldPassages=[good, {"path": "redis/pool.md", "anchor": "minIdle"}],
        requiredFacts=[{"fact": "eight", "path": "cache/pool.md", "anchor": "8"}],
    )
    found = [(item.field, item.value) for item in unresolved(cases_of(case), read_source(tmp_path))]
    assert found == [
        ("mustNotDocIds", "README"),
        ("goldSources", "cache/pool"),
        ("goldPassages", "minIdle"),
        ("requiredFacts", "cache/pool.md"),
    ]


def test_label_coverage_counts_cases_by_kind_of_label() -> None:
    cases = [a_case("a", goldSources=[{"docId": "x"}]), a_case("b", answerability="unanswerable")]
    counts = {item.label: (item.count, item.total) for item in coverage(cases)}
    assert counts["gold sources"] == (1, 2)
    assert counts["unanswerable"] == (1, 2)
    assert counts["required facts"] == (0, 2)


def test_a_value_is_located_by_line_even_inside_strings_that_look_like_json() -> None:
    text = '{\n "a": "}{\\"b\\": 1",\n "b": [\n  1,\n  {"c": 2}\n ]\n}'
    assert locate.line_of(text, ("b", 1, "c")) == 5
    assert locate.line_of(text, ("b", 9)) == 3
    assert locate.item_lines(text, ("b",)) == [4, 5]
    assert locate.item_lines(text, ("nothing",)) == []
