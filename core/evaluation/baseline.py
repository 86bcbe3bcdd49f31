"""The baseline: the last accepted report. Replaced only by a person, with a reason that it keeps.

``baseline.json`` holds what a later run is held against, ``baseline.md`` what a person reads; ``baseline-diff.*`` is the
last difference (offline-evaluation, sections 6.2 and 11).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from core.errors import CheckFailed, InvalidCases, NotFound, redact
from core.evaluation.difference import Difference, difference
from core.evaluation.judge import CaseStatus
from core.evaluation.loss import UNJUDGED_LIMIT
from core.evaluation.markdown import diff_markdown, report_markdown
from core.evaluation.report import CaseRow, Identity, Report, digest, plain, report_data, to_json

BASELINE: Final = "baseline"
DIFF: Final = "baseline-diff"
FAILURE_LIMIT: Final = 0.0
_KEPT = ("identity", "judgement", "stages", "context", "behaviour", "loss_counts", "rows", "definitions")


@dataclass(frozen=True, slots=True)
class Accepted:
    """An entry of the history: who replaced the baseline, when, why, and with which report."""

    who: str
    when: str
    reason: str
    report: str
    passed: int
    total: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """``history``: newest last; the last entry is the baseline itself."""

    identity: Identity
    rows: tuple[CaseRow, ...]
    history: tuple[Accepted, ...]
    created_at: str
    data: Mapping[str, Any]


def load_baseline(folder: Path) -> Baseline:
    """The baseline of ``folder``. Raises NotFound when there is none (and writes none), InvalidCases when unreadable."""
    path = folder / f"{BASELINE}.json"
    if not path.exists():
        raise NotFound(f"{path}: there is no baseline; review a run and accept it with a reason")
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        return Baseline(
            identity=_identity(data["identity"]),
            rows=tuple(_row(row) for row in data["rows"]),
            history=tuple(Accepted(**entry) for entry in data["history"]),
            created_at=str(data["created_at"]),
            data=data,
        )
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise InvalidCases([f"{path}: not a baseline ({redact(exc)}); restore it or accept a new one"]) from exc


def diff_baseline(report: Report, baseline: Baseline, unjudged_limit: float = UNJUDGED_LIMIT) -> Difference:
    """What moved since the baseline."""
    return difference(baseline.identity, baseline.rows, report.identity, report.rows, unjudged_limit)


def write_diff(folder: Path, diff: Difference) -> tuple[Path, Path]:
    """``baseline-diff.json`` and ``.md`` in ``folder``."""
    data = {"comparable": diff.comparable, "counts": diff.counts() if diff.comparable else None, **plain(diff)}
    return (
        write_text(folder / f"{DIFF}.json", to_json(data)),
        write_text(folder / f"{DIFF}.md", diff_markdown(diff)),
    )


def refusals(report: Report, failure_limit: float = FAILURE_LIMIT) -> tuple[str, ...]:
    """Why this report must not become the baseline; empty when it may."""
    found: list[str] = []
    failing = [row.case_id for row in report.rows if row.gates and row.passed is not True]
    if failing:
        found.append(f"{len(failing)} reviewed cases do not pass: {', '.join(failing[:5])}")
    broken = [row.case_id for row in report.rows if row.status in {CaseStatus.FAILED, CaseStatus.NOT_RUN}]
    if len(broken) > failure_limit * len(report.rows):
        found.append(f"{len(broken)} of {len(report.rows)} cases failed or were not run: {', '.join(broken[:5])}")
    if report.unresolved:
        found.append(f"{len(report.unresolved)} labels resolve to nothing: {report.unresolved[0]}")
    if report.stale:
        found.append(f"{len(report.stale)} fixtures are stale: {report.stale[0].case_id}, {report.stale[0].reason}")
    return tuple(found)


def accept(
    report: Report,
    folder: Path,
    *,
    who: str,
    reason: str,
    failure_limit: float = FAILURE_LIMIT,
    now: datetime | None = None,
) -> Baseline:
    """Makes ``report`` the baseline of ``folder``; the history and the reason stay with it.

    Raises CheckFailed without a reason or a name, or while a reviewed case fails; nothing is written then.
    """
    if not reason.strip() or not who.strip():
        raise CheckFailed("a baseline is replaced only with a reason and a name: say why the new one is right")
    against = refusals(report, failure_limit)
    if against:
        raise CheckFailed(f"this run cannot become the baseline: {'; '.join(against)}")
    try:
        history = load_baseline(folder).history
    except NotFound:
        history = ()
    data = report_data(report)
    gating = report.judgement.gating_pass_rate
    entry = Accepted(
        who=who.strip(),
        when=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
        reason=" ".join(reason.split()),
        report=digest(data["rows"]),
        passed=gating.count,
        total=gating.total,
    )
    kept = {"version": data["version"], "created_at": report.created_at, **{key: data[key] for key in _KEPT}}
    kept["history"] = [plain(item) for item in (*history, entry)]
    write_text(folder / f"{BASELINE}.json", to_json(kept))
    write_text(folder / f"{BASELINE}.md", report_markdown(report, entry))
    return load_baseline(folder)


def write_text(path: Path, text: str) -> Path:
    """``text`` at ``path`` in one step: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(name).chmod(0o644)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def _identity(data: Mapping[str, Any]) -> Identity:
    return Identity(**{**data, "ks": tuple(data["ks"])})


def _row(data: Mapping[str, Any]) -> CaseRow:
    lists = {"failures": tuple(data["failures"]), "tags": tuple(data["tags"])}
    return CaseRow(**{**data, **lists, "status": CaseStatus(data["status"])})


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")
