"""The numbers and pictures of the Eval page: metrics, behaviour, baseline, comparison, calibration."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from core.evaluation.calibrate import Distribution, ErrorRate
from core.evaluation.calibration_file import CalibrationFile
from core.evaluation.compare import PairedMetric
from core.evaluation.desk import EvaluationDesk
from core.evaluation.fixtures import write_fixtures
from core.evaluation.stages import RankedStage
from core.evaluation.stats import Interval
from core.model import EmbeddingProfile, Mode
from core.settings import AuthSettings, EmbeddingSettings, EvaluationSettings, Settings
from pages.parts import (
    access,
    eval_baseline,
    eval_behaviour,
    eval_calibration,
    eval_compare,
    eval_figures,
    eval_metrics,
)
from pages.parts.eval_figures import Bar
from tests.unit.evaluation.eval_folder import (
    CASES,
    DENSE,
    GOOD,
    HYBRID,
    LOST,
    all_passing,
    an_evaluation,
    answers,
    write_cases,
)
from tests.unit.evaluation.eval_samples import a_case, a_fixture
from tests.unit.pages.fake_app import FakeApp
from tests.unit.pages.test_page_eval import PATH, choose, judged, press
from tests.unit.pages.test_page_query import drawn

OpenPage = Callable[..., AppTest]
PROFILE = EmbeddingProfile("e5/test", "e5", 8)
VICTOR = access.User("victor", access.Role.VIEWER)


@pytest.fixture
def folder(fake: FakeApp, tmp_path: Path) -> Path:
    place = tmp_path / "eval"
    fake.settings = Settings(
        evaluation=EvaluationSettings(folder=str(place)),
        embedding=EmbeddingSettings(calibration=str(tmp_path / "calibration.json")),
    )
    fake.embedder = SimpleNamespace(profile=PROFILE)  # type: ignore[attr-defined]
    return place


def viewer(fake: FakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.settings = fake.settings.model_copy(update={"auth": AuthSettings(mode="header")})
    monkeypatch.setattr(access, "identify", lambda *_: VICTOR)


def tables(at: AppTest, column: str) -> list[object]:
    return [d.value for d in at.dataframe if column in d.value]


# ---------------------------------------------------------------- metrics


def test_every_stage_has_its_means_with_what_they_stand_on(folder: Path) -> None:
    report = judged(an_evaluation(folder)).report
    table = eval_metrics.stage_table(report, 5).set_index("Stage")
    assert table["recall@5"]["bm25"] == pytest.approx((1 + 1 + 0) / 4)
    assert table["recall@5"]["evidence"] == pytest.approx(1 / 4)
    assert table["Scored"]["evidence"] == "3 of 4"
    assert table["Failed"]["evidence"] == 1
    assert table["Scored"]["reranked"] == "not run"
    assert table["recall@5"].isna()["reranked"]
    assert table["judged@5"]["evidence"] + table["unjudged ratio@5"]["evidence"] == pytest.approx(1)
    assert table["ndcg@5"].isna()["union"]


def test_groups_stand_beside_their_pass_rates_and_what_they_were_scored_on(folder: Path) -> None:
    report = judged(an_evaluation(folder)).report
    table = eval_metrics.group_table(report, "tag", "recall@5").set_index("Tag")
    assert (table["Passes"]["en"], table["Passes"]["2"]) == ("2 of 3", "1 of 1")
    assert table["evidence"]["en"] == pytest.approx(1 / 2)
    assert table["Scored (evidence)"]["'2+" if "'2+" in table.index else "2+"] == "1 of 1"
    types = eval_metrics.group_table(report, "query type", "recall@5").set_index("Query type")
    assert types["evidence"].isna()["no_answer"]
    assert types["Passes"]["no_answer"] == "1 of 1"


def test_the_metrics_view_keeps_its_choices_in_the_address(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = choose(open_page(PATH, view="metrics"), "by", "tag")
    at.selectbox(key="eval.metric").set_value("mrr").run()
    assert not at.exception
    assert (at.query_params["by"], at.query_params["metric"]) == ("tag", "mrr")
    assert tables(at, "Tag")
    assert tables(at, "Definition")


def test_without_gold_there_is_no_ranking_to_score(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder, cases=(CASES[2],), hybrid=(HYBRID[2],))
    assert "No ranking to score" in drawn(open_page(PATH, view="metrics"))


def test_case_113_a_bar_a_category_in_the_given_order_with_its_exact_label_and_nan_as_a_noted_gap() -> None:
    long = "两个一样长的名字" * 12
    names = ["12.1", "12.1.1", "2", "2+", "<b>粗</b>", long, long, "nan"]
    figure = eval_figures.bars([*(Bar(name, 0.5) for name in names[:-1]), Bar("nan", float("nan"))])
    (bar,) = figure.data
    assert list(bar.y) == list(range(8))
    assert list(bar.x) == [0.5] * 7 + [None]
    assert figure.layout.yaxis.type == "linear"
    labels = list(figure.layout.yaxis.ticktext)
    assert labels[:5] == ["12.1", "12.1.1", "2", "2+", "&lt;b&gt;粗&lt;/b&gt;"]
    assert labels[5] == labels[6] != long
    assert figure.layout.annotations[7].text == "no value"
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]


def test_case_113_the_groups_of_a_report_are_drawn_as_they_are_written(folder: Path) -> None:
    run = judged(an_evaluation(folder))
    means = eval_metrics.group_means(run.report.stage(RankedStage.EVIDENCE), "tag", "recall@5")
    assert [bar.name for bar in eval_metrics.group_bars(means)] == ["2", "2+", "en"]


def test_no_bar_at_all_is_a_picture_too() -> None:
    assert list(eval_figures.bars([]).data[0].x) == []


# ---------------------------------------------------------------- behaviour


def test_the_gate_is_counted_by_what_should_have_been(folder: Path) -> None:
    table = eval_behaviour.gate_table(judged(an_evaluation(folder)).report).set_index("Cases")
    assert table.loc["answerable"].tolist() == [3, 0, 0]
    assert table.loc["unanswerable"].tolist() == [1, 0, 1]


def test_the_behaviour_view_names_cases_and_times(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, view="behaviour")
    watch = next(d.value for d in at.dataframe if "Which" in d.value).set_index("What")
    assert watch["Which"]["No answer exists, yet a level"] == "refuse"
    times = next(d.value for d in at.dataframe if "p95, ms" in d.value).set_index("Stage")
    assert (times["p50, ms"]["dense"], times["Lookups"]["total"]) == (4.0, 4)


# ---------------------------------------------------------------- baseline and gate


def test_without_a_baseline_the_gate_is_closed_and_says_why(open_page: OpenPage, folder: Path) -> None:
    all_passing(folder)
    at = open_page(PATH, view="baseline")
    assert "The gate is closed: 1 reason" in [e.value for e in at.error]
    assert "No baseline yet" in drawn(at)


def test_a_baseline_is_accepted_with_a_reason_and_the_name_of_the_operator(open_page: OpenPage, folder: Path) -> None:
    all_passing(folder)
    at = open_page(PATH, view="baseline")
    press(at, "eval.accept.press")
    assert "Not accepted" in [e.value for e in at.error]
    assert "replaced only with a reason" in drawn(at)
    at.text_input(key="eval.accept.why").set_value("first <b>one</b>")
    press(at, "eval.accept.press")
    assert "This run is the baseline now" in [s.value for s in at.success]
    assert "The gate passes: everything was checked, nothing is wrong." in [s.value for s in at.success]
    history = next(d.value for d in at.dataframe if "Reviewed cases that passed" in d.value)
    assert history[["Who", "Why", "Reviewed cases that passed"]].values.tolist() == [
        ["local", "first <b>one</b>", "1 of 1"]
    ]
    assert (folder / "reports" / "baseline-diff.md").is_file()


def test_while_a_reviewed_case_fails_nothing_can_be_accepted(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, view="baseline")
    assert at.button(key="eval.accept.press").disabled
    assert "Refused: 1 reviewed cases do not pass: lost" in drawn(at)


def test_a_viewer_sees_the_verdict_and_cannot_accept(
    open_page: OpenPage, fake: FakeApp, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = judged(all_passing(folder))
    viewer(fake, monkeypatch)
    at = open_page(PATH, view="baseline")
    assert "Accepting needs the operator role." in drawn(at)
    assert not [b for b in at.button if b.key == "eval.accept.press"]
    monkeypatch.setattr(eval_baseline.st, "session_state", {"eval.accept.why": "behind the button"})
    eval_baseline._pressed(run.report, run, VICTOR, "eval")
    assert not (folder / "reports").exists()


def accepted(folder: Path) -> EvaluationDesk:
    desk = EvaluationDesk(all_passing(folder))
    desk.accept(desk.offline(), who="pat", reason="first")
    return desk


def test_what_moved_since_the_baseline_is_signed_case_by_case(open_page: OpenPage, folder: Path) -> None:
    accepted(folder)
    write_fixtures(folder / "fixtures", "hybrid", [a_fixture(GOOD, answers("c2"))])
    at = open_page(PATH, view="baseline")
    changes = next(d.value for d in at.dataframe if "First stage that fell" in d.value)
    assert changes[["Case", "Change", "Reviewed"]].values.tolist() == [["good", "regressed", "yes"]]
    assert "passes no more" in changes["What"][0]
    rules = next(d.value for d in at.dataframe if "Rule" in d.value)
    assert {"reviewed case failed", "regressed"} <= set(rules["Rule"])
    choose(at, "change", "improved")
    assert "No case." in drawn(at)
    assert at.query_params["change"] == "improved"


def test_a_baseline_of_other_cases_is_not_comparable_and_shows_no_pass_mark(open_page: OpenPage, folder: Path) -> None:
    accepted(folder)
    write_cases(folder, (replace_query(),))
    write_fixtures(folder / "fixtures", "hybrid", [a_fixture(replace_query(), answers("a"))])
    at = open_page(PATH, view="baseline")
    assert [w.value for w in at.warning] == ["Not comparable: nothing is said about better or worse"]
    assert "(changed: good)" in drawn(at)
    assert not at.success
    assert not tables(at, "First stage that fell")


def replace_query() -> object:
    return a_case("good", "redis pool exhausted", expectedDocIds=["a"], poolDepth=5)


def test_a_baseline_that_cannot_be_read_is_no_pass(open_page: OpenPage, folder: Path) -> None:
    accepted(folder)
    (folder / "reports" / "baseline.json").write_text("{", encoding="utf-8")
    at = open_page(PATH, view="baseline")
    assert [e.value for e in at.error] == ["The baseline cannot be read: this input cannot be used"]
    assert not at.success


# ---------------------------------------------------------------- dense against hybrid


def test_the_verdict_comes_as_a_sentence_with_the_pairs_under_it(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, view="compare")
    assert "hybrid finds 1 case that dense misses, loses 1" in drawn(at)
    paired = next(d.value for d in at.dataframe if "Called" in d.value)
    mrr = paired[paired["Metric"] == "mrr"].iloc[0]
    assert (mrr["dense"], mrr["hybrid"], mrr["Delta"]) == (1 / 2, 1 / 2, 0.0)
    assert (mrr["Wins"], mrr["Ties"], mrr["Losses"], mrr["Called"]) == (1, 0, 1, "too few cases to call")
    rows = next(d.value for d in at.dataframe if "Delta nDCG" in d.value)
    assert list(rows["Case"]) == ["lost"]
    effects = next(d.value for d in at.dataframe if "Worse" in d.value).set_index("What")
    assert effects.loc["no-answer false accepts"].tolist() == ["0", "1", "worse"]


def test_every_kind_of_pair_can_be_chosen_and_an_unknown_one_says_so(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH, view="compare", pairs="all")
    rows = next(d.value for d in at.dataframe if "Delta nDCG" in d.value).set_index("Case")
    assert len(rows) == len(CASES)
    assert rows["dense"]["unrun"] == "unknown"
    assert "NOT_RUN" in rows["Remark"]["unrun"]


def test_fixtures_of_two_generations_are_refused(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder, dense=[replace(fixture, generation=2) for fixture in DENSE])
    at = open_page(PATH, view="compare")
    assert [e.value for e in at.error] == ["The two modes cannot be compared: this input cannot be used"]
    assert "were not taken over one index" in drawn(at)


def test_with_one_mode_only_there_is_nothing_to_compare(open_page: OpenPage, folder: Path) -> None:
    write_cases(folder)
    write_fixtures(folder / "fixtures", "hybrid", HYBRID)
    assert "Nothing to compare yet" in drawn(open_page(PATH, view="compare"))


def paired(delta: float | None, low: float, high: float, p: float = 0.01) -> PairedMetric:
    wins = 3 if delta else 0
    interval = None if delta is None else Interval(low, high)
    return PairedMetric(RankedStage.EVIDENCE, "mrr", 0.5, 0.5, delta, interval, p, wins, 0, 0, wins, 0)


def test_a_metric_is_called_only_where_test_and_interval_agree() -> None:
    assert eval_compare.called(paired(0.2, 0.1, 0.3)) == "better"
    assert eval_compare.called(paired(-0.2, -0.3, -0.1)) == "worse"
    assert eval_compare.called(paired(0.2, -0.1, 0.3)) == "too few cases to call"
    assert eval_compare.called(paired(None, 0, 0)) == "no pair"


def test_case_113_a_delta_that_is_not_there_is_a_gap_on_its_own_row() -> None:
    figure = eval_figures.forest([paired(0.2, 0.1, 0.3), paired(None, 0, 0), paired(float("nan"), 0, 0)])
    assert list(figure.data[0].x) == [0.2, None, None]
    assert list(figure.data[0].y) == [0, 1, 2]
    assert figure.layout.annotations[0].text == "no value"


# ---------------------------------------------------------------- calibration


def calibrated_folder(folder: Path) -> Path:
    cases = [a_case(f"g{n}", f"good {n}", expectedDocIds=["a"], poolDepth=5) for n in range(3)]
    cases += [a_case(f"b{n}", f"bad {n}", answerability="unanswerable", poolDepth=5) for n in range(3)]
    fixtures = [a_fixture(case, answers("a", distance=0.1 + n * 0.1)) for n, case in enumerate(cases)]
    return an_evaluation(folder, cases, fixtures, ())


def test_an_uncalibrated_profile_is_marked_and_its_error_rates_stand_beside_the_suggested_ones(
    open_page: OpenPage, folder: Path
) -> None:
    calibrated_folder(folder)
    at = open_page(PATH, view="calibration")
    assert any("not calibrated" in w.value for w in at.warning)
    points = next(d.value for d in at.dataframe if "Point" in d.value).set_index("Point")
    assert points["At"]["now: reference"] == "1.0000"  # the papers' 0 and 2.0 at quality 0.5
    assert points["Missed fallback"]["now: reference"].startswith("3 of 3, 100.0 %")
    assert points["Missed fallback"]["suggested: reference"].startswith("0 of 3, 0.0 %")
    assert points["At"]["suggested: reference"] == f"{(0.3 + 0.4) / 2:.4f}"
    assert "3 unanswerable queries are too few to tell" in drawn(at)


def test_a_scale_is_saved_by_an_operator_who_says_why(open_page: OpenPage, fake: FakeApp, folder: Path) -> None:
    calibrated_folder(folder)
    at = open_page(PATH, view="calibration")
    press(at, "eval.scale.press")
    assert "saved only with a name and a reason" in drawn(at)
    file = CalibrationFile(Path(fake.settings.embedding.calibration))
    assert file.get(PROFILE.profile_id) is None
    at.text_input(key="eval.scale.why").set_value("六个问题")
    press(at, "eval.scale.press")
    saved = file.get(PROFILE.profile_id)
    assert saved is not None
    assert (saved.who, saved.why) == ("local", "六个问题")
    assert list(next(d.value for d in at.dataframe if "What" in d.value and "When" in d.value)["Why"]) == ["六个问题"]


def test_a_viewer_cannot_save_a_scale(
    open_page: OpenPage, fake: FakeApp, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calibrated_folder(folder)
    viewer(fake, monkeypatch)
    assert "Saving needs the operator role." in drawn(open_page(PATH, view="calibration"))
    file = CalibrationFile(tmp_path / "calibration.json")
    found = EvaluationDesk(folder).calibrate()
    monkeypatch.setattr(eval_calibration.st, "session_state", {"eval.scale.why": "behind the button"})
    eval_calibration._pressed(file, found, PROFILE, VICTOR, "eval")
    assert not file.path.exists()


def test_a_basis_that_no_lookup_has_says_so(open_page: OpenPage, folder: Path) -> None:
    calibrated_folder(folder)
    assert "No lookup has this basis" in drawn(open_page(PATH, view="calibration", basis="rerank"))


def test_without_frozen_lookups_there_is_nothing_to_calibrate_on(open_page: OpenPage, folder: Path) -> None:
    write_cases(folder)
    at = open_page(PATH, view="calibration")
    assert "Nothing to calibrate on" in drawn(at)
    assert not at.error


def test_a_model_that_is_away_is_one_box(open_page: OpenPage, fake: FakeApp, folder: Path) -> None:
    calibrated_folder(folder)
    fake.embedder = SimpleNamespace()  # type: ignore[attr-defined]
    at = open_page(PATH, view="calibration")
    assert [e.value for e in at.error] == ["The embedding profile cannot be read: an unexpected error"]


def test_the_threshold_of_today_is_where_quality_is_the_reference_threshold() -> None:
    profile = replace(PROFILE, min_distance=0.2, max_distance=0.6, reference_threshold=0.25)
    assert eval_calibration.threshold(profile, "dense") == pytest.approx(0.2 + 0.75 * 0.4)
    assert eval_calibration.threshold(profile, "lexical") == 0.5
    assert eval_calibration.threshold(profile, "rerank") is None


def test_the_two_groups_are_mirrored_shares_with_a_line_a_point() -> None:
    good, bad = Distribution("answerable", (0.1, 0.1, 0.2)), Distribution("unanswerable", (0.9,))
    figure = eval_figures.distributions(good, bad, [("now", 0.5, "#000"), ("<b>x</b>", 0.4, "#000")])
    up, down = figure.data
    assert sum(up.y) == pytest.approx(1)
    assert sum(down.y) == pytest.approx(-1)
    assert [note.text for note in figure.layout.annotations] == ["&lt;b&gt;x&lt;/b&gt; 0.400", "now 0.500"]


def test_distributions_of_nothing_and_of_one_value_can_be_drawn() -> None:
    empty, one = Distribution("answerable", ()), Distribution("unanswerable", (0.5,))
    eval_figures.distributions(empty, empty, [])
    assert sum(eval_figures.distributions(empty, one, []).data[1].y) == pytest.approx(-1)


def test_an_error_rate_of_nothing_is_a_dash() -> None:
    assert eval_calibration.rate_words(ErrorRate(0, 0, None)) == "–"
    assert eval_calibration.rate_words(ErrorRate(1, 4, Interval(0.05, 0.7))) == "1 of 4, 25.0 % (5.0 to 70.0 %)"


# ---------------------------------------------------------------- exports


def test_the_report_leaves_in_three_forms_as_it_is_on_the_screen(open_page: OpenPage, folder: Path) -> None:
    an_evaluation(folder)
    at = open_page(PATH)
    forms = {b.proto.label: b.proto for b in at.get("download_button")}
    assert set(forms) == {"JSON", "Markdown", "CSV"}


@pytest.mark.parametrize("mode", list(Mode))
def test_the_json_of_a_report_is_json(folder: Path, mode: Mode) -> None:
    from core.evaluation.report import report_data, to_json

    data = json.loads(to_json(report_data(judged(an_evaluation(folder), mode).report)))
    assert [row["case_id"] for row in data["rows"]] == [case.case_id for case in CASES]
    assert LOST.case_id in {row["case_id"] for row in data["rows"]}
