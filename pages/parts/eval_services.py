"""The way from the Eval page to the evaluation: one desk a process, and runs that are judged anew only when a file of
theirs has changed. Values are frozen, so sessions share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from core.errors import NotFound, RagError
from core.evaluation.baseline import Baseline
from core.evaluation.calibrate import Calibration
from core.evaluation.cases import Case, CaseSet
from core.evaluation.compare import Comparison
from core.evaluation.difference import CaseChange
from core.evaluation.fixtures import Fixture, FixtureSet
from core.evaluation.gate import GateResult
from core.evaluation.judge import Verdict
from core.evaluation.loss import CaseLoss
from core.evaluation.report import CaseRow, Report
from core.model import Mode
from pages.parts import services

if TYPE_CHECKING:
    from core.evaluation.desk import EvaluationDesk

KEPT = 8
"""Runs and comparisons kept in memory: both modes before and after a few edits."""


@dataclass(frozen=True, slots=True)
class CaseView:
    """Everything that a run says about one case. ``change`` is null without a baseline that it can be held against."""

    case: Case
    row: CaseRow
    verdict: Verdict
    loss: CaseLoss
    change: CaseChange | None


@dataclass(frozen=True, slots=True)
class Run:
    """A judged run beside the baseline of its mode. ``gate`` is null, and ``problem`` says why, when there is a
    baseline that cannot be read. ``answers``: the lookups of a live run; null for frozen ones, which stand in files."""

    report: Report
    mode: Mode
    cases: CaseSet
    baseline: Baseline | None
    gate: GateResult | None
    problem: RagError | None = None
    answers: FixtureSet | None = None

    @property
    def live(self) -> bool:
        return self.answers is not None

    def lookup(self, case_id: str) -> Fixture | None:
        """What the lookup of a case returned, whole; null when there was none. Raises InvalidCases."""
        if self.answers is not None:
            return self.answers.fixtures.get(case_id)
        return desk().fixture(case_id, self.mode)

    def case(self, case_id: str) -> CaseView:
        """Raises NotFound."""
        for case, row, verdict, loss in zip(
            self.cases.cases, self.report.rows, self.report.verdicts, self.report.losses, strict=True
        ):
            if case.case_id == case_id:
                return CaseView(case, row, verdict, loss, self.changes.get(case_id))
        raise NotFound("no case of this id is in the run: it was renamed or removed since")

    @property
    def changes(self) -> dict[str, CaseChange]:
        """By case id; empty without a comparable baseline."""
        found = self.gate.difference if self.gate else None
        return {change.case_id: change for change in found.changes} if found else {}


@st.cache_resource(show_spinner=False)
def desk() -> EvaluationDesk:
    """Over the folder that ``evaluation.folder`` names. Reads nothing yet."""
    from core.bootstrap import evaluation_desk

    return evaluation_desk(services.settings())


def offline(mode: Mode) -> Run:
    """The frozen fixtures of ``mode``, judged. Raises InvalidCases with file and line."""
    at = desk()
    return _offline(at, mode, at.places.mark(mode))


@st.cache_resource(show_spinner="Judging the frozen lookups…", max_entries=KEPT)
def _offline(_desk: EvaluationDesk, mode: Mode, mark: str) -> Run:
    del mark
    return beside_baseline(_desk, _desk.cases(), _desk.offline(mode), mode)


def beside_baseline(
    at: EvaluationDesk, cases: CaseSet, report: Report, mode: Mode, answers: FixtureSet | None = None
) -> Run:
    """``report`` with the baseline of ``mode`` and the gate over both."""
    try:
        return Run(report, mode, cases, at.baseline(mode), at.gate(report, mode), answers=answers)
    except RagError as exc:
        return Run(report, mode, cases, None, None, exc, answers)


def comparison(a: Mode, b: Mode) -> Comparison:
    """The frozen fixtures of ``a`` (before) against those of ``b`` (after). Raises InvalidCases."""
    at = desk()
    return _comparison(at, a, b, at.places.mark(a, b))


@st.cache_resource(show_spinner="Comparing case by case…", max_entries=KEPT)
def _comparison(_desk: EvaluationDesk, a: Mode, b: Mode, mark: str) -> Comparison:
    del mark
    return _desk.compare(a, b)


def calibration(basis: str, mode: Mode, current: float | None) -> Calibration:
    """What the frozen lookups of ``mode`` say about the gate. Raises InvalidCases."""
    at = desk()
    return _calibration(at, basis, mode, current, at.places.mark(mode))


@st.cache_resource(show_spinner="Measuring the frozen lookups…", max_entries=KEPT)
def _calibration(_desk: EvaluationDesk, basis: str, mode: Mode, current: float | None, mark: str) -> Calibration:
    del mark
    return _desk.calibrate(basis, mode, current)
