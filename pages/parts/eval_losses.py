"""First evidence loss: the flow from stage to stage, the codes with their cases, and the way from a loss to its cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd
import streamlit as st

from core.evaluation.ladder import LAYER, LossCode
from core.evaluation.view import loss_flow
from pages.parts import boxes, eval_address, eval_cases, eval_flow, look, result, tables
from pages.parts.eval_services import Run
from pages.parts.text import cell

MEANING: Final[Mapping[LossCode, str]] = {
    LossCode.EVAL_INCOMPLETE: "The labels cannot carry a verdict; the case stays out of every count.",
    LossCode.CORPUS_MISSING: "The document is not in the index.",
    LossCode.PARSE_LOSS: "The document is there, but no chunk holds the passage whole.",
    LossCode.ACL_FALSE_NEGATIVE: "A scope or category filter kept the document out.",
    LossCode.LEXICAL_MISS: "BM25 did not return it.",
    LossCode.SEMANTIC_MISS: "The dense branch did not return it.",
    LossCode.CANDIDATE_MISS: "No branch returned it within its depth.",
    LossCode.FUSION_DROP: "A branch had it, the fused list does not.",
    LossCode.RERANK_DROP: "The reranker moved it beyond what is kept.",
    LossCode.STALE_EVIDENCE: "An older revision took its place.",
    LossCode.EVIDENCE_DROP: "Dropped as a duplicate, by the document limit or by the return limit.",
    LossCode.RETRY_DROP: "The first attempt had it; the retry replaced that attempt.",
    LossCode.PACKING_DROP: "No room was left in the context pack.",
    LossCode.PROJECTION_DROP: "It is evidence, but the agent does not see it.",
    LossCode.EVIDENCE_INCOMPLETE: "Only a part of what is necessary arrived.",
    LossCode.SHOULD_REFUSE: "No answer exists, yet a level was given.",
}


def draw(run: Run, page: str) -> None:
    """The flow and, under it, the cases of the code that the address names."""
    flow = loss_flow(run.report.losses)
    counts = run.report.loss_counts
    if flow.aside:
        st.caption(
            f"{len(flow.aside)} cases stand aside: they were not run or their lookup failed, so nothing is known of them."
        )
    if not counts:
        boxes.empty("Nothing was lost", "Every case that could be judged kept its evidence to the end.")
        return
    chosen = eval_address.asked(eval_address.LOSS)
    key = f"{page}.flow"
    st.plotly_chart(
        eval_flow.flow_figure(flow, dark=look.is_dark(), chosen=chosen),
        key=key,
        config=look.CHART,
        on_select=lambda: _clicked(st.session_state.get(key), tuple(counts)),
        selection_mode="points",
        alt="Cases from stage to stage, and where each lost its evidence; the table below has the same numbers.",
    )
    codes = tuple(counts)
    table = f"{page}.losses"
    st.dataframe(
        loss_table(counts),
        key=table,
        hide_index=True,
        height=tables.height(len(codes), 260),
        on_select=lambda: _picked(st.session_state.get(table), codes),
        selection_mode="single-cell",
        column_config={"Code": st.column_config.TextColumn(width=190, pinned=True)},
    )
    if chosen not in counts:
        st.caption("Click a dot or a row to see the cases of a loss.")
        return
    st.subheader(f"{chosen}: {len(counts[chosen])} of {len(run.report.rows)} cases", anchor=False)
    eval_cases.table(run, counts[chosen], f"{page}.lost")
    eval_cases.open_case(run, counts[chosen], page)


def loss_table(counts: Mapping[str, tuple[str, ...]]) -> pd.DataFrame:
    """One row a code, in pipeline order."""
    codes = [LossCode(code) for code in counts]
    return pd.DataFrame(
        {
            "Code": [code.value for code in codes],
            "Lost at": [LAYER[code] for code in codes],
            "Cases": [len(counts[code.value]) for code in codes],
            "What it means": [MEANING[code] for code in codes],
            "Which": [cell(", ".join(counts[code.value])) for code in codes],
        }
    )


def _clicked(event: Any, codes: tuple[str, ...]) -> None:
    points = event["selection"]["points"] if event else []
    data = points[0].get("customdata") if points else None
    if data and data[0] in codes:
        eval_address.put(loss=str(data[0]), case=None)


def _picked(event: Any, codes: tuple[str, ...]) -> None:
    at = result.place(event)
    if at is not None and at < len(codes):
        eval_address.put(loss=codes[at], case=None)
