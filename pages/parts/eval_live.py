"""Live runs: the cases through the real stack, judged at once. Nothing is frozen by it; the job owns the work, and every
browser sees the same one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import streamlit as st

from core.errors import NotAllowed
from core.evaluation.live_jobs import JobState, LiveJob, LiveJobs, record
from core.model import Mode
from core.stores import EvalStore
from pages.parts import boxes, eval_address, eval_records, eval_services, notice, pace, result, services
from pages.parts.access import User
from pages.parts.eval_services import Run
from pages.parts.numbers import NONE, count, moment
from pages.parts.text import cell, literal, visible

if TYPE_CHECKING:
    from core.evaluation.desk import LiveEvaluation

POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Bench:
    """What live runs need: the evaluation's own index, the jobs over it, and where their records go."""

    live: LiveEvaluation
    jobs: LiveJobs
    store: EvalStore


@st.cache_resource(show_spinner="Opening the evaluation's own index…")
def bench() -> Bench:
    """Built at the first look at live runs: nothing of it is needed for frozen ones."""
    from core.bootstrap import build_evaluation

    app, _, live = build_evaluation(services.settings())
    jobs = LiveJobs(
        lambda mode, progress: live.observe(mode, progress=progress),
        record=lambda job: app.evaluations.save(*record(job)) if job.found else None,
    )
    return Bench(live, jobs, app.evaluations)


def chosen(page: str) -> Run | None:
    """The live run of the address, with the way back to the frozen ones; None when none is asked for or kept."""
    job_id = eval_address.asked(eval_address.RUN)
    if not job_id:
        return None
    at: Bench | None = services.call("The evaluation's own index cannot be opened", bench)
    job = at.jobs.get(job_id) if at else None
    with st.container(horizontal=True, vertical_alignment="center"):
        if job is None or job.found is None:
            st.text("This live run is no longer kept, or found nothing: below stand the frozen lookups.")
        else:
            st.text(visible(f"Live run by {job.who}, mode {job.mode.value}.", 300))
        st.button("Back to the frozen lookups", key=f"{page}.live.back", on_click=_look, args=("",))
    if job is None or job.found is None:
        return None
    found = job.found
    made: Run | None = services.call(
        "The live run cannot be judged",
        eval_services.beside_baseline,
        eval_services.desk(),
        found.cases,
        found.report,
        job.mode,
        found.fixtures,
    )
    return made


def _look(job_id: str) -> None:
    eval_address.put(run=job_id, view=None, case=None)


def draw(user: User, mode: Mode, page: str, zone: str) -> None:
    """The run under way or the way to start one, and what earlier ones found."""
    at: Bench | None = services.call("The evaluation's own index cannot be opened", bench)
    if at is None:
        return
    now = at.jobs.running()
    if now is not None:
        st.fragment(_box, run_every=POLL_SECONDS)(at, user, now.job_id, page)
    else:
        _start(at, user, mode, page)
    _kept(at, page, zone)
    eval_records.draw(at.store, page, zone)


def _start(at: Bench, user: User, mode: Mode, page: str) -> None:
    if not eval_services.desk().places.cases.is_file():
        boxes.empty("No golden cases yet", "There is nothing to run.")
        return
    told: tuple[str | None] | None = services.call(
        "The evaluation's own index cannot be checked", lambda: (at.live.seeded(),)
    )
    if told is None:
        return
    (wrong,) = told
    if wrong:
        boxes.empty(
            "The evaluation's own index is not there, or not current",
            "Build it with `python -m core eval seed`: live runs never search the production index.",
        )
        st.text(visible(wrong, 400))
        return
    if not user.is_operator:
        st.caption("Starting a live run needs the operator role.")
        return
    st.button(
        f"Run the cases now, mode {mode.value}",
        type="primary",
        icon=":material/play_arrow:",
        key=f"{page}.live.start",
        on_click=_started,
        args=(at.jobs, user, mode, page),
        help="Every case once through the real stack, judged at once. Writes no fixture and no baseline.",
    )


def _started(jobs: LiveJobs, user: User, mode: Mode, page: str) -> None:
    notice.act(page, "The live run has begun", "Not started", lambda: jobs.start(mode, who=_operator(user)))


def _operator(user: User) -> str:
    if not user.is_operator:
        raise NotAllowed("a live run needs the operator role: auth.operators in settings.toml")
    return user.name


def _box(at: Bench, user: User, known: str, page: str) -> None:
    job = at.jobs.get(known)
    if job is None or job.state is not JobState.RUNNING:
        st.rerun()
    with st.container(border=True):
        left, right = st.columns([5, 1], vertical_alignment="center")
        seconds = (datetime.now(UTC) - job.started_at).total_seconds()
        left.caption(f"Live run by {literal(job.who)}, mode {job.mode.value}, {pace.span(seconds)} so far")
        right.button(
            "Cancelling…" if job.cancelling else "Cancel",
            icon=":material/cancel:",
            key=f"{page}.live.cancel",
            disabled=job.cancelling or not user.is_operator,
            on_click=_cancel,
            args=(at.jobs, user, job.job_id, page),
            width="stretch",
        )
        share = job.done / job.total if job.total else 0.0
        st.progress(share, text=f"{count(job.done)} of {count(job.total)}" if job.total else "Reading the cases")
        st.text(visible(job.case_id, 200))


def _cancel(jobs: LiveJobs, user: User, job_id: str, page: str) -> None:
    def work() -> None:
        _operator(user)
        jobs.cancel(job_id)

    notice.act(page, "Asked the live run to stop", "Not cancelled", work)


def _kept(at: Bench, page: str, zone: str) -> None:
    jobs = [job for job in at.jobs.all() if job.state is not JobState.RUNNING]
    st.subheader("Finished since the console started", anchor=False)
    if not jobs:
        st.caption("None yet. A finished run can be looked at in every view, like the frozen ones.")
        return
    key = f"{page}.live.jobs.{jobs[0].job_id}"
    st.dataframe(
        job_table(jobs, zone),
        key=key,
        hide_index=True,
        placeholder=NONE,
        on_select=lambda: _picked(st.session_state.get(key), jobs),
        selection_mode="single-cell",
    )
    st.caption("Choose a cell to look into a run.")


def _picked(event: Any, jobs: Sequence[LiveJob]) -> None:
    at = result.place(event)
    if at is not None and at < len(jobs) and jobs[at].found is not None:
        _look(jobs[at].job_id)


def job_table(jobs: Sequence[LiveJob], zone: str) -> pd.DataFrame:
    """One row a finished job; what it did not find out stays empty."""
    reports = [job.found.report if job.found else None for job in jobs]
    return pd.DataFrame(
        {
            "Started": [moment(job.started_at, zone) for job in jobs],
            "Ended": [job.state.value for job in jobs],
            "Mode": [job.mode.value for job in jobs],
            "By": [cell(job.who, 80) for job in jobs],
            "Took": [
                pace.span((job.finished_at - job.started_at).total_seconds()) if job.finished_at else NONE
                for job in jobs
            ],
            "Reviewed cases that pass": [
                f"{r.judgement.gating_pass_rate.count} of {r.judgement.gating_pass_rate.total}" if r else ""
                for r in reports
            ],
            "Generation": [cell(r.identity.generation, 40) if r else "" for r in reports],
            "Why it failed": [cell(job.error) for job in jobs],
        }
    )
