"""How good the packed context is, apart from who ranks first (retrieval-quality, sections 2.2, 10.3 and 13.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from core.evaluation.cases import Case
from core.evaluation.fixtures import Fixture
from core.evaluation.gold import normalise, relevance
from core.evaluation.judge import Share
from core.evaluation.observed import Observed, Piece

_TOKEN = re.compile(r"[㐀-鿿豈-﫿]|[^\W㐀-鿿豈-﫿]+")


@dataclass(frozen=True, slots=True)
class ContextScore:
    """One case. ``stale`` is null when nothing is known of the newest revisions; tokens are counted by
    ``count_tokens``; ``useful_tokens`` belong to blocks that hold a gold passage or a required fact (where no passage
    is labelled: to relevant documents)."""

    case_id: str
    facts: Share
    duplicates: Share
    stale: Share | None
    sources: int
    useful_tokens: int
    total_tokens: int
    missing_facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """Over the cases whose context was recorded. ``fact_coverage`` averages cases with required facts."""

    cases: int
    fact_coverage: float | None
    duplicate_ratio: float | None
    stale_ratio: float | None
    sources: float | None
    useful_share: float | None


def count_tokens(text: str) -> int:
    """Words and single CJK characters: an estimate that needs no model, used on both sides of a share only."""
    return len(_TOKEN.findall(text))


def score_context(case: Case, fixture: Fixture) -> ContextScore | None:
    """The context of one case; null when the lookup failed or holds no pack."""
    observed = fixture.observed
    if observed is None or observed.failed or observed.packed is None:
        return None
    by_key = {piece.key: piece for piece in observed.evidence}
    packed = [by_key[key] for key in observed.packed if key in by_key]
    texts = [normalise(piece.content) for piece in packed]
    missing = missing_facts(case, observed.packed_text or "")
    total = count_tokens(observed.packed_text or "")
    useful = sum(count_tokens(piece.content) for piece in packed if _useful(case, piece))
    return ContextScore(
        case_id=case.case_id,
        facts=Share(len(case.required_facts) - len(missing), len(case.required_facts)),
        duplicates=Share(len(texts) - len(set(texts)), len(texts)),
        stale=_stale(fixture, packed),
        sources=len({piece.source for piece in packed}),
        useful_tokens=min(useful, total),
        total_tokens=total,
        missing_facts=missing,
    )


def missing_facts(case: Case, text: str) -> tuple[str, ...]:
    """Required facts whose anchor does not stand in ``text`` (white space and letter case aside)."""
    flat = normalise(text)
    return tuple(fact.fact for fact in case.required_facts if normalise(fact.anchor) not in flat)


def missing_passages(case: Case, observed: Observed) -> tuple[str, ...]:
    """Anchors of relevant gold passages that stand in no piece of evidence."""
    texts = [normalise(piece.content) for piece in observed.evidence]
    gold = [passage.anchor for passage in case.gold_passages if passage.grade]
    return tuple(anchor for anchor in gold if not any(normalise(anchor) in text for text in texts))


def summarise_context(scores: Iterable[ContextScore | None]) -> ContextSummary:
    """Means over the given cases; a ratio without a case is null."""
    known = [score for score in scores if score is not None]
    total = sum(score.total_tokens for score in known)
    return ContextSummary(
        cases=len(known),
        fact_coverage=_mean(score.facts for score in known),
        duplicate_ratio=_mean(score.duplicates for score in known),
        stale_ratio=_mean(score.stale for score in known if score.stale is not None),
        sources=fmean(score.sources for score in known) if known else None,
        useful_share=sum(score.useful_tokens for score in known) / total if total else None,
    )


def _useful(case: Case, piece: Piece) -> bool:
    anchors = [p.anchor for p in case.gold_passages if p.grade] + [fact.anchor for fact in case.required_facts]
    if anchors:
        text = normalise(piece.content)
        return any(normalise(anchor) in text for anchor in anchors)
    grades: Mapping[str, int] = relevance(case)
    return grades.get(piece.doc_id, 0) > 0


def _stale(fixture: Fixture, packed: Iterable[Piece]) -> Share | None:
    newest = {d.doc_id: d.revision for d in fixture.probe.documents} if fixture.probe else {}
    known = [
        piece.revision < revision
        for piece in packed
        if piece.revision is not None and (revision := newest.get(piece.doc_id)) is not None
    ]
    return Share(sum(known), len(known)) if known else None


def _mean(shares: Iterable[Share]) -> float | None:
    rates = [share.rate for share in shares if share.rate is not None]
    return fmean(rates) if rates else None
