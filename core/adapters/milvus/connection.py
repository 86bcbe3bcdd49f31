"""One shared client: opened late, replaced when its server went away, every call inside its deadline."""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from core.adapters import milvus_server
from core.adapters.milvus.errors import HUNG, Kind, kind_of, translated
from core.errors import DeadlineExceeded, RagError, StoreUnavailable, redact

T = TypeVar("T")
_LOOPBACK: Final = {"127.0.0.1", "localhost", "::1"}
_GRPC: Final = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 2000,
}


class Deadline:
    """A point in time that several calls share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self, what: str) -> float:
        """Seconds that remain. Raises DeadlineExceeded when none do."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(f"{what}: not done within {self.seconds:g} s; look at Milvus or wait longer")
        return left


class Connection:
    """Thread-safe. ``uri`` is a path ending in ``.db`` (its server is found or started) or a server's address.

    ``epoch`` counts the clients opened so far: what was learned about collections under an older one may be stale.
    """

    def __init__(
        self, uri: str, token: str, *, connect_timeout: float, idle_seconds: float, secrets: tuple[str, ...]
    ) -> None:
        self.is_file = uri.endswith(".db")
        self.where = uri if self.is_file else _shown(uri)
        self.epoch = 0
        encoded = base64.b64encode(token.encode()).decode() if token else ""
        self.secrets = tuple(s for s in (*secrets, token, *token.split(":", 1)[1:], encoded) if s)
        self._uri = uri
        self._token = token
        self._connect_timeout = connect_timeout
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._opening: Future[Any] | None = None

    def call(self, what: str, action: Callable[[Any, Deadline], T], *, timeout: float) -> tuple[T, int]:
        """``action(client, deadline)`` and how often it was tried again (at most once, when the server was away).

        Every action is safe to repeat: reads are, and writes are upserts. Raises our errors only.
        """
        deadline = Deadline(timeout)
        for retries in (0, 1):
            opened = self._open()
            client = self._await(opened, deadline, what)
            try:
                return action(client, deadline), retries
            except RagError:
                raise
            except Exception as exc:
                if kind_of(exc) is Kind.AWAY and retries == 0:
                    self._discard(opened)
                    continue
                raise self._translated(exc, what, timeout) from exc
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Gives the client back; the next call opens a new one."""
        with self._lock:
            opened = self._opening
        if opened is not None:
            self._discard(opened)

    # ----------------------------------------------------------------------------------------- the client

    def _open(self) -> Future[Any]:
        """The client, being opened by one thread of its own: a slow start outlives the caller who ran out of time."""
        with self._lock:
            opened = self._opening
            failed = opened is not None and opened.done() and opened.exception() is not None
            if opened is None or failed:
                self._opening = opened = Future()
                threading.Thread(target=self._connect, args=(opened,), daemon=True, name="milvus-connect").start()
            return opened

    def _connect(self, opened: Future[Any]) -> None:
        try:
            client = self._new_client()
        except RagError as exc:
            opened.set_exception(exc)
        except Exception as exc:  # noqa: BLE001 - the edge: handed to every waiting caller, translated
            error = self._translated(exc, "connecting", self._connect_timeout)
            opened.set_exception(error.with_traceback(None))
        else:
            self.epoch += 1
            opened.set_result(client)

    def _translated(self, exc: BaseException, what: str, timeout: float) -> RagError:
        return translated(exc, what, where=self.where, timeout=timeout, secrets=self.secrets, local=self.is_file)

    def _new_client(self) -> Any:
        address = milvus_server.ensure(self._uri, self._idle_seconds) if self.is_file else self._uri
        from pymilvus import MilvusClient

        for name in ("pymilvus", "milvus_lite"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # every failure is reported by us, in one line
        options = dict(_GRPC)
        if self.is_file or urlsplit(address).hostname in _LOOPBACK:
            options["grpc.enable_http_proxy"] = 0
        client = MilvusClient(
            uri=address, token=self._token, timeout=self._connect_timeout, dedicated=True, grpc_options=options
        )
        client.get_server_version(timeout=self._connect_timeout)  # construction alone proves nothing
        return client

    def _await(self, opened: Future[Any], deadline: Deadline, what: str) -> Any:
        try:
            return opened.result(timeout=deadline.left(what))
        except FutureTimeout as exc:
            mend = HUNG if self.is_file else "try again shortly"
            raise DeadlineExceeded(
                f"{what}: Milvus at {self.where} was not connected within {deadline.seconds:g} s; {mend}"
            ) from exc
        except RagError as exc:
            raise type(exc)(str(exc)) from exc  # one instance must not be raised by several threads

    def _discard(self, opened: Future[Any]) -> None:
        with self._lock:
            if self._opening is not opened:
                return  # somebody else has replaced it already
            self._opening = None
        if opened.done() and opened.exception() is None:
            try:
                opened.result().close()
            except Exception as exc:  # noqa: BLE001 - a dead connection may fail to close; nothing is lost by that
                logging.getLogger(__name__).debug("closing a dead client: %s", redact(exc, self.secrets))


def _shown(uri: str) -> str:
    """Scheme, host and port: no user, no password."""
    try:
        parts = urlsplit(uri)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as exc:
        raise StoreUnavailable("milvus.uri is no address; write http://HOST:PORT or a path ending in .db") from exc
    return f"{parts.scheme}://{parts.hostname}{port}" if parts.hostname else redact(uri)
