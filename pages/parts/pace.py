"""How fast a job goes and how long it still takes, from its durable record alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.stores import RebuildRun
from pages.parts.numbers import NONE, finite


@dataclass(frozen=True, slots=True)
class Pace:
    """``fraction`` in [0,1], ``per_second`` units of the stage, ``seconds_left`` of the stage: None where it cannot be
    told yet."""

    fraction: float | None = None
    per_second: float | None = None
    seconds_left: float | None = None


def stage_began(run: RebuildRun) -> datetime:
    """When the present stage began: its first line in the log, else the start of the run."""
    began = run.started_at
    for line in reversed(run.log):
        if line.stage != run.stage:
            break
        began = line.at
    return began


def pace(run: RebuildRun, now: datetime) -> Pace:
    """The pace of the present stage at ``now`` (UTC). A total of zero or a clock that stands before the start gives
    no rate, never an infinite one."""
    if run.done is None or not run.total or run.total < 0:
        return Pace()
    done = min(max(run.done, 0), run.total)
    seconds = (now - stage_began(run)).total_seconds()
    rate = done / seconds if done and seconds > 0 else None
    return Pace(done / run.total, rate, (run.total - done) / rate if rate else None)


def span(seconds: float | None) -> str:
    """A duration as people say it: ``0.4 s``, ``42 s``, ``3 min 05 s``, ``2 h 07 min``."""
    seconds = finite(seconds)
    if seconds is None or seconds < 0:
        return NONE
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def took(run: RebuildRun) -> str:
    """How long a finished run took; a dash for one that is under way."""
    return span((run.finished_at - run.started_at).total_seconds()) if run.finished_at else NONE


def words(run: RebuildRun, now: datetime) -> str:
    """One line of our own words: ``120 of 400 · 31.2 a second · 9.0 s left``."""
    found = pace(run, now)
    if found.fraction is None:
        return f"{span((now - run.started_at).total_seconds())} so far"
    parts = [f"{run.done:,} of {run.total:,}"]
    if found.per_second is not None:
        parts.append(f"{found.per_second:.1f} a second")
    if found.seconds_left is not None and found.fraction < 1:
        parts.append(f"{span(found.seconds_left)} left")
    return " · ".join(parts)
