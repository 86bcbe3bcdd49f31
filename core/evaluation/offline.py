"""Golden × fixture × judge: one function for the command line and the page, without any store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from core.errors import InvalidCases
from core.evaluation.behaviour import summarise_behaviour
from core.evaluation.cases import Case, CaseSet, load_cases
from core.evaluation.context import ContextScore, score_context, summarise_context
from core.evaluation.fixtures import Fixture, FixtureSet, load_fixtures, stale
from core.evaluation.gold import Unresolved, coverage, read_source, relevance, unresolved
from core.evaluation.judge import CaseStatus, Verdict, judge_all, summarise
from core.evaluation.loss import UNJUDGED_LIMIT, CaseLoss, count_losses, first_loss, labels_settle
from core.evaluation.metrics import DEFAULT_KS
from core.evaluation.report import CaseRow, Identity, Report, StageTable
from core.evaluation.stages import RankedStage, StageScores, score_stages

_UNANSWERED = {CaseStatus.NOT_RUN, CaseStatus.FAILED}


def run_offline(
    cases_path: Path,
    fixtures_dir: Path,
    mode: str = "hybrid",
    *,
    source: Path | None = None,
    ks: Sequence[int] = DEFAULT_KS,
    on_unresolved: Literal["refuse", "list"] = "refuse",
    unjudged_limit: float = UNJUDGED_LIMIT,
    now: datetime | None = None,
) -> Report:
    """The report of ``cases_path`` against the fixtures of ``mode``.

    ``source``: the seed corpus; labels that resolve to nothing in it stop the run (``refuse``) or are listed first and
    make their cases ``EVAL_INCOMPLETE`` (``list``). Raises InvalidCases for anything in the files that cannot be meant.
    """
    started = time.perf_counter()
    cases = load_cases(cases_path)
    fixtures = load_fixtures(fixtures_dir, mode)
    missing = unresolved(cases, read_source(source)) if source is not None else ()
    if missing and on_unresolved == "refuse":
        raise InvalidCases([str(problem) for problem in missing])
    return evaluate(cases, fixtures, missing=missing, ks=ks, unjudged_limit=unjudged_limit, now=now, started=started)


def evaluate(
    cases: CaseSet,
    fixtures: FixtureSet,
    *,
    missing: Sequence[Unresolved] = (),
    ks: Sequence[int] = DEFAULT_KS,
    unjudged_limit: float = UNJUDGED_LIMIT,
    now: datetime | None = None,
    started: float | None = None,
) -> Report:
    """The report of cases and fixtures that are in memory. Raises InvalidCases for an empty set of cases."""
    started = time.perf_counter() if started is None else started
    if not cases.cases:
        raise InvalidCases([f"{cases.file or 'the case set'}: no cases; nothing can be evaluated"])
    by_id = {case.case_id: fixtures.fixtures.get(case.case_id) for case in cases.cases}
    verdicts = judge_all(cases, fixtures)
    qrels = {case.case_id: relevance(case) for case in cases.cases if case.answerable}
    observed = {q: f.observed if f is not None and not f.failed else None for q, f in by_id.items()}
    stages = score_stages(qrels, {q: observed[q] for q in qrels}, ks)
    losses = _losses(cases, by_id, missing, unjudged_limit)
    contexts = {
        case.case_id: found
        for case in cases.cases
        if (fixture := by_id[case.case_id]) is not None and (found := score_context(case, fixture)) is not None
    }
    pairs = [(case, f) for case in cases.cases if (f := by_id[case.case_id]) is not None]
    return Report(
        created_at=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
        identity=identify(cases, fixtures, ks),
        unresolved=tuple(missing),
        stale=stale(cases, fixtures),
        coverage=coverage(cases.cases),
        judgement=summarise(cases, verdicts),
        verdicts=verdicts,
        rows=tuple(
            _row(case, by_id[case.case_id], verdict, loss, stages, contexts.get(case.case_id), ks)
            for case, verdict, loss in zip(cases.cases, verdicts, losses, strict=True)
        ),
        stages=tuple(_table(cases, scored) for scored in stages.values()),
        context=summarise_context(contexts.values()),
        contexts=tuple(contexts.values()),
        behaviour=summarise_behaviour(pairs, stages, ks[0]),
        losses=losses,
        loss_counts=count_losses(losses),
        elapsed_ms=(time.perf_counter() - started) * 1000,
    )


def identify(cases: CaseSet, fixtures: FixtureSet, ks: Sequence[int]) -> Identity:
    """What makes the report comparable; a set of mixed origin shows all its values."""
    return Identity(
        mode=fixtures.mode,
        cases=cases.fingerprint,
        case_count=len(cases.cases),
        corpus=",".join(fixtures.values("corpus_snapshot")),
        profile=",".join(fixtures.values("profile")),
        kb_scope=",".join(sorted({case.kb_scope for case in cases.cases})),
        ks=tuple(ks),
        settings=",".join(fixtures.values("fingerprint")),
        generation=",".join(fixtures.values("generation")),
        case_fingerprints={case.case_id: case.fingerprint for case in cases.cases},
    )


def _losses(
    cases: CaseSet, by_id: Mapping[str, Fixture | None], missing: Sequence[Unresolved], limit: float
) -> tuple[CaseLoss, ...]:
    bad: dict[str, list[str]] = {}
    for problem in missing:
        bad.setdefault(problem.case_id, []).append(f"{problem.field} {problem.value!r}")
    return tuple(first_loss(case, by_id[case.case_id], bad.get(case.case_id, ()), limit) for case in cases.cases)


def _row(
    case: Case,
    fixture: Fixture | None,
    verdict: Verdict,
    loss: CaseLoss,
    stages: Mapping[RankedStage, StageScores],
    context: ContextScore | None,
    ks: Sequence[int],
) -> CaseRow:
    observed = fixture.observed if fixture is not None else None
    return CaseRow(
        case_id=case.case_id,
        gates=case.gates,
        status=verdict.status,
        passed=verdict.passed,
        hit_level=verdict.hit_level.value if verdict.hit_level else None,
        first_expected_rank=verdict.first_expected_rank,
        attempt=observed.selected_attempt if observed else None,
        fallback=observed.fallback_reason if observed else None,
        level=observed.level if observed else None,
        loss=loss.primary.code.value if loss.primary else None,
        loss_layer=loss.layer,
        counts=loss.counts,
        labels_settled=labels_settle(case, ks[0]),
        fact_coverage=context.facts.rate if context is not None else None,
        metrics={} if verdict.status in _UNANSWERED else _metrics(case.case_id, stages),
        failures=tuple(f"{failure.field}: {failure.text}" for failure in verdict.failures),
        query_type=case.query_type,
        tags=case.tags,
    )


def _metrics(case_id: str, stages: Mapping[RankedStage, StageScores]) -> dict[str, dict[str, float | None]]:
    return {
        stage.value: dict(scored.scores.per_query[case_id])
        for stage, scored in stages.items()
        if scored.scores is not None and case_id in scored.scores.per_query
    }


def _table(cases: CaseSet, scored: StageScores) -> StageTable:
    scores = scored.scores
    if scores is None:
        return StageTable(scored.stage, "not_run")
    scored_ids = set(scores.queries)
    with_gold = [case for case in cases.cases if case.case_id in scored_ids]
    types = sorted({case.query_type for case in with_gold if case.query_type})
    tags = sorted({tag for case in with_gold for tag in case.tags})
    return StageTable(
        stage=scored.stage,
        status="complete",
        overall=scored.means(),
        by_query_type={t: scored.means(c.case_id for c in with_gold if c.query_type == t) for t in types},
        by_tag={tag: scored.means(c.case_id for c in with_gold if tag in c.tags) for tag in tags},
        without_results=scores.without_results,
        failed=scores.failed,
        duplicates=scored.repeats,
    )
