"""Metrics by stage, query type and tag, each with what it can be trusted for beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from core.evaluation.metrics import DEFINITIONS, Mean
from core.evaluation.report import Report, StageTable
from core.evaluation.stages import RankedStage
from pages.parts import boxes, eval_address, eval_figures, look, tables
from pages.parts.eval_figures import Bar
from pages.parts.eval_run import words
from pages.parts.eval_services import Run
from pages.parts.numbers import NONE, finite
from pages.parts.text import cell

_GROUPS: Final = {"query type": "by_query_type", "tag": "by_tag"}


def draw(run: Run, page: str) -> None:
    """All stages over all cases, then one metric by query type or tag."""
    report = run.report
    if not any(table.overall for table in report.stages):
        boxes.empty("No ranking to score", "Metrics need a case with gold whose lookup was run.")
        return
    st.subheader("By stage", anchor=False, help="Means over all cases with gold; a failed lookup counts as 0.")
    for k in report.identity.ks:
        st.caption(f"Within the first {k}")
        _table(stage_table(report, k), f"{page}.stages.{k}")
    st.caption(
        f"{report.identity.unjudged_rule}. Scored: cases with a value, of the cases with gold whose lookup reached the "
        "stage. Where cases have more gold than fits, the ceiling of recall stands beside."
    )
    _by_group(report, page)
    _coverage(report, page)
    with st.expander("How to read the numbers", icon=":material/help:"):
        st.dataframe(definitions(report), hide_index=True, key=f"{page}.definitions")


def _by_group(report: Report, page: str) -> None:
    names = [mean.name for mean in report.stage(RankedStage.EVIDENCE).overall]
    ran = [table.stage.value for table in report.stages if table.overall]
    if not names:
        return
    k = report.identity.ks[0]
    first = [f"recall@{k}", f"ndcg@{k}", "mrr", f"hit@{k}"]
    ordered = [name for name in first if name in names] + [name for name in names if name not in first]
    stages = sorted(ran, key=lambda name: name != RankedStage.EVIDENCE.value)
    st.subheader("By query type and tag", anchor=False)
    columns = st.columns([2, 2, 2], vertical_alignment="bottom")
    with columns[0]:
        group = eval_address.segments("Group", page, eval_address.BY, tuple(_GROUPS))
    with columns[1]:
        metric = eval_address.pick("Metric", page, eval_address.METRIC, ordered)
    with columns[2]:
        stage = eval_address.pick("Stage", page, eval_address.STAGE, stages)
    table = report.stage(RankedStage(stage))
    means = group_means(table, group, metric)
    if not means:
        boxes.empty(f"No case has a {group}", "Give the cases one, and take them to the report by judging again.")
        return
    left, right = st.columns([4, 5], gap="medium")
    with left:
        figure = eval_figures.bars(group_bars(means), dark=look.is_dark())
        st.plotly_chart(
            figure, key=f"{page}.group", config=look.CHART, alt="The chosen metric by group; numbers beside."
        )
    with right:
        _table(group_table(report, group, metric), f"{page}.groups")


def _table(table: pd.DataFrame, key: str) -> None:
    decimals = st.column_config.NumberColumn(format="%.3f")
    config = {name: decimals for name in table.columns if table[name].dtype == "Float64"}
    height = tables.height(len(table), 420)
    st.dataframe(table, hide_index=True, placeholder=NONE, key=key, height=height, column_config=config)


def stage_table(report: Report, k: int) -> pd.DataFrame:
    """One row a stage in pipeline order. A stage that did not run says so and has no numbers."""
    names = (f"recall@{k}", f"hit@{k}", f"ndcg@{k}", "mrr", f"precision@{k}", f"judged@{k}", f"unjudged_ratio@{k}")
    more = f"precision_on_judged@{k}"
    listed = [{mean.name: mean for mean in table.overall} for table in report.stages]
    data: dict[str, Any] = {"Stage": [table.stage.value for table in report.stages]}
    data["Scored"] = [
        scored(means.get(names[0])) if means else table.status.replace("_", " ")
        for table, means in zip(report.stages, listed, strict=True)
    ]
    for name in (*names, more):
        data[name.replace("_", " ")] = _numbers(_value(means.get(name)) for means in listed)
    ceilings = [found.ceiling if (found := means.get(names[0])) else None for means in listed]
    if any(ceiling is not None for ceiling in ceilings):
        data[f"recall@{k} ceiling"] = _numbers(ceilings)
    data["No results"] = pd.array([len(t.without_results) if t.overall else None for t in report.stages], dtype="Int64")
    data["Failed"] = pd.array([len(t.failed) if t.overall else None for t in report.stages], dtype="Int64")
    return pd.DataFrame(data)


def scored(mean: Mean | None) -> str:
    """``118 of 121``: how many cases the mean stands on."""
    return f"{mean.scored} of {mean.total}" if mean is not None and mean.total else NONE


def group_means(table: StageTable, group: str, metric: str) -> Mapping[str, Mean | None]:
    """The mean of one metric of a stage for every query type or tag, in the order of the report."""
    found: Mapping[str, Sequence[Mean]] = getattr(table, _GROUPS[group])
    return {name: next((m for m in means if m.name == metric), None) for name, means in found.items()}


def group_bars(means: Mapping[str, Mean | None]) -> tuple[Bar, ...]:
    """A bar a group, noted with the cases it stands on."""
    return tuple(Bar(name, _value(mean), f"scored {scored(mean)}") for name, mean in means.items())


def group_table(report: Report, group: str, metric: str) -> pd.DataFrame:
    """One row a query type or tag: its pass rate, and the metric at every stage that ran."""
    judged = report.judgement
    rates = judged.pass_rate_by_query_type if group == "query type" else judged.pass_rate_by_tag
    ran = [table for table in report.stages if table.overall]
    names = list(dict.fromkeys([*rates, *(name for table in ran for name in group_means(table, group, metric))]))
    data: dict[str, Any] = {
        group.capitalize(): [cell(name, 80) for name in names],
        "Passes": [words(rates[name]) if name in rates else NONE for name in names],
    }
    for table in ran:
        means = group_means(table, group, metric)
        data[table.stage.value] = _numbers(_value(means.get(name)) for name in names)
    last = group_means(report.stage(RankedStage.EVIDENCE), group, metric)
    data["Scored (evidence)"] = [scored(last.get(name)) for name in names]
    judged_at = group_means(report.stage(RankedStage.EVIDENCE), group, f"judged@{report.identity.ks[0]}")
    data[f"judged@{report.identity.ks[0]}"] = _numbers(_value(judged_at.get(name)) for name in names)
    return pd.DataFrame(data)


def _coverage(report: Report, page: str) -> None:
    st.subheader("Label coverage", anchor=False, help="What the metrics can be trusted for.")
    del page
    rows = [Bar(c.label, c.count / c.total if c.total else None, f"{c.count} of {c.total}") for c in report.coverage]
    st.plotly_chart(
        eval_figures.bars(rows, dark=look.is_dark()), config=look.CHART, alt="Share of cases with each kind of label."
    )


def definitions(report: Report) -> pd.DataFrame:
    """Every metric by name, with the rules of this report."""
    rows = {"unjudged results": report.identity.unjudged_rule, **DEFINITIONS}
    return pd.DataFrame({"Name": list(rows), "Definition": list(rows.values())})


def _value(mean: Mean | None) -> float | None:
    return finite(mean.mean) if mean is not None else None


def _numbers(values: Iterable[float | None]) -> Any:
    return pd.array(list(values), dtype="Float64")
