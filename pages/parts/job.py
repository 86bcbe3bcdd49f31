"""The work on the index that is under way, read from durable state again and again: the same in every browser, and after
a reload. The job owns the work; this only looks, and can ask it to stop."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import NotAllowed, RagError
from core.stores import RebuildRun
from pages.parts import boxes, notice, pace, runs
from pages.parts.access import User
from pages.parts.numbers import moment
from pages.parts.text import literal, visible

if TYPE_CHECKING:
    from core.bootstrap import App

BUSY_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 4.0
LOG_TAIL: Final = 8


def running(app: App) -> RebuildRun | RagError | None:
    """The run under way, None, or why that cannot be told."""
    try:
        return app.rebuild.running()
    except RagError as exc:
        return exc


def watch(app: App, user: User, seen: RebuildRun | RagError | None, page: str) -> None:
    """The box of the job that was ``seen`` at the top of this page run. It polls by itself, faster while there is one;
    when a job begins or ends, wherever that was, the whole page is drawn anew."""
    box = st.fragment(_box, run_every=BUSY_SECONDS if seen else IDLE_SECONDS)
    box(app, user, _identity(seen), page)


def _identity(seen: RebuildRun | RagError | None) -> str:
    return seen.run_id if isinstance(seen, RebuildRun) else type(seen).__name__


def _box(app: App, user: User, known: str, page: str) -> None:
    seen = running(app)
    if _identity(seen) != known:
        st.rerun()
    if isinstance(seen, RagError):
        boxes.failed("The state of the work cannot be read", seen)
    elif seen is not None:
        _draw(app, user, seen, page)


def _draw(app: App, user: User, run: RebuildRun, page: str) -> None:
    zone, found = app.settings.audit.timezone, pace.pace(run, datetime.now(UTC))
    with st.container(border=True):
        left, right = st.columns([5, 1], vertical_alignment="center")
        with left:
            st.markdown(f"**{literal(run.kind)} under way** · {literal(run.state)} {literal(run.stage)}")
            st.caption(
                f"by {literal(run.who)} on {literal(run.holder, 120)} since {moment(run.started_at, zone)}"
                + (f" · why: {literal(run.why)}" if run.why else "")
            )
        asked = run.cancel_requested
        right.button(
            "Cancelling…" if asked else "Cancel",
            icon=":material/cancel:",
            key=f"{page}.cancel",
            disabled=asked or not user.is_operator,
            on_click=_cancel,
            args=(app, user, run.run_id, page),
            help="Stops before the next step and removes what was built. The index in use is not touched.",
            width="stretch",
        )
        st.progress(found.fraction or 0.0, text=pace.words(run, datetime.now(UTC)))
        if run.message:
            st.text(visible(run.message, 400))
        if asked:
            st.text(visible(f"{run.cancelled_by or 'Somebody'} asked to cancel it.", 300))
        if run.log:
            st.code(runs.log_text(run, zone, LOG_TAIL), language=None)


def _cancel(app: App, user: User, run_id: str, page: str) -> None:
    def work() -> None:
        allow(user)
        app.rebuild.cancel(run_id, who=user.name)

    notice.act(page, "Asked the job to stop", "Not cancelled", work)


def allow(user: User) -> None:
    """Raises NotAllowed for anyone but an operator: the last line of defence behind buttons that are not drawn."""
    if not user.is_operator:
        raise NotAllowed("changing the index needs the operator role: auth.operators in settings.toml")
