"""Drafts: lookups that were promoted, until a person fills in what should happen and takes them over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.errors import NotAllowed
from core.evaluation.cases import Case, CaseSet
from core.evaluation.collection import Collection, case_text
from core.evaluation.promote import Reviewed
from pages.parts import eval_address, eval_promote, notice, services
from pages.parts.access import User
from pages.parts.text import one_line, visible

if TYPE_CHECKING:
    from core.bootstrap import App


def draw(app: App, collection: Collection, user: User, page: str) -> None:
    """The way to a new draft, and the drafts that wait."""
    _promotion(app, user, page)
    drafts: CaseSet | None = services.call("The drafts cannot be read", collection.drafts)
    if drafts is not None:
        _drafts(drafts, collection, user, page)


def _promotion(app: App, user: User, page: str) -> None:
    if not user.is_operator:
        return
    key = f"{page}.promote.trace"
    left, right = st.columns([4, 1], vertical_alignment="bottom")
    left.text_input(
        "Make a draft case of a console lookup (its trace id)", key=key, placeholder="from the Query or the Trace page"
    )
    right.button(
        "Make a draft",
        icon=":material/playlist_add:",
        key=f"{page}.promote.press",
        on_click=_promoted,
        args=(app, user, page, key),
        width="stretch",
    )


def _promoted(app: App, user: User, page: str, key: str) -> None:
    trace_id = str(st.session_state.get(key) or "").strip()
    found = notice.act(page, "Found", "No draft was made", lambda: services.view(app, trace_id))
    if found is not None:
        eval_promote.pressed(user, found.result, page)
        st.session_state[key] = ""


def _drafts(drafts: CaseSet, collection: Collection, user: User, page: str) -> None:
    st.subheader("Drafts", anchor=False, help="Promoted lookups. They gate nothing and stand in no comparison.")
    if not drafts.cases:
        st.caption("None. An operator makes one of any lookup, here or on the Query and Trace pages.")
        return
    by_id = drafts.by_id()
    case_id = eval_address.pick(
        "Draft",
        page,
        eval_address.DRAFT,
        list(by_id),
        words=lambda name: one_line(f"{name} — {by_id[name].query if name in by_id else ''}", 140),
    )
    _draft(by_id[case_id], collection, user, page)


def _draft(case: Case, collection: Collection, user: User, page: str) -> None:
    st.text(visible(case.query, 2_000))
    st.text(visible(case.notes, 2_000))
    key = f"{page}.draft.text.{case.case_id}"
    if key not in st.session_state:
        st.session_state[key] = case_text(case)
    st.text_area(
        "The case as JSON: fill in what should happen",
        key=key,
        height=300,
        disabled=not user.is_operator,
        help="expectedDocIds, expectedKeywords, goldSources, mustNotDocIds, answerability, queryType, tags …",
    )
    if not user.is_operator:
        st.caption("Editing a draft needs the operator role.")
        return
    name = case.case_id
    with st.container(horizontal=True, gap="small"):
        _button("Save the draft", "save", page, lambda: _edit(collection, name, key, user, page))
        _button("Take over as reviewed", "admit", page, lambda: _admit(collection, name, user, page))
        _button("Discard", "discard", page, lambda: _discard(collection, name, user, page))


def _button(label: str, name: str, page: str, work: Callable[[], Any]) -> None:
    icons = {"save": ":material/save:", "admit": ":material/verified:", "discard": ":material/delete:"}
    st.button(label, icon=icons[name], key=f"{page}.draft.{name}", on_click=work)


def _edit(collection: Collection, case_id: str, key: str, user: User, page: str) -> None:
    def work() -> Case:
        allow(user)
        return collection.edit(case_id, str(st.session_state.get(key) or ""))

    case = notice.act(page, "The draft is saved", "Not saved", work)
    if case is not None:
        st.session_state.pop(key, None)
        eval_address.put(draft=case.case_id)


def _admit(collection: Collection, case_id: str, user: User, page: str) -> None:
    def work() -> None:
        allow(user)
        collection.admit(case_id, Reviewed(user.name, "reviewed"))

    notice.act(page, "It is a golden case now: take a snapshot, then accept a new baseline", "Not taken over", work)


def _discard(collection: Collection, case_id: str, user: User, page: str) -> None:
    def work() -> None:
        allow(user)
        collection.discard(case_id)

    notice.act(page, "The draft is gone", "Not discarded", work)


def allow(user: User) -> None:
    """Raises NotAllowed for anyone but an operator: the last line of defence behind buttons that are not drawn."""
    if not user.is_operator:
        raise NotAllowed("working on cases needs the operator role: auth.operators in settings.toml")
