"""The evaluation as commands and page use it: the seed corpus in its own index, snapshots, runs, the baseline.

The offline half needs files only; the live half the evaluation's own index, which ``seed`` builds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from core.analysis import search_text
from core.errors import BadInput, CheckFailed, NotFound
from core.evaluation.baseline import Baseline, accept, diff_baseline, load_baseline, write_diff, write_text
from core.evaluation.calibrate import Calibration, JudgedQuery, calibrate, judged_query
from core.evaluation.cases import Case, CaseSet, GoldPassage, RequiredFact, load_cases
from core.evaluation.compare import Comparison, compare
from core.evaluation.difference import Difference
from core.evaluation.fixtures import (
    DeepHit,
    Fixture,
    FixtureSet,
    IndexedDocument,
    IndexedPassage,
    Probe,
    load_fixtures,
    read_fixture,
    safe_name,
)
from core.evaluation.gate import GateResult, gate
from core.evaluation.gold import normalise, relevance
from core.evaluation.markdown import report_markdown
from core.evaluation.offline import evaluate, run_offline
from core.evaluation.places import Places
from core.evaluation.report import Report, report_data, to_json
from core.evaluation.snapshot import Progress, Snapshot, run_cases, snapshot
from core.filters import parse_scopes
from core.knowledge.source import read_source as read_documents
from core.lookup_request import LookupOutcome, LookupRequest, WhatIf
from core.model import Mode, Origin, SearchFilter
from core.ports import Embedder, GenerationStore, SearchAnswer, SnapshotSource, VectorIndex

MODES: Final = (Mode.HYBRID, Mode.DENSE)
PROBE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What the pipeline answered just now, and the report over it. Written nowhere."""

    cases: CaseSet
    fixtures: FixtureSet
    report: Report


class Lookups(Protocol):
    def lookup(self, request: LookupRequest) -> LookupOutcome: ...


class EvaluationDesk:
    """The offline half. ``mode`` is the search mode of the fixtures, each with a baseline of its own."""

    def __init__(self, folder: Path, *, max_drop: float = 0.4) -> None:
        self.places = Places(folder)
        self._max_drop = max_drop

    def cases(self) -> CaseSet:
        """Raises InvalidCases with file and line."""
        return load_cases(self.places.cases)

    def offline(self, mode: Mode = Mode.HYBRID) -> Report:
        """The frozen fixtures of ``mode`` against the cases. Labels that point to nothing are listed first."""
        places = self.places
        seed = places.seed if places.seed.is_dir() else None
        return run_offline(places.cases, places.fixtures, mode.value, source=seed, on_unresolved="list")

    def baseline(self, mode: Mode = Mode.HYBRID) -> Baseline | None:
        try:
            return load_baseline(self.places.baseline(mode))
        except NotFound:
            return None

    def difference(self, report: Report, mode: Mode = Mode.HYBRID) -> Difference | None:
        """Null when there is no baseline."""
        baseline = self.baseline(mode)
        return diff_baseline(report, baseline) if baseline is not None else None

    def gate(self, report: Report, mode: Mode = Mode.HYBRID) -> GateResult:
        return gate(report, self.baseline(mode), max_drop=self._max_drop)

    def accept(self, report: Report, *, who: str, reason: str, mode: Mode = Mode.HYBRID) -> Baseline:
        """Raises CheckFailed without a reason, or while a reviewed case fails."""
        return accept(report, self.places.baseline(mode), who=who, reason=reason)

    def write(self, report: Report, mode: Mode = Mode.HYBRID) -> tuple[Path, ...]:
        """The report (and the difference from the baseline, where there is one) under ``reports/``."""
        folder = self.places.baseline(mode)
        written = [
            write_text(folder / "report.json", to_json(report_data(report))),
            write_text(folder / "report.md", report_markdown(report)),
        ]
        diff = self.difference(report, mode)
        return (*written, *(write_diff(folder, diff) if diff is not None else ()))

    def compare(self, a: Mode = Mode.DENSE, b: Mode = Mode.HYBRID, *, other: Path | None = None) -> Comparison:
        """Fixtures of two modes over one index, or of mode ``b`` in this folder against those in ``other``."""
        fixtures = self.places.fixtures
        if other is not None:
            before = load_fixtures(other, b.value)
            return compare(self.cases(), before, load_fixtures(fixtures, b.value), same_index=False)
        return compare(self.cases(), load_fixtures(fixtures, a.value), load_fixtures(fixtures, b.value))

    def judged(self, mode: Mode = Mode.HYBRID) -> tuple[JudgedQuery, ...]:
        """What calibration learns from: the best value of each frozen lookup by basis."""
        fixtures = load_fixtures(self.places.fixtures, mode.value).fixtures
        return tuple(
            row
            for case in self.cases().cases
            if case.case_id in fixtures
            for row in judged_query(case, fixtures[case.case_id], self.places.folder.name)
        )

    def fixture(self, case_id: str, mode: Mode = Mode.HYBRID) -> Fixture | None:
        """The frozen lookup of one case, as far as its file bears the case's name; null when there is none."""
        folder = self.places.fixtures / mode.value
        path = (folder if folder.is_dir() else self.places.fixtures) / safe_name(case_id)
        return read_fixture(path, mode.value) if path.is_file() else None

    def calibrate(self, basis: str = "dense", mode: Mode = Mode.HYBRID, current: float | None = None) -> Calibration:
        return calibrate(self.judged(mode), basis, current_threshold=current)


class LiveEvaluation:
    """The live half, over the evaluation's own index. ``alias`` is the one that ``generations`` knows it by; ``demands``
    says what of the present settings the index was not built with."""

    def __init__(
        self,
        desk: EvaluationDesk,
        *,
        alias: str,
        lookups: Lookups,
        index: VectorIndex,
        embedder: Embedder,
        snapshots: SnapshotSource,
        generations: GenerationStore,
        demands: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._desk = desk
        self._demands = demands
        self._alias = alias
        self._lookups = lookups
        self._index = index
        self._embedder = embedder
        self._snapshots = snapshots
        self._generations = generations

    def seeded(self) -> str | None:
        """What is wrong with the seed corpus in the index, or null: documents missing, left over or of another text."""
        number = self._generations.active_number(self._alias)
        if number is None:
            return "the evaluation has no index"
        for demand in self._demands():
            return demand
        scan = read_documents(self._desk.places.seed)
        if not scan.documents:
            return f"no documents in {self._desk.places.seed}"
        wanted = {document.doc_id: document.content_hash for document in scan.documents}
        held = {d.doc_id: d.content_hash for d in self._generations.documents(self._alias, number)}
        wrong = sorted(doc_id for doc_id in {*wanted, *held} if wanted.get(doc_id) != held.get(doc_id))
        if wrong:
            return f"{len(wrong)} of {len(wanted)} seed documents differ from the index, first {wrong[0]}"
        return None

    def lookup(self, case: Case, mode: Mode, generation: int | None = None) -> LookupOutcome:
        what_if = WhatIf(mode=mode) if mode is not Mode.HYBRID else None
        return self._lookups.lookup(
            LookupRequest(
                case.query, kb_scope=case.kb_scope, origin=Origin.EVAL, what_if=what_if, generation=generation
            )
        )

    def live(
        self,
        mode: Mode = Mode.HYBRID,
        *,
        generation: int | None = None,
        depth: int = 0,
        progress: Progress | None = None,
    ) -> Report:
        """Runs the cases through the real stack and judges at once; writes nothing. ``generation``: a held one, else
        the active one, which must hold the seed corpus as it is (CheckFailed)."""
        return self.observe(mode, generation=generation, depth=depth, progress=progress).report

    def observe(
        self,
        mode: Mode = Mode.HYBRID,
        *,
        generation: int | None = None,
        depth: int = 0,
        progress: Progress | None = None,
    ) -> LiveRun:
        """``live`` with the answers themselves, for whoever wants to look into one."""
        cases = self._desk.cases()
        if generation is None and (wrong := self.seeded()):
            raise CheckFailed(f"nothing to run the cases over: {wrong}; run `eval seed` first")
        probe = self._prober(depth, generation) if depth else None
        found = run_cases(cases, mode, lambda case, m: self.lookup(case, m, generation), probe=probe, progress=progress)
        return LiveRun(cases, found, evaluate(cases, found))

    def snapshot(
        self, modes: Sequence[Mode] = MODES, *, depth: int = 100, progress: Progress | None = None
    ) -> tuple[Snapshot, ...]:
        """Freezes fixtures of every mode. Raises CheckFailed without the seed corpus or when a lookup failed."""
        cases = self._desk.cases()
        probed = depth != 0 and self.seeded() is None  # without the seed corpus `snapshot` refuses, and says so
        return snapshot(
            cases,
            modes,
            self.lookup,
            self._desk.places.fixtures,
            seeded=self.seeded,
            probe=self._prober(depth, None) if probed else None,
            progress=progress,
        )

    def failing(self, generation: int, previous: int | None) -> list[str]:
        """Reviewed cases that ``previous`` passes and ``generation`` does not: what a rebuild must not switch to."""
        new = self.live(generation=generation)
        passed = None
        if previous is not None:
            passed = {row.case_id for row in self.live(generation=previous).rows if row.passed}
        return [
            f"{row.case_id}: {'; '.join(row.failures) or row.status.value}"
            for row in new.rows
            if row.gates and row.passed is not True and (passed is None or row.case_id in passed)
        ]

    # ------------------------------------------------------------------------------------------- the deeper probe

    def _prober(self, depth: int, generation: int | None) -> Callable[[Case, Mode], Probe]:
        if not 1 <= depth <= 1_000:
            raise BadInput(f"--depth {depth}: give 1 to 1,000")
        snapshot = self._snapshots.current() if generation is None else self._snapshots.of(generation)
        held = {d.doc_id: d for d in self._generations.documents(self._alias, snapshot.generation.number)}
        texts: dict[str, list[tuple[str, str]]] = {}
        for chunk in self._generations.chunks(self._alias, snapshot.generation.number):
            texts.setdefault(chunk.doc_id, []).append((chunk.evidence_key, normalise(chunk.content)))

        def probe(case: Case, mode: Mode) -> Probe:
            del mode  # both branches are probed: a dense run's losses are explained by what BM25 would have found
            where = SearchFilter(parse_scopes(case.kb_scope))
            vector = self._embedder.embed_query(case.query, timeout=PROBE_SECONDS)
            index, found = self._index, snapshot.generation
            dense = index.search_dense(found, vector, where, depth, timeout=PROBE_SECONDS)
            words = search_text(case.query)
            bm25 = index.search_bm25(found, words, where, depth, timeout=PROBE_SECONDS, with_vectors=False)
            documents = []
            for doc_id in relevance(case):
                known = held.get(doc_id)
                documents.append(
                    IndexedDocument(doc_id, known.chunk_count, known.category, known.kb_scope, known.revision)
                    if known
                    else IndexedDocument(doc_id, 0)
                )
            given: list[GoldPassage | RequiredFact] = [*case.gold_passages, *case.required_facts]
            labels = {(label.path, label.anchor): label for label in given}
            passages = tuple(
                IndexedPassage(
                    label.path,
                    label.anchor,
                    tuple(key for key, text in texts.get(label.doc_id, ()) if normalise(label.anchor) in text),
                )
                for label in labels.values()
            )
            return Probe(depth, _deep(dense), _deep(bm25), tuple(documents), passages)

        return probe


def _deep(answer: SearchAnswer) -> tuple[DeepHit, ...]:
    return tuple(DeepHit(hit.chunk.evidence_key, hit.chunk.doc_id, hit.rank, hit.score) for hit in answer.hits)
