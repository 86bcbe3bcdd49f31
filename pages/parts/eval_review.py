"""The cases as people work on them: the review list with filters and keys to go on, and the drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import streamlit as st

from core.evaluation.cases import Case, CaseSet
from core.evaluation.collection import Collection, case_text
from core.evaluation.promote import Reviewed
from core.evaluation.view import neighbours, review_list
from pages.parts import boxes, eval_address, eval_drafts, eval_services, notice, result, services, tables
from pages.parts.access import User
from pages.parts.eval_services import Run
from pages.parts.numbers import NONE, count
from pages.parts.text import cell, literal, visible

if TYPE_CHECKING:
    from core.bootstrap import App

ALL: Final = "all"
STATUSES: Final = ("draft", "reviewed", "approved", "rejected")


def draw(app: App, user: User, run: Run | None, page: str) -> None:
    """Drafts first, since they wait for somebody; then the golden cases by review."""
    collection = Collection(eval_services.desk().places)
    eval_drafts.draw(app, collection, user, page)
    st.subheader("Golden cases", anchor=False)
    cases: CaseSet | None = None
    if eval_services.desk().places.cases.is_file():
        cases = services.call("The golden cases cannot be read", eval_services.desk().cases)
    else:
        boxes.empty("No golden cases yet", "Take a draft over, or write them by hand.")
    if cases is not None:
        _golden(cases, collection, user, run, page)


def _golden(cases: CaseSet, collection: Collection, user: User, run: Run | None, page: str) -> None:
    types = sorted({case.query_type for case in cases.cases if case.query_type})
    tags = sorted({tag for case in cases.cases for tag in case.tags})
    columns = st.columns([4, 2, 2, 2], vertical_alignment="bottom")
    with columns[0]:
        status = eval_address.segments("Review", page, eval_address.REVIEW, (ALL, *STATUSES))
    with columns[1]:
        kind = eval_address.pick("Query type", page, eval_address.TYPE, (ALL, *types))
    with columns[2]:
        tag = eval_address.pick("Tag", page, eval_address.TAG, (ALL, *tags))
    text = columns[3].text_input("Id or question holds", key=f"{page}.review.text", placeholder="any text")
    rows = review_list(
        cases.cases,
        run.report if run else None,
        status=None if status == ALL else status,
        tag=None if tag == ALL else tag,
        query_type=None if kind == ALL else kind,
        text=text.strip(),
    )
    if not rows:
        boxes.empty("No case fits these filters", "Take one away.")
        return
    ids = [row["case"] for row in rows]
    key = f"{page}.review.{len(ids)}.{ids[0]}"
    st.dataframe(
        review_table(rows),
        key=key,
        hide_index=True,
        placeholder=NONE,
        height=tables.height(len(rows), 400),
        on_select=lambda: _chosen(st.session_state.get(key), ids),
        selection_mode="single-cell",
        column_config={"Case": st.column_config.TextColumn(width=170, pinned=True)},
    )
    st.caption(f"{count(len(rows))} of {count(len(cases.cases))} cases, those that do not gate first.")
    wanted = eval_address.asked(eval_address.CASE)
    case = cases.by_id().get(wanted)
    if case is not None:
        _one(case, ids, collection, user, page)


def _chosen(event: Any, ids: Sequence[str]) -> None:
    at = result.place(event)
    if at is not None and at < len(ids):
        eval_address.put(case=ids[at])


def review_table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a case of ``review_list``."""
    outcome = {True: "passes", False: "fails", None: ""}
    return pd.DataFrame(
        {
            "Case": [cell(row["case"], 120) for row in rows],
            "Review": [row["review"] for row in rows],
            "Query": [cell(row["query"], 160) for row in rows],
            "Type": [cell(row["type"], 60) for row in rows],
            "Tags": [cell(", ".join(row["tags"])) for row in rows],
            "Who": [cell(row["who"], 80) for row in rows],
            "When": [cell(row["when"], 40) for row in rows],
            "Now": [outcome[row["passed"]] for row in rows],
            "First loss": [row["loss"] or "" for row in rows],
        }
    )


def _one(case: Case, ids: Sequence[str], collection: Collection, user: User, page: str) -> None:
    before, after = neighbours(ids, case.case_id)
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"**{literal(case.case_id, 130)}** · review {literal(case.review.status)}", width="stretch")
            for label, icon, there, shortcut in (
                ("Previous", ":material/chevron_left:", before, "Left"),
                ("Next", ":material/chevron_right:", after, "Right"),
            ):
                st.button(
                    label,
                    icon=icon,
                    key=f"{page}.review.{label.lower()}",
                    disabled=there is None,
                    on_click=eval_address.put,
                    kwargs={"case": there},
                    shortcut=shortcut,
                )
        st.text(visible(case.query, 2_000))
        st.code(visible(case_text(case), 20_000), language=None, wrap_lines=True, height=320)
        if not user.is_operator:
            st.caption("Reviewing needs the operator role.")
            return
        with st.container(horizontal=True, gap="small"):
            for status in STATUSES:
                st.button(
                    {"draft": "Back to draft", "reviewed": "Reviewed", "approved": "Approved", "rejected": "Rejected"}[
                        status
                    ],
                    key=f"{page}.review.as.{status}",
                    disabled=status == case.review.status,
                    on_click=_mark,
                    args=(collection, case.case_id, status, user, page),
                )


def _mark(collection: Collection, case_id: str, status: str, user: User, page: str) -> None:
    def work() -> None:
        eval_drafts.allow(user)
        collection.review(case_id, Reviewed(user.name, status))

    notice.act(page, f"Marked as {status}", "Not marked", work)
