"""What an evaluation page draws, as plain rows: failures first, metrics by stage, the flow of evidence, review lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.evaluation.cases import Case
from core.evaluation.judge import CaseStatus
from core.evaluation.ladder import LossCode
from core.evaluation.loss import CaseLoss
from core.evaluation.report import CaseRow, Report
from core.evaluation.stages import RankedStage

# The steps of the flow and the codes that leave it there, in pipeline order.
STEPS: Final[tuple[tuple[str, tuple[LossCode, ...]], ...]] = (
    ("labels", (LossCode.EVAL_INCOMPLETE,)),
    ("corpus", (LossCode.CORPUS_MISSING, LossCode.PARSE_LOSS)),
    ("filter", (LossCode.ACL_FALSE_NEGATIVE,)),
    ("candidates", (LossCode.LEXICAL_MISS, LossCode.SEMANTIC_MISS, LossCode.CANDIDATE_MISS)),
    ("fused", (LossCode.FUSION_DROP,)),
    ("reranked", (LossCode.RERANK_DROP,)),
    ("evidence", (LossCode.STALE_EVIDENCE, LossCode.EVIDENCE_DROP)),
    ("selected attempt", (LossCode.RETRY_DROP,)),
    ("context", (LossCode.PACKING_DROP,)),
    ("agent", (LossCode.PROJECTION_DROP,)),
    ("complete", (LossCode.EVIDENCE_INCOMPLETE, LossCode.SHOULD_REFUSE)),
)
ARRIVED: Final = "arrived"
CASES: Final = "cases"


@dataclass(frozen=True, slots=True)
class Link:
    """A stream of the flow: ``cases`` go from ``source`` to ``target`` (indexes into ``nodes``). ``code``: the failure
    code when the stream leaves the pipeline."""

    source: int
    target: int
    cases: tuple[str, ...]
    code: str | None = None

    @property
    def value(self) -> int:
        return len(self.cases)


@dataclass(frozen=True, slots=True)
class Flow:
    """A Sankey diagram of first evidence loss: ``nodes`` are labels, every case of the flow enters at ``cases`` and
    ends either in ``arrived`` or in one failure code. ``aside``: cases without an observation (not run, failed)."""

    nodes: tuple[str, ...]
    links: tuple[Link, ...]
    aside: tuple[str, ...]


def loss_flow(losses: Iterable[CaseLoss]) -> Flow:
    """The flow over all cases that were observed; a step that loses nothing is drawn only between two that do."""
    listed = list(losses)
    aside = tuple(loss.case_id for loss in listed if loss.reason is not None)
    inside = [loss for loss in listed if loss.reason is None]
    by_code: dict[LossCode, list[str]] = {}
    for loss in inside:
        if loss.primary is not None:
            by_code.setdefault(loss.primary.code, []).append(loss.case_id)
    nodes: list[str] = [CASES]
    links: list[Link] = []
    here, left = 0, [loss.case_id for loss in inside]
    for name, codes in STEPS:
        lost = {code: by_code[code] for code in codes if code in by_code}
        if not lost:
            continue
        for code, ids in lost.items():
            nodes.append(code.value)
            links.append(Link(here, len(nodes) - 1, tuple(ids), code.value))
            left = [case_id for case_id in left if case_id not in set(ids)]
        if left:
            nodes.append(name)
            links.append(Link(here, len(nodes) - 1, tuple(left)))
            here = len(nodes) - 1
    if left:
        nodes.append(ARRIVED)
        links.append(Link(here, len(nodes) - 1, tuple(left)))
    return Flow(tuple(nodes), tuple(links), aside)


def failures_first(report: Report) -> tuple[dict[str, Any], ...]:
    """One row a case: reviewed failures, other failures, unknown, passes; within each the lowest nDCG first."""
    k = report.identity.ks[0]
    return tuple(
        _row(row, k) for row in sorted(report.rows, key=lambda row: (_severity(row), _ndcg(row, k), row.case_id))
    )


def metric_table(report: Report, query_type: str | None = None, tag: str | None = None) -> tuple[dict[str, Any], ...]:
    """One row a metric, one column a stage that ran; each cell the mean over the golden set, with ``scored`` beside."""
    names: dict[str, dict[str, Any]] = {}
    for table in report.stages:
        means = table.overall
        if query_type is not None:
            means = table.by_query_type.get(query_type, ())
        elif tag is not None:
            means = table.by_tag.get(tag, ())
        for mean in means:
            entry = names.setdefault(mean.name, {"metric": mean.name, "scored": "", "ceiling": None})
            entry[table.stage.value] = mean.mean
            entry["ceiling"] = mean.ceiling if mean.ceiling is not None else entry["ceiling"]
            entry["scored"] = f"{mean.scored} of {mean.total}"
    return tuple(names.values())


def ladder_rows(loss: CaseLoss) -> tuple[dict[str, Any], ...]:
    """The ladders of one case: a row a gold document, its rank at every stage, and where it was lost."""
    return tuple(
        {
            "document": ladder.doc_id,
            "dense": ladder.dense,
            "bm25": ladder.bm25,
            "fused": ladder.fused,
            "reranked": ladder.reranked,
            "evidence": ladder.evidence,
            "context": ladder.context,
            "agent": ladder.projected,
            "deep dense": ladder.deep_dense,
            "deep bm25": ladder.deep_bm25,
            "lost": ladder.lost.code.value if ladder.lost else None,
            "why": ladder.lost.text if ladder.lost else None,
        }
        for ladder in loss.ladders
    )


def review_list(
    cases: Sequence[Case],
    report: Report | None = None,
    *,
    status: str | None = None,
    tag: str | None = None,
    query_type: str | None = None,
    text: str = "",
) -> tuple[dict[str, Any], ...]:
    """Cases to be reviewed, drafts first, narrowed by the given filters (``text`` in id or query, case folded)."""
    rows: Mapping[str, CaseRow] = {row.case_id: row for row in report.rows} if report is not None else {}
    needle = text.casefold()
    chosen = [
        case
        for case in cases
        if (status is None or case.review.status == status)
        and (tag is None or tag in case.tags)
        and (query_type is None or case.query_type == query_type)
        and (not needle or needle in case.case_id.casefold() or needle in case.query.casefold())
    ]
    chosen.sort(key=lambda case: (case.gates, case.case_id))
    return tuple(
        {
            "case": case.case_id,
            "query": case.query,
            "type": case.query_type,
            "tags": list(case.tags),
            "review": case.review.status,
            "who": case.review.who,
            "when": case.review.when,
            "passed": rows[case.case_id].passed if case.case_id in rows else None,
            "loss": rows[case.case_id].loss if case.case_id in rows else None,
        }
        for case in chosen
    )


def neighbours(case_ids: Sequence[str], current: str) -> tuple[str | None, str | None]:
    """The case before and after ``current`` in a list, for going on by key; null at either end or when unknown."""
    if current not in case_ids:
        return None, case_ids[0] if case_ids else None
    at = list(case_ids).index(current)
    return (case_ids[at - 1] if at else None), (case_ids[at + 1] if at + 1 < len(case_ids) else None)


def _severity(row: CaseRow) -> int:
    if row.passed is True:
        return 4
    if row.status in {CaseStatus.NOT_RUN, CaseStatus.UNJUDGED}:
        return 3 if not row.gates else 2
    return 0 if row.gates else 1


def _ndcg(row: CaseRow, k: int) -> float:
    value = row.metrics.get(RankedStage.EVIDENCE.value, {}).get(f"ndcg@{k}")
    return -1.0 if value is None else value


def _row(row: CaseRow, k: int) -> dict[str, Any]:
    evidence = row.metrics.get(RankedStage.EVIDENCE.value, {})
    return {
        "case": row.case_id,
        "status": row.status.value,
        "passed": row.passed,
        "reviewed": row.gates,
        "failures": list(row.failures),
        "loss": row.loss,
        "type": row.query_type,
        "tags": list(row.tags),
        "hit": row.hit_level,
        "first rank": row.first_expected_rank,
        "attempt": row.attempt,
        "fallback": row.fallback,
        "level": row.level,
        f"recall@{k}": evidence.get(f"recall@{k}"),
        f"ndcg@{k}": evidence.get(f"ndcg@{k}"),
        f"judged@{k}": evidence.get(f"judged@{k}"),
        "facts": row.fact_coverage,
    }
