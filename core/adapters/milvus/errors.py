"""Foreign errors at the edge: what kind they are, and the one line of ours that says what to do.

pymilvus lets ``grpc.RpcError`` escape beside its own ``MilvusException``, and after a reconnect also the ValueError of
a closed channel: all three are read here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from core.errors import DeadlineExceeded, IndexNotReady, RagError, StoreUnavailable, redact

_MESSAGE_CHARS: Final = 300


class Kind(StrEnum):
    AWAY = "away"  # the server cannot be reached, or the connection is a dead one
    LATE = "late"
    MISSING = "missing"  # no such collection or alias
    RELEASED = "released"  # the collection is not loaded
    REFUSED = "refused"  # credentials
    FAILED = "failed"


_CODES: Final = {2: Kind.AWAY, 100: Kind.MISSING, 101: Kind.RELEASED, 1600: Kind.MISSING}
_STATUS: Final = {
    "UNAVAILABLE": Kind.AWAY,
    "CANCELLED": Kind.AWAY,
    "DEADLINE_EXCEEDED": Kind.LATE,
    "UNAUTHENTICATED": Kind.REFUSED,
    "PERMISSION_DENIED": Kind.REFUSED,
}
_WORDS: Final = (
    ("should create connection first", Kind.AWAY),
    ("closed channel", Kind.AWAY),
    ("channel closed", Kind.AWAY),
    ("retry timeout", Kind.LATE),
    ("deadline exceeded", Kind.LATE),
    ("not loaded", Kind.RELEASED),
    ("unauthenticated", Kind.REFUSED),
    ("auth check failure", Kind.REFUSED),
)


def kind_of(exc: BaseException) -> Kind:
    """Code first, then gRPC status, then words: an unknown failure is FAILED."""
    code: Any = getattr(exc, "code", None)
    if callable(code):
        status = code()
        return _STATUS.get(getattr(status, "name", ""), Kind.FAILED)
    if isinstance(code, int) and code in _CODES:
        return _CODES[code]
    text = message_of(exc).lower()
    return next((kind for words, kind in _WORDS if words in text), Kind.FAILED)


def message_of(exc: BaseException) -> str:
    """The foreign text without the class name and code that pymilvus wraps around it."""
    details = getattr(exc, "details", None)
    if callable(details):
        return str(details() or exc)
    return str(getattr(exc, "message", None) or exc)


HUNG: Final = "should it hang, `python -m core serve --stop` ends it and the next call starts another"


def translated(
    exc: BaseException, what: str, *, where: str, timeout: float, secrets: tuple[str, ...], local: bool = False
) -> RagError:
    """The error of ours for a failed call. ``what`` names it ("the BM25 search"), ``where`` the server, ``local`` one
    that serves a file here."""
    text = redact(message_of(exc), secrets)[:_MESSAGE_CHARS]
    match kind_of(exc):
        case Kind.AWAY:
            mend = HUNG if local else "start it or correct milvus.uri"
            return StoreUnavailable(f"Milvus at {where} cannot be reached ({text}); {mend}")
        case Kind.LATE:
            mend = HUNG if local else "look at the server or wait longer"
            return DeadlineExceeded(f"{what}: Milvus at {where} gave no answer within {timeout:g} s; {mend}")
        case Kind.MISSING:
            return IndexNotReady(f"{what}: {text}; rebuild the index")
        case Kind.RELEASED:
            return IndexNotReady(f"{what}: the collection is not loaded ({text}); try again, else restart Milvus")
        case Kind.REFUSED:
            return StoreUnavailable(f"Milvus at {where} refused the credentials ({text}); correct milvus.token")
        case _:
            return StoreUnavailable(f"{what} failed in Milvus at {where} ({text}); run: python -m core doctor")
