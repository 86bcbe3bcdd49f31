"""Baseline, difference and gate: green but moved is seen, not comparable is no pass."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import CheckFailed, InvalidCases, NotFound
from core.evaluation.baseline import accept, diff_baseline, load_baseline, write_diff
from core.evaluation.cases import Case
from core.evaluation.difference import Change, difference
from core.evaluation.gate import gate
from core.evaluation.offline import evaluate
from core.evaluation.report import Report
from tests.unit.evaluation.eval_samples import a_case, a_fixture, attempt, cases_of, evidence, fixtures_of, lookup, row

ONE = a_case("one", expectedDocIds=["a"], goldSources=[{"docId": "a"}], poolDepth=5)
TWO = a_case("two", expectedDocIds=["b"], goldSources=[{"docId": "b"}], poolDepth=5)


def _result(*documents: str, **fields: Any) -> dict[str, Any]:
    pieces = [evidence(f"{name}#chunk-0") for name in documents]
    rows = [row(f"{n}#chunk-0", dense_rank=i, rrf_rank=i, original_rank=i) for i, n in enumerate(documents, start=1)]
    return lookup(pieces, [attempt(rows=rows)], **fields)


def _report(results: dict[str, dict[str, Any] | None], cases: tuple[Case, ...] = (ONE, TWO), **fields: Any) -> Report:
    fixtures = [a_fixture(case, results[case.case_id], **fields) for case in cases if case.case_id in results]
    return evaluate(cases_of(*cases), fixtures_of(*fixtures), ks=(5,))


GOOD = _report({"one": _result("a", "x"), "two": _result("b", "x")})


def _rules(report: Report, folder: Path, **options: Any) -> set[str]:
    return {reason.rule for reason in gate(report, load_baseline(folder), **options).reasons}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    accept(GOOD, tmp_path, who="pat", reason="first run, read case by case")
    return tmp_path


def test_an_unchanged_run_passes_the_gate(folder: Path) -> None:
    result = gate(GOOD, load_baseline(folder))
    assert (result.passed, result.reasons) == (True, ())
    assert result.difference is not None
    assert result.difference.counts() == {
        "improved": 0,
        "regressed": 0,
        "equal": 2,
        "unknown": 0,
        "eval_incomplete": 0,
    }


def test_a_missing_baseline_fails_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no baseline"):
        load_baseline(tmp_path)
    result = gate(GOOD, None)
    assert (result.passed, [reason.rule for reason in result.reasons]) == (False, ["missing_baseline"])
    assert list(tmp_path.iterdir()) == []


def test_accepting_needs_a_reason_and_a_name_and_keeps_the_history(folder: Path) -> None:
    for who, reason in (("pat", "  "), ("", "because")):
        with pytest.raises(CheckFailed, match="only with a reason"):
            accept(GOOD, folder, who=who, reason=reason)
    baseline = accept(GOOD, folder, who="kim", reason="again,\nwith care")
    assert [(entry.who, entry.reason) for entry in baseline.history] == [
        ("pat", "first run, read case by case"),
        ("kim", "again, with care"),
    ]
    assert "kim" in (folder / "baseline.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "results", [{"one": _result("x"), "two": _result("b")}, {"one": None, "two": _result("b")}, {"two": _result("b")}]
)
def test_accepting_is_refused_while_a_reviewed_case_does_not_pass(tmp_path: Path, results: dict[str, Any]) -> None:
    with pytest.raises(CheckFailed, match="1 reviewed cases do not pass: one"):
        accept(_report(results), tmp_path, who="pat", reason="hurry")
    assert list(tmp_path.iterdir()) == []


def test_case_99_a_run_above_the_failure_limit_is_no_baseline_even_when_only_drafts_failed(tmp_path: Path) -> None:
    draft = a_case("draft", expectedDocIds=["a"], review={"status": "draft"})
    report = _report({"one": _result("a"), "draft": None}, (ONE, draft))
    with pytest.raises(CheckFailed, match="1 of 2 cases failed"):
        accept(report, tmp_path, who="pat", reason="hurry")
    accept(report, tmp_path, who="pat", reason="known outage", failure_limit=0.5)


def test_a_reviewed_case_that_fails_turns_the_gate_red_and_names_the_stage(folder: Path) -> None:
    result = gate(_report({"one": _result("x"), "two": _result("b", "x")}), load_baseline(folder))
    assert {reason.rule for reason in result.reasons} == {"reviewed_case_failed", "regressed", "query_drop"}
    assert result.stages == (("dense", 3),)


def test_a_draft_that_fails_does_not(tmp_path: Path) -> None:
    draft = a_case("draft", expectedDocIds=["a"], review={"status": "draft"})
    accept(_report({"one": _result("a"), "draft": _result("x")}, (ONE, draft)), tmp_path, who="pat", reason="drafts")
    assert _rules(_report({"one": _result("a"), "draft": _result("x")}, (ONE, draft)), tmp_path) == set()


def test_nothing_reviewed_guards_nothing_and_is_no_pass() -> None:
    draft = a_case("draft", expectedDocIds=["a"], review={"status": "draft"})
    rules = {reason.rule for reason in gate(_report({"draft": _result("a")}, (draft,)), None).reasons}
    assert "nothing_reviewed" in rules


def test_a_missing_case_and_a_failed_task_turn_the_gate_red(folder: Path) -> None:
    assert "case_missing" in _rules(_report({"one": _result("a", "x")}), folder)
    assert "task_failed" in _rules(_report({"one": _result("a", "x"), "two": None}), folder)


def test_case_70_an_invalid_score_turns_the_gate_red(folder: Path) -> None:
    bad = _report({"one": _result("a", "x"), "two": _result("b", "x", top_quality=float("nan"))})
    assert _rules(bad, folder) == {"invalid_score"}


def test_a_stale_fixture_turns_the_gate_red(folder: Path) -> None:
    assert "stale_fixture" in _rules(
        _report({"one": _result("a", "x"), "two": _result("b", "x")}, query="other"), folder
    )


def test_one_query_that_drops_more_than_the_limit_fails_though_the_mean_holds(folder: Path) -> None:
    moved = _report({"one": _result("x", "y", "a"), "two": _result("b", "x")})
    assert [row.passed for row in moved.rows] == [True, True]
    reasons = gate(moved, load_baseline(folder)).reasons
    assert {reason.rule for reason in reasons} == {"query_drop"}
    assert "from 1.000 to 0.500 (limit 0.4)" in reasons[0].text
    assert _rules(moved, folder, max_drop=0.6) == set()


def test_a_pack_that_is_cut_turns_the_gate_red_and_names_the_pack(folder: Path) -> None:
    cut = _report({"one": _result("a", "x", packed=[]), "two": _result("b", "x")})
    result = gate(cut, load_baseline(folder))
    assert [(reason.rule, reason.stage) for reason in result.reasons] == [("query_drop", "pack")]
    assert cut.loss_counts == {"PACKING_DROP": ("one",)}


def test_a_case_that_goes_another_way_names_the_stage_that_sent_it_there_before_any_metric(tmp_path: Path) -> None:
    case = a_case("one", expectedDocIds=["a"], expectedSelectedAttempt="UNFILTERED_VECTOR_RETRY", poolDepth=5)
    first = attempt("FILTERED_VECTOR", [row("x#chunk-0", dense_rank=1)], category_filter="redis", low_quality=True)
    retry = attempt("UNFILTERED_VECTOR_RETRY", [row("a#chunk-0", dense_rank=1, bm25_rank=1, rrf_rank=1)])
    sound = lookup([evidence("a#chunk-0")], [first, retry], fallback="FALLBACK_LOW_QUALITY")
    accept(_report({"one": sound}, (case,)), tmp_path, who="pat", reason="the retry finds it")
    for low_quality, stage in ((True, "fallback"), (False, "gate")):
        stuck = lookup([evidence("x#chunk-0")], [{**first, "low_quality": low_quality}])
        result = gate(_report({"one": stuck}, (case,)), load_baseline(tmp_path))
        assert result.stages == ((stage, 3),)


def test_another_way_that_no_case_forbids_is_a_matter_of_the_fallback(tmp_path: Path) -> None:
    case = a_case("one", expectedDocIds=["a"], goldSources=[{"docId": "a"}], poolDepth=5)
    first = attempt("FILTERED_VECTOR", [row("a#chunk-0", dense_rank=1, rrf_rank=1)], category_filter="redis")
    accept(_report({"one": lookup([evidence("a#chunk-0")], [first])}, (case,)), tmp_path, who="pat", reason="filtered")
    retry = attempt("UNFILTERED_VECTOR_RETRY", [row("x#chunk-0", dense_rank=1, rrf_rank=1)])
    lost = lookup([evidence("x#chunk-0")], [first, retry], fallback="FALLBACK_LOW_QUALITY")
    assert {r.stage for r in gate(_report({"one": lost}, (case,)), load_baseline(tmp_path)).reasons} == {"fallback"}


def test_without_a_fallen_metric_or_a_loss_the_failed_field_names_the_stage(tmp_path: Path) -> None:
    case = a_case("one", mustNotDocIds=["copy"], expectedDocIds=["a"], poolDepth=5)
    accept(_report({"one": _result("a")}, (case,)), tmp_path, who="pat", reason="no copy")
    result = gate(_report({"one": _result("a", "copy")}, (case,)), load_baseline(tmp_path))
    assert {reason.stage for reason in result.reasons} == {"evidence"}


def test_the_difference_is_signed_and_missing_is_unknown_not_equal() -> None:
    now = _report({"one": _result("x", "a"), "two": None})
    diff = difference(GOOD.identity, GOOD.rows, now.identity, now.rows)
    assert [(item.case_id, item.change) for item in diff.changes] == [
        ("one", Change.REGRESSED),
        ("two", Change.UNKNOWN),
    ]
    back = difference(now.identity, now.rows, GOOD.identity, GOOD.rows)
    assert back.changes[0].change is Change.IMPROVED
    fewer = difference(GOOD.identity, GOOD.rows, GOOD.identity, GOOD.rows[:1])
    assert (fewer.changes[1].change, fewer.changes[1].text) == (Change.UNKNOWN, "missing now")


def test_case_100_a_fall_on_unjudged_results_is_incomplete_and_no_regression() -> None:
    loose = a_case("loose", expectedDocIds=["a"], goldSources=[{"docId": "a"}])
    before = _report({"loose": _result("a")}, (loose,))
    now = _report({"loose": _result("x", "y", "a")}, (loose,))
    change = difference(before.identity, before.rows, now.identity, now.rows).changes[0]
    assert change.change is Change.EVAL_INCOMPLETE
    assert "too few of the first 5 results are judged" in change.text
    settled = difference(before.identity, before.rows, now.identity, now.rows, unjudged_limit=1.0).changes[0]
    assert settled.change is Change.REGRESSED


def test_a_fall_whose_first_loss_is_the_labels_own_is_incomplete_and_still_no_pass(tmp_path: Path) -> None:
    gold = [{"path": "a.md", "anchor": "the pool holds 8"}]
    case = a_case("one", expectedDocIds=["a"], goldPassages=gold, poolDepth=5)
    accept(_report({"one": _result("a", "x")}, (case,)), tmp_path, who="pat", reason="first")
    twin = lookup([evidence("twin#chunk-0", "As said, the pool holds 8.")], [attempt(rows=[])])
    result = gate(_report({"one": twin}, (case,)), load_baseline(tmp_path))
    assert result.difference is not None
    change = result.difference.changes[0]
    assert (change.change, change.passed_now) == (Change.EVAL_INCOMPLETE, False)
    assert change.text.endswith("its labels cannot carry a verdict, mend them first")
    assert result.difference.counts()["regressed"] == 0
    assert {reason.rule for reason in result.reasons} == {"reviewed_case_failed", "labels_incomplete"}


def test_case_103_other_cases_k_corpus_or_model_are_not_comparable_and_no_pass(folder: Path) -> None:
    baseline = load_baseline(folder)
    good: dict[str, Any] = {"one": _result("a", "x"), "two": _result("b", "x")}
    edited = a_case("two", query="redis pools", expectedDocIds=["b"], goldSources=[{"docId": "b"}], poolDepth=5)
    deeper = evaluate(
        cases_of(ONE, TWO), fixtures_of(a_fixture(ONE, good["one"]), a_fixture(TWO, good["two"])), ks=(10,)
    )
    for report, fields in (
        (_report(good, (ONE,)), {"cases", "case_count"}),
        (_report(good, (ONE, edited)), {"cases"}),
        (_report(good, corpusSnapshot="other"), {"corpus"}),
        (_report(good, profile="use"), {"profile"}),
        (deeper, {"ks"}),
    ):
        diff = diff_baseline(report, baseline)
        assert (diff.comparable, diff.changes) == (False, ())
        assert {item.field for item in diff.differing} == fields
        result = gate(report, baseline)
        assert (result.passed, {reason.rule for reason in result.reasons}) == (False, {"not_comparable"})


def test_case_103_the_edited_case_is_named(folder: Path) -> None:
    edited = a_case("two", query="redis pools", expectedDocIds=["b"], goldSources=[{"docId": "b"}], poolDepth=5)
    diff = diff_baseline(_report({"one": _result("a"), "two": _result("b")}, (ONE, edited)), load_baseline(folder))
    assert diff.differing[0].detail == "changed: two"


def test_changed_settings_are_what_is_tested_and_only_named(folder: Path) -> None:
    report = _report({"one": _result("a", "x"), "two": _result("b", "x")}, fingerprint="other", generation=2)
    diff = diff_baseline(report, load_baseline(folder))
    assert diff.comparable
    assert {item.field for item in diff.under_test} == {"settings", "generation"}
    assert gate(report, load_baseline(folder)).passed


def test_the_difference_is_written_as_json_and_markdown(folder: Path) -> None:
    now = _report({"one": _result("x", "a"), "two": None})
    json_file, markdown = write_diff(folder, diff_baseline(now, load_baseline(folder)))
    data = json.loads(json_file.read_text(encoding="utf-8"))
    assert (data["comparable"], data["counts"]["regressed"], data["counts"]["unknown"]) == (True, 1, 1)
    assert "| one | regressed |" in markdown.read_text(encoding="utf-8")
    other = replace(GOOD, identity=replace(GOOD.identity, corpus="other"))
    _, markdown = write_diff(folder, diff_baseline(other, load_baseline(folder)))
    assert "Not comparable" in markdown.read_text(encoding="utf-8")


def test_a_broken_baseline_is_no_baseline(tmp_path: Path) -> None:
    (tmp_path / "baseline.json").write_text('{"identity": NaN}', encoding="utf-8")
    with pytest.raises(InvalidCases, match="not a baseline"):
        load_baseline(tmp_path)


def test_an_empty_case_set_is_refused() -> None:
    with pytest.raises(InvalidCases, match="no cases"):
        evaluate(cases_of(), fixtures_of())
