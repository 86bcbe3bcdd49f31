"""What stands beside the ``.db``: ``<file>.server.json`` (who serves it), ``.server.lock``, ``.server.log``."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import InvalidSettings, StoreUnavailable

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: Milvus Lite's own lock speaks up instead
    fcntl = None  # type: ignore[assignment]

HOST: Final = "127.0.0.1"
LOCKED_EXIT: Final = 4  # how a server process says that another one has the file open


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server of one file. ``uri``, ``pid`` and ``since`` (Unix seconds) are None when none runs."""

    path: Path
    running: bool
    uri: str | None = None
    pid: int | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """``started`` is the kernel's start time of ``pid`` (0 where it is not to be had): pids are used again."""

    port: int
    pid: int
    started: int
    since: float

    @property
    def uri(self) -> str:
        return f"http://{HOST}:{self.port}"

    def alive(self) -> bool:
        """The same process still runs and its port takes connections."""
        return is_running(self.pid, self.started) and self._answers()

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=2.0):
                return True
        except OSError:
            return False


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}.server.{suffix}")


def read(path: Path) -> Record | None:
    """The record beside ``path``; None when there is none or it is no record."""
    try:
        data = json.loads(beside(path, "json").read_text(encoding="utf-8"))
        return Record(int(data["port"]), int(data["pid"]), int(data["started"]), float(data["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(path: Path, port: int) -> Record:
    """Says that this process serves ``path`` on ``port``; readers see the old record or the new one, never half."""
    record = Record(port, os.getpid(), start_time(os.getpid()), time.time())
    target = beside(path, "json")
    fresh = target.with_name(f"{target.name}.{record.pid}")
    fresh.write_text(
        json.dumps({"port": port, "pid": record.pid, "started": record.started, "since": record.since}),
        encoding="utf-8",
    )
    fresh.replace(target)
    return record


def remove(path: Path, record: Record) -> None:
    """Takes ``record`` away, unless another server has put its own there."""
    if read(path) == record:
        beside(path, "json").unlink(missing_ok=True)


def start_time(pid: int) -> int:
    """Start time of a running process in kernel ticks; 0 when it does not run (or is a zombie), or without /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    state, *rest = stat.rpartition(")")[2].split()
    return 0 if state in {"Z", "X"} else int(rest[18])


def is_running(pid: int, started: int) -> bool:
    if Path("/proc/self/stat").exists():
        return started != 0 and start_time(pid) == started
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def checked(path: str | Path) -> Path:
    """``path`` absolute, its parent made. Raises InvalidSettings or StoreUnavailable with what to do."""
    file = Path(path).expanduser().absolute()
    if not file.name.endswith(".db"):
        raise InvalidSettings(f"milvus.uri: {file.name!r} must end in .db (or be an http:// address of a server)")
    if file.exists() and not file.is_dir():
        raise StoreUnavailable(
            f"{file} is a file, perhaps of an older Milvus Lite, which cannot be read; move it away and rebuild"
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreUnavailable(f"{file.parent} cannot be made ({exc.strerror}); choose another milvus.uri") from exc
    for folder in (file, file.parent):
        if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise StoreUnavailable(f"{folder} is not writable for this user; mend its permissions")
    return file


def held_by_another(path: Path) -> bool:
    """Some process has the Milvus Lite file open (its ``LOCK`` is taken)."""
    lock = path / "LOCK"
    if fcntl is None or not lock.exists():
        return False
    try:
        with lock.open("r+b") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(handle, fcntl.LOCK_UN)
    except OSError:
        return True
    return False
