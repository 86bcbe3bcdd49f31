"""Freezing what happens now (``snapshot``) and judging it at once without keeping it (``live``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from core.codec import non_finite, to_data
from core.errors import CheckFailed, RagError, redact
from core.evaluation.cases import Case, CaseSet
from core.evaluation.fixtures import Fixture, FixtureSet, Probe, parse_fixture, safe_name, write_fixtures
from core.evaluation.gold import relevance
from core.evaluation.offline import evaluate
from core.evaluation.report import Report
from core.model import EvidenceStatus, LookupResult, Mode


class Outcome(Protocol):
    """What a lookup service hands over: the result, and more."""

    @property
    def result(self) -> LookupResult: ...


Lookup = Callable[[Case, Mode], LookupResult | Outcome]
Prober = Callable[[Case, Mode], Probe]
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One mode of a snapshot: where it was written (null: it was not), and which lookups failed."""

    mode: str
    fixtures: FixtureSet
    folder: Path | None
    failed: tuple[str, ...]


def run_cases(
    cases: CaseSet,
    mode: Mode,
    lookup: Lookup,
    *,
    probe: Prober | None = None,
    progress: Progress | None = None,
    now: datetime | None = None,
) -> FixtureSet:
    """Every case through ``lookup``, in order. A lookup that raises an error of ours is a failed fixture, never a
    missing one; ``probe`` runs apart from the lookup, and its failure only costs the probe."""
    found: dict[str, Fixture] = {}
    for number, case in enumerate(cases.cases, start=1):
        if progress is not None:
            progress(number, len(cases.cases), case.case_id)
        found[case.case_id] = _run(case, mode, lookup, probe, now)
    return FixtureSet(mode.value, found)


def snapshot(
    cases: CaseSet,
    modes: Sequence[Mode],
    lookup: Lookup,
    folder: Path,
    *,
    seeded: Callable[[], str | None],
    probe: Prober | None = None,
    failure_limit: float = 0.0,
    progress: Progress | None = None,
    now: datetime | None = None,
) -> tuple[Snapshot, ...]:
    """Runs all cases in every mode and freezes them under ``folder/<mode>/``: a mode whole or not at all.

    ``seeded`` says what is wrong with the seed corpus, or null; without it nothing is run. Raises CheckFailed then,
    and when more than ``failure_limit`` (a share) of a mode's lookups failed: nothing of any mode is written.
    """
    wrong = seeded()
    if wrong:
        raise CheckFailed(f"no snapshot without the seed corpus: {wrong}; run `eval seed` first")
    for case in cases.cases:
        safe_name(case.case_id)
    runs = [run_cases(cases, mode, lookup, probe=probe, progress=progress, now=now) for mode in modes]
    for run in runs:
        failed = _failed(run)
        if len(failed) > failure_limit * len(cases.cases):
            first = run.fixtures[failed[0]]
            raise CheckFailed(
                f"{len(failed)} of {len(cases.cases)} lookups failed in mode {run.mode} "
                f"({first.case_id}: {first.error}); nothing was written"
            )
    return tuple(
        Snapshot(run.mode, run, write_fixtures(folder, run.mode, list(run.fixtures.values())), _failed(run))
        for run in runs
    )


def live(
    cases: CaseSet,
    mode: Mode,
    lookup: Lookup,
    *,
    probe: Prober | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """The report of the pipeline as it answers now. Writes nothing. ``options`` go to ``offline.evaluate``."""
    return evaluate(cases, run_cases(cases, mode, lookup, probe=probe, progress=progress), **options)


def of_labelled(case: Case, probe: Probe) -> Probe:
    """``probe`` with the hits of labelled documents only: what attribution needs, at a size that can be kept."""
    labelled = set(relevance(case))
    return Probe(
        depth=probe.depth,
        dense=tuple(hit for hit in probe.dense if hit.doc_id in labelled),
        bm25=tuple(hit for hit in probe.bm25 if hit.doc_id in labelled),
        documents=probe.documents,
        passages=probe.passages,
    )


def _run(case: Case, mode: Mode, lookup: Lookup, probe: Prober | None, now: datetime | None) -> Fixture:
    data: dict[str, Any] = {
        "caseId": case.case_id,
        "query": case.query,
        "retrievedAt": (now or datetime.now(UTC)).isoformat(timespec="seconds"),
        "searchMode": mode.value,
        "kbScope": case.kb_scope,
    }
    try:
        outcome = lookup(case, mode)
    except RagError as exc:
        return parse_fixture({**data, "failed": True, "error": f"{exc.error_class}: {redact(exc)}"})
    result = outcome if isinstance(outcome, LookupResult) else outcome.result
    trace = result.retrieval_trace
    data |= {
        "generation": trace.generation,
        "profile": trace.embedding_profile,
        "fingerprint": trace.fingerprint,
        "corpusSnapshot": trace.corpus_snapshot,
        "failed": result.evidence_status is EvidenceStatus.ERROR,
        "error": result.error_class,
        "invalidScores": list(non_finite(result)),
        "lookupResult": to_data(result),
    }
    return replace(parse_fixture(data), probe=_probed(case, mode, probe))


def _probed(case: Case, mode: Mode, probe: Prober | None) -> Probe | None:
    try:
        return of_labelled(case, probe(case, mode)) if probe is not None else None
    except RagError:
        return None


def _failed(run: FixtureSet) -> tuple[str, ...]:
    return tuple(case_id for case_id, fixture in run.fixtures.items() if fixture.failed)
