"""Live runs in the background: one at a time, seen the same by everybody, stopped between cases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import Busy, StoreUnavailable
from core.evaluation.desk import EvaluationDesk, LiveRun
from core.evaluation.fixtures import load_fixtures
from core.evaluation.live_jobs import JobState, LiveJob, LiveJobs
from core.evaluation.snapshot import Progress
from core.model import Mode
from tests.unit.evaluation.eval_folder import an_evaluation

WAIT = 20


@pytest.fixture
def found(tmp_path: Path) -> LiveRun:
    desk = EvaluationDesk(an_evaluation(tmp_path))
    return LiveRun(desk.cases(), load_fixtures(desk.places.fixtures, "hybrid"), desk.offline())


class Stepped:
    """Work that waits before each of two cases until the test lets it go on."""

    def __init__(self, found: LiveRun) -> None:
        self.found = found
        self.at_case = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def __call__(self, mode: Mode, progress: Progress) -> LiveRun:
        del mode
        for number in (1, 2):
            progress(number, 2, f"c{number}")
            self.at_case.release()
            assert self.go_on.acquire(timeout=WAIT)
        return self.found


def ended(jobs: LiveJobs, start: Callable[[], LiveJob], told: list[LiveJob], done: threading.Event) -> LiveJob:
    job = start()
    assert done.wait(WAIT)
    seen = jobs.get(job.job_id)
    assert seen is not None
    assert told == [seen]
    return seen


def with_record(work: Callable[[Mode, Progress], LiveRun]) -> tuple[LiveJobs, list[LiveJob], threading.Event]:
    told: list[LiveJob] = []
    done = threading.Event()

    def record(job: LiveJob) -> None:
        told.append(job)
        done.set()

    return LiveJobs(work, record=record), told, done


def test_a_run_is_seen_as_it_goes_and_ends_with_what_it_found(found: LiveRun) -> None:
    work = Stepped(found)
    jobs, told, done = with_record(work)
    job = jobs.start(Mode.HYBRID, who="pat")
    assert work.at_case.acquire(timeout=WAIT)
    seen = jobs.running()
    assert seen is not None
    assert (seen.job_id, seen.done, seen.total, seen.case_id, seen.found) == (job.job_id, 0, 2, "c1", None)
    work.go_on.release()
    assert work.at_case.acquire(timeout=WAIT)
    again = jobs.get(job.job_id)
    assert again is not None
    assert (again.done, again.case_id) == (1, "c2")
    work.go_on.release()
    assert done.wait(WAIT)
    last = jobs.get(job.job_id)
    assert last is not None
    assert (last.state, last.done, last.found) == (JobState.DONE, len(found.cases.cases), found)
    assert last.finished_at is not None
    assert jobs.running() is None
    assert told == [last]


def test_only_one_runs_at_a_time(found: LiveRun) -> None:
    work = Stepped(found)
    jobs, _, done = with_record(work)
    jobs.start(Mode.HYBRID, who="pat")
    assert work.at_case.acquire(timeout=WAIT)
    with pytest.raises(Busy, match="a live run by pat is under way"):
        jobs.start(Mode.DENSE, who="quinn")
    work.go_on.release(2)
    assert done.wait(WAIT)
    assert len(jobs.all()) == 1


def test_a_cancelled_run_stops_before_its_next_case_and_found_nothing(found: LiveRun) -> None:
    work = Stepped(found)
    jobs, told, done = with_record(work)
    job = jobs.start(Mode.HYBRID, who="pat")
    assert work.at_case.acquire(timeout=WAIT)
    assert jobs.cancel(job.job_id)
    work.go_on.release()
    assert done.wait(WAIT)
    assert (told[0].state, told[0].found, told[0].done) == (JobState.CANCELLED, None, 1)
    assert not jobs.cancel(job.job_id)
    assert not jobs.cancel("no such job")


def test_a_failed_run_says_why_without_secrets_and_of_foreign_errors_only_the_class() -> None:
    def away(_mode: Mode, _progress: Progress) -> LiveRun:
        raise StoreUnavailable("milvus: no answer from http://root:hunter2@milvus:19530")

    def broken(_mode: Mode, _progress: Progress) -> LiveRun:
        raise ZeroDivisionError("secret")

    for work, error in (
        (away, "StoreUnavailable: milvus: no answer from http://root:***@milvus:19530"),
        (broken, "an unexpected error: ZeroDivisionError"),
    ):
        jobs, told, done = with_record(work)
        seen = ended(jobs, lambda jobs=jobs: jobs.start(Mode.HYBRID, who="pat"), told, done)
        assert (seen.state, seen.error, seen.found) == (JobState.FAILED, error, None)


def test_a_record_that_cannot_be_kept_does_not_cost_the_run(found: LiveRun) -> None:
    done = threading.Event()

    def record(_job: LiveJob) -> None:
        done.set()
        raise StoreUnavailable("database: connection refused")

    jobs = LiveJobs(lambda _mode, _progress: found, record=record)
    job = jobs.start(Mode.HYBRID, who="pat")
    assert done.wait(WAIT)
    seen = jobs.get(job.job_id)
    assert seen is not None
    assert seen.state is JobState.DONE


def test_only_the_last_few_are_kept_newest_first(found: LiveRun) -> None:
    done = threading.Event()
    jobs = LiveJobs(lambda _mode, _progress: found, record=lambda _job: done.set(), keep=2)
    ids = []
    for _ in range(3):
        done.clear()
        ids.append(jobs.start(Mode.HYBRID, who="pat").job_id)
        assert done.wait(WAIT)
    assert [job.job_id for job in jobs.all()] == [ids[2], ids[1]]
    assert jobs.get(ids[0]) is None
