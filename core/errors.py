"""Every error this package raises on purpose, drawn once.

    RagError
    ├── BadInput                what the caller gave cannot be used            (exit 2)
    │   ├── InvalidQuery        nothing to search for in the query
    │   ├── InvalidFilter       a scope or category that is no plain name
    │   ├── InvalidSettings     a wrong key or value in settings.toml or RAG__…
    │   ├── InvalidCases        golden cases, fixtures or a baseline that cannot be used; ``problems`` lists all
    │   ├── NotConfirmed        the guarding word was not typed in full
    │   ├── NotAllowed          the caller's role does not reach this far
    │   └── NotFound            no trace, record, document or generation of that name
    ├── CheckFailed             a gate or verification said no                 (exit 1)
    │   └── RebuildRefused      the new generation must not replace the old one
    ├── Busy                    another process holds the rebuild              (exit 1)
    └── Unavailable             a store or a model cannot be used now          (exit 3)
        ├── StoreUnavailable    Milvus or SQL is away
        ├── IndexNotReady       no active generation, or it must be rebuilt
        │   ├── SchemaMismatch  a collection without BM25 or with other fields
        │   └── ProfileMismatch built with another embedding profile or analysis
        ├── ModelUnavailable    the embedder or reranker is away or answers nonsense
        └── DeadlineExceeded    a call took longer than it was given

A message is one line that says what is wrong and what to do. It never holds a secret: foreign errors are
translated at the edge (``raise … from exc``), with their text passed through ``redact``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

__all__ = [
    "BadInput",
    "Busy",
    "CheckFailed",
    "DeadlineExceeded",
    "IndexNotReady",
    "InvalidCases",
    "InvalidFilter",
    "InvalidQuery",
    "InvalidSettings",
    "ModelUnavailable",
    "NotAllowed",
    "NotConfirmed",
    "NotFound",
    "ProfileMismatch",
    "RagError",
    "RebuildRefused",
    "SchemaMismatch",
    "StoreUnavailable",
    "Unavailable",
    "redact",
]


class RagError(Exception):
    """Root of the tree. ``exit_code`` is what the command line ends with."""

    exit_code: ClassVar[int] = 1

    @property
    def error_class(self) -> str:
        return type(self).__name__


class BadInput(RagError):
    exit_code = 2


class InvalidQuery(BadInput):
    pass


class InvalidFilter(BadInput):
    pass


class InvalidSettings(BadInput):
    pass


class InvalidCases(BadInput):
    """``problems``: every one of them, each a line that begins with file and line number where there is one."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems) or ("unknown",)
        more = len(self.problems) - 1
        super().__init__(self.problems[0] + (f" [and {more} more]" if more else ""))


class NotConfirmed(BadInput):
    pass


class NotAllowed(BadInput):
    pass


class NotFound(BadInput):
    pass


class CheckFailed(RagError):
    exit_code = 1


class RebuildRefused(CheckFailed):
    pass


class Busy(RagError):
    exit_code = 1


class Unavailable(RagError):
    exit_code = 3


class StoreUnavailable(Unavailable):
    pass


class IndexNotReady(Unavailable):
    pass


class SchemaMismatch(IndexNotReady):
    pass


class ProfileMismatch(IndexNotReady):
    pass


class ModelUnavailable(Unavailable):
    pass


class DeadlineExceeded(Unavailable):
    pass


# user:password@ of a URL (greedy up to the last @ before a slash-free host), and key=value secrets.
_URL_SECRET = re.compile(r"(?P<head>[a-zA-Z][\w+.-]*:{1,2}//[^:/?#\s]*):(?P<secret>\S*)@")
_KEY_SECRET = re.compile(
    r"(?P<key>(?:(?:api[-_]?key|authorization|hmac[-_]?key|passwd|password|pwd|secret|token)['\"]?\s*[=:]\s*(?:Bearer\s+)?|Bearer\s+))"
    r"(?P<quote>['\"]?)(?P<secret>[^\s'\"&,;]{3,})",
    re.IGNORECASE,
)


def redact(text: object, secrets: tuple[str, ...] = ()) -> str:
    """``text`` as one line without credentials: URL passwords, ``key=value`` secrets and the given literal values."""
    line = " ".join(str(text).split())
    for secret in sorted((s for s in secrets if s), key=len, reverse=True):
        line = line.replace(secret, "***")
    line = _URL_SECRET.sub(r"\g<head>:***@", line)
    return _KEY_SECRET.sub(r"\g<key>\g<quote>***", line)
