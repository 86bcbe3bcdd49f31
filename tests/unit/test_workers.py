"""Threads for calls that may hang: nobody waits for anybody else's call."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from core.errors import Busy, DeadlineExceeded
from core.workers import Workers


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_call_gives_its_value_or_raises_its_own_error() -> None:
    pool = Workers()
    assert pool.call(lambda: 7, 5.0, "seven") == 7
    with pytest.raises(KeyError, match="lost"):
        pool.call(lambda: {}["lost"], 5.0, "a lost key")
    pool.shutdown()


def test_a_call_that_hangs_is_left_at_its_deadline_by_name(gate: threading.Event) -> None:
    pool = Workers()
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"the store: no answer within 0\.1 s"):
        pool.call(lambda: gate.wait(30), 0.1, "the store")
    assert time.monotonic() - began < 5
    pool.shutdown()


def test_a_call_never_queues_behind_one_that_hangs(gate: threading.Event) -> None:
    pool = Workers(limit=3)
    for _ in range(2):
        pool.submit(gate.wait, 30)
    assert [pool.call(lambda n=n: n, 5.0, "a number") for n in range(5)] == [0, 1, 2, 3, 4]
    pool.shutdown()


def test_beyond_the_limit_a_call_is_refused_at_once_and_served_again_later(gate: threading.Event) -> None:
    pool = Workers(limit=2)
    hanging = [pool.submit(gate.wait, 30) for _ in range(2)]
    with pytest.raises(Busy, match="2 calls to stores and models are still waiting"):
        pool.submit(int)
    gate.set()
    for future in hanging:
        future.result(timeout=5)
    for _ in range(100):  # a thread is free a moment after its call has ended
        try:
            assert pool.call(int, 5.0, "zero") == 0
            break
        except Busy:
            time.sleep(0.01)
    else:
        pytest.fail("no thread came free")
    pool.shutdown()


def test_idle_threads_are_used_again() -> None:
    pool = Workers()
    seen: set[str] = set()
    for _ in range(50):
        seen.add(pool.call(lambda: threading.current_thread().name, 5.0, "a name"))
        time.sleep(0.001)
    assert len(seen) < 25
    pool.shutdown()


def test_a_closed_pool_refuses_and_its_threads_end() -> None:
    pool = Workers(name="closing")
    pool.call(int, 5.0, "zero")
    pool.shutdown()
    with pytest.raises(Busy, match="closed"):
        pool.submit(int)
    for _ in range(500):
        if not any(t.name.startswith("closing-") for t in threading.enumerate()):
            return
        time.sleep(0.01)
    pytest.fail("a thread of a closed pool still runs")
