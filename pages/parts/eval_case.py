"""One case: what should have happened, what did, where its evidence was lost, and the whole frozen lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from core.codec import from_data
from core.evaluation.cases import Case
from core.evaluation.fixtures import Fixture
from core.evaluation.gold import relevance
from core.evaluation.promote import case_data
from core.evaluation.report import CaseRow, to_json
from core.evaluation.view import ladder_rows, neighbours
from core.model import LookupResult
from pages.parts import boxes, eval_address, result, services
from pages.parts.eval_services import CaseView, Run
from pages.parts.numbers import NONE, count
from pages.parts.shown import View
from pages.parts.text import cell, literal, visible

_RANKS: Final = ("bm25", "dense", "fused", "reranked", "evidence", "context", "agent", "deep bm25", "deep dense")


def draw(run: Run, case_id: str, ids: Sequence[str], page: str) -> None:
    """The case ``case_id``; ``ids`` are the neighbours that the list above shows."""
    with st.container(border=True):
        title, ways = st.columns([5, 4], vertical_alignment="center")
        with ways:
            _ways(case_id, ids, page)
        found: CaseView | None = services.call("This case cannot be shown", run.case, case_id)
        if found is None:
            return
        with title:
            st.markdown(f"**{literal(case_id, 130)}** · {outcome(found.row)}")
        _judged(found)
        _ladder(found, page)
        _observed(run, found.case, page)
        with st.expander("The case as written", icon=":material/description:"):
            st.code(visible(to_json(case_data(found.case)), 20_000), language=None, wrap_lines=True)


def outcome(row: CaseRow) -> str:
    """What became of a case, in a word or two: never one state for another."""
    if row.passed is None:
        return {"NOT_RUN": "not run", "UNJUDGED": "unjudged"}.get(row.status.value, row.status.value.lower())
    if row.passed:
        return "passes"
    told = "lookup failed" if row.status.value == "FAILED" else "fails"
    return told.upper() if row.gates else f"{told} (draft)"


def _ways(case_id: str, ids: Sequence[str], page: str) -> None:
    before, after = neighbours(ids, case_id)
    place = f"{list(ids).index(case_id) + 1} of {len(ids)}" if case_id in ids else "not in the list above"
    with st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center", gap="small"):
        st.caption(place, width="content")
        steps: tuple[tuple[str, str, str | None, str], ...] = (
            ("Previous", ":material/chevron_left:", before, "Left"),
            ("Next", ":material/chevron_right:", after, "Right"),
        )
        for label, icon, there, shortcut in steps:
            st.button(
                label,
                icon=icon,
                key=f"{page}.case.{label.lower()}",
                disabled=there is None,
                on_click=_go,
                args=(there or "",),
                shortcut=shortcut,
            )
        st.button("Close", icon=":material/close:", key=f"{page}.case.close", on_click=_go, args=("",))


def _go(case_id: str) -> None:
    eval_address.put(case=case_id)


def _judged(found: CaseView) -> None:
    case, verdict, loss = found.case, found.verdict, found.loss
    left, right = st.columns(2, gap="large")
    with left:
        _lines("Question", [case.query])
        _lines("Reference answer", [case.reference_answer])
        _lines("Scenario", [case.scenario])
        _lines("Notes", [case.notes])
        review = case.review
        st.caption(
            f"{literal(case.query_type or 'no type')} · tags {literal(', '.join(case.tags))} · "
            f"scope {literal(case.kb_scope)} · review {literal(review.status)} {literal(review.who)} "
            f"{literal(review.when)}"
        )
    with right:
        if verdict.reason:
            st.text(visible(verdict.reason, 600))
        for failure in verdict.failures:
            with st.container(gap=None):
                st.markdown(f":red[✗] {literal(failure.field)}")
                st.text(visible(failure.text, 600))
        if verdict.passed:
            st.markdown(":green[✓] Every expectation is met.")
        _lines("Observed, no gate", [f"{seen.field}: {seen.text}" for seen in verdict.observations])
        if found.change is not None:
            _lines(f"Since the baseline: {found.change.change.value.replace('_', ' ')}", [found.change.text])
        lost = [] if loss.primary is None else [f"{loss.primary.code.value}: {loss.primary.text}"]
        _lines("First evidence loss", lost or ([loss.reason] if loss.reason else ["Nothing was lost."]))
        _lines("Contributing", [f"{other.code.value}: {other.text}" for other in loss.contributing])
        _lines("What a person must add", loss.missing)


def _lines(label: str, texts: Iterable[str]) -> None:
    told = [text for text in texts if text]
    if told:
        with st.container(gap=None):
            st.caption(label)
            for text in told:
                st.text(visible(text, 1_500))


def _ladder(found: CaseView, page: str) -> None:
    rows = ladder_rows(found.loss)
    if not rows:
        return
    st.caption("Gold documents: the best rank at each stage, and where each was lost")
    st.dataframe(
        ladder_table(found),
        hide_index=True,
        placeholder=NONE,
        key=f"{page}.case.ladder",
        column_config={"Document": st.column_config.TextColumn(width=300)},
    )


def ladder_table(found: CaseView) -> pd.DataFrame:
    """One row a gold document. Columns that no document has a rank in are left out, but for the way to the agent."""
    rows, grades = ladder_rows(found.loss), relevance(found.case)
    data: dict[str, Any] = {
        "Document": [cell(row["document"], 120) for row in rows],
        "Grade": [grades.get(row["document"], 0) for row in rows],
    }
    for name in _RANKS:
        ranks = [row[name] for row in rows]
        if name in {"fused", "evidence", "agent"} or any(rank is not None for rank in ranks):
            data[_label(name)] = pd.array(ranks, dtype="Int64")
    data["Lost"] = [row["lost"] or "" for row in rows]
    data["Why"] = [cell(row["why"] or "") for row in rows]
    return pd.DataFrame(data)


def _label(name: str) -> str:
    return (name[0].upper() + name[1:]).replace("Bm25", "BM25").replace("bm25", "BM25")


def _observed(run: Run, case: Case, page: str) -> None:
    fixture: Fixture | None = services.call("The lookup of this case cannot be read", run.lookup, case.case_id)
    if fixture is None or fixture.observed is None:
        return
    st.caption(
        f"Evidence of the {'live' if run.live else 'frozen'} lookup, {literal(fixture.retrieved_at or 'at an unknown time')}: "
        f"{count(len(fixture.observed.evidence))} pieces"
    )
    st.dataframe(evidence_table(case, fixture), hide_index=True, placeholder=NONE, key=f"{page}.case.evidence")
    box = st.expander(
        "The whole lookup, stage by stage",
        icon=":material/stairs:",
        on_change="rerun",
        key=f"{page}.case.lookup.{case.case_id}",
    )
    if box.open:
        with box:
            _whole(fixture, page)


def _whole(fixture: Fixture, page: str) -> None:
    try:
        found = from_data(LookupResult, fixture.lookup_result)
    except ValueError:
        boxes.empty(
            "Not recorded whole", "The fixture is of the older form: take the snapshot again to see every rank."
        )
        return
    texts: dict[str, str | None] = {piece.evidence_key: piece.content for piece in found.evidence}
    result.ranks(View(found, texts=texts), f"{page}.case")


def evidence_table(case: Case, fixture: Fixture) -> pd.DataFrame:
    """What the lookup returned, in its order, with the label of each piece: a grade, forbidden, or unjudged."""
    seen = fixture.observed
    pieces = seen.evidence if seen else ()
    grades = relevance(case)
    forbidden = {*case.must_not_doc_ids}
    packed = None if seen is None or seen.packed is None else set(seen.packed)
    agent = None if seen is None or seen.agent is None else {key for key, _ in seen.agent}

    def label(doc_id: str, source: str) -> str:
        if doc_id in forbidden or source in case.must_not_sources:
            return "forbidden"
        return f"grade {grades[doc_id]}" if doc_id in grades else "unjudged"

    def there(keys: set[str] | None) -> Callable[[str], str]:
        return lambda key: NONE if keys is None else "yes" if key in keys else "no"

    return pd.DataFrame(
        {
            "Rank": range(1, len(pieces) + 1),
            "Chunk": [cell(piece.key, 120) for piece in pieces],
            "Label": [label(piece.doc_id, piece.source) for piece in pieces],
            "In the pack": [there(packed)(piece.key) for piece in pieces],
            "Seen by the agent": [there(agent)(piece.key) for piece in pieces],
            "Title": [cell(piece.title, 120) for piece in pieces],
            "Breadcrumb": [cell(piece.breadcrumb, 120) for piece in pieces],
            "Text": [cell(piece.content) for piece in pieces],
        }
    )
