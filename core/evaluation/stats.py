"""Paired statistics and rank similarity: seeded, so that the same two runs always give the same numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

SEED: Final = 20_240_601
RESAMPLES: Final = 10_000
_EXACT_UP_TO: Final = 14
_Z95: Final = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


def bootstrap_mean(values: Sequence[float], *, confidence: float = 0.95, seed: int = SEED) -> Interval | None:
    """Percentile bootstrap interval of the mean (Efron); null below two values."""
    if len(values) < 2:
        return None
    data = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(data), size=(RESAMPLES, len(data)))
    means = data[picks].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(low), float(high))


def randomisation_test(deltas: Sequence[float], *, seed: int = SEED) -> float:
    """Two-sided p of the paired (Fisher) randomisation test on the mean difference: signs are flipped at random.

    All sign patterns are counted where at most 14 pairs differ, else 10,000 are drawn (Smucker, Allan, Carterette
    2007). Pairs that do not differ change nothing; without a differing pair p = 1.
    """
    data = np.asarray([delta for delta in deltas if delta], dtype=np.float64)
    if not len(data):
        return 1.0
    observed = abs(data.sum()) - 1e-12
    if len(data) <= _EXACT_UP_TO:
        bits = (np.arange(2 ** len(data))[:, None] >> np.arange(len(data))) & 1
        sums = np.abs(((bits * 2 - 1) * data).sum(axis=1))
        return float((sums >= observed).mean())
    signs = np.random.default_rng(seed).integers(0, 2, size=(RESAMPLES, len(data))) * 2 - 1
    sums = np.abs((signs * data).sum(axis=1))
    return float(((sums >= observed).sum() + 1) / (RESAMPLES + 1))


def wilson(count: int, total: int) -> Interval | None:
    """95 % Wilson score interval of a share; null without anything to count."""
    if total <= 0:
        return None
    share, z2 = count / total, _Z95**2
    centre = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z95 * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2)) / (1 + z2 / total)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def auroc(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
    """Chance that a random positive has the larger value, ties as one half (Mann-Whitney); null if either is empty."""
    if not positives or not negatives:
        return None
    order = np.sort(np.asarray(negatives, dtype=np.float64))
    below = np.searchsorted(order, positives, side="left")
    upto = np.searchsorted(order, positives, side="right")
    return float((below + (upto - below) / 2).sum() / (len(positives) * len(negatives)))


def jaccard(left: Sequence[str], right: Sequence[str]) -> float | None:
    """Shared of all members; null when both are empty."""
    a, b = set(left), set(right)
    return len(a & b) / len(a | b) if a | b else None


def rbo(left: Sequence[str], right: Sequence[str], p: float = 0.9) -> float | None:
    """Rank-biased overlap, extrapolated from the common depth (Webber, Moffat, Zobel 2010, equation 30): 1 for equal
    lists, 0 for disjoint ones; null when both are empty. Members are unique."""
    if not left and not right:
        return None
    depth = min(len(left), len(right))
    if not depth:
        return 0.0
    seen_left: set[str] = set()
    seen_right: set[str] = set()
    overlap, total = 0, 0.0
    for d in range(1, depth + 1):
        a, b = left[d - 1], right[d - 1]
        overlap += (a == b) + (a != b and a in seen_right) + (a != b and b in seen_left)
        seen_left.add(a)
        seen_right.add(b)
        total += overlap / d * p**d
    return overlap / depth * p**depth + (1 - p) / p * total
