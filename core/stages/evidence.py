"""From candidates to evidence (DESIGN 3.6): merge, de-duplicate, limit, cut, in this order, each drop with its reason.

First de-duplicate, then cut: whatever copies took is given to what ranks below them. The order is the original rank
and nothing here changes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from core.analysis import near_copy_key
from core.model import (
    Candidate,
    DroppedEvidence,
    DropReason,
    Evidence,
    FallbackReason,
    MergedEvidence,
    Stage,
    evolve,
)

_HEADS: Final = (16, 96)  # raw characters; the first tells most texts apart
_BORDER: Final = 4  # what a cut in the middle of a word or a letter with marks may fold differently


@dataclass(frozen=True, slots=True)
class Selected:
    """``evidence`` best first; ``candidates`` are all of the attempt's, with ranks and drop reasons set.

    ``merged`` names what was folded into what; every candidate that left here is in ``dropped``, merged ones too, so
    ``count_in == count_out + len(dropped)``. ``counts`` holds the number at each step.
    """

    candidates: tuple[Candidate, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    count_in: int = 0
    count_out: int = 0
    merged: tuple[MergedEvidence, ...] = ()
    dropped: tuple[DroppedEvidence, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def select(candidates: Sequence[Candidate], *, max_chunks_per_document: int, return_n: int) -> Selected:
    """The evidence of an attempt: at most ``return_n`` pieces, at most ``max_chunks_per_document`` of one document,
    no piece twice. Candidates dropped earlier pass through unchanged."""
    unique, repeats = _merge(candidates)
    kept: list[Candidate] = []
    first_with: dict[str, str] = {}
    also_in: dict[str, list[str]] = {}
    of_document: Counter[str] = Counter()
    result: list[Candidate] = []
    merged = [MergedEvidence(c.evidence_key, c.evidence_key, DropReason.DUPLICATE_EVIDENCE) for c in repeats]
    texts = copy_keys([c.content or "" if c.live else "" for c in unique])
    for candidate, text in zip(unique, texts, strict=True):
        if not candidate.live:
            result.append(candidate)
            continue
        key = candidate.evidence_key
        original = first_with.setdefault(text, key) if text else key
        document = candidate.doc_id or key
        if original != key:
            also_in.setdefault(original, []).append(document)
            merged.append(MergedEvidence(key, original, DropReason.DUPLICATE_CONTENT))
            result.append(_drop(candidate, DropReason.DUPLICATE_CONTENT, original))
        elif of_document[document] >= max_chunks_per_document:
            result.append(_drop(candidate, DropReason.DOCUMENT_LIMIT))
        elif len(kept) >= return_n:
            result.append(_drop(candidate, DropReason.RETURN_LIMIT))
        else:
            of_document[document] += 1
            kept.append(evolve(candidate, evidence_rank=len(kept) + 1))
            result.append(kept[-1])
    result += [_drop(c, DropReason.DUPLICATE_EVIDENCE, c.evidence_key) for c in repeats]
    dropped = tuple(
        DroppedEvidence(c.evidence_key, c.drop_reason, c.duplicate_of)
        for c in result
        if c.drop_reason and c.drop_stage is Stage.EVIDENCE
    )
    return Selected(
        candidates=tuple(result),
        evidence=tuple(_evidence(c, also_in.get(c.evidence_key, ())) for c in kept),
        count_in=len(kept) + len(dropped),
        count_out=len(kept),
        merged=tuple(merged),
        dropped=dropped,
        counts=_counts(kept, dropped),
    )


def copy_keys(contents: Sequence[str]) -> list[str]:
    """Of each text its ``near_copy_key`` where another text may have the same one, else "": equal, non-empty keys are
    near-copies. Folding a whole text costs half a millisecond, and texts that begin differently need none of it."""
    suspects = {i for i, text in enumerate(contents) if text}
    for size in _HEADS:
        suspects = _alike({i: _head_key(contents[i][:size]) for i in suspects})
    return [near_copy_key(text) if i in suspects else "" for i, text in enumerate(contents)]


@lru_cache(maxsize=8192)
def _head_key(head: str) -> str:
    """Remembered: the same chunks come up again and again."""
    return near_copy_key(head)[:-_BORDER]


def _alike(heads: Mapping[int, str]) -> set[int]:
    """Those of which one is the beginning of another: the same letters may take more or less room in the raw text."""
    found: set[int] = set()
    open_heads: list[tuple[str, int]] = []  # each a beginning of the next
    for head, i in sorted((head, i) for i, head in heads.items()):
        while open_heads and not head.startswith(open_heads[-1][0]):
            open_heads.pop()
        if open_heads:
            found.update((i, *(other for _, other in open_heads)))
        open_heads.append((head, i))
    return found


def fallback_reason(*, category_filter: str | None, candidates: int, low_quality: bool) -> FallbackReason | None:
    """Why the lookup must retry without its category filter, or None. Only a filtered attempt can be retried, so a
    retry never asks for another one (DESIGN 3.7)."""
    if category_filter is None or not low_quality:
        return None
    return FallbackReason.LOW_QUALITY if candidates else FallbackReason.NO_EVIDENCE


def replaced(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates of an attempt whose result the retry has replaced: what had survived leaves here."""
    return tuple(_drop(c, DropReason.ATTEMPT_REPLACED) if c.live else c for c in candidates)


def by_document(evidence: Iterable[Evidence]) -> dict[str, tuple[Evidence, ...]]:
    """Evidence grouped by document, in the order of each document's best piece: its length is the number of distinct
    sources, which is what "several documents agree" may be said of."""
    groups: dict[str, tuple[Evidence, ...]] = {}
    for piece in evidence:
        name = piece.doc_id or piece.evidence_key
        groups[name] = (*groups.get(name, ()), piece)
    return groups


def _merge(candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """Live candidates one a key, reasons united and gaps filled, and the repeats; of a key the better rank is kept."""
    unique: list[Candidate] = []
    place: dict[str, int] = {}
    repeats = []
    for candidate in candidates:
        at = place.setdefault(candidate.evidence_key, len(unique)) if candidate.live else len(unique)
        if at == len(unique):
            unique.append(candidate)
            continue
        kept = unique[at]
        unique[at] = evolve(
            kept,
            hit_reasons=tuple(dict.fromkeys(kept.hit_reasons + candidate.hit_reasons)),
            breadcrumb=kept.breadcrumb or candidate.breadcrumb,
            title=kept.title or candidate.title,
            source=kept.source or candidate.source,
        )
        repeats.append(candidate)
    return unique, repeats


def _drop(candidate: Candidate, reason: DropReason, duplicate_of: str | None = None) -> Candidate:
    return evolve(candidate, drop_stage=Stage.EVIDENCE, drop_reason=reason, duplicate_of=duplicate_of)


def _evidence(candidate: Candidate, also_in: Sequence[str]) -> Evidence:
    others = dict.fromkeys(name for name in also_in if name != candidate.doc_id)
    return Evidence(
        evidence_key=candidate.evidence_key,
        doc_id=candidate.doc_id,
        chunk_index=candidate.chunk_index,
        source=candidate.source,
        title=candidate.title,
        breadcrumb=candidate.breadcrumb,
        content=candidate.content or "",
        kb_scope=candidate.kb_scope,
        category=candidate.category,
        revision=candidate.revision,
        quality_score=candidate.quality_score,
        quality_basis=candidate.quality_basis,
        evidence_rank=candidate.evidence_rank,
        also_in=tuple(others),
        hit_reasons=candidate.hit_reasons,
    )


def _counts(kept: Sequence[Candidate], dropped: Sequence[DroppedEvidence]) -> dict[str, int]:
    """Numbers at each step, in order: ``in``, each reason's drops, ``out``, and the distinct ``documents`` kept."""
    reasons = Counter(d.reason for d in dropped)
    steps = (
        DropReason.DUPLICATE_EVIDENCE,
        DropReason.DUPLICATE_CONTENT,
        DropReason.DOCUMENT_LIMIT,
        DropReason.RETURN_LIMIT,
    )
    counts = {"in": len(kept) + len(dropped)}
    counts |= {reason.value: reasons.get(reason, 0) for reason in steps}
    return counts | {"out": len(kept), "documents": len({c.doc_id or c.evidence_key for c in kept})}
