"""Everything that changes the index, behind one door: guarded, one run at a time, recorded, recovered after a crash."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from core.errors import BadInput, Busy, IndexNotReady, RagError, redact
from core.knowledge.rebuild.daily import Daily
from core.knowledge.rebuild.drift import DriftWatch
from core.knowledge.rebuild.guard import Word, confirm
from core.knowledge.rebuild.holder import surely_dead, this_process
from core.knowledge.rebuild.jobs import Jobs, Options
from core.knowledge.rebuild.parts import Gate, Parts
from core.knowledge.rebuild.recover import Recovery
from core.knowledge.rebuild.rows import passage_keys
from core.knowledge.rebuild.status import status
from core.knowledge.rebuild.values import Drift, IndexStatus, Kind, Plan, Progress, RebuildOutcome, Step
from core.knowledge.rebuild.work import LeaseLost, Work, is_cancel, reason_of
from core.model import GenerationState
from core.ports import (
    Clock,
    Embedder,
    EmbeddingCache,
    GenerationStore,
    IndexAdmin,
    SearchTexts,
    SnapshotSource,
    VectorIndex,
)
from core.settings import Settings
from core.stores import RebuildRun, RunStore

log = logging.getLogger(__name__)
Tell = Callable[[Progress], None]
Job = Callable[[Work], RebuildOutcome]
DIED: Final = {"error": "its process ended before it did"}


class RebuildService:
    """``gate(new, old)`` gives the reviewed cases that generation ``new`` fails and ``old`` passes. ``step`` is called
    with the name of each step before it is done (tests raise there). Thread-safe.

    Every method that changes something raises NotConfirmed (before anything is touched), Busy naming the holder while
    another run is under way, BadInput, NotFound, RebuildRefused or Unavailable; the active index is then as before.
    """

    def __init__(
        self,
        *,
        alias: str,
        settings: Settings,
        generations: GenerationStore,
        runs: RunStore,
        cache: EmbeddingCache,
        search_texts: SearchTexts,
        admin: IndexAdmin,
        index: VectorIndex,
        embedder: Embedder,
        snapshots: SnapshotSource,
        clock: Clock,
        gate: Gate | None = None,
        step: Callable[[str], None] | None = None,
    ) -> None:
        self._parts = Parts(
            alias, settings, generations, runs, cache, search_texts, admin, index, embedder, snapshots, clock, gate
        )
        self._runs = runs
        self._alias = alias
        self._step = step or _no_step
        self._jobs = Jobs(self._parts)
        self._daily = Daily(self._parts, self._jobs)
        self._watch = DriftWatch(self._parts)
        self._working: dict[str, Work] = {}

    # ---------------------------------------------------------------------------------------- looking

    def status(self) -> IndexStatus:
        return status(self._parts, self.running())

    def drift(self, source: Path | None = None) -> Drift:
        """What changed on disk since the active generation was built; cheap. ``source`` None: the settings' folder."""
        return self._watch.drift(source)

    def dry_run(self, source: Path | None = None) -> Plan:
        """What a rebuild from ``source`` (None: the settings' folder) would do now. Nothing is written."""
        return self._jobs.plan(source)[0]

    def running(self) -> RebuildRun | None:
        """The run under way in any process, with its log; None when there is none."""
        current = self._runs.current(self._alias)
        return None if current is None or surely_dead(current.holder) else current

    def history(self, limit: int = 50) -> tuple[RebuildRun, ...]:
        """Newest first, without logs."""
        return self._runs.history(self._alias, limit=limit).rows

    def run(self, run_id: str) -> RebuildRun | None:
        """One run with its log; None when there is none of that id."""
        return self._runs.get(run_id)

    # ---------------------------------------------------------------------------------------- working

    def rebuild(
        self,
        confirm: str,
        *,
        who: str,
        why: str = "",
        source: Path | None = None,
        hold: bool = False,
        allow_shrink: bool = False,
        skip_gate: bool = False,
        progress: Tell | None = None,
    ) -> RebuildOutcome:
        """Builds a generation from all files, proves it and switches to it; ``hold`` stops at VERIFIED."""
        options = Options(source=source, hold=hold, allow_shrink=allow_shrink, skip_gate=skip_gate)
        job = self._job(Kind.REBUILD, confirm, options)
        return self._now(Kind.REBUILD, job, who, why, progress)

    def switch(
        self,
        confirm: str,
        *,
        who: str,
        why: str = "",
        generation: int | None = None,
        skip_gate: bool = False,
        progress: Tell | None = None,
    ) -> RebuildOutcome:
        """Activates a held generation (None: the newest)."""
        job = self._job(Kind.SWITCH, confirm, Options(generation=generation, skip_gate=skip_gate))
        return self._now(Kind.SWITCH, job, who, why, progress)

    def rollback(self, confirm: str, *, who: str, why: str = "", progress: Tell | None = None) -> RebuildOutcome:
        """Activates the previous generation at once: nothing is built."""
        return self._now(Kind.ROLLBACK, self._job(Kind.ROLLBACK, confirm, Options()), who, why, progress)

    def ingest(self, paths: Sequence[Path], *, who: str, why: str = "", progress: Tell | None = None) -> RebuildOutcome:
        """Files, or folders with all below them, into the index at once. A file from elsewhere is copied into the
        uploads, where every later rebuild reads it; one in the source folder is read where it stands."""
        job = self._job(Kind.INGEST, "", Options(paths=tuple(paths)))
        return self._now(Kind.INGEST, job, who, why, progress)

    def upload(
        self, name: str, data: bytes, *, who: str, why: str = "", progress: Tell | None = None
    ) -> RebuildOutcome:
        """One document by its file name and content, kept in the uploads."""
        job = self._job(Kind.UPLOAD, "", Options(contents={name: data}))
        return self._now(Kind.UPLOAD, job, who, why, progress)

    def remove(self, doc_id: str, *, who: str, why: str = "", progress: Tell | None = None) -> RebuildOutcome:
        """One document out of the index, and out of every later rebuild until it is ingested again."""
        return self._now(Kind.REMOVE, self._job(Kind.REMOVE, "", Options(doc_id=doc_id)), who, why, progress)

    def ship_vectors(self) -> Path:
        """Writes the vectors of the active generation's passages beside the knowledge base (see ``shipped``), for fresh
        installations. Raises IndexNotReady without an active generation. Nothing of the index is changed."""
        parts = self._parts
        active = parts.store.active(self._alias)
        if active is None:
            raise IndexNotReady("there is no active index to ship vectors of: rebuild first")
        titles = {doc_id: document.title for doc_id, document in parts.documents_of(active).items()}
        pages = parts.store.chunk_pages(self._alias, active.number)
        return parts.shipped.write(active.profile, [key for page in pages for key in passage_keys(page, titles)])

    def start(self, kind: str, confirm: str = "", *, who: str, why: str = "", **options: Any) -> str:
        """Like the method named ``kind``, on a thread of this process; returns the run's id once it holds the lease.
        What becomes of it stands in ``run(run_id)``. ``options`` are the fields of ``Options``: ``source``, ``hold``,
        ``allow_shrink``, ``skip_gate``, ``generation``, ``paths``, ``contents`` (file name -> bytes), ``doc_id``."""
        try:
            wanted = Kind(kind)
            job = self._job(wanted, confirm, Options(**options))
        except (TypeError, ValueError) as exc:
            raise BadInput(f"{kind}: no such work, or no such option ({exc})") from exc
        run = self._acquire(wanted, who, why)

        def work() -> None:
            try:
                self._leased(run, job, None)
            except Exception as exc:  # noqa: BLE001 - it stands in the run's record; here is nobody to raise it to
                log.warning("%s %s: %s", run.kind, run.run_id, reason_of(exc))

        threading.Thread(target=work, name=f"{run.kind}-{run.run_id[:8]}", daemon=True).start()
        return run.run_id

    def cancel(self, run_id: str, who: str) -> bool:
        """Asks a run, in whatever process, to stop before its next step. False when it is not under way any more."""
        asked = self._runs.request_cancel(run_id, who=who)
        if asked and (work := self._working.get(run_id)):
            work.cancel()
        return asked

    def recover(self) -> list[str]:
        """At start-up: finishes or discards what a dead process left, mends the alias, drops what nobody needs.
        Returns what was done, a line each; [] when there was nothing, or while another process is at work."""
        self._bury()
        if self._runs.current(self._alias) is not None:
            return []
        recovery = Recovery(self._parts)
        expired = self._runs.expired(self._alias)
        if expired is None and not recovery.needed():
            return []
        done: list[str] = []

        def job(work: Work) -> RebuildOutcome:
            done.extend(recovery.run(work.last, work.note))
            active = self._parts.store.active_number(self._alias)
            return RebuildOutcome(work.run_id, Kind.RECOVER, "ACTIVE" if active else "", active, notes=tuple(done))

        try:
            self._leased(self._acquire(Kind.RECOVER, "start-up", ""), job, None)
        except Busy:
            return []
        return done

    # ---------------------------------------------------------------------------------------- the lease

    def _job(self, kind: Kind, word: str, options: Options) -> Job:
        """What ``kind`` does, after its word was confirmed. Daily writes need none."""
        jobs, daily = self._jobs, self._daily
        known: dict[Kind, tuple[Word | None, Callable[[Work, Options], RebuildOutcome]]] = {
            Kind.REBUILD: (Word.REBUILD, jobs.rebuild),
            Kind.SWITCH: (Word.SWITCH, jobs.switch),
            Kind.ROLLBACK: (Word.ROLLBACK, jobs.rollback),
            Kind.INGEST: (None, daily.ingest),
            Kind.UPLOAD: (None, daily.upload),
            Kind.REMOVE: (None, daily.remove),
        }
        if kind not in known:
            raise ValueError(f"{kind} is not started by hand")
        expected, run = known[kind]
        if expected is not None:
            confirm(word, expected)
        return lambda work: run(work, options)

    def _now(self, kind: Kind, job: Job, who: str, why: str, tell: Tell | None) -> RebuildOutcome:
        return self._leased(self._acquire(kind, who, why), job, tell)

    def _acquire(self, kind: Kind, who: str, why: str) -> RebuildRun:
        """Raises Busy naming who works since when. A holder of this machine whose process is gone holds nothing."""
        self._bury()
        ttl = self._parts.settings.knowledge.lease_seconds
        return self._runs.acquire(self._alias, holder=this_process(), who=who, why=why, ttl=ttl, kind=kind.value)

    def _bury(self) -> None:
        current = self._runs.current(self._alias)
        if current is not None and surely_dead(current.holder):
            self._runs.finish(current.run_id, GenerationState.INTERRUPTED, DIED)

    def _leased(self, run: RebuildRun, job: Job, tell: Tell | None) -> RebuildOutcome:
        with self._working_on(run, tell) as work:
            if run.kind != Kind.RECOVER:
                Recovery(self._parts).run(work.last, work.note)
            outcome = job(work)
            work.last(Step.DONE, "done")
            self._runs.finish(run.run_id, outcome.state, outcome.record())
            return outcome

    @contextmanager
    def _working_on(self, run: RebuildRun, tell: Tell | None) -> Iterator[Work]:
        """Keeps the lease alive; what is raised inside ends the run as FAILED or CANCELLED."""
        ttl = self._parts.settings.knowledge.lease_seconds
        with Work(self._runs, run, self._parts.clock, ttl=ttl, step=self._step, tell=tell) as work:
            self._working[run.run_id] = work
            try:
                yield work
            except (Exception, KeyboardInterrupt, SystemExit) as exc:
                self._failed(work, exc)
                raise
            finally:
                del self._working[run.run_id]

    def _failed(self, work: Work, exc: BaseException) -> None:
        if isinstance(exc, LeaseLost) or work.lost:
            return
        cancelled, reason = is_cancel(exc), reason_of(exc)
        state = GenerationState.CANCELLED if cancelled else GenerationState.FAILED
        try:
            work.note(f"{'cancelled' if cancelled else 'failed'}: {reason}")
            self._runs.finish(work.run_id, state, {"error": reason[:1000], "error_class": type(exc).__name__})
        except RagError as problem:
            log.warning("the end of run %s could not be recorded: %s", work.run_id, redact(problem))


def _no_step(name: str) -> None:
    del name
