"""One guarded run: its lease kept alive by a thread, its record, its wish to be cancelled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from core.errors import Busy, RagError, RebuildRefused, redact
from core.knowledge.rebuild.values import Progress, Step
from core.ports import Clock
from core.stores import RebuildRun, RunStore

log = logging.getLogger(__name__)
RECORD_SECONDS: Final = 0.5  # between two notes of progress in the record


class Cancelled(RebuildRefused):
    """Somebody asked the run to stop."""


class LeaseLost(Busy):
    """Another process took the run over: nothing may be touched any more."""


def is_cancel(exc: BaseException) -> bool:
    """Somebody wanted the end, as opposed to something going wrong."""
    return isinstance(exc, Cancelled | KeyboardInterrupt | SystemExit)


def reason_of(exc: BaseException) -> str:
    """One line for the record, without secrets."""
    return redact(exc if isinstance(exc, RagError) else f"{type(exc).__name__}: {exc}")


class Work:
    """Holds the lease of ``run`` from ``with`` to its end. Thread-safe.

    ``ttl`` is the lease in seconds. ``step`` is called with each step's name before the step is done (a test may raise
    there). ``tell`` hears of progress.
    """

    def __init__(
        self,
        runs: RunStore,
        run: RebuildRun,
        clock: Clock,
        *,
        ttl: float,
        step: Callable[[str], None],
        tell: Callable[[Progress], None] | None,
    ) -> None:
        self.run = run
        self._runs, self._clock, self._ttl = runs, clock, ttl
        self._on_step, self._tell = step, tell
        self._stop = threading.Event()
        self._cancelled = threading.Event()
        self._lost = threading.Event()
        self._beat = threading.Thread(target=self._beats, name=f"lease-{run.run_id[:8]}", daemon=True)
        self._step = Step.SCAN
        self._message = ""
        self._began = self._noted = clock.monotonic()

    def __enter__(self) -> Work:
        self._beat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._beat.join()

    @property
    def run_id(self) -> str:
        return self.run.run_id

    def step(self, step: Step, message: str, *, total: int | None = None, state: str | None = None) -> None:
        """Records that ``step`` begins, then lets it begin. Raises Cancelled or LeaseLost instead."""
        self.check()
        if not self._enter(step, message, total, state):
            self._lost.set()
            self.check()
        self._on_step(step.value)

    def last(self, step: Step, message: str) -> None:
        """Like ``step``, for what is done to its end once it began: nobody can cancel it, and whoever took the lease
        over would do the same."""
        self._enter(step, message, None, None)
        self._on_step(step.value)

    def _enter(self, step: Step, message: str, total: int | None, state: str | None) -> bool:
        self._step, self._message = step, message
        self._began = self._noted = self._clock.monotonic()
        # a step without a count says 0 of 0: the numbers of the step before must not stand beside its name
        kept = self._runs.progress(
            self.run_id, state=state, stage=step.value, message=message, done=0, total=total or 0
        )
        self._report(None if total is None else 0, total)
        return kept

    def advance(self, done: int, total: int | None) -> None:
        """Notes how far the step is, at most twice a second in the record."""
        self.check()
        now = self._clock.monotonic()
        if now - self._noted >= RECORD_SECONDS or done == total:
            self._noted = now
            if not self._runs.progress(self.run_id, done=done, total=total):
                self._lost.set()
                self.check()
        self._report(done, total)

    def note(self, message: str) -> None:
        """A line of the log."""
        self._runs.progress(self.run_id, stage=self._step.value, message=message)

    def generation(self, number: int) -> None:
        self._runs.progress(self.run_id, generation=number)

    def check(self) -> None:
        """Raises LeaseLost or Cancelled when the run must stop."""
        if self._lost.is_set():
            raise LeaseLost(
                "the lease of this run was taken over by another process; nothing of the active index changed"
            )
        if self._cancelled.is_set():
            raise Cancelled("cancelled: what was built is removed, the active index is as before")

    def prove(self) -> None:
        """Asks SQL whether the lease is still ours: before a step that cannot be taken back."""
        if not self._runs.heartbeat(self.run_id, ttl=self._ttl):
            self._lost.set()
        if self._runs.cancel_requested(self.run_id):
            self._cancelled.set()
        self.check()

    def cancel(self) -> None:
        """Stops the run at its next check."""
        self._cancelled.set()

    @property
    def lost(self) -> bool:
        return self._lost.is_set()

    def _report(self, done: int | None, total: int | None) -> None:
        if self._tell is None:
            return
        seconds = self._clock.monotonic() - self._began
        rate = done / seconds if done and seconds > 0 else None
        left = (total - (done or 0)) / rate if rate and total is not None else None
        self._tell(Progress(self.run_id, self._step.value, self._message, done, total, rate, left))

    def _beats(self) -> None:
        """Prolongs the lease and looks for a wish to cancel. While SQL is away the lease counts as kept until it must
        have run out."""
        last = self._clock.monotonic()
        while not self._stop.wait(min(self._ttl / 4, 2.0)):
            try:
                if not self._runs.heartbeat(self.run_id, ttl=self._ttl):
                    self._lost.set()
                    return
                last = self._clock.monotonic()
                if self._runs.cancel_requested(self.run_id):
                    self._cancelled.set()
            except RagError as exc:
                log.warning("the lease of run %s could not be prolonged: %s", self.run_id, redact(exc))
                if self._clock.monotonic() - last > self._ttl:
                    self._lost.set()
                    return
