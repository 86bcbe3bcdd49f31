"""Whether the record is whole: what waits in the outbox, and the chain of hashes over all rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pandas as pd
import streamlit as st

from core.audit.chain import Head
from core.audit.verify import ChainReport, Finding, verify
from core.errors import RagError
from core.wording import counted
from pages.parts import audit_list, boxes, result, services, tables
from pages.parts.numbers import count, moment
from pages.parts.text import cell, literal

if TYPE_CHECKING:
    from core.bootstrap import App

KEPT_SECONDS: Final = 3600


def outbox(app: App) -> None:
    """Records that are not in the database: waiting for it, set aside, or kept nowhere. Nothing where all is well."""
    try:
        lines = outbox_lines(app.audit.waiting(), len(app.audit.aside()), app.audit.failures)
    except (RagError, OSError):
        st.error("The outbox cannot be read: `python -m core doctor` says why", icon=":material/outbox:")
        return
    if not lines:
        return
    if app.audit.failures:
        st.error("\n\n".join(lines), icon=":material/outbox:")
    else:
        st.warning("\n\n".join(lines), icon=":material/outbox:")
    if app.audit.away:
        st.caption(f"The database does not take records now: {literal(app.audit.away, 160)}")


def outbox_lines(waiting: int, aside: int, failures: int) -> list[str]:
    """One sentence for each number that is not 0."""
    told = (
        (waiting, "waits", "wait", "in the outbox for the database"),
        (aside, "was", "were", "set aside as damaged or refused: look into the outbox"),
        (failures, "was", "were", "kept nowhere by this process: disk and database failed"),
    )
    return [
        f"{counted(number, 'record')} {one if number == 1 else many} {where}"
        for number, one, many, where in told
        if number
    ]


@st.cache_data(ttl=KEPT_SECONDS, max_entries=16, show_spinner="Reading every record, trace and event…")
def _verified(_app: App, pressed_at: str) -> ChainReport:
    """One reading a press: other clicks on the page keep what is shown."""
    del pressed_at
    return verify(_app.ledger)


def draw(app: App, page: str, zone: str) -> None:
    """The button of the proof and what it found."""
    st.caption(
        "Each row holds a hash over itself and the row before it. Reading them all shows every row that was changed, "
        "removed or inserted, the last one included. Pruned rows were removed on purpose, as a record says. The filters do not apply here."
    )
    st.button(
        "Verify the chain",
        type="primary",
        icon=":material/verified:",
        key=f"{page}.verify",
        on_click=_pressed,
        args=(page,),
    )
    pressed_at = st.session_state.get(f"{page}.verify.at")
    if not pressed_at:
        boxes.empty("Not verified yet", "Also as `python -m core audit verify`, which ends with 1 on a broken chain.")
        return
    report: ChainReport | None = services.call("The chain cannot be verified", _verified, app, pressed_at)
    if report is not None:
        _report(report, page, f"As of {moment(pressed_at, zone)}")


def _pressed(page: str) -> None:
    st.session_state[f"{page}.verify.at"] = datetime.now(UTC).isoformat()


def _report(report: ChainReport, page: str, when: str) -> None:
    words = f"{counted(report.rows, 'row')} read, {count(report.pruned)} pruned"
    if report.ok:
        st.success(f"The record is whole: {words}", icon=":material/verified:")
    else:
        said = f"The record is not as it was written: {counted(report.count, 'finding')}, {words}"
        st.error(said, icon=":material/gpp_bad:")
    st.caption(f"{when} · {key_words(report.keyed, report.unkeyed)}")
    if report.findings:
        if report.count > len(report.findings):
            st.caption(f"The first {count(len(report.findings))} are listed.")
        key = f"{page}.findings"
        st.dataframe(
            finding_table(report.findings),
            key=key,
            hide_index=True,
            placeholder="–",
            height=tables.height(len(report.findings), 400),
            on_select=lambda: _open(st.session_state.get(key), report.findings),
            selection_mode="single-cell",
        )
        st.caption("Choose a cell to open that record.")
    st.caption(
        "Heads of the chains: noted elsewhere, they prove later that the database was not set back to an older copy."
    )
    st.dataframe(head_table(report.heads), hide_index=True, key=f"{page}.heads")


def key_words(keyed: bool, unkeyed: int = 0) -> str:
    """What the kind of hashes can and cannot show. ``unkeyed``: rows from before there was a key."""
    if keyed:
        words = "Hashes are keyed (audit.hmac_key): nobody without the key can write a row that fits."
        return f"{words} {counted(unkeyed, 'row')} from before it have no key." if unkeyed else words
    return (
        "Hashes have no key: whoever can write to the database can also compute a whole new chain. "
        "Set audit.hmac_key to prevent that."
    )


def finding_table(findings: Sequence[Finding]) -> pd.DataFrame:
    """One row a finding. What belongs to no row has no row numbers."""
    return pd.DataFrame(
        {
            "Kind": [finding.kind.value for finding in findings],
            "First row": pd.array([finding.first_seq or None for finding in findings], dtype="Int64"),
            "Last row": pd.array([finding.last_seq or None for finding in findings], dtype="Int64"),
            "What": [cell(finding.what) for finding in findings],
            "Writer": [cell(finding.writer, 80) for finding in findings],
            "Record": [cell(finding.invocation_id or "", 80) for finding in findings],
        }
    )


def _open(event: object, findings: Sequence[Finding]) -> None:
    at = result.place(event)
    if at is not None and at < len(findings) and findings[at].writer and findings[at].invocation_id:
        st.query_params.from_dict({audit_list.RECORD: str(findings[at].invocation_id)})


def head_table(heads: Sequence[Head]) -> pd.DataFrame:
    """One row a chain."""
    return pd.DataFrame(
        {
            "Writer": [cell(head.writer, 80) for head in heads],
            "Last row": pd.array([head.seq for head in heads], dtype="Int64"),
            "Hash": [head.row_hash for head in heads],
            "Key": [head.key_id or "none" for head in heads],
        }
    )
