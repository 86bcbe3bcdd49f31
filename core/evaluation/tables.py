"""Untrusted text in tables: as text in Markdown, as text and no formula in CSV (case 121)."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

BOM: Final = "\ufeff"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~$&:\-])")


def markdown_cell(value: Any) -> str:
    """A value as one line of literal text: no markup, no link, no table border, no HTML."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return str(value)
    text = "".join(" " if unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} else char for char in str(value))
    text = _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
    return text.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """The lines of a table; cells are escaped, header words are ours."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(markdown_cell(cell) for cell in row) + " |" for row in rows]
    return lines


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """RFC 4180 with a byte order mark, so that spreadsheets read Chinese; text that a spreadsheet would run as a
    formula gets an apostrophe in front; real numbers stay numbers."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerow([csv_cell(name) for name in header])
    writer.writerows([csv_cell(cell) for cell in row] for row in rows)
    return BOM + out.getvalue()


def csv_cell(value: Any) -> Any:
    """A cell as written: numbers as they are, null as nothing, text made harmless."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    text = str(value).replace("\x00", "")
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(_FORMULA) else text
