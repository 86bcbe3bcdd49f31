"""What a lookup resolves once, before its first stage, and holds to its end: boundary, generation, effective values."""

from __future__ import annotations

import math
from functools import partial

from core.errors import NotAllowed, RagError
from core.filters import parse_scopes
from core.knobs import Knobs, resolve
from core.lookup_run import Run
from core.model import Origin, Scopes
from core.ports import Snapshot, SnapshotSource
from core.searcher import Searcher
from core.settings import Settings
from core.stages.transform import clean_query


def prepare(
    run: Run, snapshots: SnapshotSource, searcher: Searcher, settings: Settings, *, has_reranker: bool
) -> tuple[Snapshot, Scopes, Knobs]:
    """Scopes, snapshot and knobs of ``run``, its deadline set. Two searches of one lookup never meet two
    generations, since nobody asks again.

    Raises NotAllowed, InvalidFilter, InvalidSettings, InvalidQuery, or what the snapshot source raises.
    """
    request = run.request
    if request.what_if is not None and request.origin is Origin.AGENT:
        raise NotAllowed("a what-if is for operators: leave it out of an agent's call")
    scope = settings.retrieval.kb_scope if request.kb_scope is None else request.kb_scope
    scopes = run.scopes = parse_scopes(scope)
    run.set_deadline(searcher.lookup_timeout())
    number = request.generation
    call = snapshots.current if number is None else partial(snapshots.of, number)
    try:
        snapshot = searcher.pool.call(call, run.left(math.inf), "the active generation")
    except RagError:
        clean_query(request.query)  # a query that is no query is refused as such, whatever else is missing
        raise
    run.snapshot = snapshot
    run.set_deadline(searcher.lookup_timeout(snapshot.generation))
    profile = searcher.profile(run, snapshot.generation)
    knobs = run.knobs = resolve(settings, profile, request.what_if, has_reranker=has_reranker)
    if snapshot.degraded:
        run.degraded.append(snapshot.degraded)
    return snapshot, scopes, knobs
