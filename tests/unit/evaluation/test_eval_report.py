"""Reports and tables: strict JSON, Markdown without surprises, cells that stay text."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidCases
from core.evaluation.fixtures import write_fixtures
from core.evaluation.gold import unresolved
from core.evaluation.markdown import report_csv, report_markdown
from core.evaluation.offline import evaluate, run_offline
from core.evaluation.report import plain, report_data, to_json
from core.evaluation.stages import RankedStage
from core.evaluation.tables import csv_text, markdown_cell
from core.evaluation.view import failures_first, ladder_rows, loss_flow, metric_table, neighbours, review_list
from tests.unit.evaluation.eval_samples import a_case, a_fixture, attempt, cases_of, evidence, fixtures_of, lookup, row

EVIL = '=HYPERLINK("https://kb.example.invalid")'
CASES = [
    a_case("good", expectedDocIds=["a"], goldSources=[{"docId": "a"}], queryType="exact", tags=["redis"], poolDepth=5),
    a_case("bad", query="|<b>x</b>|", expectedDocIds=[EVIL], queryType="exact", poolDepth=5),
    a_case("missing", expectedDocIds=["a"], queryType="long_tail"),
    a_case("draft", expectedDocIds=["zzz"], review={"status": "draft"}, poolDepth=5),
]


def _result() -> dict[str, Any]:
    rows = [row("a#chunk-0", dense_rank=1, bm25_rank=2, rrf_rank=1, original_rank=1)]
    return lookup([evidence("a#chunk-0")], [attempt(rows=rows)])


REPORT = evaluate(cases_of(*CASES), fixtures_of(*(a_fixture(c, _result()) for c in CASES if c.case_id != "missing")))


def test_case_70_numbers_that_json_cannot_hold_become_null_with_a_reason() -> None:
    data = plain(
        {
            "scores": {
                "nan": float("nan"),
                "inf": float("inf"),
                "low": float("-inf"),
                "zero": -0.0,
                "big": 1e400,
                "ok": 0.5,
            }
        }
    )
    assert data == {
        "scores": {
            "nan": None,
            "inf": None,
            "low": None,
            "zero": -0.0,
            "big": None,
            "ok": 0.5,
            "reason": "not a finite number: nan, inf, low, big",
        }
    }
    assert json.loads(to_json(data)) == data
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"score": float("nan")})


def test_case_70_a_value_object_gets_the_reason_too() -> None:
    @dataclass(frozen=True)
    class Metric:
        mean: float
        other: float

    assert plain([Metric(float("nan"), 1.0)]) == [{"mean": None, "other": 1.0, "reason": "not a finite number: mean"}]


def test_a_report_is_strict_json_with_its_definitions() -> None:
    data = json.loads(to_json(report_data(REPORT)))
    assert data["identity"]["case_count"] == 4
    assert data["judgement"]["pass_rate"] == {"count": 1, "total": 4, "rate": 0.25}
    assert "linear gain" in data["definitions"]["ndcg@k"]
    assert data["identity"]["unjudged_rule"].startswith("unjudged counts as not relevant")
    assert data["rows"][2]["status"] == "NOT_RUN"


def test_the_markdown_report_puts_failures_first_and_escapes_what_it_quotes() -> None:
    text = report_markdown(REPORT)
    assert text.index("## Failures") < text.index("## Metrics by stage") < text.index("## How to read the numbers")
    assert "scored | 3 of 4" in text
    assert '=HYPERLINK\\("https\\://kb.example.invalid"\\)' in text
    assert "Not run: reranked." in text


def test_labels_that_point_to_nothing_come_before_any_metric() -> None:
    missing = unresolved(cases_of(CASES[0]), {"other": "text"})
    report = evaluate(cases_of(CASES[0]), fixtures_of(a_fixture(CASES[0], _result())), missing=missing)
    text = report_markdown(report)
    assert text.index("Labels that point to nothing") < text.index("## Summary")
    assert report.loss_counts == {"EVAL_INCOMPLETE": ("good",)}


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("<img src=x>", "&lt;img src=x&gt;"),
        ("a|b", "a\\|b"),
        ("two\nlines\t\x00\u202e", "two lines"),
        ("[x](http://a.invalid)", "\\[x\\]\\(http\\://a.invalid\\)"),
        ("$x$ & `y`", "\\$x\\$ &amp; \\`y\\`"),
        (None, ""),
        (True, "yes"),
        (0.25, "0.250"),
        (3, "3"),
    ],
)
def test_a_markdown_cell_is_one_line_of_literal_text(value: Any, cell: str) -> None:
    assert markdown_cell(value) == cell


@pytest.mark.parametrize("text", [EVIL, "+1+1", "@SUM(1)", "-2", "\t=1", "\r=1", "\n=1", " =1", "＝1"])
def test_case_121_a_cell_that_would_be_a_formula_opens_as_text(text: str) -> None:
    written = csv_text(("title",), [(text,)])
    read = list(csv.reader(io.StringIO(written.removeprefix("\ufeff"), newline="")))
    assert read[1] == [f"'{text}"]


def test_case_121_numbers_stay_numbers_and_chinese_opens_correctly() -> None:
    written = csv_text(("标题", "n", "x", "none", "yes"), [('多"行\n文本', -2, 0.5, None, True)])
    assert written.startswith("\ufeff")
    assert written == '\ufeff"标题","n","x","none","yes"\r\n"多""行\n文本",-2,0.5,"","true"\r\n'


def test_case_121_the_report_as_csv_is_safe() -> None:
    rows = list(csv.reader(io.StringIO(report_csv(REPORT).removeprefix("\ufeff"), newline="")))
    assert rows[0][0] == "case"
    assert [line[0] for line in rows[1:]] == ["good", "bad", "missing", "draft"]
    assert all(not cell.startswith(("=", "+", "-", "@")) for line in rows for cell in line)


def test_the_page_shows_reviewed_failures_first() -> None:
    assert [line["case"] for line in failures_first(REPORT)] == ["bad", "draft", "missing", "good"]


def test_the_flow_of_first_evidence_loss_keeps_every_case() -> None:
    flow = loss_flow(REPORT.losses)
    assert flow.aside == ("missing",)
    ends = [link for link in flow.links if link.code or flow.nodes[link.target] == "arrived"]
    assert sorted(case for link in ends for case in link.cases) == ["bad", "draft", "good"]
    assert {link.code for link in ends} == {"CANDIDATE_MISS", None}
    assert [link.value for link in flow.links if link.source == 0] == [2, 1]
    assert loss_flow([]).links == ()


def test_metric_rows_ladders_and_review_lists() -> None:
    table = {line["metric"]: line for line in metric_table(REPORT)}
    assert table["recall@5"]["evidence"] == pytest.approx(1 / 4)
    assert "reranked" not in table["recall@5"]
    assert {line["metric"]: line for line in metric_table(REPORT, query_type="long_tail")}["recall@5"]["fused"] == 0.0
    assert ladder_rows(REPORT.losses[0])[0]["bm25"] == 2
    assert [line["case"] for line in review_list(CASES, REPORT)] == ["draft", "bad", "good", "missing"]
    assert [line["case"] for line in review_list(CASES, tag="redis")] == ["good"]
    assert [line["case"] for line in review_list(CASES, status="draft", text="DRA")] == ["draft"]
    assert neighbours(["a", "b", "c"], "b") == ("a", "c")
    assert neighbours(["a"], "a") == (None, None)
    assert neighbours([], "a") == (None, None)


def _tree(tmp_path: Path) -> tuple[Path, Path, Path]:
    source = tmp_path / "seed-docs"
    source.mkdir()
    (source / "a.md").write_text("# A\n", encoding="utf-8")
    cases = tmp_path / "golden-cases.json"
    data = {"caseId": "good", "query": "redis pool", "expectedDocIds": ["a"], "review": {"status": "reviewed"}}
    cases.write_text(json.dumps({"version": 1, "cases": [data]}), encoding="utf-8")
    write_fixtures(tmp_path / "fixtures", "hybrid", [a_fixture(a_case("good"), _result())])
    return cases, tmp_path / "fixtures", source


def test_an_offline_run_needs_files_only(tmp_path: Path) -> None:
    cases, fixtures, source = _tree(tmp_path)
    report = run_offline(cases, fixtures, "hybrid", source=source)
    assert (report.rows[0].passed, report.unresolved) == (True, ())


def test_case_101_a_renamed_document_stops_the_run_or_is_listed_first(tmp_path: Path) -> None:
    cases, fixtures, source = _tree(tmp_path)
    (source / "a.md").rename(source / "b.md")
    with pytest.raises(InvalidCases, match=r"golden-cases\.json:1: case 'good': expectedDocIds 'a'"):
        run_offline(cases, fixtures, "hybrid", source=source)
    report = run_offline(cases, fixtures, "hybrid", source=source, on_unresolved="list")
    assert [item.value for item in report.unresolved] == ["a"]
    assert report.losses[0].counts is False


def test_case_101_another_chunking_of_the_same_text_changes_no_verdict_metric_or_loss() -> None:
    case = a_case(
        expectedDocIds=["a"],
        expectedKeywords=["maxTotal"],
        expectedEvidenceKeys=["a#chunk-0"],
        goldPassages=[{"path": "a.md", "anchor": "raise maxTotal"}],
        requiredFacts=[{"fact": "raise it", "path": "a.md", "anchor": "raise maxTotal"}],
        poolDepth=5,
    )

    def report(key: str, text: str) -> Any:
        rows = [row(key, dense_rank=1, bm25_rank=1, rrf_rank=1, original_rank=1)]
        probe = {"depth": 10, "passages": [{"path": "a.md", "anchor": "raise maxTotal", "evidenceKeys": [key]}]}
        fixture = a_fixture(case, lookup([evidence(key, text)], [attempt(rows=rows)]), probe=probe)
        return evaluate(cases_of(case), fixtures_of(fixture))

    coarse = report("a#chunk-0", "The pool is exhausted: raise maxTotal. Then look who holds a connection.")
    fine = report("a#chunk-3", "raise maxTotal.")
    assert coarse.rows == fine.rows
    assert (fine.rows[0].passed, fine.rows[0].loss, fine.rows[0].fact_coverage) == (True, None, 1.0)
    assert fine.mean(RankedStage.EVIDENCE, "ndcg@5").mean == 1.0
    assert [item.field for item in fine.verdicts[0].observations] == ["expectedEvidenceKeys"]  # seen, and gates nothing


def test_case_98_the_page_names_the_definition_of_recall_and_shows_its_ceiling() -> None:
    gold = [f"d{n}" for n in range(20)]
    case = a_case(goldSources=[{"docId": name} for name in gold], poolDepth=5)
    rows = [row(f"{name}#chunk-0", dense_rank=n, rrf_rank=n, original_rank=n) for n, name in enumerate(gold[:5], 1)]
    result = lookup([evidence(f"{name}#chunk-0") for name in gold[:5]], [attempt(rows=rows)])
    text = report_markdown(evaluate(cases_of(case), fixtures_of(a_fixture(case, result))))
    recall = next(line for line in text.splitlines() if line.startswith("| recall@5"))
    assert "0.250 \\(ceiling 0.25\\)" in recall
    assert "all known relevant documents \\(multi\\-hit recall\\)" in text


def test_case_92_the_page_lists_the_queries_without_results() -> None:
    cases = [a_case(name, goldSources=[{"docId": "a"}], poolDepth=5) for name in ("q1", "q2", "q3", "q4")]
    answers = [_result(), _result(), lookup([], [attempt(rows=[])]), lookup([], [attempt(rows=[])])]
    report = evaluate(cases_of(*cases), fixtures_of(*(a_fixture(c, a) for c, a in zip(cases, answers, strict=True))))
    assert report.mean(RankedStage.EVIDENCE, "recall@5").mean == 2 / 4
    assert report.mean(RankedStage.EVIDENCE, "ndcg@5").mean == 2 / 4
    text = report_markdown(report)
    assert "Without any result, counted as 0: 2 (q3, q4)." in text
    assert "Without any result" not in report_markdown(
        evaluate(cases_of(cases[0]), fixtures_of(a_fixture(cases[0], _result())))
    )
