"""The judge: a golden case against what happened, field by field, each failed expectation in words.

Asserts what an agent can see and which way the pipeline went, never raw scores or a full order (offline-evaluation,
sections 4 to 6). ``expectedEvidenceKeys`` and ``expectedRelevanceLevel`` are observed and gate nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from core.evaluation.cases import NONE, Case, CaseSet
from core.evaluation.fixtures import Fixture, FixtureSet
from core.evaluation.gold import normalise, relevance
from core.evaluation.observed import Observed
from core.evaluation.way import stage_of_way, too_few
from core.model import EvidenceStatus, Stage

WAY: Final = ("expectedSelectedAttempt", "expectedFallbackReason")


class CaseStatus(StrEnum):
    """Never one for another: a lookup that failed did not find nothing, and a case that was not run did neither."""

    EVALUATED = "EVALUATED"
    FAILED = "FAILED"
    ZERO_RESULTS = "ZERO_RESULTS"
    NOT_RUN = "NOT_RUN"
    UNJUDGED = "UNJUDGED"


class HitLevel(StrEnum):
    """strong: an expected document and all keywords; medium: an expected document; weak: the keywords only."""

    STRONG = "strong"
    MEDIUM = "medium"
    WEAK = "weak"
    MISS = "miss"


@dataclass(frozen=True, slots=True)
class Failure:
    """An expectation that was not met: the field of the case, a sentence, and the stage, where the field tells it."""

    field: str
    text: str
    stage: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """``passed`` is null where there was nothing to judge (NOT_RUN, UNJUDGED). ``first_expected_rank`` counts evidence
    from 1. ``hit_level`` is null for a case that expects no document and no keyword. ``observed`` holds differences
    that gate nothing."""

    case_id: str
    status: CaseStatus
    passed: bool | None
    gates: bool
    failures: tuple[Failure, ...] = ()
    observations: tuple[Failure, ...] = ()
    hit_level: HitLevel | None = None
    first_expected_rank: int | None = None
    keywords_found: int = 0
    keywords_total: int = 0
    reason: str | None = None
    invalid_scores: tuple[str, ...] = ()


def judge(case: Case, fixture: Fixture | None) -> Verdict:
    """The verdict on one case; ``fixture`` null: it was not run."""
    if fixture is None:
        return Verdict(case.case_id, CaseStatus.NOT_RUN, None, case.gates, reason="no fixture: it was not run")
    observed = fixture.observed
    wants_error = case.expected_evidence_status == EvidenceStatus.ERROR
    if fixture.failed or observed is None:
        reason = fixture.error or (observed.error_class if observed else None) or "the lookup failed"
        failure = () if wants_error else (Failure("lookup", f"the lookup failed: {reason}"),)
        return Verdict(case.case_id, CaseStatus.FAILED, wants_error, case.gates, failure, reason=reason)
    failures = tuple(_failures(case, observed))
    found, total = _keywords(case, observed)
    status = _status(case, observed)
    return Verdict(
        case_id=case.case_id,
        status=status,
        passed=None if status is CaseStatus.UNJUDGED else not failures,
        gates=case.gates,
        failures=failures,
        observations=tuple(_observations(case, observed)),
        hit_level=_hit_level(case, observed, found == total),
        first_expected_rank=first_expected_rank(case, observed),
        keywords_found=found,
        keywords_total=total,
        reason="nothing is expected and nothing is labelled" if status is CaseStatus.UNJUDGED else None,
        invalid_scores=observed.defects,
    )


def judge_all(cases: CaseSet, fixtures: FixtureSet) -> tuple[Verdict, ...]:
    """One verdict a case, in the order of the cases; none is left out."""
    return tuple(judge(case, fixtures.fixtures.get(case.case_id)) for case in cases.cases)


def first_expected_rank(case: Case, observed: Observed) -> int | None:
    """The rank of the first piece of evidence from an expected document (or source); null when there is none."""
    documents, sources = set(case.expected_doc_ids), set(case.expected_sources)
    ranks = (n for n, e in enumerate(observed.evidence, start=1) if e.doc_id in documents or e.source in sources)
    return next(ranks, None)


def shown_keys(observed: Observed) -> frozenset[str] | None:
    """Evidence keys that reached the agent; null when the record does not hold the agent's result."""
    return None if observed.agent is None else frozenset(key for key, _ in observed.agent)


def _status(case: Case, observed: Observed) -> CaseStatus:
    if not observed.evidence:
        return CaseStatus.ZERO_RESULTS
    expects = (
        relevance(case)
        or case.expected_keywords
        or case.expected_breadcrumbs
        or case.expected_selected_attempt
        or case.expected_fallback_reason
        or case.expected_evidence_status
        or case.min_evidence_count
        or not case.answerable
    )
    return CaseStatus.EVALUATED if expects else CaseStatus.UNJUDGED


def _failures(case: Case, observed: Observed) -> Iterable[Failure]:
    yield from _wanted(case, observed)
    yield from _forbidden(case, observed)
    if missing := _missing_keywords(case, observed):
        where = "what the agent reads" if observed.agent is not None else "the evidence"
        found = not _absent(missing, (piece.content for piece in observed.evidence))
        stage = Stage.PROJECT if found else Stage.EVIDENCE
        yield Failure("expectedKeywords", f"not in {where}: {_list(missing)}", stage.value)
    trails = [normalise(piece.breadcrumb) for piece in observed.evidence]
    for breadcrumb in case.expected_breadcrumbs:
        if not any(normalise(breadcrumb) in trail for trail in trails):
            text = f"no evidence stands under {breadcrumb!r}"
            yield Failure("expectedBreadcrumbs", text, Stage.EVIDENCE.value)
    yield from _path(case, observed)
    count, least = len(observed.evidence), case.min_evidence_count or 0
    if count < least:
        text = f"{count} pieces of evidence, at least {least} are expected"
        yield Failure("minEvidenceCount", text, too_few(observed, least))
    rank, most = first_expected_rank(case, observed), case.first_expected_rank_max
    if most is not None and (rank is None or rank > most):
        seen = "in no place" if rank is None else f"at rank {rank}"
        yield Failure("firstExpectedRankMax", f"the first expected document stands {seen}, rank {most} is allowed")


def _wanted(case: Case, observed: Observed) -> Iterable[Failure]:
    shown = shown_keys(observed)
    for field, attribute, wanted in (
        ("expectedDocIds", "doc_id", case.expected_doc_ids),
        ("expectedSources", "source", case.expected_sources),
    ):
        for name in wanted:
            pieces = [piece for piece in observed.evidence if getattr(piece, attribute) == name]
            if not pieces:
                yield Failure(field, f"{name} is not among the {len(observed.evidence)} pieces of evidence")
            elif shown is not None and not any(piece.key in shown for piece in pieces):
                text = f"{name} is among the evidence, but the projection cut it before the agent"
                yield Failure(field, text, Stage.PROJECT.value)


def _forbidden(case: Case, observed: Observed) -> Iterable[Failure]:
    for rank, piece in enumerate(observed.evidence, start=1):
        if piece.doc_id in case.must_not_doc_ids:
            text = f"{piece.doc_id} stands at rank {rank} and must not"
            yield Failure("mustNotDocIds", text, Stage.EVIDENCE.value)
        if piece.source in case.must_not_sources:
            text = f"{piece.source} stands at rank {rank} and must not"
            yield Failure("mustNotSources", text, Stage.EVIDENCE.value)


def _path(case: Case, observed: Observed) -> Iterable[Failure]:
    pairs = (
        ("expectedSelectedAttempt", case.expected_selected_attempt, observed.selected_attempt),
        ("expectedFallbackReason", case.expected_fallback_reason, observed.fallback_reason),
        ("expectedEvidenceStatus", case.expected_evidence_status, observed.status),
    )
    for field, wanted, seen in pairs:
        if wanted is not None and wanted != (seen or NONE):
            stage = stage_of_way(case, observed) if field in WAY else None
            yield Failure(field, f"{seen or 'none'} instead of {'none' if wanted == NONE else wanted}", stage)


def _observations(case: Case, observed: Observed) -> Iterable[Failure]:
    keys = {piece.key for piece in observed.evidence}
    for key in case.expected_evidence_keys:
        if key not in keys:
            yield Failure("expectedEvidenceKeys", f"{key} is not among the evidence")
    wanted = case.expected_relevance_level
    if wanted is not None and wanted != (observed.level or NONE):
        yield Failure("expectedRelevanceLevel", f"{observed.level or 'none'} instead of {wanted}")


def _missing_keywords(case: Case, observed: Observed) -> list[str]:
    if not case.expected_keywords:
        return []
    texts = [text for _, text in observed.agent] if observed.agent is not None else []
    if observed.agent is None:
        texts = [piece.content for piece in observed.evidence]
    return _absent(case.expected_keywords, texts)


def _absent(keywords: Iterable[str], texts: Iterable[str]) -> list[str]:
    text = normalise("\n".join(texts))
    return [keyword for keyword in keywords if normalise(keyword) not in text]


def _keywords(case: Case, observed: Observed) -> tuple[int, int]:
    total = len(case.expected_keywords)
    return total - len(_missing_keywords(case, observed)), total


def _hit_level(case: Case, observed: Observed, all_keywords: bool) -> HitLevel | None:
    expects_document = bool(case.expected_doc_ids or case.expected_sources)
    if not expects_document and not case.expected_keywords:
        return None
    if first_expected_rank(case, observed) is not None:
        return HitLevel.STRONG if all_keywords else HitLevel.MEDIUM
    return HitLevel.WEAK if case.expected_keywords and all_keywords else HitLevel.MISS


def _list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


@dataclass(frozen=True, slots=True)
class Share:
    """``count`` of ``total``; the rate is null, not 0, when there is nothing to count."""

    count: int
    total: int

    @property
    def rate(self) -> float | None:
        return self.count / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdicts in numbers. ``case_recall`` = strong + medium among cases that expect a document; a case that
    failed or was not run counts in every total and in no count. ``scored`` of ``total`` were judged at all."""

    total: int
    scored: int
    by_status: Mapping[str, int]
    pass_rate: Share
    gating_pass_rate: Share
    pass_rate_by_tag: Mapping[str, Share]
    pass_rate_by_query_type: Mapping[str, Share]
    hit_levels: Mapping[str, int]
    case_recall: Share
    keyword_coverage: Share


def summarise(cases: CaseSet, verdicts: Iterable[Verdict]) -> Judgement:
    """Counts and rates over all cases of the set, whatever became of them."""
    by_id = {verdict.case_id: verdict for verdict in verdicts}
    pairs = [(case, by_id[case.case_id]) for case in cases.cases]
    judged = [v for _, v in pairs if v.status in {CaseStatus.EVALUATED, CaseStatus.ZERO_RESULTS}]
    wants_document = [(c, v) for c, v in pairs if c.expected_doc_ids or c.expected_sources]
    tags = sorted({tag for case, _ in pairs for tag in case.tags})
    types = sorted({case.query_type for case, _ in pairs if case.query_type})
    return Judgement(
        total=len(pairs),
        scored=len(judged),
        by_status={status.value: sum(v.status is status for _, v in pairs) for status in CaseStatus},
        pass_rate=_passed(v for _, v in pairs),
        gating_pass_rate=_passed(v for c, v in pairs if c.gates),
        pass_rate_by_tag={tag: _passed(v for c, v in pairs if tag in c.tags) for tag in tags},
        pass_rate_by_query_type={name: _passed(v for c, v in pairs if c.query_type == name) for name in types},
        hit_levels={level.value: sum(v.hit_level is level for _, v in pairs) for level in HitLevel},
        case_recall=Share(
            sum(v.hit_level in {HitLevel.STRONG, HitLevel.MEDIUM} for _, v in wants_document), len(wants_document)
        ),
        keyword_coverage=Share(
            sum(v.keywords_found for _, v in pairs), sum(len(c.expected_keywords) for c, _ in pairs)
        ),
    )


def _passed(verdicts: Iterable[Verdict]) -> Share:
    listed = [v for v in verdicts if v.status is not CaseStatus.UNJUDGED]
    return Share(sum(v.passed is True for v in listed), len(listed))
