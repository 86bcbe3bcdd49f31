"""The evaluation folder as commands and page use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import CheckFailed, InvalidCases
from core.evaluation.desk import EvaluationDesk
from core.evaluation.fixtures import write_fixtures
from core.model import Mode
from tests.unit.evaluation.eval_folder import DENSE, HYBRID, all_passing, an_evaluation, broken_cases, write_cases


@pytest.fixture
def desk(tmp_path: Path) -> EvaluationDesk:
    return EvaluationDesk(an_evaluation(tmp_path / "eval"))


def outcomes(desk: EvaluationDesk, mode: Mode = Mode.HYBRID) -> dict[str, tuple[bool | None, str | None]]:
    return {row.case_id: (row.passed, row.loss) for row in desk.offline(mode).rows}


def test_each_mode_is_judged_by_its_own_fixtures(desk: EvaluationDesk) -> None:
    assert outcomes(desk)["lost"] == (False, "EVIDENCE_DROP")
    assert outcomes(desk)["unrun"] == (None, None)
    assert outcomes(desk, Mode.DENSE)["lost"] == (True, None)
    assert outcomes(desk, Mode.DENSE)["good"][0] is False


def test_labels_that_point_to_nothing_are_listed_and_do_not_stop_the_run(desk: EvaluationDesk) -> None:
    (desk.places.seed / "a.md").unlink()
    assert {problem.value for problem in desk.offline().unresolved} == {"a", "a.md"}


def test_an_empty_folder_has_no_fixtures_and_no_cases(tmp_path: Path) -> None:
    desk = EvaluationDesk(tmp_path / "nothing")
    assert not desk.places.has_fixtures(Mode.HYBRID)
    with pytest.raises(InvalidCases, match="cannot be read"):
        desk.cases()


def test_the_flat_form_of_the_papers_counts_as_hybrid_only(tmp_path: Path) -> None:
    desk = EvaluationDesk(tmp_path)
    write_cases(tmp_path)
    write_fixtures(tmp_path, "fixtures", HYBRID)
    assert (desk.places.has_fixtures(Mode.HYBRID), desk.places.has_fixtures(Mode.DENSE)) == (True, False)
    found = desk.fixture("good")
    assert found is not None
    assert found.query == "redis pool exhausted"


def test_a_broken_case_file_is_refused_with_file_and_line(desk: EvaluationDesk) -> None:
    broken_cases(desk.places.folder)
    with pytest.raises(InvalidCases, match=r"golden-cases\.json:5: case 'lost': unknown key 'expectedDocID'"):
        desk.offline()


def test_the_frozen_lookup_of_a_case_or_none(desk: EvaluationDesk) -> None:
    found = desk.fixture("good", Mode.DENSE)
    assert found is not None
    assert found.search_mode == "dense"
    assert desk.fixture("unrun") is None
    with pytest.raises(InvalidCases, match="usable as a file name"):
        desk.fixture("../cases/golden-cases")


# ---------------------------------------------------------------- the mark of the files


def test_the_mark_is_the_same_until_a_file_is_touched(desk: EvaluationDesk) -> None:
    before = desk.places.mark(Mode.HYBRID)
    assert desk.places.mark(Mode.HYBRID) == before
    os.utime(desk.places.cases, ns=(1, 1))
    assert desk.places.mark(Mode.HYBRID) != before


@pytest.mark.parametrize(
    "name", ["fixtures/hybrid/good.json", "seed-docs/a.md", "reports/baseline.json", "cases/drafts.json"]
)
def test_the_mark_sees_every_file_that_a_run_reads(desk: EvaluationDesk, name: str) -> None:
    before = desk.places.mark(Mode.HYBRID)
    path = desk.places.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}", encoding="utf-8")
    assert desk.places.mark(Mode.HYBRID) != before


def test_the_mark_of_one_mode_does_not_see_the_other(desk: EvaluationDesk) -> None:
    hybrid, both = desk.places.mark(Mode.HYBRID), desk.places.mark(Mode.HYBRID, Mode.DENSE)
    write_fixtures(desk.places.fixtures, "dense", DENSE[:2])
    assert desk.places.mark(Mode.HYBRID) == hybrid
    assert desk.places.mark(Mode.HYBRID, Mode.DENSE) != both


# ---------------------------------------------------------------- the baseline


def test_each_mode_has_a_baseline_of_its_own(tmp_path: Path) -> None:
    desk = EvaluationDesk(all_passing(tmp_path))
    report = desk.offline(Mode.DENSE)
    assert desk.difference(report, Mode.DENSE) is None
    assert [reason.rule for reason in desk.gate(report, Mode.DENSE).reasons] == ["missing_baseline"]
    desk.accept(report, who="pat", reason="first", mode=Mode.DENSE)
    assert desk.gate(report, Mode.DENSE).passed
    assert desk.baseline(Mode.HYBRID) is None
    assert (tmp_path / "reports" / "dense" / "baseline.json").is_file()


def test_a_failing_reviewed_case_keeps_the_baseline_as_it_is(desk: EvaluationDesk) -> None:
    with pytest.raises(CheckFailed, match="1 reviewed cases do not pass: lost"):
        desk.accept(desk.offline(), who="pat", reason="green enough")
    assert not desk.places.reports.exists()


def test_a_written_report_has_a_difference_only_with_a_baseline(tmp_path: Path) -> None:
    desk = EvaluationDesk(all_passing(tmp_path))
    report = desk.offline()
    assert {path.name for path in desk.write(report)} == {"report.json", "report.md"}
    desk.accept(report, who="pat", reason="first")
    assert {path.name for path in desk.write(report)} >= {"baseline-diff.json", "baseline-diff.md"}


# ---------------------------------------------------------------- two modes, and the scale


def test_dense_against_hybrid_names_what_each_finds(desk: EvaluationDesk) -> None:
    found = desk.compare()
    assert (found.name_a, found.name_b) == ("dense", "hybrid")
    assert (found.found_by_b, found.lost_by_b) == (("good",), ("lost",))


def test_another_folder_is_held_against_this_one_in_one_mode(desk: EvaluationDesk, tmp_path: Path) -> None:
    write_fixtures(tmp_path / "before", "hybrid", DENSE)
    found = desk.compare(b=Mode.HYBRID, other=tmp_path / "before")
    assert found.name_b == "hybrid after"


def test_calibration_learns_from_the_nearest_distance_of_each_frozen_lookup(desk: EvaluationDesk) -> None:
    found = desk.calibrate(current=0.3)
    values = {group.label: group.values for group in found.distributions}
    assert values["answerable"] == (0.1, 0.1, 0.1)
    assert values["unanswerable"] == (0.5,)
    assert found.current is not None
    assert (found.current.false_fallback.count, found.current.missed_fallback.count) == (0, 0)
