"""Who holds a lease: a process named so that another one on the same machine can tell that it is gone."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from functools import lru_cache
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r" pid (?P<pid>\d+) \[(?P<machine>[0-9a-f]{12})\.(?P<started>\d+)\]$")


def this_process() -> str:
    """``host pid 4711 [machine.started]``. ``machine`` changes with every boot and process namespace."""
    return f"{socket.gethostname()} pid {os.getpid()} [{_machine()}.{_started(os.getpid()) or 0}]"


def surely_dead(holder: str) -> bool:
    """True only when ``holder`` ran on this machine, in this boot, and its process is gone. False where unknown."""
    match = _NAME.search(holder)
    if match is None or not _machine() or match["machine"] != _machine() or match["started"] == "0":
        return False
    pid = int(match["pid"])
    started = _started(pid)
    if started is not None:
        return started != int(match["started"])
    return not _hidden(pid)


@lru_cache(maxsize=1)
def _machine() -> str:
    """'' where the system does not say (no /proc): then nobody is declared dead and leases run out by themselves."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return hashlib.sha256(f"{boot}{os.readlink('/proc/self/ns/pid')}".encode()).hexdigest()[:12]
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    """When process ``pid`` began, in clock ticks since boot; None when that cannot be read. A zombie began at -1: it
    does nothing any more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name in brackets may hold anything
    return -1 if fields[0] in {"Z", "X"} else int(fields[19])


def _hidden(pid: int) -> bool:
    """Whether there is such a process all the same: /proc may be mounted so that others' cannot be seen."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
