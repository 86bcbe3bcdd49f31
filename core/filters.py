"""Filter values where they enter: one printable line, at most 64 characters. Used at ingest and at lookup alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from core.errors import InvalidFilter
from core.model import ALL_SCOPES, DEFAULT_SCOPE, MAX_FILTER_CHARS, Scopes


def clean_filter_value(value: str, name: str) -> str:
    """``value`` stripped and in NFC. Raises InvalidFilter for control or invisible characters, line breaks, lone
    surrogates and more than 64 characters: such a value is refused, never silently changed into another one."""
    text = unicodedata.normalize("NFC", value).strip()
    if len(text) > MAX_FILTER_CHARS:
        raise InvalidFilter(f"{name}: {len(text)} characters, at most {MAX_FILTER_CHARS} are allowed; shorten it")
    for char in text:
        if char != " " and unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}:
            raise InvalidFilter(f"{name}: holds U+{ord(char):04X}; use one line of printable characters")
    return text


def clean_scope(value: str, name: str = "kb_scope") -> str:
    """A document's scope: empty means ``default``; ``*`` is no name. No comma: records join the names of a lookup by it,
    and a name that held one would read back as two."""
    text = clean_filter_value(value, name)
    if "," in text:
        raise InvalidFilter(f"{name}: {text!r} holds a comma; name one scope, or give several as a list")
    if text == ALL_SCOPES:
        raise InvalidFilter(f"{name}: '*' means all scopes in a lookup and cannot be the scope of a document")
    return text or DEFAULT_SCOPE


def parse_scopes(value: str | Iterable[str] | None) -> Scopes:
    """The scopes of a lookup: None and '' mean ``default``, '*' all of them, otherwise a name or a list of names.

    An empty list is the empty set: it admits nothing.
    """
    values = [value or ""] if isinstance(value, str) or value is None else list(value)
    if ALL_SCOPES in (v.strip() for v in values):
        if len(values) > 1:
            raise InvalidFilter("kb_scope: '*' stands alone; leave the other names out")
        return Scopes(frozenset(), everything=True)
    return Scopes(frozenset(clean_scope(v) for v in values))
