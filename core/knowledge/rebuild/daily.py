"""One document in or out: a delta rebuild. Everything else is taken over from the active generation, its vectors come
from the cache, and the proof and the switch are those of a rebuild."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from core.errors import BadInput, IndexNotReady, RagError, RebuildRefused
from core.knowledge.rebuild.corpus import Corpus, delta
from core.knowledge.rebuild.intake import Intake, from_bytes, from_paths, without
from core.knowledge.rebuild.jobs import Jobs, Options
from core.knowledge.rebuild.parts import Parts
from core.knowledge.rebuild.rows import DocumentRows, from_source, problem
from core.knowledge.rebuild.sources import clear_staging
from core.knowledge.rebuild.status import rejected_of
from core.knowledge.rebuild.values import Kind, Plan, RebuildOutcome, Step
from core.knowledge.rebuild.work import Work
from core.knowledge.source import Rejected, SourceFile, doc_id_of, list_files, load_file
from core.model import Document, Generation, GenerationState

NOTHING: Final = "there is no document {doc_id!r} in the index, the source or the uploads: nothing to remove"


class Daily:
    def __init__(self, parts: Parts, jobs: Jobs) -> None:
        self._parts = parts
        self._jobs = jobs

    def ingest(self, work: Work, options: Options) -> RebuildOutcome:
        """Files and folders of ``options.paths``. Raises BadInput when none of them can be used; those that cannot are
        ``rejected`` in the outcome, the others go in."""
        sources = self._parts.sources()
        return self._take_in(work, Kind.INGEST, lambda: from_paths(options.paths, sources, work.run_id))

    def upload(self, work: Work, options: Options) -> RebuildOutcome:
        """``options.contents``: file name -> bytes."""
        contents, sources = dict(options.contents), self._parts.sources()
        if not contents:
            raise BadInput("nothing to upload: choose a Markdown file")
        return self._take_in(work, Kind.UPLOAD, lambda: from_bytes(contents, sources, work.run_id))

    def remove(self, work: Work, options: Options) -> RebuildOutcome:
        """Takes ``options.doc_id`` out of the index. Its upload is deleted; a file of the source folder stays where it
        is, and a tombstone keeps it out of every later rebuild until it is ingested again. A document that is nowhere
        is no error: nothing is built then."""
        parts, began, doc_id = self._parts, self._parts.clock.monotonic(), options.doc_id
        work.step(Step.SCAN, f"looking for {doc_id!r}")
        active = self._ready()
        earlier = parts.documents_of(active)
        uploads = [f.source for f in self._files_of_uploads() if f.doc_id == doc_id]
        indexed = earlier.get(doc_id)
        in_source = (indexed is not None and not indexed.uploaded) or self._in_source(doc_id)
        tombstone = in_source and doc_id not in parts.sources().removed()
        if indexed is None and not uploads and not tombstone:
            return _unmoved(work, Kind.REMOVE, active, (NOTHING.format(doc_id=doc_id),))
        facts = {"by": work.run.who, "at": parts.clock.now().isoformat(timespec="seconds"), "why": work.run.why}
        change = {"deleted": uploads, "removed": {doc_id: facts} if tombstone else {}}
        corpus = self._delta(active, Intake((), change), frozenset({doc_id}))
        plan = replace(self._plan(corpus, [], active), removed=(doc_id,) if indexed is not None else ())
        return self._replace(work, Kind.REMOVE, corpus, plan, active, change, began)

    # ---------------------------------------------------------------------------------------- parts

    def _take_in(self, work: Work, kind: Kind, gather: Callable[[], Intake]) -> RebuildOutcome:
        parts, began = self._parts, self._parts.clock.monotonic()
        work.step(Step.SCAN, "reading what was given")
        active = self._ready()
        try:
            intake = gather()
            known = parts.store.revisions(parts.alias)
            rows: list[DocumentRows] = []
            rejected: list[Rejected] = []
            for file in intake.files:
                loaded = load_file(file)
                made = (
                    loaded
                    if isinstance(loaded, Rejected)
                    else from_source(loaded, file, known, parts.settings.knowledge)
                )
                reason = problem(made) if isinstance(made, DocumentRows) else None
                if isinstance(made, Rejected):
                    rejected.append(made)
                elif reason:
                    rejected.append(Rejected(file.source, reason))
                else:
                    rows.append(made)
            intake = without(intake, rejected)
            if not rows:
                raise BadInput(_none_usable(intake.rejected))
            corpus = self._delta(active, intake, frozenset())
            if all(_stands(row.document, corpus.earlier) for row in rows):
                notes = (*intake.notes, f"nothing changed: {_files(len(rows))} as in the index already")
                return _unmoved(work, kind, active, notes, rejected=intake.rejected)
            plan = self._plan(corpus, rows, active)
            outcome = self._replace(work, kind, corpus, plan, active, intake.change, began)
            return replace(outcome, rejected=intake.rejected, notes=intake.notes)
        finally:
            # once SWITCHING, what is staged has been moved or will be by recovery, which needs it
            with suppress(RagError):
                if not self._switching():
                    clear_staging(parts.uploads, work.run_id)

    def _replace(
        self,
        work: Work,
        kind: Kind,
        corpus: Corpus,
        plan: Plan,
        active: Generation,
        change: Mapping[str, Any],
        began: float,
    ) -> RebuildOutcome:
        jobs = self._jobs
        source = self._parts.store.facts(self._parts.alias, active.number).get("source", "")
        facts = {"source": source, "uploads": dict(change)}
        built = jobs.build(work, kind, corpus, plan, active, facts)
        with jobs.guarded(work, built.generation):
            jobs.activate(work, built.generation, active, skip_gate=True)
        jobs.sweep(work)
        return replace(
            jobs.outcome(work, kind, built, plan, active, began), kept=(), rejected=(), warnings=plan.warnings
        )

    def _ready(self) -> Generation:
        """The active generation. Raises IndexNotReady without one, RebuildRefused when the present settings would not
        make the same of the other documents."""
        parts = self._parts
        active = parts.store.active(parts.alias)
        if active is None:
            raise IndexNotReady(
                "there is no active index yet: `python -m core rebuild --confirm REBUILD` builds the first"
            )
        if demands := parts.demands(active):
            raise RebuildRefused(f"a single document cannot be changed now: {demands[0]}")
        return active

    def _delta(self, active: Generation, intake: Intake, removed: frozenset[str]) -> Corpus:
        parts = self._parts
        facts = parts.store.facts(parts.alias, active.number)
        return delta(
            intake.files,
            removed,
            parts.documents_of(active),
            parts.store.revisions(parts.alias),
            rejected_of(facts),
            frozenset(facts.get("kept", ())),
        )

    def _plan(self, corpus: Corpus, rows: Sequence[DocumentRows], active: Generation) -> Plan:
        """Without reading what is taken over: its chunks are counted already."""
        old = corpus.earlier
        ids = [r.document.doc_id for r in rows]
        same = {r.document.doc_id for r in rows if _same_text(r.document, old)}
        chunks = sum(d.chunk_count for d in corpus.over) + sum(len(r.pieces) for r in rows)
        return Plan(
            added=tuple(i for i in ids if i not in old),
            changed=tuple(i for i in ids if i in old and i not in same),
            unchanged=tuple(i for i in ids if i in same),
            warnings=tuple(w for r in rows for w in r.document.warnings),
            documents=len(corpus.over) + len(rows),
            documents_before=active.documents,
            chunks=chunks,
        )

    def _in_source(self, doc_id: str) -> bool:
        sources = self._parts.sources()
        if not sources.root.is_dir():
            return False
        listing = list_files(sources.root)
        names = (r.source for r in listing.rejected if r.source.lower().endswith(".md"))
        return doc_id in {f.doc_id for f in listing.files} | {doc_id_of(name) for name in names}

    def _files_of_uploads(self) -> tuple[SourceFile, ...]:
        uploads = self._parts.uploads
        return list_files(uploads).files if uploads.is_dir() else ()

    def _switching(self) -> bool:
        states = {g.state for g in self._parts.store.all(self._parts.alias)}
        return GenerationState.SWITCHING in states


def _same_text(document: Document, earlier: Mapping[str, Document]) -> bool:
    known = earlier.get(document.doc_id)
    return known is not None and known.content_hash == document.content_hash


def _stands(document: Document, earlier: Mapping[str, Document]) -> bool:
    """Whether the index holds ``document`` as it is, from the same place."""
    known = earlier.get(document.doc_id)
    place = known and (known.source, known.uploaded)
    return _same_text(document, earlier) and place == (document.source, document.uploaded)


def _unmoved(
    work: Work, kind: Kind, active: Generation, notes: tuple[str, ...], rejected: tuple[Rejected, ...] = ()
) -> RebuildOutcome:
    """There was nothing to do: the active generation stays."""
    state, number = active.state.value, active.number
    return RebuildOutcome(work.run_id, kind, state, number, number, notes=notes, rejected=rejected)


def _files(count: int) -> str:
    return "the file is" if count == 1 else f"all {count} files are"


def _none_usable(rejected: Sequence[Rejected]) -> str:
    first = rejected[0]
    place = f"{first.source}:{first.line}" if first.line else first.source
    more = f" [and {len(rejected) - 1} more]" if len(rejected) > 1 else ""
    return f"nothing was ingested: {place}: {first.reason}{more}"
