"""What each kind of run does while it holds the lease."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from core.errors import CheckFailed, NotFound, RagError, RebuildRefused, redact
from core.knowledge.rebuild.build import Builder, Built
from core.knowledge.rebuild.corpus import Corpus, whole
from core.knowledge.rebuild.parts import Parts
from core.knowledge.rebuild.plan import duration, faster, forecast, measured_rate, shrinks
from core.knowledge.rebuild.rows import DocumentRows
from core.knowledge.rebuild.values import Kind, Plan, RebuildOutcome, Step
from core.knowledge.rebuild.work import Work
from core.knowledge.source import Rejected
from core.model import Generation, GenerationState

PACE_RUNS: Final = 20  # runs looked at for a measured rate


@dataclass(frozen=True, slots=True)
class Options:
    """``source`` None: the settings' folder. ``hold``: stop at VERIFIED. ``allow_shrink``: far fewer documents are
    fine. ``skip_gate``: leave the reviewed cases out. ``generation``: which held one to switch to (None: the newest).
    ``paths`` to ingest; ``contents`` to upload, by file name; ``doc_id`` to remove."""

    source: Path | None = None
    hold: bool = False
    allow_shrink: bool = False
    skip_gate: bool = False
    generation: int | None = None
    paths: tuple[Path, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
    doc_id: str = ""


class Jobs:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._builder = Builder(parts)

    # ---------------------------------------------------------------------------------------- rebuild

    def plan(self, source: Path | None, work: Work | None = None) -> tuple[Plan, Corpus]:
        """The forecast of a rebuild; ``work`` hears how far it is and may stop it. Raises BadInput when the source is no
        readable folder."""
        parts = self._parts
        active = parts.store.active(parts.alias)
        listing = parts.sources(source).listing()
        corpus = whole(listing, parts.documents_of(active), parts.store.revisions(parts.alias))
        return self._forecast(corpus, active, work), corpus

    def _forecast(self, corpus: Corpus, active: Generation | None, work: Work | None) -> Plan:
        parts = self._parts
        profile = parts.embedder.profile
        entries = _watched(corpus.read(parts.chunks_of(active), parts.settings.knowledge), len(corpus.files), work)
        cache = parts.cache if work else parts.shipped.cached(profile)  # a run has loaded what is shipped
        plan = forecast(entries, before=corpus.earlier, cache=cache, profile_id=profile.profile_id)
        rate, rate_from = measured_rate(parts.runs.history(parts.alias, limit=PACE_RUNS).rows, profile)
        plan = replace(
            plan,
            skipped=corpus.skipped,
            rate=rate,
            rate_from=rate_from,
            seconds=duration(plan.to_embed, plan.chunks, rate),
            demands=parts.demands(active),
            refused=self._shrinks(plan.documents, len(plan.kept), active),
        )
        other = faster(parts.settings.embedding.provider, plan)
        return replace(plan, faster=other[0], faster_seconds=other[1]) if other else plan

    def rebuild(self, work: Work, options: Options) -> RebuildOutcome:
        parts, began = self._parts, self._parts.clock.monotonic()
        root = parts.sources(options.source).root
        work.step(Step.SCAN, f"reading {root}")
        if loaded := parts.shipped.load(parts.embedder.profile):
            work.note(f"{loaded} vectors that came with the knowledge base are in the cache now")
        active = parts.store.active(parts.alias)
        plan, corpus = self.plan(options.source, work)
        work.step(Step.PLAN, described(plan))
        if plan.refused and not options.allow_shrink:
            raise RebuildRefused(plan.refused)
        built = self.build(work, Kind.REBUILD, corpus, plan, active, {"source": str(root)})
        with self.guarded(work, built.generation):
            refused = self._shrinks(built.filled.documents, len(built.filled.kept), active)
            if refused and not options.allow_shrink:  # files may have gone since they were counted
                raise RebuildRefused(refused)
            if options.hold:
                held = GenerationState.VERIFIED
                parts.store.set_state(parts.alias, built.generation.number, held, held=True)
            else:
                self.activate(work, built.generation, active, skip_gate=options.skip_gate)
        self.sweep(work)
        return self.outcome(work, Kind.REBUILD, built, plan, active, began)

    def build(
        self,
        work: Work,
        kind: Kind,
        corpus: Corpus,
        plan: Plan,
        active: Generation | None,
        facts: Mapping[str, Any],
    ) -> Built:
        """A verified generation of ``corpus``, with who asked for it and why."""
        recorded = {"kind": kind.value, "why": work.run.why, "base": active.number if active else None, **facts}
        return self._builder.build(work, corpus, chunks=plan.chunks, base=active, facts=recorded)

    def guarded(self, work: Work, generation: Generation) -> _taken_away_on_failure:
        """A block after which ``generation`` is taken away unless it came through to SWITCHING or is held."""
        return _taken_away_on_failure(self._builder, self._parts, work, generation)

    # ---------------------------------------------------------------------------------------- switch and roll-back

    def switch(self, work: Work, options: Options) -> RebuildOutcome:
        """Activates a held generation. Raises NotFound when there is none, RebuildRefused when the gate says no."""
        began, shelf = self._parts.clock.monotonic(), self._parts.leftovers.shelf()
        wanted = options.generation
        held = next((g for g in shelf.waiting if wanted in (None, g.number)), None)
        if held is None:
            name = "no generation" if wanted is None else f"generation {wanted}"
            why = (
                "is held that is newer than the active one" if wanted is None else "is not held, or something newer is"
            )
            raise NotFound(f"{name} {why}: build one with `rebuild --hold`")
        work.generation(held.number)
        self._usable(held)
        self.activate(work, held, shelf.active, skip_gate=options.skip_gate)
        self.sweep(work)
        return self._moved(work, Kind.SWITCH, held, shelf.active, began)

    def rollback(self, work: Work, options: Options) -> RebuildOutcome:
        """Activates the previous generation. Raises NotFound when there is none that can serve."""
        del options
        began, shelf = self._parts.clock.monotonic(), self._parts.leftovers.shelf()
        if shelf.previous is None:
            raise NotFound("there is no previous generation to return to: only one has been active, or it is gone")
        work.generation(shelf.previous.number)
        self._usable(shelf.previous)
        self.activate(work, shelf.previous, shelf.active, skip_gate=True)
        return self._moved(work, Kind.ROLLBACK, shelf.previous, shelf.active, began)

    def activate(self, work: Work, generation: Generation, active: Generation | None, *, skip_gate: bool) -> None:
        """The gate, the warm-up, the switch."""
        parts = self._parts
        if parts.gate is not None and parts.settings.knowledge.golden_gate and not skip_gate:
            work.step(Step.GATE, "reviewed cases on the new generation", state=GenerationState.VERIFIED)
            failures = parts.gate(generation.number, active.number if active else None)
            if failures:
                more = f" [and {len(failures) - 1} more]" if len(failures) > 1 else ""
                raise RebuildRefused(f"the new generation fails what the active one passes: {failures[0]}{more}")
        proven = generation.state if generation.state is GenerationState.VERIFIED else None
        work.step(Step.WARM, "loading the generation for its first lookup", state=proven)
        parts.snapshots.of(generation.number)
        parts.index.warm(generation, timeout=parts.settings.retrieval.warming_timeout)
        work.step(Step.SWITCHING, f"switching to generation {generation.number}", state=GenerationState.SWITCHING)
        parts.switcher.activate(generation.number, work.last, work.prove)

    def sweep(self, work: Work) -> None:
        """What nobody needs goes. The new generation serves by now: a failure here is no failure of the run."""
        work.last(Step.SWEEP, "dropping what nobody needs any more")
        try:
            self._parts.leftovers.sweep(work.note)
        except RagError as exc:
            work.note(f"older generations stay for now: {redact(exc)}")

    # ---------------------------------------------------------------------------------------- parts

    def _usable(self, generation: Generation) -> None:
        """Raises CheckFailed when its collection is not whole any more, ProfileMismatch when this process embeds or
        cuts otherwise."""
        parts = self._parts
        parts.snapshots.of(generation.number)
        found = parts.admin.count(generation, timeout=parts.settings.retrieval.warming_timeout)
        if found != generation.chunks:
            raise CheckFailed(
                f"generation {generation.number} should hold {generation.chunks} chunks, its collection has {found}: rebuild"
            )

    def _shrinks(self, documents: int, kept: int, active: Generation | None) -> str | None:
        ratio = self._parts.settings.knowledge.min_document_ratio
        return shrinks(documents, kept, active.documents if active else 0, ratio)

    def outcome(
        self, work: Work, kind: Kind, built: Built, plan: Plan, active: Generation | None, began: float
    ) -> RebuildOutcome:
        parts, filled = self._parts, built.filled
        now = parts.store.get(parts.alias, built.generation.number) or built.generation
        seconds = {"embed": filled.embed_seconds, "insert": filled.insert_seconds}
        return RebuildOutcome(
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
            seconds={**seconds, "total": parts.clock.monotonic() - began},
            profile=now.profile.profile_id,
            recall=built.proof.recall,
        )

    def _moved(
        self, work: Work, kind: Kind, generation: Generation, active: Generation | None, began: float
    ) -> RebuildOutcome:
        return RebuildOutcome(
            run_id=work.run_id,
            kind=kind,
            state=GenerationState.ACTIVE.value,
            generation=generation.number,
            previous=active.number if active else None,
            documents=generation.documents,
            chunks=generation.chunks,
            seconds={"total": self._parts.clock.monotonic() - began},
            profile=generation.profile.profile_id,
        )


class _taken_away_on_failure:
    """Whatever is raised inside before SWITCHING takes the generation away; from SWITCHING on recovery finishes it."""

    def __init__(self, builder: Builder, parts: Parts, work: Work, generation: Generation) -> None:
        self._builder, self._parts, self._work, self._generation = builder, parts, work, generation

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, exc: BaseException | None, trace: object) -> None:
        del kind, trace
        if not isinstance(exc, Exception | KeyboardInterrupt | SystemExit):
            return
        try:
            now = self._parts.store.get(self._parts.alias, self._generation.number)
        except RagError:
            return  # SQL is away: the next run takes it away
        if now is not None and now.state is GenerationState.VERIFIED:
            self._builder.give_up(self._work, now, exc)


def _watched(
    entries: Iterable[DocumentRows | Rejected], files: int, work: Work | None
) -> Iterator[DocumentRows | Rejected]:
    for number, entry in enumerate(entries):
        if work is not None:
            work.advance(min(number, files), files)
        yield entry


def described(plan: Plan) -> str:
    return (
        f"{plan.documents} documents ({len(plan.added)} added, {len(plan.changed)} changed, {len(plan.removed)} removed, "
        f"{len(plan.rejected)} rejected), {plan.chunks} chunks, {plan.to_embed} to embed"
    )
