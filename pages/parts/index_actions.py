"""What an operator can do to the index: each thing a form whose press starts a job, or says who holds the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import BadInput
from core.knowledge.rebuild.values import IndexStatus, Kind
from pages.parts import boxes, guarded, index_state, job, notice, services
from pages.parts.access import User
from pages.parts.guarded import Confirmed, Guard
from pages.parts.numbers import count
from pages.parts.text import one_line

if TYPE_CHECKING:
    from core.bootstrap import App

REBUILD: Final = Guard(
    "rebuild", "REBUILD", "Rebuild the index", "The rebuild has begun", "Not rebuilt", ":material/build:"
)
ROLLBACK: Final = Guard(
    "rollback", "ROLLBACK", "Roll back", "The roll-back has begun", "Not rolled back", ":material/undo:"
)
SWITCH: Final = Guard(
    "switch", "SWITCH", "Activate it", "The switch has begun", "Not switched", ":material/swap_horiz:"
)

CHOICES: Final = ("Rebuild", "Roll back", "Activate a held one", "Add a document", "Remove a document")
OPTIONS: Final = {
    "hold": ("Hold it after its proof", "It stays beside the active one for evaluation until it is activated here."),
    "allow_shrink": ("Allow far fewer documents", "Otherwise a rebuild that loses half of the documents is refused."),
    "skip_gate": ("Skip the golden gate", "Otherwise a reviewed case that only the new generation fails refuses it."),
}


def draw(app: App, user: User, status: IndexStatus, page: str, *, busy: bool) -> None:
    """The choice of what to do and its form; for a viewer the reason why there is none."""
    st.subheader("Change the index", anchor=False)
    if not user.is_operator:
        boxes.denied(
            f"{one_line(user.name, 80)} may look at the index, but not change it.",
            "Ask for the operator role: auth.operators in settings.toml.",
        )
        return
    chosen = st.segmented_control(
        "What to do", CHOICES, default=CHOICES[0], required=True, key=f"{page}.what", label_visibility="collapsed"
    )
    if busy:
        st.caption("A job is under way: wait for it or cancel it above.")
    _FORMS[chosen or CHOICES[0]](app, user, status, page, busy)


def _rebuild(app: App, user: User, status: IndexStatus, page: str, busy: bool) -> None:
    st.caption(
        "A new generation is built beside the one in use, proven, and switched to in one step. "
        "Chunks that did not change are not embedded again. A crash or a cancel leaves the old one serving."
    )

    def start(typed: Confirmed) -> object:
        return app.rebuild.start(Kind.REBUILD, typed.word, who=user.name, why=typed.why, **typed.options)

    options = OPTIONS if app.settings.knowledge.golden_gate else {k: v for k, v in OPTIONS.items() if k != "skip_gate"}
    guarded.form(REBUILD, user, page, start, busy=busy, options=options)
    del status


def _rollback(app: App, user: User, status: IndexStatus, page: str, busy: bool) -> None:
    if status.previous is None:
        boxes.empty("Nothing to roll back to", "The generation before the active one is kept once there are two.")
        return
    st.markdown(f"Back to generation {index_state.generation_words(status.previous, app.settings.audit.timezone)}.")
    st.caption("At once: its collection is still there. The files on disk are not touched.")

    def start(typed: Confirmed) -> object:
        return app.rebuild.start(Kind.ROLLBACK, typed.word, who=user.name, why=typed.why)

    guarded.form(ROLLBACK, user, page, start, busy=busy)


def _switch(app: App, user: User, status: IndexStatus, page: str, busy: bool) -> None:
    held = {generation.number: generation for generation in status.held}
    if not held:
        boxes.empty("No generation is held", "Rebuild with “Hold it after its proof” to evaluate one before it serves.")
        return
    number = st.selectbox(
        "Held generation",
        list(held),
        format_func=lambda n: index_state.generation_words(held[n], app.settings.audit.timezone).replace("`", ""),
        key=f"{page}.held",
        disabled=busy,
    )

    def start(typed: Confirmed) -> object:
        return app.rebuild.start(Kind.SWITCH, typed.word, who=user.name, why=typed.why, generation=number)

    guarded.form(SWITCH, user, page, start, busy=busy)


def _upload(app: App, user: User, status: IndexStatus, page: str, busy: bool) -> None:
    del status
    st.caption(
        "Markdown files, with or without front matter. They are kept with the uploads, win over source files of the "
        "same path and survive every rebuild. The source folder is never written to."
    )
    key = f"{page}.upload"
    with st.form(f"{key}.form", clear_on_submit=True, border=False):
        left, right = st.columns(2, vertical_alignment="bottom")
        left.file_uploader("Markdown files", type=["md"], accept_multiple_files=True, key=f"{key}.files", disabled=busy)
        right.text_input(
            "Folder",
            placeholder="redis",
            help="redis and pool.md make the document redis/pool. Empty: the file's own name.",
            key=f"{key}.folder",
            disabled=busy,
            max_chars=400,
        )
        right.text_input("Why (kept with the run)", key=f"{key}.why", disabled=busy, max_chars=500)
        st.form_submit_button(
            "Add or replace",
            type="primary",
            icon=":material/upload_file:",
            key=f"{key}.press",
            disabled=busy,
            on_click=_uploaded,
            args=(app, user, page),
        )


def _uploaded(app: App, user: User, page: str) -> None:
    key = f"{page}.upload"

    def work() -> object:
        job.allow(user)
        folder = str(st.session_state.get(f"{key}.folder") or "").strip().strip("/")
        contents: dict[str, bytes] = {}
        for file in st.session_state.get(f"{key}.files") or ():
            name = f"{folder}/{file.name}" if folder else file.name
            if name in contents:
                raise BadInput(f"two of the files are called {name}: add them one after the other, or rename one")
            contents[name] = file.getvalue()
        if not contents:
            raise BadInput("no file was chosen: choose Markdown files")
        why = str(st.session_state.get(f"{key}.why") or "").strip()
        return app.rebuild.start(Kind.UPLOAD, who=user.name, why=why, contents=contents)

    notice.act(page, "The documents are on their way into the index", "Not added", work)


def _remove(app: App, user: User, status: IndexStatus, page: str, busy: bool) -> None:
    del status
    documents = services.call("The documents cannot be listed", app.documents.all)
    if documents is None:
        return
    if not documents:
        boxes.empty("No document is indexed", "There is nothing to remove.")
        return
    titles = {document.doc_id: document.title for document in documents}
    st.caption(
        "Its chunks leave the index and stay away in later rebuilds, also when its file is still in the source folder. "
        "Uploading it again brings it back."
    )
    key = f"{page}.remove"
    with st.form(f"{key}.form", clear_on_submit=True, border=False):
        left, right = st.columns(2)
        left.selectbox(
            "Document",
            list(titles),
            index=None,
            placeholder=f"one of {count(len(titles))}: type a part of its name or title",
            format_func=lambda doc_id: one_line(f"{doc_id} — {titles.get(doc_id, '')}", 120),
            key=f"{key}.doc",
            disabled=busy,
        )
        right.text_input("Why (kept with the run)", key=f"{key}.why", disabled=busy, max_chars=500)
        st.form_submit_button(
            "Remove the document",
            type="primary",
            icon=":material/delete:",
            key=f"{key}.press",
            disabled=busy,
            on_click=_removed,
            args=(app, user, page),
        )


def _removed(app: App, user: User, page: str) -> None:
    key = f"{page}.remove"

    def work() -> object:
        job.allow(user)
        doc_id = st.session_state.get(f"{key}.doc")
        if not doc_id:
            raise BadInput("no document was chosen: choose the one to remove")
        why = str(st.session_state.get(f"{key}.why") or "").strip()
        return app.rebuild.start(Kind.REMOVE, who=user.name, why=why, doc_id=doc_id)

    notice.act(page, "The document is on its way out of the index", "Not removed", work)


_FORMS: Final = dict(zip(CHOICES, (_rebuild, _rollback, _switch, _upload, _remove), strict=True))
