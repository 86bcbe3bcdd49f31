"""Live runs in the background: one at a time in a process, each on a thread of its own that no page owns.

What a job knows is a frozen value that is replaced as it goes on, so whoever asks sees one consistent state. The last
few finished jobs stay in memory with what they found.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from core.errors import Busy, RagError, redact
from core.evaluation.desk import LiveRun
from core.evaluation.report import report_data
from core.evaluation.snapshot import Progress
from core.model import Mode
from core.stores import EvalCaseResult, EvalRun

log = logging.getLogger(__name__)
KEPT: Final = 4
RECORD: Final = "live"
"""Kind of the stored run."""

Work = Callable[[Mode, Progress], LiveRun]


class JobState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class LiveJob:
    """``done`` of ``total`` cases were answered; ``case_id`` is the one under way. ``found`` only when DONE, ``error``
    only when FAILED: one line without secrets."""

    job_id: str
    mode: Mode
    who: str
    started_at: datetime
    state: JobState = JobState.RUNNING
    done: int = 0
    total: int = 0
    case_id: str = ""
    cancelling: bool = False
    finished_at: datetime | None = None
    found: LiveRun | None = None
    error: str = ""


class _Cancelled(Exception):
    pass


class LiveJobs:
    """``work`` runs the cases; ``record`` is told of every finished job, and its failure costs only the record."""

    def __init__(self, work: Work, *, record: Callable[[LiveJob], Any] | None = None, keep: int = KEPT) -> None:
        self._work = work
        self._record = record
        self._keep = keep
        self._jobs: OrderedDict[str, LiveJob] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, mode: Mode, *, who: str) -> LiveJob:
        """Begins a run and returns at once. Raises Busy while one is under way."""
        with self._lock:
            now = self._running()
            if now is not None:
                raise Busy(f"a live run by {now.who} is under way ({now.done} of {now.total}); wait or cancel it")
            job = LiveJob(uuid.uuid4().hex, mode, who, datetime.now(UTC))
            self._jobs[job.job_id] = job
            while len(self._jobs) > self._keep:
                self._jobs.popitem(last=False)
        threading.Thread(target=self._run, args=(job,), name="live evaluation", daemon=True).start()
        return job

    def cancel(self, job_id: str) -> bool:
        """Asks a running job to stop before its next case; False when it no longer runs."""
        return self._change(job_id, cancelling=True) is not None

    def running(self) -> LiveJob | None:
        with self._lock:
            return self._running()

    def get(self, job_id: str) -> LiveJob | None:
        with self._lock:
            return self._jobs.get(job_id)

    def all(self) -> tuple[LiveJob, ...]:
        """Newest first."""
        with self._lock:
            return tuple(reversed(self._jobs.values()))

    def _running(self) -> LiveJob | None:
        return next((job for job in self._jobs.values() if job.state is JobState.RUNNING), None)

    def _change(self, job_id: str, **values: Any) -> LiveJob | None:
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.state is not JobState.RUNNING:
                return None
            self._jobs[job_id] = replace(job, **values)
            return self._jobs[job_id]

    def _run(self, job: LiveJob) -> None:
        def progress(number: int, total: int, case_id: str) -> None:
            seen = self._change(job.job_id, done=number - 1, total=total, case_id=case_id)
            if seen is not None and seen.cancelling:
                raise _Cancelled

        end: dict[str, Any]
        try:
            found = self._work(job.mode, progress)
            end = {"state": JobState.DONE, "found": found, "done": len(found.cases.cases)}
        except _Cancelled:
            end = {"state": JobState.CANCELLED}
        except RagError as exc:
            end = {"state": JobState.FAILED, "error": f"{exc.error_class}: {redact(exc)}"}
        except Exception as exc:
            log.exception("live evaluation")
            end = {"state": JobState.FAILED, "error": f"an unexpected error: {type(exc).__name__}"}
        told = self._change(job.job_id, finished_at=datetime.now(UTC), **end)
        if told is not None and self._record is not None:
            try:
                self._record(told)
            except RagError as exc:
                log.warning("the record of a live evaluation was not kept: %s", redact(exc))


def record(job: LiveJob) -> tuple[EvalRun, list[EvalCaseResult]]:
    """A finished run as the store keeps it. Raises ValueError for one that found nothing."""
    if job.found is None:
        raise ValueError("this job has no report")
    report = job.found.report
    who = report.identity
    passed = [row.passed for row in report.rows if row.gates]
    run = EvalRun(
        run_id=job.job_id,
        kind=RECORD,
        created_at=job.started_at,
        mode=job.mode.value,
        label=job.who,
        fingerprint=who.settings[:64],
        generation=int(who.generation) if who.generation.isdecimal() else None,
        embedding_profile=who.profile,
        corpus_snapshot=who.corpus[:64],
        cases=len(report.rows),
        passed=passed.count(True),
        failed=len(passed) - passed.count(True),
        data=report_data(report),
    )
    trace_ids = {
        case_id: str((fixture.lookup_result or {}).get("trace_id") or "") or None
        for case_id, fixture in job.found.fixtures.fixtures.items()
    }
    cases = [
        EvalCaseResult(
            row.case_id,
            row.status.value,
            row.passed,
            row.hit_level,
            row.first_expected_rank,
            row.loss,
            trace_ids.get(row.case_id),
            {"failures": list(row.failures)},
        )
        for row in report.rows
    ]
    return run, cases
