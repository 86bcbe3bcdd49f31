"""The report of an offline run: everything the judge, the metrics and the loss say, as one value and as JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Final

from core.evaluation.behaviour import Behaviour, GateAccuracy
from core.evaluation.context import ContextScore, ContextSummary
from core.evaluation.fixtures import Stale
from core.evaluation.gold import Coverage, Unresolved
from core.evaluation.judge import CaseStatus, Judgement, Share, Verdict
from core.evaluation.loss import CaseLoss
from core.evaluation.metrics import DEFINITIONS, GAIN_FORMULA, UNJUDGED_RULE, Mean
from core.evaluation.stages import RankedStage

REPORT_VERSION: Final = 1
GATED_METRICS: Final = ("recall", "hit", "ndcg")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a report must share with another one to be held against it (case 103).

    ``settings`` and ``generation`` are named in a difference but do not forbid it: a change of settings, or a rebuild
    of the same corpus, is what evaluation is for. ``case_fingerprints`` tells which cases differ.
    """

    mode: str
    cases: str
    case_count: int
    corpus: str
    profile: str
    kb_scope: str
    ks: tuple[int, ...]
    settings: str = ""
    generation: str = ""
    unjudged_rule: str = UNJUDGED_RULE
    gain_formula: str = GAIN_FORMULA
    case_fingerprints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One case in numbers: the unit of difference, gate and comparison. ``metrics[stage][metric]``."""

    case_id: str
    gates: bool
    status: CaseStatus
    passed: bool | None
    hit_level: str | None
    first_expected_rank: int | None
    attempt: str | None
    fallback: str | None
    level: str | None
    loss: str | None
    loss_layer: str | None
    counts: bool
    labels_settled: bool
    fact_coverage: float | None
    metrics: Mapping[str, Mapping[str, float | None]]
    failures: tuple[str, ...] = ()
    query_type: str = ""
    tags: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        return self.status in {CaseStatus.EVALUATED, CaseStatus.ZERO_RESULTS}


@dataclass(frozen=True, slots=True)
class StageTable:
    """Means of one stage: over all cases with gold, and by query type and tag. Empty when ``status`` is not_run.

    ``duplicates``: evidence keys that stood twice in the stage, by case: a defect of the run.
    """

    stage: RankedStage
    status: str
    overall: tuple[Mean, ...] = ()
    by_query_type: Mapping[str, tuple[Mean, ...]] = field(default_factory=dict)
    by_tag: Mapping[str, tuple[Mean, ...]] = field(default_factory=dict)
    without_results: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    duplicates: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """One offline run. ``unresolved`` comes first: gold that points to nothing makes every number below it doubtful."""

    created_at: str
    identity: Identity
    unresolved: tuple[Unresolved, ...]
    stale: tuple[Stale, ...]
    coverage: tuple[Coverage, ...]
    judgement: Judgement
    verdicts: tuple[Verdict, ...]
    rows: tuple[CaseRow, ...]
    stages: tuple[StageTable, ...]
    context: ContextSummary
    contexts: tuple[ContextScore, ...]
    behaviour: Behaviour
    losses: tuple[CaseLoss, ...]
    loss_counts: Mapping[str, tuple[str, ...]]
    elapsed_ms: float

    def row(self, case_id: str) -> CaseRow | None:
        return next((row for row in self.rows if row.case_id == case_id), None)

    def stage(self, stage: RankedStage) -> StageTable:
        return next(table for table in self.stages if table.stage is stage)

    def mean(self, stage: RankedStage, name: str) -> Mean | None:
        return next((mean for mean in self.stage(stage).overall if mean.name == name), None)


def report_data(report: Report) -> dict[str, Any]:
    """The report as JSON data: finite numbers only, with the definitions of its metrics."""
    data: dict[str, Any] = plain(report)
    return {"version": REPORT_VERSION, "definitions": dict(DEFINITIONS), **data}


def to_json(data: Any) -> str:
    """Strict JSON in lines: a number that is not finite raises ValueError here, so ``plain`` comes first."""
    if not isinstance(data, Mapping):
        return _line(data) + "\n"
    return "{\n" + ",\n".join(f"{_line(str(key))}: {_block(value)}" for key, value in data.items()) + "\n}\n"


def _block(value: Any) -> str:
    """A list of objects one a line, so that a change shows as the lines that changed; all else in one line."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return "[\n" + ",\n".join(_line(item) for item in value) + "\n]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Dataclasses, enums and mappings as JSON data. A non-finite number becomes null, and its object gets a
    ``reason`` when it has none (case 70); the other values survive."""
    if isinstance(value, Share):
        return {"count": value.count, "total": value.total, "rate": value.rate}
    if is_dataclass(value) and not isinstance(value, type):
        data = {f.name: plain(getattr(value, f.name)) for f in fields(value)}
        if isinstance(value, GateAccuracy):
            data["accuracy"] = value.accuracy
        broken = [f.name for f in fields(value) if not_finite(getattr(value, f.name))]
        return _with_reason(data, broken)
    if isinstance(value, Mapping):
        data = {str(key): plain(item) for key, item in value.items()}
        return _with_reason(data, [str(key) for key, item in value.items() if not_finite(item)])
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in (sorted(value, key=str) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, Enum):
        return value.value
    return None if not_finite(value) else value


def not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def digest(data: Any) -> str:
    text = json.dumps(plain(data), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _with_reason(data: dict[str, Any], broken: list[str]) -> dict[str, Any]:
    if broken and not data.get("reason"):
        data["reason"] = f"not a finite number: {', '.join(broken)}"
    return data
