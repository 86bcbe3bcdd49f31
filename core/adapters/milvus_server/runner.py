"""The server process: ``python -m core.adapters.milvus_server.runner FILE.db IDLE_SECONDS``.

Serves one Milvus Lite file on a free loopback port until SIGTERM, until no call came for a while, or until the file's
directory is gone. Milvus Lite knows no users: whoever may log in to this machine can reach the port.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from core.adapters.milvus_server import record as records

WORKERS: Final = 10
_MESSAGE_BYTES: Final = 256 * 1024 * 1024
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    # Clients ping every 10 s. By default a server cuts off whoever pings more than every 5 minutes without a call.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
]


class Activity(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    """Counts calls in flight and remembers when the last one ended."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._in_flight = 0
        self._last = clock()

    def idle_for(self) -> float:
        """Seconds without a call; 0 while one is in flight."""
        with self._lock:
            return 0.0 if self._in_flight else self._clock() - self._last

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        inner = handler.unary_unary

        def counted(request: Any, context: Any) -> Any:
            self._moved(1)
            try:
                return inner(request, context)
            finally:
                self._moved(-1)

        return grpc.unary_unary_rpc_method_handler(
            counted,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _moved(self, step: int) -> None:
        with self._lock:
            self._in_flight += step
            self._last = self._clock()


class Runner:
    """One served file. ``start`` opens it and writes the record, ``wait`` returns when it is closed again."""

    def __init__(self, path: Path, idle_seconds: float | None, *, tick: float = 0.5) -> None:
        self._path = path
        self._idle_seconds = idle_seconds
        self._tick = tick
        self._stopping = threading.Event()
        self._activity = Activity()

    def start(self) -> None:
        from milvus_lite.adapter.grpc.servicer import MilvusServicer
        from milvus_lite.db import MilvusLite
        from pymilvus.grpc_gen import milvus_pb2_grpc

        _bound_threads()
        for name in ("milvus_lite", "pymilvus"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # every reason goes to the caller, who reports it
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        self._db = MilvusLite(str(self._path))
        self._identity = _identity(self._path)
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=WORKERS), interceptors=[self._activity], options=_OPTIONS
        )
        milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(self._db), self._server)
        port = self._server.add_insecure_port(f"{records.HOST}:0")
        self._server.start()
        self._record = records.write(self._path, port)

    def wait(self) -> None:
        while not self._stopping.wait(self._tick):
            if _identity(self._path) != self._identity:
                os._exit(0)  # closing would write into a directory that its owner has taken away
            if self._idle_seconds is not None and self._activity.idle_for() >= self._idle_seconds:
                break
        self._server.stop(grace=5).wait()  # takes no new connection from now on
        self._db.close()
        records.remove(self._path, self._record)  # last: while it stands, others wait for the file to be closed


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _bound_threads() -> None:
    """faiss takes every core by default; search here is bound by Python anyway."""
    try:
        import faiss
    except ImportError:
        return
    faiss.omp_set_num_threads(min(2, os.cpu_count() or 1))


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        sys.stderr.write("use: python -m core.adapters.milvus_server.runner FILE.db IDLE_SECONDS\n")
        return 2
    from milvus_lite.exceptions import DataDirLockedError

    runner = Runner(Path(arguments[0]), float(arguments[1]))
    try:
        runner.start()
    except DataDirLockedError:
        sys.stderr.write("the file is open in another process\n")
        return records.LOCKED_EXIT
    runner.wait()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # Milvus Lite's threads may linger after the file is closed
