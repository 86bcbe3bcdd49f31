"""The two attempts of a lookup with a fallback, side by side: what each asked, found and made of it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from core.model import AttemptTrace, Candidate
from pages.parts.numbers import NONE, count, finite, score
from pages.parts.text import cell


def fallback_words(first: AttemptTrace, second: AttemptTrace) -> str:
    """Why there was a retry and whether it helped, in one sentence of our own words."""
    gain = (finite(second.top_quality) or 0.0) - (finite(first.top_quality) or 0.0)
    effect = "it helped" if gain > 0 else "it made no difference" if gain == 0 else "it made things worse"
    start = "found nothing" if not first.candidate_count else f"reached a best quality of {score(first.top_quality)}"
    end = "found nothing" if not second.candidate_count else f"reached {score(second.top_quality)}"
    return f"With its category filter the first attempt {start}; the retry without it {end}: {effect}."


def attempt_facts(attempts: Sequence[AttemptTrace]) -> pd.DataFrame:
    """One column an attempt, one row a fact; all cells are text."""
    facts: dict[str, list[str]] = {
        "Query": [cell(a.query or NONE) for a in attempts],
        "Category filter": [cell(a.category_filter) if a.category_filter is not None else "none" for a in attempts],
        "Filter as sent": [cell(next((b.expression for b in a.branches), "") or "none") for a in attempts],
        "Status": [a.status.value for a in attempts],
        "Dense hits": [_hits(a, "dense") for a in attempts],
        "BM25 hits": [_hits(a, "bm25") for a in attempts],
        "Candidates": [count(a.candidate_count) for a in attempts],
        "Best quality": [score(a.top_quality) for a in attempts],
        "Set by": [cell(a.top_quality_key or NONE) for a in attempts],
        "Level": [a.relevance_level.value if a.relevance_level else "none" for a in attempts],
        "Low quality": [NONE if a.low_quality is None else "yes" if a.low_quality else "no" for a in attempts],
        "Degraded": [cell("; ".join(a.degraded) or "no") for a in attempts],
    }
    table = pd.DataFrame(facts, index=[a.name.value for a in attempts]).T
    return table.rename_axis("Fact").reset_index()


def _hits(attempt: AttemptTrace, branch: str) -> str:
    for trace in attempt.branches:
        if trace.branch.value == branch:
            return count(trace.hits) if trace.hits is not None else trace.status.value.replace("_", " ")
    return NONE


def attempt_moves(first: AttemptTrace, second: AttemptTrace) -> pd.DataFrame:
    """Every chunk of either attempt with its original rank and quality in both, in the order of the second."""
    before = {candidate.evidence_key: candidate for candidate in first.candidates}
    after = {candidate.evidence_key: candidate for candidate in second.candidates}
    last = 10**9

    def order(key: str) -> tuple[int, int, str]:
        return (_rank(after.get(key)) or last, _rank(before.get(key)) or last, key)

    keys = sorted(before.keys() | after.keys(), key=order)
    either = before | after
    return pd.DataFrame(
        {
            "Chunk": [cell(key, 120) for key in keys],
            "Title": [cell(either[key].title or either[key].doc_id, 120) for key in keys],
            "Rank before": pd.array([_rank(before.get(key)) for key in keys], dtype="Int64"),
            "Rank after": pd.array([_rank(after.get(key)) for key in keys], dtype="Int64"),
            "Quality before": pd.array([_quality(before.get(key)) for key in keys], dtype="Float64"),
            "Quality after": pd.array([_quality(after.get(key)) for key in keys], dtype="Float64"),
            "Found": [
                "both" if key in before and key in after else "after" if key in after else "before" for key in keys
            ],
        }
    )


def _rank(candidate: Candidate | None) -> int | None:
    return candidate.original_rank if candidate else None


def _quality(candidate: Candidate | None) -> float | None:
    return finite(candidate.quality_score) if candidate else None
