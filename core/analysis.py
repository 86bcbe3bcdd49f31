"""One function turns text into search tokens, for documents and queries alike.

Milvus gets the tokens joined by spaces and its ``standard`` analyzer: since a token holds letters and digits only, Lite
and a cluster leave it as it is, and a query meets the same tokens as the text. ``ANALYSIS_VERSION`` belongs to a
generation: other rules demand a rebuild.

    invisible characters out, NFKC → traditional to simplified → lower case
      Chinese       cut in search mode: 连接池耗尽 → 连接 连接池 耗尽
      identifiers   whole and in parts: E-1024 → ex1024 1024;  foo_bar.baz() → fooxbarxbaz fooxbar baz foo bar
      versions      also without their v: v2.3.1 → v2x3x1 2x3x1 v2
      camel case    whole and in parts: KubePodCrashLooping → kubepodcrashloop kube pod crash loop
      English       stemmed (Snowball): consumers → consum
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, Final

import opencc_jieba_pyo3
import regex
import rjieba
import snowballstemmer

ANALYSIS_VERSION: Final = "2"

# A joiner must not split a token in the store's analyzer, so it is written as a letter: 2.3.1 and 2.3.10 stay apart.
_JOINER: Final = "x"
_MAX_TOKEN: Final = 64
_MAX_PARTS: Final = 24

# Most texts hold nothing invisible, which two looks tell at a tenth of the time: selectors alone count as printable.
_SELECTOR = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_SURELY_TOKEN = re.compile("[0-9A-Za-z\u4e00-\u9fff]")
_INVISIBLE = regex.compile(r"[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Variation_Selector}--[\t\n\v\f\r\x85]]", regex.V1)
_RUN = regex.compile(
    r"(?P<han>\p{Han}+)"
    r"|(?P<code>(?>[A-Za-z0-9]+(?:[._\-/:@+]+[A-Za-z0-9]+)*)(?![\p{Latin}\p{M}]))"
    r"|(?P<latin>[\p{Latin}\p{M}\p{Nd}]+)"
    r"|(?P<word>[[\p{L}\p{N}\p{M}]--[\p{Han}A-Za-z0-9]]+)",
    regex.V1,
)
# Where an identifier comes apart: at its outer joiners, at all but the dot (versions, addresses), at dots, at all.
_LEVELS = tuple(map(regex.compile, (r"[/:@]+", r"[_\-/:@+]+", r"[./:@]+", r"[._\-/:@+]+")))
_VERSION = regex.compile(r"[vV]([0-9]+\.[0-9.]*[0-9])")
_JOIN = regex.compile(r"[._\-/:@+]+")
_CAMEL = regex.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_LETTERS = regex.compile(r"[A-Za-z]+")
_GRAPHEME = regex.compile(r"\X")
_NOT_ALNUM = regex.compile(r"[^\p{L}\p{N}]+")
_LAST_DATE = regex.compile(r"\d{4}\s?[-/.年]\s?\d{1,2}\s?[-/.月]\s?\d{1,2}\s?日?$")
_DATE_CHARS: Final = 20

# Words that ask instead of naming. In runbooks they are rare, so BM25 would take them for telling ones.
_STOP: Final = frozenset(
    """
    a an and are as at be by do does for from has have how i if in into is it its of on or our should than that the
    their then there these this to was we what when where which who why will with you your can
    的 了 吗 呢 吧 啊 是 在 和 与 或 及 也 都 就 还 把 被 从 到 对 为 以 于 请 怎 么 怎么 怎么办 怎样 怎么样 如何 什么 为什么 为何
    哪些 哪个 是否 可以 应该 一下 一个 这个 那个 我们 你们 他们 我 你 他 它 有 有没有 办
    """.split()  # noqa: SIM905 - a list of words reads better than a list of literals
)

_stemming = threading.local()


def normalize(text: str) -> str:
    """``text`` in NFKC, without control, zero-width, bidi and other invisible characters, white space folded to single
    spaces and stripped. Lone surrogates go too. What a query is searched and shown as."""
    # Invisible ones go first: one between a letter and its accent would keep the two from composing.
    if not text.replace("\n", "").isprintable() or _SELECTOR.search(text):
        text = _INVISIBLE.sub("", text)
    return " ".join(unicodedata.normalize("NFKC", text).split())


def fold(text: str) -> str:
    """``normalize``, then traditional characters to simplified ones, then lower case: equal for search."""
    return _simplified(normalize(text)).lower()


def tokens(text: str) -> tuple[str, ...]:
    """The search tokens of ``text`` in their order, repetitions kept; each holds letters and digits only.

    Text with a letter or a digit has at least one token: function words are left out only where others remain.
    """
    return tuple(_telling(text))


def search_text(text: str) -> str:
    """``tokens`` joined by single spaces: what stands in the store's ``search_text`` and what BM25 is asked."""
    return " ".join(_telling(text))


def has_tokens(text: str) -> bool:
    """Whether there is anything to search for: symbols, emoji and blanks alone are nothing."""
    return bool(_SURELY_TOKEN.search(text)) or bool(_tokens(normalize(text)))


def bigrams(text: str) -> frozenset[str]:
    """The character bigrams of ``text`` after folding, within runs of letters and digits; a run of one character
    stands for itself. The basis of the ``lexical`` quality."""
    found: set[str] = set()
    for run in _NOT_ALNUM.sub(" ", fold(text)).split():
        found.update(run[i : i + 2] for i in range(len(run) - 1))
        if len(run) == 1:
            found.add(run)
    return frozenset(found)


def near_copy_key(text: str) -> str:
    """Equal for texts that differ only in case, width, spacing, punctuation, simplified or traditional characters, or
    in one date at their very end. Empty for text without letters and digits."""
    folded = fold(text)
    end = len(folded)
    while end and not folded[end - 1].isalnum():
        end -= 1
    tail = max(0, end - _DATE_CHARS)
    undated = folded[:tail] + _LAST_DATE.sub("", folded[tail:end])
    return str(_NOT_ALNUM.sub("", undated) or _NOT_ALNUM.sub("", folded))


def cut_graphemes(text: str, limit: int) -> str:
    """The longest beginning of ``text`` with at most ``limit`` code points that ends between two graphemes (UAX #29):
    an emoji sequence or a letter with its marks is never torn."""
    if limit <= 0:
        return ""
    if len(text) <= limit:
        return text
    # Graphemes are found from a place that is a border for certain: between two plain characters before the limit.
    start = max(0, limit - 64)
    while start > 0 and not (_plain(text[start]) and _plain(text[start - 1])):
        start -= 1
    end = start
    for match in _GRAPHEME.finditer(text, start):
        if match.end() > limit:
            break
        end = match.end()
    return text[:end]


def _plain(char: str) -> bool:
    """Neither joins what follows nor is joined to what stands before: printable ASCII, line feed, Chinese characters."""
    return " " <= char <= "~" or "\u4e00" <= char <= "\u9fff" or char == "\n"


def _simplified(text: str) -> str:
    if text.isascii():
        return text
    return str(_converter().convert(text, False))


@cache
def _converter() -> Any:
    """One for all threads, which may share it: it takes 0.4 s to make, and a page runs in a new thread each time."""
    return opencc_jieba_pyo3.OpenCC("t2s")


def _telling(text: str) -> list[str]:
    found = _tokens(_simplified(normalize(text)))
    return [token for token in found if token not in _STOP] or found


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    for match in _RUN.finditer(text):
        run, kind = match[0], match.lastgroup
        if kind == "han":
            found += _chinese(run)
        elif kind == "code":
            found += _code(run) if len(run) > _MAX_TOKEN else _known_code(run)
        else:
            word = _NOT_ALNUM.sub("", run.lower())
            if word:
                found.append(word[:_MAX_TOKEN])
    return found


def _chinese(run: str) -> list[str]:
    words: list[str] = rjieba.cut_for_search(run)
    if len(run) <= _MAX_TOKEN and run.isalpha():
        return words
    letters = (word if word.isalpha() else _NOT_ALNUM.sub("", word) for word in words)
    return [word[:_MAX_TOKEN] for word in letters if word]


@lru_cache(maxsize=65_536)
def _known_code(run: str) -> tuple[str, ...]:
    return tuple(_code(run))


def _code(run: str) -> Iterator[str]:
    """A plain word gives its stem. Anything with joiners, digits or inner capitals gives itself whole and its parts."""
    if run.isalpha() and (run.islower() or run.isupper() or run.istitle()):
        yield _whole(run.lower())
        return
    levels = [level.split(run) for level in _LEVELS]
    wholes = [run, *(version[1] for piece in levels[1] if (version := _VERSION.fullmatch(piece)))]
    wholes += [whole for level in levels for whole in level]
    parts = [part for piece in levels[-1] for part in _CAMEL.findall(piece)]
    parts += [letters for piece in levels[-1] for letters in _LETTERS.findall(piece) if letters != piece]
    seen: set[str] = set()
    for whole in (*wholes, *parts[:_MAX_PARTS]):
        token = _whole(whole.lower())
        if token not in seen and (not seen or len(token) > 1):
            seen.add(token)
            yield token


def _whole(word: str) -> str:
    """Stemmed like any word where no joiner stands in it, so that a name met alone and inside a longer one is equal."""
    joined = _JOIN.sub(_JOINER, word)
    return joined[:_MAX_TOKEN] if joined != word else _stem(word)[:_MAX_TOKEN]


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    if len(word) < 4 or not word.isalpha():
        return word
    stemmer: Any = getattr(_stemming, "english", None)
    if stemmer is None:
        stemmer = _stemming.english = snowballstemmer.stemmer("english")
    return str(stemmer.stemWord(word))
