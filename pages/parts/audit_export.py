"""The records of the filter as a file, made when its button is pressed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.audit.export import Format, export
from core.audit.query import AuditFilter
from core.errors import BadInput, RagError

if TYPE_CHECKING:
    from core.bootstrap import App

MOST_BYTES: Final = 100_000_000
"""Of one file: the server holds it whole until the browser has fetched it."""
_LABELS: Final = {
    Format.CSV: ("Export CSV", "One line a record, for spreadsheets: times in UTC and in the named zone, no formulas."),
    Format.JSONL: ("Export JSONL", "Every record whole, as it is stored: one JSON object a line."),
}


def draw(app: App, where: AuditFilter, page: str, zone: str) -> None:
    """A button a format, for all records of ``where``, not only the page that is shown."""
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for kind, (label, hint) in _LABELS.items():
            st.download_button(
                label,
                data=partial(content, app, where, kind, zone),
                file_name=f"audit.{kind.value}",
                mime=kind.mime,
                icon=":material/download:",
                key=f"{page}.export.{kind.value}",
                help=hint,
                on_click="ignore",
            )
        st.caption("All records of these filters, in the order of the list.")


def content(app: App, where: AuditFilter, kind: Format, zone: str, most: int = MOST_BYTES) -> bytes:
    """The whole file. Raises BadInput when it is larger than ``most`` bytes; nothing is ever cut off silently. What it
    raises is shown in the browser, so that of a foreign error only the class is told."""
    pieces, size = [], 0
    try:
        for piece in export(app.audit_log, where, kind, zone=zone):
            data = piece.encode("utf-8", "replace")
            size += len(data)
            if size > most:
                raise BadInput(f"the file would be larger than {most:,} bytes: narrow the filters, by time first")
            pieces.append(data)
    except RagError:
        raise
    except Exception as exc:
        raise RuntimeError(f"the export failed: {type(exc).__name__}") from exc
    return b"".join(pieces)
