"""Two modes held against each other, case by case: a sentence first, then the numbers it stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from core.evaluation.compare import Comparison, PairedMetric, PairRow, p_value
from core.model import Mode
from pages.parts import boxes, eval_address, eval_figures, eval_services, facts, look, result, services, tables
from pages.parts.numbers import NONE, count, finite, score
from pages.parts.status import Fact
from pages.parts.text import cell, literal, visible

DECIMALS: Final = "%.3f"
TIME: Final = (
    "p50 and p95 of the recorded lookups, in milliseconds. A question whose vector was cached by the run before embeds "
    "nothing: compare the totals without embedding."
)


def draw(page: str) -> None:
    """Dense (before) against hybrid (after) over the frozen lookups of both."""
    places = eval_services.desk().places
    missing = [mode.value for mode in (Mode.DENSE, Mode.HYBRID) if not places.has_fixtures(mode)]
    if not places.cases.is_file() or missing:
        boxes.empty(
            "Nothing to compare yet",
            "Both modes must be frozen over one index: `python -m core eval snapshot` takes them together.",
        )
        return
    found: Comparison | None = services.call(
        "The two modes cannot be compared", eval_services.comparison, Mode.DENSE, Mode.HYBRID
    )
    if found is None:
        return
    with st.container(border=True, gap="xxsmall"):
        for clause in found.verdict.split("; "):
            st.text(visible(clause, 600))
    facts.strip(pair_facts(found))
    for field in found.differing:
        st.caption(f"Differs: {literal(str(field))}")
    if found.stale:
        st.warning(f"{len(found.stale)} fixtures are stale: take both snapshots again", icon=":material/update:")
    _metrics(found, page)
    _cases(found, page)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Side effects", anchor=False, help="What must not grow while a metric does.")
        st.dataframe(effect_table(found), hide_index=True, placeholder=NONE, key=f"{page}.effects")
    with right:
        st.subheader("Time", anchor=False, help=TIME)
        st.dataframe(time_table(found), hide_index=True, placeholder=NONE, key=f"{page}.pair.times")


def pair_facts(found: Comparison) -> tuple[Fact, ...]:
    """What one side finds, and how alike the two are."""
    return (
        Fact(
            f"Found by {found.name_b} only", count(len(found.found_by_b)), f"Gold within the first {found.k}.", "green"
        ),
        Fact(
            f"Lost by {found.name_b}",
            count(len(found.lost_by_b)),
            f"Gold within the first {found.k} of {found.name_a} only.",
            "red" if found.lost_by_b else "",
        ),
        Fact("Labels too thin", count(len(found.incomplete)), "Moved, but the losing side has too few judged results."),
        Fact(f"Jaccard of the first {found.k}", score(found.jaccard), "Chunks in both, of those in either: mean."),
        Fact("RBO", score(found.rbo), "Rank-biased overlap of the documents: mean. 1 is the same order."),
    )


def _metrics(found: Comparison, page: str) -> None:
    st.subheader("Paired metrics", anchor=False, help="Only cases that both runs scored, each with itself.")
    left, right = st.columns([4, 7], gap="medium")
    with left:
        st.plotly_chart(
            eval_figures.forest(found.metrics),
            key=f"{page}.forest",
            config=look.CHART,
            alt="Mean difference of each metric with its 95 % interval; the numbers stand beside.",
        )
    with right:
        numbers = (found.name_a, found.name_b, "Delta", "Low", "High")
        st.dataframe(
            metric_table(found),
            hide_index=True,
            placeholder=NONE,
            key=f"{page}.paired",
            column_config={name: st.column_config.NumberColumn(format=DECIMALS) for name in numbers},
        )
    st.caption(
        f"Delta is {found.name_b} minus {found.name_a}; low and high bound its 95 % bootstrap interval; p is of the "
        "paired randomisation test. Green or red only where p is below 0.05 and the interval leaves 0 out."
    )


def metric_table(found: Comparison) -> pd.DataFrame:
    """One row a metric of a stage."""
    metrics = found.metrics

    def numbers(read: Any) -> Any:
        return pd.array([finite(read(metric)) for metric in metrics], dtype="Float64")

    return pd.DataFrame(
        {
            "Metric": [metric.metric for metric in metrics],
            "Stage": [metric.stage.value for metric in metrics],
            "Called": [called(metric) for metric in metrics],
            found.name_a: numbers(lambda m: m.mean_a),
            found.name_b: numbers(lambda m: m.mean_b),
            "Delta": numbers(lambda m: m.delta),
            "Low": numbers(lambda m: m.interval.low if m.interval else None),
            "High": numbers(lambda m: m.interval.high if m.interval else None),
            "p": [NONE if finite(metric.p) is None else p_value(metric.p) for metric in metrics],
            "Wins": [metric.wins for metric in metrics],
            "Ties": [metric.ties for metric in metrics],
            "Losses": [metric.losses for metric in metrics],
            "Pairs": [metric.pairs for metric in metrics],
            "Too thin": [metric.incomplete for metric in metrics],
        }
    )


def called(metric: PairedMetric) -> str:
    """What the test says of a metric, in a word."""
    if not metric.pairs:
        return "no pair"
    if not metric.wins and not metric.losses:
        return "the same"
    if not metric.significant:
        return "too few cases to call"
    return "better" if (metric.delta or 0) > 0 else "worse"


def _cases(found: Comparison, page: str) -> None:
    st.subheader("Cases", anchor=False)
    kinds = {
        "worst": found.worst,
        "moved": tuple(row for row in found.rows if moved(row)),
        f"found by {found.name_b}": tuple(row for row in found.rows if row.case_id in found.found_by_b),
        f"lost by {found.name_b}": tuple(row for row in found.rows if row.case_id in found.lost_by_b),
        "all": found.rows,
    }
    show = eval_address.segments(
        "Show", page, eval_address.PAIRS, tuple(kinds), words=lambda name: f"{name}, {len(kinds[name])}"
    )
    rows = kinds[show]
    if not rows:
        st.caption("No case.")
        return
    key = f"{page}.pairs.{show}"
    st.dataframe(
        pair_table(rows, found),
        key=key,
        hide_index=True,
        placeholder=NONE,
        height=tables.height(len(rows), 360),
        on_select=lambda: _open(st.session_state.get(key), rows),
        selection_mode="single-cell",
        column_config={
            "Case": st.column_config.TextColumn(width=170, pinned=True),
            **{name: st.column_config.NumberColumn(format=DECIMALS) for name in ("Delta nDCG", "Jaccard", "RBO")},
        },
    )
    st.caption("Choose a cell to open the case in the list of its run.")


def _open(event: Any, rows: Sequence[PairRow]) -> None:
    at = result.place(event)
    if at is not None and at < len(rows):
        eval_address.put(case=rows[at].case_id, view=None)


def moved(row: PairRow) -> bool:
    """Whether anything that is shown of a case differs between the two runs."""
    return bool(row.delta) or row.rank_a != row.rank_b or row.passed_a != row.passed_b


def pair_table(rows: Sequence[PairRow], found: Comparison) -> pd.DataFrame:
    """One row a case. Ranks are of the first relevant document in the evidence."""
    outcome = {True: "passes", False: "fails", None: "unknown"}
    return pd.DataFrame(
        {
            "Case": [cell(row.case_id, 120) for row in rows],
            "Type": [cell(row.query_type, 60) for row in rows],
            "Delta nDCG": pd.array([finite(row.delta) for row in rows], dtype="Float64"),
            f"Rank, {found.name_a}": pd.array([row.rank_a for row in rows], dtype="Int64"),
            f"Rank, {found.name_b}": pd.array([row.rank_b for row in rows], dtype="Int64"),
            found.name_a: [outcome[row.passed_a] for row in rows],
            found.name_b: [outcome[row.passed_b] for row in rows],
            "Jaccard": pd.array([finite(row.jaccard) for row in rows], dtype="Float64"),
            "RBO": pd.array([finite(row.rbo) for row in rows], dtype="Float64"),
            "Remark": ["labels too thin" if row.incomplete else row.unknown or "" for row in rows],
        }
    )


def effect_table(found: Comparison) -> pd.DataFrame:
    """One row a number that must not grow."""
    return pd.DataFrame(
        {
            "What": [effect.name.replace("_", " ") for effect in found.side_effects],
            found.name_a: [_plain(effect.a) for effect in found.side_effects],
            found.name_b: [_plain(effect.b) for effect in found.side_effects],
            "Worse": ["worse" if effect.worse else "" for effect in found.side_effects],
        }
    )


def _plain(value: float | None) -> str:
    value = finite(value)
    if value is None:
        return NONE
    return count(int(value)) if float(value).is_integer() else score(value)


def time_table(found: Comparison) -> pd.DataFrame:
    """One row a recorded time, p50 and p95 of both sides."""
    times = found.latency
    data: dict[str, Any] = {"Stage": [name.removesuffix("_ms").replace("_", " ") for name in times]}
    for label, at in ((found.name_a, 0), (found.name_b, 1)):
        for part in ("p50", "p95"):
            values = [pair[at] for pair in times.values()]
            data[f"{part} {label}"] = [score(getattr(v, part), 1) if v else NONE for v in values]
    return pd.DataFrame(data)
