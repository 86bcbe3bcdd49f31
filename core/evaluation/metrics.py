"""Ranking metrics by ``ir-measures`` over documents, with what they can be trusted for beside them.

Rules of every mean: it is over the golden set, not over the queries that answered. A query without results scores 0; a
query that failed scores 0 in ``mean`` and is left out of ``mean_scored``; both stand side by side with "scored N of M".
Unjudged results count as not relevant, a rule that is part of the report, with judged@k beside each metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final

UNJUDGED_RULE: Final = "unjudged counts as not relevant; judged@k stands beside each metric"
GAIN_FORMULA: Final = "linear gain: grade / log2(rank + 1), ideal order of all known gold (trec_eval ndcg_cut)"
DEFAULT_KS: Final = (5, 20)

DEFINITIONS: Final[Mapping[str, str]] = {
    "recall@k": "relevant documents in the top k / all known relevant documents (multi-hit recall); with more than k "
    "relevant documents its ceiling is below 1 and stands beside it",
    "recall_on_known_gold@k": "the same number, by its other name: recall is always against known gold",
    "hit@k": "1 when any relevant document stands in the top k (single-hit recall, Success@k)",
    "precision@k": "relevant documents in the top k / k",
    "precision_on_judged@k": "relevant / judged documents in the top k; no value when none is judged",
    "mrr": "1 / rank of the first relevant document, 0 when there is none",
    "ndcg@k": GAIN_FORMULA,
    "judged@k": "judged documents in the top k / documents returned in the top k; no value without results",
    "unjudged_ratio@k": "1 - judged@k",
    "union": "hit and recall of the union of both branches' top k; a union has no order, so no other metric",
}
_CAPPED = ("recall@", "precision@")
_ONLY_SCORED = ("judged@", "unjudged_ratio@", "precision_on_judged@")


@dataclass(frozen=True, slots=True)
class Mean:
    """``mean``: over all ``total`` queries, failed ones as 0. ``mean_scored``: over the ``scored`` ones. Null without
    a query to average, with the reason. ``ceiling``: the best mean that any run could reach, where below 1."""

    name: str
    mean: float | None
    mean_scored: float | None
    scored: int
    failed: int
    total: int
    ceiling: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """Values of every query. ``per_query[q][metric]`` is null where the metric has no value; a failed query has none.

    ``without_results`` lists queries that returned nothing, ``duplicates`` how many repeated ids were dropped a query.
    """

    ks: tuple[int, ...]
    per_query: Mapping[str, Mapping[str, float | None]]
    ceilings: Mapping[str, Mapping[str, float]]
    failed: tuple[str, ...] = ()
    without_results: tuple[str, ...] = ()
    duplicates: Mapping[str, int] = field(default_factory=dict)

    @property
    def queries(self) -> tuple[str, ...]:
        return (*self.per_query, *self.failed)

    def mean(self, name: str, queries: Iterable[str] | None = None) -> Mean:
        """The mean of one metric over ``queries`` (default: all). Diagnostics (judged@k …) have no failures as 0."""
        return next(self._means((name,), queries))

    def means(self, queries: Iterable[str] | None = None) -> tuple[Mean, ...]:
        return tuple(self._means(metric_names(self.ks), queries))

    def _means(self, names: Sequence[str], queries: Iterable[str] | None) -> Iterator[Mean]:
        gone = frozenset(self.failed)
        wanted = [q for q in (self.queries if queries is None else queries) if q in self.per_query or q in gone]
        failed = sum(q in gone for q in wanted)
        rows = [self.per_query[q] for q in wanted if q in self.per_query]
        best = [self.ceilings[q] for q in wanted if q in self.ceilings]
        for name in names:
            values = [value for row in rows if (value := row.get(name)) is not None]
            if not values and not failed:
                yield Mean(name, None, None, 0, failed, len(wanted), reason="no query with a value")
                continue
            scored = fmean(values) if values else None
            whole = scored if name.startswith(_ONLY_SCORED) else sum(values) / (len(values) + failed)
            ceiling = fmean([row.get(name, 1.0) for row in best]) if best and name.startswith(_CAPPED) else 1.0
            limit = ceiling if ceiling < 1.0 else None
            yield Mean(name, whole, scored, len(values), failed, len(wanted), ceiling=limit)


def metric_names(ks: Sequence[int]) -> tuple[str, ...]:
    """Every metric of a ranked stage, in the order of the report."""
    each = [
        f"{name}@{k}"
        for k in ks
        for name in ("recall", "hit", "precision", "ndcg", "judged", "unjudged_ratio", "precision_on_judged")
    ]
    return (*each, "mrr")


def unique(ids: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """Ids at their first rank, and how many repeats were dropped: a repeat is a defect of the run, not a second hit."""
    listed = list(ids)
    kept = tuple(dict.fromkeys(listed))
    return kept, len(listed) - len(kept)


def score(
    qrels: Mapping[str, Mapping[str, int]],
    runs: Mapping[str, Sequence[str] | None],
    ks: Sequence[int] = DEFAULT_KS,
) -> Scores:
    """Scores of ``runs`` (query -> document ids, best first; None: the query failed) against ``qrels``.

    The golden set decides who is averaged: a query absent from ``runs`` had no results, a run without labels is
    ignored, and a query without a relevant document has no ranking metric and is left out.
    """
    golden = {q: dict(grades) for q, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    failed = tuple(q for q in golden if q in runs and runs[q] is None)
    cleaned = {q: unique(runs.get(q) or ()) for q in golden if q not in failed}
    ranked = {q: ids for q, (ids, _) in cleaned.items()}
    values = _by_ir_measures(golden, ranked, ks)
    per_query: dict[str, dict[str, float | None]] = {}
    for query, ids in ranked.items():
        row: dict[str, float | None] = dict(values[query])
        for k in ks:
            row |= _judged(golden[query], ids[:k], k)
        per_query[query] = row
    return Scores(
        ks=tuple(ks),
        per_query=per_query,
        ceilings={q: _ceilings(grades, ks) for q, grades in golden.items()},
        failed=failed,
        without_results=tuple(q for q, ids in ranked.items() if not ids),
        duplicates={q: count for q, (_, count) in cleaned.items() if count},
    )


def score_union(
    qrels: Mapping[str, Mapping[str, int]],
    branches: Mapping[str, tuple[Sequence[str], Sequence[str]] | None],
    ks: Sequence[int] = DEFAULT_KS,
) -> Scores:
    """hit@k and recall@k of the union of two branches' top k, by query."""
    merged: dict[str, dict[str, float | None]] = {}
    base: Scores | None = None
    for k in ks:
        runs = {q: None if pair is None else unique([*pair[0][:k], *pair[1][:k]])[0] for q, pair in branches.items()}
        base = score(qrels, runs, (2 * k,))
        for query, row in base.per_query.items():
            merged.setdefault(query, {}).update(
                {f"recall@{k}": row[f"recall@{2 * k}"], f"hit@{k}": row[f"hit@{2 * k}"]}
            )
    if base is None:
        return Scores((), {}, {})
    return Scores(tuple(ks), merged, {}, base.failed, base.without_results, {})


def _by_ir_measures(
    qrels: Mapping[str, Mapping[str, int]], ranked: Mapping[str, Sequence[str]], ks: Sequence[int]
) -> dict[str, dict[str, float]]:
    """One call for all queries and metrics. Ranks go in as distinct scores, so that no tie is resolved by chance."""
    import ir_measures
    from ir_measures import RR, P, R, Success, nDCG

    names: dict[Any, str] = {RR: "mrr"}
    for k in ks:
        names |= {R @ k: f"recall@{k}", Success @ k: f"hit@{k}", P @ k: f"precision@{k}", nDCG @ k: f"ndcg@{k}"}
    found = {q: dict.fromkeys(names.values(), 0.0) for q in ranked}
    run = {q: {doc: float(-rank) for rank, doc in enumerate(ids)} for q, ids in ranked.items() if ids}
    if run:
        known = {q: dict(qrels[q]) for q in run}
        by_identity = {id(measure): name for measure, name in names.items()}  # hashing a measure renders it
        for metric in ir_measures.iter_calc(list(names), known, run):
            name = by_identity.get(id(metric.measure)) or names[metric.measure]
            found[metric.query_id][name] = float(metric.value)
    return found


def _judged(grades: Mapping[str, int], top: Sequence[str], k: int) -> dict[str, float | None]:
    judged = [doc for doc in top if doc in grades]
    good = sum(grades[doc] > 0 for doc in judged)
    share = len(judged) / len(top) if top else None
    return {
        f"judged@{k}": share,
        f"unjudged_ratio@{k}": None if share is None else 1 - share,
        f"precision_on_judged@{k}": good / len(judged) if judged else None,
    }


def _ceilings(grades: Mapping[str, int], ks: Sequence[int]) -> dict[str, float]:
    count = sum(grade > 0 for grade in grades.values())
    best = {f"recall@{k}": min(k, count) / count for k in ks}
    return best | {f"precision@{k}": min(k, count) / k for k in ks}
