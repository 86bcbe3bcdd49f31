"""Which way the pipeline went: fallback, gate, levels, filter, branches, context, time."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.evaluation.report import Report
from pages.parts import eval_figures, facts, look
from pages.parts.eval_figures import Bar
from pages.parts.eval_run import words
from pages.parts.eval_services import Run
from pages.parts.numbers import NONE, count, finite, score, share
from pages.parts.status import Fact
from pages.parts.text import cell


def draw(run: Run, page: str) -> None:
    """All of it, over the lookups that succeeded; failed ones have no behaviour."""
    report, dark = run.report, look.is_dark()
    facts.strip(fallback_facts(report))
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Gate", anchor=False, help="Whether a lookup ended with a relevance level.")
        accuracy = report.behaviour.gate.accuracy
        st.caption(f"Accuracy {share(accuracy)} over answerable and unanswerable cases")
        st.dataframe(gate_table(report), hide_index=True, key=f"{page}.gate")
        st.subheader("Levels", anchor=False)
        levels = report.behaviour.levels
        total = sum(levels.values())
        rows = [Bar(name, n / total if total else None, count(n)) for name, n in levels.items()]
        st.plotly_chart(
            eval_figures.bars(rows, dark=dark), key=f"{page}.levels", config=look.CHART, alt="Lookups by level"
        )
    with right:
        st.subheader("Cases to look at", anchor=False)
        st.dataframe(watch_table(report), hide_index=True, placeholder=NONE, key=f"{page}.watch")
    left, right = st.columns(2, gap="large")
    with left:
        _pairs("Branches", branch_rows(report), f"{page}.branches", "They need cases with gold in which both ran.")
    with right:
        _pairs("Context", context_rows(report), f"{page}.context", "No lookup recorded its context pack.")
    st.subheader("Time", anchor=False, help="By nearest rank over the recorded lookups.")
    times = report.behaviour.latency
    if times:
        st.dataframe(
            pd.DataFrame(
                {
                    "Stage": [name.removesuffix("_ms").replace("_", " ") for name in times],
                    "p50, ms": [time.p50 for time in times.values()],
                    "p95, ms": [time.p95 for time in times.values()],
                    "Lookups": [time.count for time in times.values()],
                }
            ),
            hide_index=True,
            key=f"{page}.times",
            column_config={name: st.column_config.NumberColumn(format="%.1f") for name in ("p50, ms", "p95, ms")},
        )
    else:
        st.caption("No times are recorded.")


def _pairs(title: str, rows: Sequence[tuple[str, str]], key: str, without: str) -> None:
    st.subheader(title, anchor=False)
    if not rows:
        st.caption(without)
        return
    table = pd.DataFrame({"What": [name for name, _ in rows], "Value": [value for _, value in rows]})
    st.dataframe(table, hide_index=True, key=key)


def fallback_facts(report: Report) -> tuple[Fact, ...]:
    """The retry and the filter at a glance."""
    seen = report.behaviour
    back = seen.fallback
    return (
        Fact("Fallback triggered", words(back.triggered), "Lookups that were retried without the category filter."),
        Fact("As expected", words(back.correct), "Of the cases that say whether a fallback belongs there."),
        Fact("Helped", count(len(back.helped)), "More gold documents after the retry than before.", "green"),
        Fact("Hurt", count(len(back.hurt)), "Fewer gold documents after the retry.", "red" if back.hurt else ""),
        Fact("Neither", count(len(back.neutral)), "As many gold documents as before."),
        Fact(
            "Filter misfires",
            f"{count(len(seen.filter_misfires))} of {count(seen.filtered)}",
            "Filtered lookups whose filter kept gold out.",
            "orange" if seen.filter_misfires else "",
        ),
        Fact(
            "Scope violations",
            count(seen.scope_violations),
            "Hits outside the scope that had to be dropped.",
            "red" if seen.scope_violations else "",
        ),
        Fact(
            "Stale evidence",
            count(seen.stale_evidence),
            "Pieces older than the index knows.",
            "red" if seen.stale_evidence else "",
        ),
    )


def gate_table(report: Report) -> pd.DataFrame:
    """Answerable against unanswerable, by what the gate did."""
    gate = report.behaviour.gate
    return pd.DataFrame(
        {
            "Cases": ["answerable", "unanswerable"],
            "Ended with a level": [gate.answerable_accepted, gate.unanswerable_accepted],
            "Ended without": [gate.answerable_refused, gate.unanswerable_refused],
            "Wrong": [gate.answerable_refused, gate.unanswerable_accepted],
        }
    )


def watch_table(report: Report) -> pd.DataFrame:
    """Lists of cases that a number above counts."""
    seen = report.behaviour
    lists = {
        "No answer exists, yet a level": seen.no_answer_accepted,
        "Fallback helped": seen.fallback.helped,
        "Fallback hurt": seen.fallback.hurt,
        "Filter misfired": seen.filter_misfires,
        "Degraded": seen.degraded,
        "Truncated by the projection": seen.truncated,
    }
    return pd.DataFrame(
        {
            "What": list(lists),
            "Cases": [len(ids) for ids in lists.values()],
            "Which": [cell(", ".join(ids), 400) for ids in lists.values()],
        }
    )


def branch_rows(report: Report) -> tuple[tuple[str, str], ...]:
    """What each branch adds to the other; empty when both ran in no case."""
    b = report.behaviour.branches
    if b is None:
        return ()
    return (
        ("cases in which both branches ran", count(b.cases)),
        (f"found by dense only, within {b.k}", words(b.dense_only_hit)),
        (f"found by BM25 only, within {b.k}", words(b.bm25_only_hit)),
        (f"chunks in both of the first {b.k}, of those in either", share(b.intersection_rate)),
        (f"RRF incremental recall@{b.k} (fused minus the better branch)", score(b.rrf_incremental_recall)),
        ("found again by the reranker, of those that fusion missed", words(b.reranker_rescue)),
        ("lost by the reranker, of those that fusion found", words(b.reranker_damage)),
    )


def context_rows(report: Report) -> tuple[tuple[str, str], ...]:
    """The packed context, and what a lookup costs; empty when no context was recorded."""
    context = report.context
    if not context.cases:
        return ()
    costs = report.behaviour.costs
    return (
        ("cases with a recorded context", count(context.cases)),
        ("required facts that it covers", share(context.fact_coverage)),
        ("duplicate blocks", share(context.duplicate_ratio)),
        ("stale blocks", share(context.stale_ratio)),
        ("sources a context", score(context.sources, 1)),
        ("useful of all tokens", share(context.useful_share)),
        *((f"{name.replace('_', ' ')} (mean)", score(finite(value), 1)) for name, value in costs.items()),
    )
