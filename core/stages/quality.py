"""How good a candidate is, absolutely, in [0, 1] (DESIGN 3.5), and how good the whole attempt (DESIGN 3.6, 4 and 5).

Quality measures, it never orders: RRF says who stands first, distance says whether that is good enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from core.analysis import bigrams
from core.model import Candidate, Gate, QualityBasis, RelevanceLevel, evolve

_LEVEL_ORDER: Final = {None: 0, RelevanceLevel.REFERENCE: 1, RelevanceLevel.PRECISE: 2}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The attempt as a whole. ``top_*`` name the candidate that set the level; ``low_quality`` is the gate's answer."""

    top_quality: float | None = None
    top_key: str | None = None
    top_basis: QualityBasis | None = None
    level: RelevanceLevel | None = None
    low_quality: bool = True


def distance_quality(distance: float, min_distance: float, max_distance: float) -> float:
    """``1 - clamp((distance - min) / (max - min), 0, 1)``; ``distance`` is squared L2."""
    share = (distance - min_distance) / (max_distance - min_distance)
    return 1.0 - min(max(share, 0.0), 1.0)


def score_quality(
    candidates: Sequence[Candidate],
    query: str,
    gate: Gate,
    *,
    query_vector: Any = None,
    vectors: Mapping[str, Any] | None = None,
    bm25_only: QualityBasis = QualityBasis.DENSE_EXACT,
) -> tuple[Candidate, ...]:
    """Each live candidate with its quality and the basis of it, best basis first: the reranker's score, the dense
    branch's distance, the distance computed here from the stored vector, else the lexical share.

    ``bm25_only`` chooses the basis for a hit without a dense distance: ``dense_exact`` (default), ``lexical``, or
    ``rank``, which disarms the gate since its first place is always 1.0. Dropped candidates stay as they are.
    """
    live = [c for c in candidates if c.live]
    exact = _exact_distances(live, query_vector, vectors or {}) if bm25_only is QualityBasis.DENSE_EXACT else {}
    wanted: frozenset[str] | None = None
    scored: list[Candidate] = []
    position = 0
    for candidate in candidates:
        if not candidate.live:
            scored.append(candidate)
            continue
        key, distance = candidate.evidence_key, candidate.dense_distance
        if candidate.rerank_score is not None:
            quality, basis = candidate.rerank_score, QualityBasis.RERANK
        elif distance is not None:
            quality, basis = distance_quality(distance, gate.min_distance, gate.max_distance), QualityBasis.DENSE_HIT
        elif key in exact:
            quality = distance_quality(exact[key], gate.min_distance, gate.max_distance)
            basis = QualityBasis.DENSE_EXACT
        elif bm25_only is QualityBasis.RANK:
            quality, basis = 1.0 - position / len(live), QualityBasis.RANK
        else:
            wanted = bigrams(query) if wanted is None else wanted
            quality, basis = lexical_share(wanted, candidate.content or ""), QualityBasis.LEXICAL
        scored.append(evolve(candidate, quality_score=quality, quality_basis=basis, exact_distance=exact.get(key)))
        position += 1
    return tuple(scored)


def lexical_share(wanted: frozenset[str], content: str) -> float:
    """Share of the query's character bigrams that stand in ``content``; 0 for a query that has none."""
    return len(wanted & bigrams(content)) / len(wanted) if wanted else 0.0


def judge(candidates: Sequence[Candidate], gate: Gate) -> Verdict:
    """Level and gate from the best quality over all ranked candidates (those not dropped before post-processing).

    Each basis has its own thresholds, so of candidates with different bases the one that reaches the higher level
    decides; within a level the higher quality. Nothing ranked, or nothing at its reference threshold: low quality.
    """
    best, best_rank = Verdict(), (-1, -1.0)
    for candidate in candidates:
        quality, basis = candidate.quality_score, candidate.quality_basis
        if quality is None or basis is None:
            continue
        level = level_of(quality, basis, gate)
        rank = (_LEVEL_ORDER[level], quality)
        if rank > best_rank:
            best_rank = rank
            best = Verdict(quality, candidate.evidence_key, basis, level, low_quality=level is None)
    return best


def level_of(quality: float, basis: QualityBasis, gate: Gate) -> RelevanceLevel | None:
    """``PRECISE``, ``REFERENCE`` or None. Higher thresholds are stricter. A lexical share is never ``PRECISE``."""
    precise, reference = thresholds(basis, gate)
    if precise is not None and quality >= precise:
        return RelevanceLevel.PRECISE
    return RelevanceLevel.REFERENCE if quality >= reference else None


def thresholds(basis: QualityBasis, gate: Gate) -> tuple[float | None, float]:
    """``(precise, reference)`` of a basis; None: the level cannot be reached."""
    if basis is QualityBasis.LEXICAL:
        own = gate.lexical_reference_threshold
        return None, gate.reference_threshold if own is None else own
    if basis in (QualityBasis.RERANK, QualityBasis.RANK):
        return gate.rerank_precise_threshold, gate.rerank_reference_threshold
    return gate.precise_threshold, gate.reference_threshold


def _exact_distances(live: Sequence[Candidate], query_vector: Any, vectors: Mapping[str, Any]) -> dict[str, float]:
    """Squared L2 between the query's and the stored vector, for candidates that the dense branch did not return."""
    if query_vector is None:
        return {}
    shape = np.shape(query_vector)
    missing = (c.evidence_key for c in live if c.dense_distance is None and c.evidence_key in vectors)
    keys = [key for key in missing if np.shape(vectors[key]) == shape]
    if not keys:
        return {}
    stored = np.stack([np.asarray(vectors[key], dtype=np.float64) for key in keys])
    distances = np.square(stored - np.asarray(query_vector, dtype=np.float64)).sum(axis=1)
    return {key: float(d) for key, d in zip(keys, distances, strict=True) if math.isfinite(d)}
