"""Live runs on the Eval page: the job owns the work, a run is looked at like a frozen one, viewers only look."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.errors import StoreUnavailable
from core.evaluation.desk import EvaluationDesk, LiveRun
from core.evaluation.fixtures import FixtureSet
from core.evaluation.live_jobs import LiveJob, LiveJobs, record
from core.evaluation.offline import evaluate
from core.evaluation.snapshot import Progress
from core.model import Mode
from core.settings import AuthSettings, EvaluationSettings, Settings
from core.stores import EvalCaseResult, EvalRun, Page
from pages.parts import access, eval_live
from tests.unit.evaluation.eval_folder import GOOD, an_evaluation, answers
from tests.unit.evaluation.eval_samples import a_fixture
from tests.unit.pages.fake_app import FakeApp
from tests.unit.pages.test_page_eval import PATH, press
from tests.unit.pages.test_page_query import drawn

OpenPage = Callable[..., AppTest]
VICTOR = access.User("victor", access.Role.VIEWER)
WAIT = 20


@dataclass
class FakeBench:
    """A bench whose run waits before its first case until the test lets it go on."""

    desk: EvaluationDesk
    wrong: str | None = None
    error: Exception | None = None
    ran: list[Mode] = field(default_factory=list)
    saved: list[tuple[EvalRun, list[EvalCaseResult]]] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.jobs = LiveJobs(self._work, record=self._record)
        self.live = self.store = self

    def seeded(self) -> str | None:
        return self.wrong

    def _work(self, mode: Mode, progress: Progress) -> LiveRun:
        self.ran.append(mode)
        progress(1, 5, "good")
        self.begun.set()
        assert self.go_on.wait(WAIT)
        progress(2, 5, "lost")
        if self.error is not None:
            raise self.error
        cases = self.desk.cases()
        found = FixtureSet(mode.value, {"good": a_fixture(GOOD, answers("c2"))})
        return LiveRun(cases, found, evaluate(cases, found))

    def _record(self, job: LiveJob) -> None:
        if job.found:
            self.saved.append(record(job))
        self.ended.set()

    def cases(self, run_id: str) -> Sequence[EvalCaseResult]:
        return next((cases for run, cases in self.saved if run.run_id == run_id), [])

    def list(self, *, kind: str, limit: int) -> Page[EvalRun]:
        return Page(tuple(run for run, _ in self.saved if run.kind == kind)[:limit], None)


@pytest.fixture
def bench(fake: FakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    folder = an_evaluation(tmp_path / "eval")
    fake.settings = Settings(evaluation=EvaluationSettings(folder=str(folder)))
    made = FakeBench(EvaluationDesk(folder))
    monkeypatch.setattr(eval_live, "bench", lambda: made)
    return made


def start(at: AppTest, bench: FakeBench) -> None:
    press(at, "eval.live.start")
    assert bench.begun.wait(WAIT)


def finish(bench: FakeBench) -> str:
    bench.go_on.set()
    assert bench.ended.wait(WAIT)
    return bench.jobs.all()[0].job_id


def test_without_the_seed_corpus_it_says_eval_seed_and_offers_no_run(open_page: OpenPage, bench: FakeBench) -> None:
    bench.wrong = "the evaluation has no index"
    at = open_page(PATH, view="live")
    assert "eval seed" in drawn(at)
    assert "the evaluation has no index" in [text.value for text in at.text]
    assert not [b for b in at.button if b.key == "eval.live.start"]


def test_an_index_that_cannot_be_opened_or_asked_is_one_box(
    open_page: OpenPage, bench: FakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise StoreUnavailable("database: connection refused")

    monkeypatch.setattr(bench, "seeded", away)
    at = open_page(PATH, view="live")
    assert [e.value for e in at.error] == [
        "The evaluation's own index cannot be checked: a store or a model cannot be used now"
    ]
    monkeypatch.setattr(eval_live, "bench", away)
    at.run()
    assert [e.value for e in at.error] == [
        "The evaluation's own index cannot be opened: a store or a model cannot be used now"
    ]


def test_case_109_a_run_under_way_is_the_same_in_every_browser_and_can_be_cancelled(
    open_page: OpenPage, bench: FakeBench
) -> None:
    at = open_page(PATH, view="live", mode="dense")
    start(at, bench)
    other = open_page(PATH, view="live")
    for one in (at.run(), other):
        assert "Live run by `local`, mode dense" in drawn(one)
        assert "good" in [text.value for text in one.text]
        assert not [b for b in one.button if b.key == "eval.live.start"]
    press(other, "eval.live.cancel")
    assert at.run().button(key="eval.live.cancel").disabled
    finish(bench)
    assert "cancelled" in next(d.value for d in at.run().dataframe if "Ended" in d.value)["Ended"].tolist()
    assert bench.saved == []
    assert bench.ran == [Mode.DENSE]


def test_case_107_a_press_that_was_on_its_way_starts_no_second_run(open_page: OpenPage, bench: FakeBench) -> None:
    at, late = open_page(PATH, view="live"), open_page(PATH, view="live")
    start(at, bench)
    press(late, "eval.live.start")
    assert "Not started" in [e.value for e in late.error]
    assert "a live run by local is under way" in drawn(late)
    finish(bench)
    assert bench.ran == [Mode.HYBRID]


def test_a_finished_run_is_looked_at_like_a_frozen_one_and_wrote_no_fixture(
    open_page: OpenPage, bench: FakeBench
) -> None:
    before = bench.desk.places.mark(Mode.HYBRID, Mode.DENSE)
    at = open_page(PATH, view="live")
    start(at, bench)
    job_id = finish(bench)
    table = next(d.value for d in at.run().dataframe if "Ended" in d.value)
    assert table[["Ended", "Mode", "By", "Reviewed cases that pass"]].values.tolist() == [
        ["done", "hybrid", "local", "0 of 3"]
    ]
    at = open_page(PATH, run=job_id, case="good")
    assert "Live run by local, mode hybrid." in [text.value for text in at.text]
    cases = next(d.value for d in at.dataframe if "Outcome" in d.value).set_index("Case")["Outcome"]
    assert (cases["good"], cases["lost"]) == ("FAILS", "not run")
    seen = next(d.value for d in at.dataframe if "Seen by the agent" in d.value)
    assert list(seen["Chunk"]) == ["c2#chunk-0", "c#chunk-0"]
    assert bench.desk.places.mark(Mode.HYBRID, Mode.DENSE) == before
    press(at, "eval.live.back")
    assert "run" not in at.query_params
    frozen = next(d.value for d in at.dataframe if "Outcome" in d.value).set_index("Case")["Outcome"]
    assert frozen["good"] == "passes"


def test_a_live_run_cannot_become_the_baseline(open_page: OpenPage, bench: FakeBench) -> None:
    at = open_page(PATH, view="live")
    start(at, bench)
    at = open_page(PATH, run=finish(bench), view="baseline")
    assert "Only frozen lookups can become the baseline" in drawn(at)
    assert not [b for b in at.button if b.key == "eval.accept.press"]


def test_a_run_that_is_no_longer_kept_says_so_over_the_frozen_lookups(open_page: OpenPage, bench: FakeBench) -> None:
    del bench
    at = open_page(PATH, run="gone")
    assert "This live run is no longer kept" in drawn(at)
    assert next(d.value for d in at.dataframe if "Outcome" in d.value).shape[0] == 5


def test_a_failed_run_says_why_and_is_no_empty_result(open_page: OpenPage, bench: FakeBench) -> None:
    bench.error = StoreUnavailable("milvus: <b>refused</b>")
    at = open_page(PATH, view="live")
    start(at, bench)
    finish(bench)
    table = next(d.value for d in at.run().dataframe if "Ended" in d.value)
    assert table["Why it failed"].tolist() == ["StoreUnavailable: milvus: <b>refused</b>"]
    assert table["Reviewed cases that pass"].tolist() == [""]


def test_the_record_of_a_run_has_a_row_a_case_and_outlives_the_console(open_page: OpenPage, bench: FakeBench) -> None:
    at = open_page(PATH, view="live")
    start(at, bench)
    job_id = finish(bench)
    ((run, cases),) = bench.saved
    assert (run.run_id, run.mode, run.cases, run.passed, run.failed, run.generation) == (job_id, "hybrid", 5, 0, 3, 1)
    assert [(c.case_id, c.status, c.trace_id) for c in cases[:2]] == [
        ("good", "EVALUATED", "t1"),
        ("lost", "NOT_RUN", None),
    ]
    on_record = next(d.value for d in at.run().dataframe if "Settings" in d.value)
    assert on_record["Reviewed cases that pass"].tolist() == ["0 of 3"]


def test_a_recorded_run_shows_its_cases_failures_first_with_their_traces(open_page: OpenPage, bench: FakeBench) -> None:
    at = open_page(PATH, view="live")
    start(at, bench)
    job_id = finish(bench)
    bench.jobs = LiveJobs(bench._work)  # another process: nothing in memory
    at = open_page(PATH, view="live", record=job_id)
    table = next(d.value for d in at.dataframe if "Trace" in d.value)
    assert table["Outcome"].tolist() == ["fails", "unknown", "unknown", "unknown", "unknown"]
    assert table[["Case", "Trace"]].values.tolist()[0] == ["good", "t1"]
    assert "No such run" in drawn(open_page(PATH, view="live", record="<b>gone</b>"))


def test_a_viewer_sees_runs_and_starts_none(
    open_page: OpenPage, fake: FakeApp, bench: FakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.settings = fake.settings.model_copy(update={"auth": AuthSettings(mode="header")})
    monkeypatch.setattr(access, "identify", lambda *_: VICTOR)
    at = open_page(PATH, view="live")
    assert "Starting a live run needs the operator role." in drawn(at)
    monkeypatch.setattr(eval_live.st, "session_state", {})
    eval_live._started(bench.jobs, VICTOR, Mode.HYBRID, "eval")
    assert bench.ran == []
