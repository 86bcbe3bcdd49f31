"""Filter expressions. Every value goes through ``literal``; nothing else is ever joined into an expression.

Milvus Lite has no template parameters, and the ``ids=`` arguments of the client are pasted in unescaped, so both are
left alone. Lite's grammar knows the escapes ``\\" \\' \\\\ \\n \\r \\t`` and nothing more; a cluster knows these too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core.errors import InvalidFilter
from core.model import SearchFilter

NOTHING: Final = "kb_scope in []"  # shown in traces; never sent: no scope admits nothing, and no search is made

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def literal(value: str) -> str:
    """``value`` as a string literal that reads back as exactly ``value``.

    Raises InvalidFilter for what no literal can hold: other control characters, and halves of surrogate pairs.
    """
    for char in value:
        code = ord(char)
        if (code < 0x20 and char not in "\n\r\t") or code == 0x7F or 0xD800 <= code <= 0xDFFF:
            raise InvalidFilter(f"a filter value holds U+{code:04X}; use printable characters")
    return '"' + value.translate(_ESCAPES) + '"'


def one_of(field: str, values: Iterable[str]) -> str:
    """``field in [...]``, values sorted and unique."""
    return f"{field} in [{', '.join(literal(value) for value in sorted(set(values)))}]"


def expression(where: SearchFilter) -> str:
    """The filter as the store reads it; "" means no restriction (all scopes, any category).

    Category None is any category; "" is the category of documents that have none.
    """
    clauses = []
    if not where.scopes.everything:
        names = sorted(where.scopes.names)
        if not names:
            return NOTHING
        clauses.append(f"kb_scope == {literal(names[0])}" if len(names) == 1 else one_of("kb_scope", names))
    if where.category is not None:
        clauses.append(f"category == {literal(where.category)}")
    return " and ".join(clauses)


def admits_nothing(where: SearchFilter) -> bool:
    return not where.scopes.everything and not where.scopes.names
