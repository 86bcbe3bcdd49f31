"""The effective values of one lookup: settings, then the embedding profile, then a what-if."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from core.errors import InvalidSettings, redact
from core.lookup_request import WhatIf
from core.model import Branch, EmbeddingProfile, Fusion, Gate, Mode, QualityBasis
from core.settings import HybridSettings, QualitySettings, RagSettings, SearchSettings, Settings
from core.stages.project import Bounds

S = TypeVar("S", bound=BaseModel)
_HYBRID: Final = ("rrf_k", "fusion", "dense_weight", "bm25_weight", "rank_window_size")
_RAG: Final = ("retrieve_k", "return_n", "max_chunks_per_document")
RERANK_PRECISE: Final = 0.75
RERANK_REFERENCE: Final = 0.5
_QUALITY: Final = ("precise_threshold", "reference_threshold")


@dataclass(frozen=True, slots=True)
class Knobs:
    mode: Mode
    fusion: Fusion
    retrieve_k: int
    return_n: int
    max_chunks_per_document: int
    rrf_k: int
    window: int
    weights: Mapping[Branch, float]
    bm25_only: QualityBasis
    gate: Gate
    rerank: bool
    rerank_top_n: int
    category_filter_off: bool
    char_budget: int
    bounds: Bounds


def resolve(settings: Settings, profile: EmbeddingProfile, what_if: WhatIf | None, *, has_reranker: bool) -> Knobs:
    """Raises InvalidSettings naming the what-if's key and what is allowed."""
    changes = what_if.changes() if what_if else {}
    search = _with(settings.retrieval.search, changes, ("mode",))
    hybrid = _with(settings.retrieval.hybrid, changes, _HYBRID)
    rag = _with(settings.rag, changes, _RAG)
    quality = _with(settings.quality, changes, _QUALITY)
    rerank = changes.get("rerank", settings.rerank.enabled)
    if rerank and not has_reranker:
        raise InvalidSettings("rerank: no reranker is configured; set rerank.enabled and rerank.url")
    return _knobs(settings, search, hybrid, rag, _gate(quality, profile), changes, rerank=bool(rerank))


def _knobs(
    settings: Settings,
    search: SearchSettings,
    hybrid: HybridSettings,
    rag: RagSettings,
    gate: Gate,
    changes: Mapping[str, Any],
    *,
    rerank: bool,
) -> Knobs:
    bounds = settings.projection
    return Knobs(
        mode=search.mode,
        fusion=hybrid.fusion,
        retrieve_k=rag.retrieve_k,
        return_n=rag.return_n,
        max_chunks_per_document=rag.max_chunks_per_document,
        rrf_k=hybrid.rrf_k,
        window=hybrid.rank_window_size or rag.retrieve_k,
        weights={Branch.DENSE: hybrid.dense_weight, Branch.BM25: hybrid.bm25_weight},
        bm25_only=QualityBasis(settings.quality.bm25_only),
        gate=gate,
        rerank=rerank,
        rerank_top_n=settings.rerank.top_n,
        category_filter_off=bool(changes.get("category_filter_off", False)),
        char_budget=settings.pack.char_budget,
        bounds=Bounds(bounds.max_query_chars, bounds.max_excerpt_chars, bounds.max_evidence, bounds.max_bytes),
    )


def _gate(quality: QualitySettings, profile: EmbeddingProfile) -> Gate:
    """Explicit settings before the profile's values. Distances of the profile's model say nothing about a reranker's
    scores or a rank, so these two keep the papers' thresholds unless the settings name others."""
    low = _first(quality.min_distance, profile.min_distance)
    high = _first(quality.max_distance, profile.max_distance)
    precise = _first(quality.precise_threshold, profile.precise_threshold)
    reference = _first(quality.reference_threshold, profile.reference_threshold)
    if low >= high:
        raise InvalidSettings(
            f"quality.min_distance {low:g} must be below max_distance {high:g} (one is the profile's)"
        )
    if precise < reference:
        raise InvalidSettings(
            f"quality.precise_threshold {precise:g} must not be below reference_threshold {reference:g}"
            " (one is the profile's)"
        )
    other_precise = _first(quality.precise_threshold, RERANK_PRECISE)
    return Gate(
        precise_threshold=precise,
        reference_threshold=reference,
        min_distance=low,
        max_distance=high,
        calibrated=profile.calibrated,
        lexical_reference_threshold=profile.lexical_reference_threshold,
        rerank_precise_threshold=other_precise,
        rerank_reference_threshold=min(_first(quality.reference_threshold, RERANK_REFERENCE), other_precise),
    )


def _first(chosen: float | None, otherwise: float) -> float:
    return otherwise if chosen is None else chosen


def _with(part: S, changes: Mapping[str, Any], names: tuple[str, ...]) -> S:
    """``part`` with the changes that belong to it, checked like any setting."""
    mine = {name: changes[name] for name in names if name in changes}
    if not mine:
        return part
    try:
        return type(part)(**{**part.model_dump(), **mine})
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        name = ".".join(str(key) for key in first["loc"]) or ", ".join(mine)
        got = f" (got {first['input']!r})" if first["loc"] else ""
        raise InvalidSettings(f"{name}: {redact(first['msg'].removeprefix('Value error, '))}{got}") from None
