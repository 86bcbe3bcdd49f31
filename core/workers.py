"""Threads for calls that may hang: a caller waits as long as it wants, and a hung call holds up nobody else.

Unlike ``ThreadPoolExecutor`` the threads are daemons (a call that never returns does not keep the process alive at
its end) and a call never queues behind others: it finds an idle thread, gets a new one, or is refused at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from core.errors import Busy, DeadlineExceeded

P = ParamSpec("P")
T = TypeVar("T")
Job = Callable[[], None]


class Workers(Executor):
    """At most ``limit`` calls at once. ``submit`` raises Busy beyond it: so many calls hang that waiting is useless."""

    def __init__(self, limit: int = 64, name: str = "lookup") -> None:
        self._limit = limit
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as exc:  # noqa: BLE001 - it belongs to whoever waits for the future
                future.set_exception(exc)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                raise Busy("the lookup service is closed")
            if self._idle:
                self._idle -= 1
            elif self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._run, name=f"{self._name}-{self._threads}", daemon=True).start()
            else:
                raise Busy(
                    f"{self._limit} calls to stores and models are still waiting; look at `python -m core doctor`"
                )
        self._jobs.put(job)
        return future

    def call(self, fn: Callable[[], T], timeout: float, what: str) -> T:
        """``fn()`` in a thread. Raises DeadlineExceeded, naming ``what``, when it takes longer than ``timeout`` s."""
        future = self.submit(fn)
        try:
            return future.result(timeout=timeout)
        except FutureTimeout as exc:
            future.cancel()
            raise DeadlineExceeded(f"{what}: no answer within {timeout:g} s") from exc

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Lets idle threads end. Never waits for a call that runs: it may be one that hangs."""
        del wait, cancel_futures
        with self._lock:
            self._closed = True
            threads = self._threads
        for _ in range(threads):
            self._jobs.put(None)

    def _run(self) -> None:
        while True:
            job: Any = self._jobs.get()
            if job is None:
                return
            job()
            del job  # a thread that waits holds nothing of the last call
            with self._lock:
                self._idle += 1
