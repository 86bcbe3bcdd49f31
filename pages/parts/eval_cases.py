"""The cases of a run, failures first, narrowed by what stands in the address; choosing one opens it below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from core.evaluation.report import CaseRow
from core.evaluation.view import failures_first
from pages.parts import boxes, eval_address, eval_case, result, tables
from pages.parts.eval_services import Run
from pages.parts.numbers import count
from pages.parts.text import cell

ALL: Final = "all"
SHOWS: Final = (ALL, "failing", "reviewed", "moved")
NO_LOSS: Final = "none"


def draw(run: Run, page: str) -> None:
    """The list with its filters, and the open case under it."""
    ids = _filtered(run, page)
    if not ids:
        moved = eval_address.asked(eval_address.SHOW) == "moved" and not run.changes
        hint = "Without a comparable baseline nothing is known to have moved." if moved else "Take one away."
        boxes.empty("No case fits these filters", hint)
    else:
        table(run, ids, f"{page}.cases")
    open_case(run, ids, page)


def open_case(run: Run, ids: Sequence[str], page: str) -> None:
    """The case of the address, with the ways to its neighbours in ``ids``."""
    wanted = eval_address.asked(eval_address.CASE)
    if wanted:
        eval_case.draw(run, wanted, ids, page)
    elif ids:
        st.caption("Choose a cell to see one case whole.")


def _filtered(run: Run, page: str) -> tuple[str, ...]:
    report = run.report
    types = sorted({row.query_type for row in report.rows if row.query_type})
    tags = sorted({tag for row in report.rows for tag in row.tags})
    columns = st.columns([3, 2, 2, 3], vertical_alignment="bottom")
    with columns[0]:
        show = eval_address.segments("Show", page, eval_address.SHOW, SHOWS)
    with columns[1]:
        kind = eval_address.pick("Query type", page, eval_address.TYPE, (ALL, *types))
    with columns[2]:
        tag = eval_address.pick("Tag", page, eval_address.TAG, (ALL, *tags))
    with columns[3]:
        loss = eval_address.pick("First loss", page, eval_address.LOSS, (ALL, *report.loss_counts, NO_LOSS))
    return tuple(
        line["case"]
        for line in failures_first(report)
        if (row := report.row(line["case"])) is not None
        and _shown(run, row, show)
        and kind in {ALL, row.query_type}
        and (tag == ALL or tag in row.tags)
        and loss in {ALL, row.loss or NO_LOSS}
    )


def _shown(run: Run, row: CaseRow, show: str) -> bool:
    if show == "failing":
        return row.passed is not True
    if show == "reviewed":
        return row.gates
    if show == "moved":
        change = run.changes.get(row.case_id)
        return change is not None and change.change.value != "equal"
    return True


def table(run: Run, ids: Sequence[str], key: str) -> None:
    """``ids`` as rows in the given order; choosing a cell opens its case."""
    k = run.report.identity.ks[0]
    st.dataframe(
        case_table(run, ids),
        key=f"{key}.{ids[0]}.{len(ids)}",
        hide_index=True,
        placeholder="–",
        height=tables.height(len(ids), 220 if eval_address.asked(eval_address.CASE) else 400),
        on_select=lambda: chosen(st.session_state.get(f"{key}.{ids[0]}.{len(ids)}"), ids),
        selection_mode="single-cell",
        column_config={
            "Case": st.column_config.TextColumn(width=170, pinned=True),
            "Failed expectations": st.column_config.TextColumn(width=380),
            "First loss": st.column_config.TextColumn(width=170),
            "Query": st.column_config.TextColumn(width=240),
            **{
                name: st.column_config.NumberColumn(format="%.3f")
                for name in (f"Recall@{k}", f"nDCG@{k}", f"Judged@{k}", "Facts")
            },
        },
    )
    st.caption(f"{count(len(ids))} of {count(len(run.report.rows))} cases, reviewed failures first.")


def chosen(event: Any, ids: Sequence[str]) -> None:
    """Opens the case of the chosen cell of a table over ``ids``."""
    at = result.place(event)
    if at is not None and at < len(ids):
        eval_address.put(case=ids[at])


def case_table(run: Run, ids: Sequence[str]) -> pd.DataFrame:
    """One row a case. A number that is not there stays empty, it is not 0."""
    k = run.report.identity.ks[0]
    by_id = {row.case_id: row for row in run.report.rows}
    queries = {case.case_id: case.query for case in run.cases.cases}
    rows, changes = [by_id[case_id] for case_id in ids], run.changes
    evidence: list[Mapping[str, float | None]] = [row.metrics.get("evidence", {}) for row in rows]

    def numbers(name: str) -> Any:
        return pd.array([values.get(name) for values in evidence], dtype="Float64")

    return pd.DataFrame(
        {
            "Case": [cell(row.case_id, 120) for row in rows],
            "Outcome": [eval_case.outcome(row) for row in rows],
            "Failed expectations": [cell("; ".join(row.failures)) for row in rows],
            "First loss": [row.loss or "" for row in rows],
            "Since the baseline": [
                changes[row.case_id].change.value.replace("_", " ") if row.case_id in changes else "" for row in rows
            ],
            "Query": [cell(queries.get(row.case_id, ""), 120) for row in rows],
            "Type": [cell(row.query_type, 60) for row in rows],
            "Hit": [row.hit_level or "" for row in rows],
            "First rank": pd.array([row.first_expected_rank for row in rows], dtype="Int64"),
            "Level": [row.level or "" for row in rows],
            "Attempt": [row.attempt or "" for row in rows],
            "Fallback": [row.fallback or "" for row in rows],
            f"Recall@{k}": numbers(f"recall@{k}"),
            f"nDCG@{k}": numbers(f"ndcg@{k}"),
            f"Judged@{k}": numbers(f"judged@{k}"),
            "Facts": pd.array([row.fact_coverage for row in rows], dtype="Float64"),
            "Tags": [cell(", ".join(row.tags)) for row in rows],
        }
    )
