"""L0: what the documents of a generation call themselves, held against a query.

It shortens the boundary, it does not decide it; it explains, it does not score (DESIGN 3.1). A domain is a category;
documents without one are a domain of their own, which no filter can name: so a match in them prevents the filter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import regex

from core.analysis import fold, tokens
from core.model import NO_CATEGORY, Document, L0Match, Scopes

MIN_CJK_CHARS: Final = 2
MAX_TITLES: Final = 20
MAX_DOCUMENTS: Final = 200
MAX_TERMS: Final = 50

_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
_WORD = regex.compile(r"[\p{Latin}\p{M}\p{N}]+(?:[._\-/:@+]+[\p{Latin}\p{M}\p{N}]+)*")
_LOOSE = regex.compile(
    r"(?<=[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])\s+|\s+(?=[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])"
)
_LATIN = regex.compile(r"[\p{Latin}\p{N}]")
_IDENTIFIER = regex.compile(r"(?=.*\p{N}.*\p{L}|.*\p{L}.*\p{N}|.*[._\-/:@+]|.*\p{Ll}\p{Lu}|.*\p{Lu}{2}).+")


@dataclass(frozen=True, slots=True)
class _Term:
    """A keyword, alias, category or title as written, in the form it is looked for in."""

    text: str
    words: tuple[frozenset[str], ...]  # the forms of each whole word; empty for a term with CJK characters
    folded: str


class DocumentL0:
    """``core.ports.L0Index`` over the documents of one generation. Immutable, safe among threads.

    A term with CJK characters matches as a substring of two characters or more (its Latin ends at word borders), any
    other as a sequence of whole words, stemmed. A term that stands in most domains of the scopes narrows nothing.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = sorted(documents, key=lambda d: d.doc_id)
        self._holders: dict[_Term, list[int]] = defaultdict(list)
        self._canonical: dict[_Term, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._domains: dict[str, set[str]] = defaultdict(set)
        self._sizes = Counter(document.kb_scope for document in self._documents)
        for number, document in enumerate(self._documents):
            self._domains[document.kb_scope].add(document.category)
            self._add(number, document)
        self._by_word: dict[str, list[_Term]] = defaultdict(list)
        self._by_bigram: dict[str, list[_Term]] = defaultdict(list)
        for term in self._holders:
            if term.words:
                for form in term.words[0]:
                    self._by_word[form].append(term)
            else:
                self._by_bigram[term.folded[:MIN_CJK_CHARS]].append(term)

    def match(self, text: str, scopes: Scopes) -> L0Match:
        """``text`` is the normalised query. Documents outside ``scopes`` are not seen, not even as a count."""
        found: dict[_Term, list[int]] = {}
        for term in self._terms_in(text):
            holders = [n for n in self._holders[term] if scopes.admits(self._documents[n].kb_scope)]
            if holders:
                found[term] = holders
        narrowing = self._narrowing(found, scopes)
        left = set.intersection(*narrowing.values()) if narrowing else set()
        (only,) = left if len(left) == 1 else (NO_CATEGORY,)
        matched = sorted({n for term in narrowing for n in found[term]})
        aliases = self._aliases(found, scopes)
        return L0Match(
            category_filter=only or None,
            domain_hints=tuple(sorted(set().union(*narrowing.values()) - {NO_CATEGORY})) if narrowing else (),
            matched_keywords=_shown(found)[:MAX_TERMS],
            entities=tuple(dict.fromkeys(w for w in _words(text) if _IDENTIFIER.fullmatch(w)))[:MAX_TERMS],
            l0_titles=tuple(dict.fromkeys(self._documents[n].title for n in matched))[:MAX_TITLES],
            l0_doc_ids=tuple(self._documents[n].doc_id for n in matched)[:MAX_DOCUMENTS],
            canonical_terms=tuple(dict.fromkeys(term for _, term in aliases))[:MAX_TERMS],
            aliases=aliases[:MAX_TERMS],
            documents_in_scope=sum(size for scope, size in self._sizes.items() if scopes.admits(scope)),
        )

    def _add(self, number: int, document: Document) -> None:
        named = [*document.keywords, document.title, document.category, *document.aliases, *document.aliases.values()]
        for term in dict.fromkeys(t for text in named if (t := _term(text)) is not None):
            self._holders[term].append(number)
        for alias, canonical in document.aliases.items():
            known = _term(alias)
            if known is not None:
                self._canonical[known][canonical].add(number)

    def _terms_in(self, text: str) -> Iterator[_Term]:
        words = [_forms(word) for word in _words(text)]
        for at, forms in enumerate(words):
            for term in dict.fromkeys(term for form in forms for term in self._by_word.get(form, ())):
                there = words[at : at + len(term.words)]
                if len(there) == len(term.words) and all(map(frozenset.__and__, there, term.words)):
                    yield term
        folded = _tight(text)
        for at in range(len(folded) - 1):
            for term in self._by_bigram.get(folded[at : at + MIN_CJK_CHARS], ()):
                if folded.startswith(term.folded, at) and _at_borders(folded, at, at + len(term.folded)):
                    yield term

    def _narrowing(self, found: dict[_Term, list[int]], scopes: Scopes) -> dict[_Term, set[str]]:
        """The domains that each term leaves. Spellings of one word count together: capitals do not narrow."""
        held: dict[str, set[str]] = defaultdict(set)
        for term, holders in found.items():
            held[term.folded].update(self._documents[n].category for n in holders)
        everywhere = set().union(*(domains for scope, domains in self._domains.items() if scopes.admits(scope)))
        most = max(2, len(everywhere) // 2 + 1)
        return {term: held[term.folded] for term in found if len(held[term.folded]) < most}

    def _aliases(self, found: Iterable[_Term], scopes: Scopes) -> tuple[tuple[str, str], ...]:
        return tuple(
            sorted(
                (term.text, canonical)
                for term in found
                for canonical, holders in self._canonical.get(term, {}).items()
                if any(scopes.admits(self._documents[n].kb_scope) for n in holders)
            )
        )


def _shown(terms: Iterable[_Term]) -> tuple[str, ...]:
    """Each word once, in the first of its spellings by order."""
    by_word = {term.folded: term.text for term in sorted(terms, key=lambda t: t.text, reverse=True)}
    return tuple(sorted(by_word.values()))


def _term(text: str) -> _Term | None:
    """None for what can match nothing: blank, symbols, a single CJK character."""
    folded = _tight(text)
    if _CJK.search(folded):
        return _Term(text.strip(), (), folded) if len(folded) >= MIN_CJK_CHARS else None
    words = tuple(map(_forms, _words(text)))
    return _Term(text.strip(), words, folded) if words else None


def _words(text: str) -> list[str]:
    return [str(match[0]) for match in _WORD.finditer(text)]


def _forms(word: str) -> frozenset[str]:
    """What a word is met as: itself, and its stem (``tokens`` gives an identifier itself first, then its parts). Written
    in capitals it has no stem: an acronym is no English word, OOME is not the plural of anything."""
    return frozenset({word.lower()} if word.isupper() else {word.lower(), next(iter(tokens(word)), word.lower())})


def _tight(text: str) -> str:
    """Folded, without the blanks that some writers put beside CJK characters."""
    return str(_LOOSE.sub("", fold(text)))


def _at_borders(text: str, start: int, end: int) -> bool:
    """The Latin end of a mixed term (ES集群) must not stand inside a longer word (aes集群)."""
    inside_left = start > 0 and _LATIN.match(text[start]) and _LATIN.match(text[start - 1])
    inside_right = end < len(text) and _LATIN.match(text[end - 1]) and _LATIN.match(text[end])
    return not (inside_left or inside_right)
