"""L0: normalises a query, refuses what cannot be searched, and adds what the document index says about it.

It shortens the boundary, it does not decide it; it explains, it does not score (DESIGN 3.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from core.analysis import has_tokens, normalize, tokens
from core.errors import InvalidQuery, RagError, redact
from core.model import Chunk, L0Match, QueryPlan, Scopes, StageStatus
from core.ports import L0Index

MAX_QUERY_CHARS: Final = 8_000
MAX_RAW_CHARS: Final = 10 * MAX_QUERY_CHARS  # white space folds away, but nobody types this much of it
L0_OVERLAP: Final = "l0_domain_overlap"
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def clean_query(query: str) -> str:
    """``query`` normalised. Raises InvalidQuery, with what to do, when there is nothing to search for: empty, without
    a single token, over 8,000 characters, or text that no encoding can hold (a lone surrogate)."""
    if len(query) > MAX_RAW_CHARS:
        raise _too_long(len(query))
    broken = _SURROGATE.search(query)
    if broken:
        raise InvalidQuery(
            f"the query holds half a character (U+{ord(broken[0]):04X} at {broken.start() + 1}): send it as valid UTF-8"
        )
    text = normalize(query)
    if not text:
        raise InvalidQuery("the query is empty: write a question, an alert name or an error code")
    if len(text) > MAX_QUERY_CHARS:
        raise _too_long(len(text))
    if not has_tokens(text):
        raise InvalidQuery("the query holds only symbols: write words, an alert name or an error code")
    return text


def transform(query: str, scopes: Scopes, l0: L0Index | None, *, l0_reason: str | None = None) -> QueryPlan:
    """The plan of a lookup. ``l0`` is None when there is no document index (``l0_reason`` says why): no category
    filter then, and ``l0_status`` is ``unavailable``, which is not the same as no match. Raises InvalidQuery."""
    text = clean_query(query)
    if l0 is None:
        return QueryPlan(query, text, text, l0_status=StageStatus.UNAVAILABLE, reason=l0_reason or "no document index")
    try:
        match = l0.match(text, scopes)
    except RagError as exc:
        return QueryPlan(query, text, text, l0_status=StageStatus.ERROR, reason=redact(exc))
    return QueryPlan(query, text, rewrite(text, match.canonical_terms), match)


def rewrite(text: str, canonical_terms: tuple[str, ...]) -> str:
    """``text`` plus each canonical term of which it does not already hold every token."""
    seen = set(tokens(text))
    added = []
    for term in canonical_terms:
        parts = set(tokens(term))
        if not parts <= seen:
            added.append(term)
            seen |= parts
    return " ".join([text, *added])


def explainer(match: L0Match) -> Callable[[Chunk], tuple[str, ...]]:
    """Reasons beyond the branches' own: the chunk lies in a domain that L0 named, or holds an alias's canonical term."""
    domains, documents = frozenset(match.domain_hints), frozenset(match.l0_doc_ids)
    aliases = [(f"alias:{alias}→{term}", term.casefold()) for alias, term in match.aliases]

    def explain(chunk: Chunk) -> tuple[str, ...]:
        reasons: tuple[str, ...] = (L0_OVERLAP,) if chunk.category in domains or chunk.doc_id in documents else ()
        if aliases:
            text = f"{chunk.title}\n{chunk.content}".casefold()
            reasons += tuple(reason for reason, term in aliases if term in text)
        return reasons

    return explain


def _too_long(length: int) -> InvalidQuery:
    return InvalidQuery(
        f"the query has {length:,} characters, at most {MAX_QUERY_CHARS:,} are searched: keep the part that asks"
    )
