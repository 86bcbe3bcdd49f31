"""The Eval page: which run it judges, what it says of each case, and where a choice leads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.evaluation.desk import EvaluationDesk
from core.evaluation.view import loss_flow
from core.model import Mode
from core.settings import EvaluationSettings, Settings
from pages.parts import eval_case, eval_cases, eval_flow, eval_losses, eval_run, eval_services
from tests.unit.evaluation.eval_folder import CASES, HYBRID, an_evaluation, broken_cases, write_cases
from tests.unit.evaluation.eval_samples import a_case, a_fixture
from tests.unit.pages.fake_app import FakeApp
from tests.unit.pages.test_page_query import drawn

OpenPage = Callable[..., AppTest]
PATH = "pages/evaluation.py"


@pytest.fixture
def folder(fake: FakeApp, tmp_path: Path) -> Path:
    """An evaluation folder that the page reads; empty until a test writes into it."""
    place = tmp_path / "eval"
    fake.settings = Settings(evaluation=EvaluationSettings(folder=str(place)))
    return place


def judged(folder: Path, mode: Mode = Mode.HYBRID) -> eval_services.Run:
    desk = EvaluationDesk(folder)
    return eval_services.beside_baseline(desk, desk.cases(), desk.offline(mode), mode)


def press(at: AppTest, key: str) -> AppTest:
    at.button(key=key).click().run()
    assert not at.exception
    return at


def choose(at: AppTest, key: str, value: str) -> AppTest:
    at.segmented_control(key=f"eval.{key}").set_value(value).run()
    assert not at.exception
    return at


# ---------------------------------------------------------------- nothing to judge


@pytest.mark.usefixtures("folder")
def test_a_folder_without_cases_says_where_to_write_them(open_page: OpenPage) -> None:
    at = open_page(PATH)
    assert "No golden cases yet" in drawn(at)
    assert not at.error


def test_cases_without_frozen_lookups_say_how_to_freeze_some(open_page: OpenPage, folder: Path) -> None:
    write_cases(folder)
    words = drawn(open_page(PATH, mode="dense"))
    assert "Nothing is frozen in mode dense" in words
    assert "eval snapshot" in words


def test_a_broken_case_file_is_named_with_its_line_and_nothing_is_judged(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    broken_cases(folder)
    at = open_page(PATH)
    assert [e.value for e in at.error] == ["The frozen lookups cannot be judged: this input cannot be used"]
    assert "golden-cases.json:5: case 'lost': unknown key 'expectedDocID'" in drawn(at)
    assert not at.dataframe


def test_a_mended_case_file_is_read_on_the_next_run(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    broken_cases(folder)
    at = open_page(PATH)
    write_cases(folder)
    at.run()
    assert not at.error
    assert len(at.dataframe[0].value) == len(CASES)


# ---------------------------------------------------------------- the run at a glance


def test_a_run_is_judged_once_until_a_file_of_it_changes(
    open_page: OpenPage, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_evaluation(folder)
    runs: list[Mode] = []
    real = EvaluationDesk.offline
    monkeypatch.setattr(EvaluationDesk, "offline", lambda self, mode: runs.append(mode) or real(self, mode))
    at = open_page(PATH)
    choose(at, "show", "failing")
    assert runs == [Mode.HYBRID]
    write_cases(folder, CASES[:2])
    at.run()
    assert runs == [Mode.HYBRID, Mode.HYBRID]
    choose(at, "mode", "dense")
    assert (runs[-1], at.query_params["mode"]) == (Mode.DENSE, "dense")


def test_the_strip_counts_reviewed_all_and_scored_apart(folder: Path) -> None:
    told = {fact.label: (fact.value, fact.tone) for fact in eval_run.run_facts(judged(an_evaluation(folder)))}
    assert told["Reviewed cases that pass"] == ("2 of 3", "red")
    assert told["All cases that pass"][0] == "2 of 5"
    assert told["Scored"] == ("4 of 5", "orange")
    assert told["First evidence loss"][0] == "3"
    assert told["Against the baseline"][0] == "no baseline"
    assert told["Gate"][0].startswith("closed, ")


def test_without_a_reviewed_case_nothing_is_green(folder: Path) -> None:
    an_evaluation(folder, cases=(a_case("x", "q", review={"status": "draft"}),), hybrid=())
    told = {fact.label: (fact.value, fact.tone) for fact in eval_run.run_facts(judged(folder))}
    assert told["Reviewed cases that pass"] == ("–", "orange")
    assert "green" not in {tone for _, tone in told.values()}


def test_labels_that_point_to_nothing_and_stale_fixtures_come_first(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder, hybrid=(a_fixture(CASES[0], HYBRID[0].lookup_result, generation=2), *HYBRID[1:]))
    (folder / "seed-docs" / "b.md").unlink()
    at = open_page(PATH)
    assert [e.value for e in at.error] == ["2 labels point to nothing: mend these first"]
    assert list(at.dataframe[0].value["Label"]) == ["b", "b"]
    assert any("1 fixtures are stale" in w.value for w in at.warning)


# ---------------------------------------------------------------- the list


def test_reviewed_failures_come_first_and_no_state_is_told_as_another(folder: Path) -> None:
    run = judged(an_evaluation(folder))
    ids = ["lost", "draft", "unrun", "refuse", "good"]
    assert [line["case"] for line in eval_cases.failures_first(run.report)] == ids
    assert list(eval_cases.case_table(run, ids)["Outcome"]) == ["FAILS", "fails (draft)", "not run", "passes", "passes"]
    dense = judged(folder, Mode.DENSE)
    assert (
        eval_case.outcome(next(row for row in dense.report.rows if row.case_id == "draft")) == "lookup failed (draft)"
    )


def test_a_failed_expectation_is_told_in_words(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    table = open_page(PATH).dataframe[0].value.set_index("Case")
    assert table["Failed expectations"]["lost"] == "expectedDocIds: b is not among the 2 pieces of evidence"
    assert table["First loss"]["lost"] == "EVIDENCE_DROP"
    assert table["Recall@5"]["lost"] == 0.0
    assert table["Recall@5"].isna()["refuse"]
    assert table["First rank"].isna()["lost"]


@pytest.mark.parametrize(
    ("name", "value", "ids"),
    [
        ("show", "failing", ["lost", "draft", "unrun"]),
        ("show", "reviewed", ["lost", "refuse", "good"]),
        ("type", "12.1", ["unrun"]),
        ("tag", "2+", ["lost"]),
        ("loss", "EVIDENCE_DROP", ["lost"]),
        ("loss", "none", ["unrun", "good"]),
        ("tag", "no such tag", ["lost", "draft", "unrun", "refuse", "good"]),
    ],
)
def test_filters_stand_in_the_address(open_page: OpenPage, folder: Path, name: str, value: str, ids: list[str]) -> None:
    an_evaluation(folder)
    at = open_page(PATH, **{name: value})
    assert list(at.dataframe[0].value["Case"]) == ids


def test_a_filter_that_fits_nothing_says_so(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, type="12.1", tag="2+")
    assert "No case fits these filters" in drawn(at)


def test_choosing_a_cell_opens_the_case_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(eval_cases.eval_address, "put", lambda case: opened.append(case))
    for row in (1, 7):
        eval_cases.chosen({"selection": {"rows": [], "columns": [], "cells": [(row, "Case")]}}, ("a", "b"))
    eval_cases.chosen({"selection": {"rows": [], "columns": [], "cells": []}}, ("a", "b"))
    assert opened == ["b"]


# ---------------------------------------------------------------- one case


def test_a_case_of_the_address_is_shown_whole(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, case="lost")
    words = drawn(at)
    assert "why is <b>b</b> $slow$" in [text.value for text in at.text]
    assert "b is not among the 2 pieces of evidence" in words
    assert "EVIDENCE_DROP: b fell out by document_limit" in words
    assert "1 of 5" in words
    ladder = next(d.value for d in at.dataframe if "Grade" in d.value)
    assert ladder[["Document", "BM25", "Fused"]].values.tolist() == [["b", 1, 2]]
    assert ladder["Evidence"].isna().tolist() == [True]
    seen = next(d.value for d in at.dataframe if "Seen by the agent" in d.value)
    assert list(seen["Label"]) == ["unjudged", "unjudged"]


def test_a_case_leads_on_to_its_neighbours_and_closes(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, case="lost")
    assert at.button(key="eval.case.previous").disabled
    press(at, "eval.case.next")
    assert at.query_params["case"] == "draft"
    press(at, "eval.case.previous")
    assert at.query_params["case"] == "lost"
    press(at, "eval.case.close")
    assert "case" not in at.query_params


def test_neighbours_are_those_of_the_filtered_list(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = press(open_page(PATH, case="lost", show="reviewed"), "eval.case.next")
    assert at.query_params["case"] == "refuse"
    assert "2 of 3" in drawn(at)


def test_an_address_of_no_case_is_one_box_over_the_list(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, case="../../settings")
    assert [e.value for e in at.error] == ["This case cannot be shown: this input cannot be used"]
    press(at, "eval.case.close")
    assert not at.error


def test_a_case_that_was_not_run_has_no_evidence_and_says_so(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, case="unrun")
    assert "no fixture: it was not run" in drawn(at)
    assert not any("Seen by the agent" in d.value for d in at.dataframe)


def test_the_labels_of_what_was_returned() -> None:
    case = a_case("x", "q", goldSources=[{"docId": "a", "grade": 3}], mustNotDocIds=["c"])
    table = eval_case.evidence_table(case, HYBRID[0])
    assert list(table["Label"]) == ["grade 3", "forbidden"]
    assert list(table["Seen by the agent"]) == ["yes", "yes"]


# ---------------------------------------------------------------- losses


def test_the_flow_takes_every_observed_case_to_an_end(folder: Path) -> None:
    run = judged(an_evaluation(folder))
    flow = loss_flow(run.report.losses)
    figure = eval_flow.flow_figure(flow)
    dots = figure.data[0]
    assert [data[0] for data in dots.customdata] == ["CANDIDATE_MISS", "EVIDENCE_DROP", "SHOULD_REFUSE"]
    assert len(set(dots.y)) == 3
    names = [note.text for note in figure.layout.annotations]
    assert names[0] == "cases 4"
    assert names[-1] == "arrived 1"
    assert flow.aside == ("unrun",)


def test_a_flow_without_a_loss_or_without_a_case_can_be_drawn() -> None:
    figure = eval_flow.flow_figure(loss_flow([]))
    assert [note.text for note in figure.layout.annotations] == ["cases 0"]


def test_a_loss_leads_to_its_cases(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, view="losses", loss="EVIDENCE_DROP")
    codes = next(d.value for d in at.dataframe if "What it means" in d.value).set_index("Code")
    assert (codes["Cases"]["EVIDENCE_DROP"], codes["Lost at"]["EVIDENCE_DROP"]) == (1, "evidence")
    cases = next(d.value for d in at.dataframe if "Outcome" in d.value)
    assert list(cases["Case"]) == ["lost"]
    assert "1 cases stand aside" in drawn(at)


def test_every_code_has_a_meaning() -> None:
    assert set(eval_losses.MEANING) == set(eval_losses.LossCode)


def test_a_run_without_a_loss_says_so(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder, cases=CASES[:1], hybrid=HYBRID[:1])
    assert "Nothing was lost" in drawn(open_page(PATH, view="losses"))


# ---------------------------------------------------------------- foreign text


@pytest.mark.parametrize("name", ["view", "case", "loss", "type", "tag", "show", "mode", "metric", "run"])
def test_a_foreign_address_is_never_drawn_as_markup(open_page: OpenPage, folder: Path, name: str) -> None:
    an_evaluation(folder)
    at = open_page(PATH, **{name: "<script>alert(1)</script> ![x](https://kb.example.invalid/x.png)"})
    no_markup(at)


def no_markup(at: AppTest) -> None:
    for element in (*at.markdown, *at.caption, *at.error, *at.warning, *at.subheader, *at.success, *at.info):
        outside = "".join(str(element.value).split("`")[::2])
        assert "<script" not in outside
        assert "](" not in outside
        assert "$slow$" not in outside


def test_case_114_case_ids_tags_and_queries_of_a_file_are_text(open_page: OpenPage, folder: Path) -> None:
    evil = "<script>$slow$ [x](y)"
    case = a_case("e-1", evil, tags=[evil], queryType=evil, notes=evil, scenario=evil, expectedDocIds=[evil])
    an_evaluation(folder, cases=(case,), hybrid=(a_fixture(case, HYBRID[0].lookup_result),))
    for view in ("cases", "losses", "metrics", "behaviour", "baseline"):
        at = open_page(PATH, view=view, case="e-1")
        no_markup(at)
    assert evil in [text.value for text in open_page(PATH, case="e-1").text]


def test_case_105_dollar_signs_of_a_question_stay_signs(open_page: OpenPage, folder: Path) -> None:
    money = "费用为 $114.22 至 $167.88，$PATH 与 $HOME，10~20 与 30~40"
    case = a_case("e-1", money, expectedDocIds=["a"])
    an_evaluation(folder, cases=(case,), hybrid=(a_fixture(case, HYBRID[0].lookup_result),))
    at = open_page(PATH, case="e-1")
    assert money in [text.value for text in at.text]
    assert not any("114.22" in str(e.value) for e in (*at.markdown, *at.caption))
