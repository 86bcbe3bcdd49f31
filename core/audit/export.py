"""The record as a file: CSV for spreadsheets and JSON lines for programs, streamed in the order of the list.

A spreadsheet runs text that begins like a formula; such text is written so that it stays text, numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from core.audit.params import written, zone_info
from core.audit.query import AuditFilter, AuditLog, AuditRecordView, AuditRow, shown
from core.codec import to_json
from core.evaluation.tables import BOM, csv_cell

SHOWN_AT: Final = "shown_at"
COLUMNS: Final = (*(f.name for f in fields(AuditRow)), SHOWN_AT)
"""Of the CSV: ``created_at`` in UTC, ``shown_at`` the same moment in the named zone."""
_JSON: Final = frozenset({"agent_result", "raw_result", "details"})
_INTERNAL: Final = frozenset({"search_text"})


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"

    @property
    def mime(self) -> str:
        return "text/csv; charset=utf-8" if self is Format.CSV else "application/x-ndjson"


def export(log: AuditLog, where: AuditFilter, kind: Format, *, zone: str = "UTC") -> Iterator[str]:
    """Text of the file piece by piece, UTF-8 when encoded. Raises StoreUnavailable, BadInput for an unknown zone."""
    return csv_lines(log.export(where), zone=zone) if kind is Format.CSV else json_lines(log.export_records(where))


def csv_lines(rows: Iterable[AuditRow], *, zone: str = "UTC") -> Iterator[str]:
    """RFC 4180, text quoted, with a byte order mark, so that spreadsheets read Chinese; a header even without rows."""
    local, out = zone_info(zone), io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")

    def line(cells: Iterable[Any]) -> str:
        writer.writerow([csv_cell(cell) for cell in cells])
        text = out.getvalue()
        out.seek(0)
        out.truncate()
        return text

    yield BOM + line(COLUMNS)
    for row in rows:
        values = [_cell(getattr(row, name)) for name in COLUMNS[:-1]]
        moment = row.created_at.astimezone(local)
        yield line([*values, f"{moment:%Y-%m-%d %H:%M:%S.%f} {zone}"])


def json_lines(records: Iterable[AuditRecordView]) -> Iterator[str]:
    """One record a line with every column as stored; stored JSON as data."""
    for record in records:
        data = {
            name: record.json(name) if name in _JSON else _cell(value)
            for name, value in record.columns.items()
            if name not in _INTERNAL
        }
        yield to_json(data) + "\n"


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return written(value)
    return None if isinstance(value, float) and not math.isfinite(value) else shown(value)
