"""Everything that changes the index, behind one door: guarded, one at a time, recorded, recovered after a crash."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from core.analysis import ANALYSIS_VERSION
from core.errors import Busy, RagError, RebuildRefused, redact
from core.knowledge.rebuild.build import Builder, Built
from core.knowledge.rebuild.corpus import Corpus, whole
from core.knowledge.rebuild.guard import Word, confirm
from core.knowledge.rebuild.holder import surely_dead, this_process
from core.knowledge.rebuild.leftovers import Leftovers
from core.knowledge.rebuild.plan import demands, duration, faster, forecast, measured_rate, shrinks
from core.knowledge.rebuild.recover import Recovery
from core.knowledge.rebuild.rows import chunking_version
from core.knowledge.rebuild.sources import Sources
from core.knowledge.rebuild.switch import Switcher
from core.knowledge.rebuild.values import Kind, Plan, Progress, RebuildOutcome, Step
from core.knowledge.rebuild.work import Cancelled, LeaseLost, Work
from core.model import Document, Generation, GenerationState
from core.ports import Clock, Embedder, EmbeddingCache, GenerationStore, IndexAdmin, SnapshotSource, VectorIndex
from core.settings import Settings
from core.stores import RebuildRun, RunStore

log = logging.getLogger(__name__)
Gate = Callable[[int, int | None], list[str]]
Tell = Callable[[Progress], None]
PACE_RUNS: Final = 20  # runs looked at for a measured rate


class RebuildService:
    """``gate(new, old)`` gives the reviewed cases that ``new`` fails and ``old`` passes. ``step`` is called with the
    name of each step before it is done (tests raise there)."""

    def __init__(
        self,
        *,
        alias: str,
        settings: Settings,
        generations: GenerationStore,
        runs: RunStore,
        cache: EmbeddingCache,
        admin: IndexAdmin,
        index: VectorIndex,
        embedder: Embedder,
        snapshots: SnapshotSource,
        clock: Clock,
        gate: Gate | None = None,
        step: Callable[[str], None] | None = None,
    ) -> None:
        self.alias = alias
        self._settings, self._store, self._runs, self._cache = settings, generations, runs, cache
        self._admin, self._index, self._embedder = admin, index, embedder
        self._snapshots, self._clock, self._gate = snapshots, clock, gate
        self._step = step or _no_step
        self._uploads = settings.path(settings.knowledge.uploads)
        self._leftovers = Leftovers(alias, generations, admin, clock, settings.knowledge.drop_after_seconds)
        self._switcher = Switcher(alias, generations, admin, self._uploads)
        self._recovery = Recovery(alias, self._leftovers, self._switcher, admin)
        self._builder = Builder(alias, settings, generations, cache, admin, index, embedder, clock, self._leftovers)
        self._working: Work | None = None

    # ---------------------------------------------------------------------------------------- looking

    def running(self) -> RebuildRun | None:
        """The run under way in any process, with its log; None when there is none."""
        current = self._runs.current(self.alias)
        return None if current is None or surely_dead(current.holder) else current

    def dry_run(self, source: Path | None = None) -> Plan:
        """What a rebuild from ``source`` (default: the settings') would do now. Nothing is written."""
        active = self._store.active(self.alias)
        corpus, earlier = self._whole(source, active)
        return self._forecast(corpus, earlier, active)

    # ---------------------------------------------------------------------------------------- working

    def rebuild(
        self,
        confirm_word: str,
        *,
        who: str,
        why: str = "",
        source: Path | None = None,
        hold: bool = False,
        allow_shrink: bool = False,
        skip_gate: bool = False,
        progress: Tell | None = None,
    ) -> RebuildOutcome:
        """Builds a generation from all files, proves it, switches to it; ``hold`` stops at VERIFIED.

        Raises NotConfirmed (before anything is touched), Busy (another run is under way), BadInput (no such folder),
        RebuildRefused (it shrank too much, was not proven, failed the gate, was cancelled) or Unavailable. Whatever it
        raises, the active index is as before.
        """
        confirm(confirm_word, Word.REBUILD)
        with self._run(Kind.REBUILD, who, why, progress) as work:
            return self._rebuild(work, who, why, source, hold=hold, allow_shrink=allow_shrink, skip_gate=skip_gate)

    def recover(self) -> list[str]:
        """At start-up: finishes or discards what a dead process left, repairs the alias, drops what nobody needs.
        Returns what was done, a line each; [] also while another process is at work."""
        current = self._runs.current(self.alias) or self._runs.expired(self.alias)
        if current is not None and surely_dead(current.holder):
            self._runs.finish(current.run_id, GenerationState.INTERRUPTED, {"error": "its process ended"})
        elif current is not None and current.expires_at > self._clock.now():
            return []
        shelf = self._leftovers.shelf()
        if not (self._recovery.needed(shelf) or shelf.spent or self._runs.expired(self.alias)):
            return []
        try:
            with self._run(Kind.RECOVER, "start-up", "", None, recover=False) as work:
                done = self._recovery.run(lambda step, message: work.step(step, message), work.note)
                self._finish(work, GenerationState.ACTIVE, {"notes": done})
                return done
        except Busy:
            return []

    # ---------------------------------------------------------------------------------------- parts

    def _rebuild(
        self, work: Work, who: str, why: str, source: Path | None, *, hold: bool, allow_shrink: bool, skip_gate: bool
    ) -> RebuildOutcome:
        began = self._clock.monotonic()
        active = self._store.active(self.alias)
        root = self._root(source)
        work.step(Step.SCAN, f"reading {root}")
        corpus, earlier = self._whole(source, active)
        plan = self._forecast(corpus, earlier, active)
        work.step(Step.PLAN, _described(plan))
        if plan.refused and not allow_shrink:
            raise RebuildRefused(plan.refused)
        facts = {"why": why, "kind": Kind.REBUILD.value, "source": str(root), "base": active.number if active else None}
        built = self._builder.build(work, corpus, chunks=plan.chunks, base=active, who=who, facts=facts)
        filled = built.filled
        try:
            before = active.documents if active else 0
            refused = shrinks(filled.documents, len(filled.kept), before, self._settings.knowledge.min_document_ratio)
            if refused and not allow_shrink:
                raise RebuildRefused(refused)
            if hold:
                self._hold(built.generation)
            else:
                self._activate(work, built.generation, active, skip_gate=skip_gate)
        except (Exception, KeyboardInterrupt, SystemExit) as exc:
            self._after_failed_switch(work, built.generation, exc)
            raise
        return self._outcome(work, Kind.REBUILD, built, plan, active, began)

    def _activate(self, work: Work, generation: Generation, active: Generation | None, *, skip_gate: bool) -> None:
        if self._gate is not None and self._settings.knowledge.golden_gate and not skip_gate:
            work.step(Step.GATE, "reviewed cases on the new generation")
            failures = self._gate(generation.number, active.number if active else None)
            if failures:
                more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
                raise RebuildRefused(f"the new generation fails what the active one passes: {failures[0]}{more}")
        work.step(Step.WARM, "loading the new generation for the first lookup")
        self._index.warm(generation, timeout=self._settings.retrieval.warming_timeout)
        self._snapshots.of(generation.number)
        self._switcher.activate(
            generation.number,
            lambda step, message: work.step(
                step, message, state=GenerationState.SWITCHING if step is Step.SWITCHING else None
            ),
            work.prove,
        )
        work.step(Step.SWEEP, "dropping what nobody needs any more")
        self._leftovers.sweep(work.note)

    def _hold(self, generation: Generation) -> None:
        self._store.set_state(self.alias, generation.number, GenerationState.VERIFIED, held=True)

    def _after_failed_switch(self, work: Work, generation: Generation, exc: BaseException) -> None:
        """Before SWITCHING the new generation is taken away; from then on recovery finishes what began."""
        now = self._store.get(self.alias, generation.number)
        if now is not None and now.state is GenerationState.VERIFIED:
            self._builder.give_up(work, generation, exc)

    def _whole(self, source: Path | None, active: Generation | None) -> tuple[Corpus, dict[str, Document]]:
        listing = Sources(self._root(source), self._uploads).listing()
        earlier = {d.doc_id: d for d in self._store.documents(self.alias, active.number)} if active else {}
        return whole(listing, earlier, self._store.revisions(self.alias)), earlier

    def _root(self, source: Path | None) -> Path:
        return source if source is not None else self._settings.path(self._settings.knowledge.source)

    def _forecast(self, corpus: Corpus, earlier: dict[str, Document], active: Generation | None) -> Plan:
        profile = self._embedder.profile
        entries = corpus.read(
            lambda doc_id: self._store.chunks(self.alias, active.number, doc_id) if active else (),
            self._settings.knowledge,
        )
        plan = forecast(entries, before=earlier, cache=self._cache, profile_id=profile.profile_id)
        rate, rate_from = measured_rate(self._runs.history(self.alias, limit=PACE_RUNS).rows, profile)
        ratio = self._settings.knowledge.min_document_ratio
        plan = replace(
            plan,
            skipped=corpus.skipped,
            rate=rate,
            rate_from=rate_from,
            seconds=duration(plan.to_embed, plan.chunks, rate),
            demands=demands(active, profile, ANALYSIS_VERSION, chunking_version(self._settings.knowledge)),
            refused=shrinks(plan.documents, len(plan.kept), active.documents if active else 0, ratio),
        )
        other = faster(self._settings.embedding.provider, plan)
        return replace(plan, faster=other[0], faster_seconds=other[1]) if other else plan

    @contextmanager
    def _run(self, kind: Kind, who: str, why: str, tell: Tell | None, *, recover: bool = True) -> Iterator[Work]:
        """The lease from beginning to end. A run that was not finished inside ends as FAILED or CANCELLED."""
        rival = self._runs.current(self.alias)
        if rival is not None and surely_dead(rival.holder):
            self._runs.finish(rival.run_id, GenerationState.INTERRUPTED, {"error": "its process ended"})
        ttl = self._settings.knowledge.lease_seconds
        run = self._runs.acquire(self.alias, holder=this_process(), who=who, why=why, ttl=ttl, kind=kind.value)
        with Work(self._runs, run, self._clock, ttl=ttl, step=self._step, tell=tell) as work:
            self._working = work
            try:
                if recover:
                    self._recovery.run(lambda step, message: work.step(step, message), work.note)
                yield work
            except (Exception, KeyboardInterrupt, SystemExit) as exc:
                self._failed(work, exc)
                raise
            finally:
                self._working = None

    def _failed(self, work: Work, exc: BaseException) -> None:
        if isinstance(exc, LeaseLost) or work.lost:
            return
        cancelled = isinstance(exc, Cancelled | KeyboardInterrupt | SystemExit)
        reason = str(exc) if isinstance(exc, RagError) else redact(f"{type(exc).__name__}: {exc}")
        try:
            work.note(("cancelled: " if cancelled else "failed: ") + reason)
            state = GenerationState.CANCELLED if cancelled else GenerationState.FAILED
            self._runs.finish(work.run_id, state, {"error": reason[:1000], "error_class": type(exc).__name__})
        except RagError as problem:
            log.warning("the end of run %s could not be recorded: %s", work.run_id, redact(problem))

    def _finish(self, work: Work, state: GenerationState, outcome: dict[str, Any]) -> None:
        work.step(Step.DONE, "done")
        self._runs.finish(work.run_id, state, outcome)

    def _outcome(
        self, work: Work, kind: Kind, built: Built, plan: Plan, active: Generation | None, began: float
    ) -> RebuildOutcome:
        now = self._store.get(self.alias, built.generation.number) or built.generation
        filled = built.filled
        total = self._clock.monotonic() - began
        outcome = RebuildOutcome(
            run_id=work.run_id,
            kind=kind,
            state=now.state.value,
            generation=now.number,
            previous=active.number if active else None,
            documents=filled.documents,
            chunks=filled.chunks,
            embedded=filled.embedded,
            from_cache=filled.from_cache,
            added=plan.added,
            changed=plan.changed,
            removed=plan.removed,
            kept=tuple(filled.kept),
            rejected=tuple(filled.rejected),
            warnings=tuple(filled.warnings),
            seconds={"embed": filled.embed_seconds, "insert": filled.insert_seconds, "total": total},
        )
        self._finish(
            work,
            now.state,
            {
                "documents": outcome.documents,
                "chunks": outcome.chunks,
                "added": len(outcome.added),
                "changed": len(outcome.changed),
                "removed": len(outcome.removed),
                "rejected": len(outcome.rejected),
                "kept": len(outcome.kept),
                "embedded": outcome.embedded,
                "from_cache": outcome.from_cache,
                "embed_seconds": filled.embed_seconds,
                "insert_seconds": filled.insert_seconds,
                "seconds": total,
                "profile": now.profile.profile_id,
                "previous": outcome.previous,
                "recall": built.proof.recall,
            },
        )
        return outcome


def _no_step(name: str) -> None:
    del name


def _described(plan: Plan) -> str:
    return (
        f"{plan.documents} documents ({len(plan.added)} added, {len(plan.changed)} changed, {len(plan.removed)} removed, "
        f"{len(plan.rejected)} rejected), {plan.chunks} chunks, {plan.to_embed} to embed"
    )
