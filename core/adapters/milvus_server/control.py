"""Finding, starting and stopping the server of a Milvus Lite file, from any process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from core.adapters.milvus_server import record as records
from core.adapters.milvus_server.record import Record, ServerStatus
from core.errors import Busy, DeadlineExceeded, StoreUnavailable

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0
FOREIGN_SECONDS: Final = 2.0
LOCKED_EXIT: Final = records.LOCKED_EXIT
_ROOT: Final = Path(__file__).resolve().parents[3]
_THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def ensure(path: str | Path, idle_seconds: float = 1800.0, *, timeout: float = START_SECONDS) -> str:
    """``http://127.0.0.1:PORT`` of the server of ``path``, started when none runs.

    The server outlives this process and ends after ``idle_seconds`` without a call. Raises InvalidSettings (no
    ``.db``), StoreUnavailable (a file, permissions, another process has it open, no start) or DeadlineExceeded.
    """
    file = records.checked(path)
    end = time.monotonic() + timeout
    running = _running(file)
    if running:
        return running.uri
    with _locked(file, timeout):
        running = _running(file)
        if running:
            return running.uri
        return _start(file, idle_seconds, end).uri


def status(path: str | Path) -> ServerStatus:
    """Whether a server runs for ``path``, without starting one."""
    file = Path(path).expanduser().absolute()
    running = _running(file)
    if not running:
        return ServerStatus(file, running=False)
    return ServerStatus(file, running=True, uri=running.uri, pid=running.pid, since=running.since)


def stop(path: str | Path, *, timeout: float = STOP_SECONDS) -> bool:
    """Ends the server of ``path``: it closes the file first. False when none ran.

    A server that does not end within ``timeout`` seconds is killed; what it had acknowledged is kept.
    """
    file = Path(path).expanduser().absolute()
    if not file.parent.is_dir():
        return False
    with _locked(file, timeout):
        found = records.read(file)
        if found is None or not records.is_running(found.pid, found.started):
            return False
        _signal(found, signal.SIGTERM)
        end = time.monotonic() + timeout
        while records.is_running(found.pid, found.started):
            if time.monotonic() >= end:
                _signal(found, getattr(signal, "SIGKILL", signal.SIGTERM))
                end = time.monotonic() + timeout
            time.sleep(0.05)
        records.remove(file, found)
        return True


def serve_foreground(path: str | Path, *, idle_seconds: float | None = None) -> int:
    """Serves ``path`` from this process until SIGINT or SIGTERM (or ``idle_seconds`` without a call).

    Returns 0. Raises Busy when a server already runs, and as ``ensure`` does.
    """
    from core.adapters.milvus_server.runner import Runner

    file = records.checked(path)
    with _locked(file, STOP_SECONDS):
        running = _running(file)
        if running:
            raise Busy(f"{file} is served already at {running.uri} (pid {running.pid}); end it with: serve --stop")
        _wait_for_file(file, time.monotonic() + STOP_SECONDS)
        runner = Runner(file, idle_seconds)
        runner.start()
    runner.wait()
    return 0


# --------------------------------------------------------------------------------------------- parts


def _running(file: Path) -> Record | None:
    found = records.read(file)
    return found if found is not None and file.is_dir() and found.alive() else None


@contextmanager
def _locked(file: Path, timeout: float) -> Iterator[None]:
    lock = FileLock(records.beside(file, "lock"), timeout=timeout)
    try:
        lock.acquire()
    except Timeout as exc:
        raise DeadlineExceeded(f"another process is starting or stopping the server of {file}; try again") from exc
    except OSError as exc:
        raise StoreUnavailable(f"{file.parent} is not writable ({exc.strerror}); mend its permissions") from exc
    try:
        yield
    finally:
        lock.release()


def _start(file: Path, idle_seconds: float, end: float) -> Record:
    """Starts a runner and waits for its record. One that was already on its way (its starter died) is accepted."""
    while True:
        _wait_for_file(file, end)
        running = _running(file) or _spawn(file, idle_seconds, end)
        if running:
            return running


def _wait_for_file(file: Path, end: float) -> None:
    """Waits while the last server is still closing the file, and briefly for anybody else. Raises StoreUnavailable."""
    patience = time.monotonic() + FOREIGN_SECONDS
    while records.held_by_another(file) and not _running(file):
        found = records.read(file)
        closing = found is not None and records.is_running(found.pid, found.started)
        if time.monotonic() >= (end if closing else min(end, patience)):
            raise StoreUnavailable(
                f"{file} is in use by another process that is not its server; end that program, then try again"
            )
        time.sleep(0.1)


def _spawn(file: Path, idle_seconds: float, end: float) -> Record | None:
    """The new server's record; None when another process opened the file in between."""
    log = records.beside(file, "log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "core.adapters.milvus_server.runner", str(file), str(idle_seconds)],
            cwd=_ROOT,
            env={**os.environ, **{name: os.environ.get(name, "2") for name in _THREADS}},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    threading.Thread(target=process.wait, daemon=True, name="milvus-server-reaper").start()  # leaves no zombie
    while time.monotonic() < end:
        running = _running(file)
        if running:
            return running
        code = process.poll()
        if code == LOCKED_EXIT:
            return None
        if code is not None:
            raise StoreUnavailable(f"the local Milvus server of {file} did not start ({_last_line(log)}); see {log}")
        time.sleep(0.05)
    process.terminate()
    raise DeadlineExceeded(f"the local Milvus server of {file} was not up in time; see {log}")


def _signal(found: Record, number: int) -> None:
    try:
        os.kill(found.pid, number)
    except ProcessLookupError:
        return
    except PermissionError as exc:
        raise StoreUnavailable(f"the server (pid {found.pid}) belongs to another user; stop it as that user") from exc


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return "no log"
    return lines[-1][:300] if lines else "no message"
