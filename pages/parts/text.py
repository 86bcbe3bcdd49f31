"""Text that came from a document, a query or an error, made safe for each place it is drawn in.

Such text is shown, never interpreted: no HTML, Markdown, formula, link, emoji code or remote image, and no invisible
character that disguises it. Draw it with ``st.text`` or ``st.code`` over ``visible``; where Streamlit insists on
Markdown (labels, captions, error boxes) use ``literal``; in Plotly use ``in_figure``; in a table use ``cell``.
"""

from __future__ import annotations

import html
import unicodedata

CELL_CHARS = 240
"""Longest text of a table cell; longer ones are cut with a mark, since a page must not carry megabytes."""

_JOINER = "\u200d"
_FORMULA_HEADS = ("=", "+", "-", "@", "\t", "\r")


def visible(text: object, limit: int | None = None) -> str:
    """``text`` with controls, bidirectional marks, zero-width characters and lone surrogates written as ``⟨U+202E⟩``.

    Line feeds and tabs stay, and so does a joiner inside an emoji sequence. Over ``limit`` characters the rest is
    replaced by a mark that says how many were left out.
    """
    raw = str(text)
    left_out = 0 if limit is None else max(0, len(raw) - limit)
    shown = raw if not left_out else raw[:limit]
    parts = [_shown(char, shown, at) for at, char in enumerate(shown.replace("\r\n", "\n"))]
    return "".join(parts) + (f"… ⟨{left_out:,} more characters⟩" if left_out else "")


def _shown(char: str, text: str, at: int) -> str:
    if char in "\n\t" or (char == _JOINER and 0 < at < len(text) - 1 and ord(text[at - 1]) > 0x2000):
        return char
    if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return f"⟨U+{ord(char):04X}⟩"
    return char


def one_line(text: object, limit: int = CELL_CHARS) -> str:
    """``visible`` text on one line, cut to ``limit`` characters with an ellipsis."""
    line = " ".join(visible(text, limit * 4).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def literal(text: object, limit: int = CELL_CHARS) -> str:
    """``text`` as a Markdown code span: the one form that Streamlit's Markdown (links, ``$``, ``:codes:``, arrows)
    leaves alone, for labels, captions and message boxes. Empty text becomes a dash."""
    line = one_line(text, limit)
    if not line:
        return "–"
    longest = max((len(run) for run in _runs(line, "`")), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _runs(text: str, char: str) -> list[str]:
    return [run for run in "".join(c if c == char else " " for c in text).split() if run]


def in_figure(text: object, limit: int = 80) -> str:
    """``text`` for Plotly labels, hover boxes and annotations, which read ``<b>``, ``<a>`` and entities as markup."""
    return html.escape(one_line(text, limit), quote=False)


def cell(text: object, limit: int = CELL_CHARS) -> str:
    """``text`` for a table cell. A leading ``= + - @`` gets an apostrophe in front, since the table's own download
    would otherwise hand a spreadsheet a formula."""
    line = one_line(text, limit)
    return f"'{line}" if str(text).startswith(_FORMULA_HEADS) else line


def width(text: str) -> int:
    """Columns that ``text`` takes: a wide (Chinese) character counts two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def fit(text: object, columns: int) -> str:
    """``text`` on one line, cut so that it takes at most ``columns`` columns, Chinese counted double."""
    line = one_line(text, columns * 2)
    if width(line) <= columns:
        return line
    while line and width(line) > columns - 1:
        line = line[:-1]
    return line.rstrip() + "…"
