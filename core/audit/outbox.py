"""Records that wait for the database: one file a record in a folder of that database, safe on the disk before anybody
is told, delivered in order and removed afterwards by whichever process comes next.

A file is ``{nanoseconds}-{process}-{count}.json``: a line with the SHA-256 of the rest, then the record. It appears
under its name in one step, so there are no halves of files; one that does not fit its hash was damaged. Damaged files
and records that the database refuses for good are set aside, named, and hold up nobody; moved back into the folder
they are tried again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from core.audit.entry import Entry, dump, parse
from core.errors import Busy, Unavailable, redact

log = logging.getLogger(__name__)
BATCH: Final = 100
BATCH_BYTES: Final = 8 * 1024 * 1024
STALE_SECONDS: Final = 3600.0
SUFFIX: Final = ".json"
_PART: Final = ".part"
_DAMAGED: Final = "damaged"
_REFUSED: Final = "refused"
_WHERE: Final = "database.txt"
_LATER: Final = (Unavailable, Busy, OSError)
_COUNTER: Final = itertools.count()


@dataclass(frozen=True, slots=True)
class Drained:
    """What one pass did: records that are in the database now, files set aside, files that still wait."""

    delivered: int = 0
    aside: int = 0
    waiting: int = 0


class Outbox:
    """``root``: the folder of all outboxes. ``where`` names the database without credentials: each has a folder of its
    own. Shared by threads and processes."""

    def __init__(self, root: Path, where: str) -> None:
        self.folder = root / hashlib.sha256(where.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._where = where
        self._last = 0
        self._lock = threading.Lock()

    def put(self, entry: Entry) -> Path:
        """Keeps ``entry``; it survives a crash of this process and of the machine when the call returns. Raises
        OSError when the disk does not take it."""
        self._make()
        body = dump(entry)
        data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body + b"\n"
        path = self.folder / f"{self._moment():020d}-{os.getpid()}-{next(_COUNTER)}{SUFFIX}"
        part = path.with_suffix(_PART)
        try:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with open(handle, "wb", closefd=False) as file:
                    file.write(data)
                os.fsync(handle)
            finally:
                os.close(handle)
            part.rename(path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        _sync(self.folder)
        return path

    def waiting(self) -> int:
        """How many records wait. An outbox that cannot be read holds what nobody knows: raises OSError."""
        return len(self._names())

    def aside(self) -> list[Path]:
        """Files that were set aside: damaged, or refused by the database."""
        return sorted(path for kind in (_DAMAGED, _REFUSED) for path in (self.folder / kind).glob(f"*{SUFFIX}"))

    def drain(self, deliver: Callable[[Sequence[Entry]], object]) -> Drained | None:
        """Delivers what waits, oldest first, in batches; None when another process is at it.

        ``deliver`` writes some entries in one transaction or raises. Unavailable, Busy and OSError end the pass. After
        any other error the entries are tried one by one, and those refused again are set aside.
        """
        if not self._names():
            return Drained()
        try:
            with FileLock(str(self.folder / "lock"), timeout=0):
                return self._drain(deliver)
        except Timeout:
            return None

    def _drain(self, deliver: Callable[[Sequence[Entry]], object]) -> Drained:
        self._tidy()
        delivered = aside = 0
        while names := self._names():
            batch, damaged = self._read(names)
            aside += len(damaged)
            for path, why in damaged:
                self._set_aside(path, _DAMAGED, why)
            entries = list(batch.values())
            try:
                if entries:
                    deliver(entries)
                refused: list[Path] = []
            except _LATER:
                raise
            except Exception:  # noqa: BLE001 - each is tried again by itself and its error logged
                refused = self._one_by_one(batch, deliver)
            for path in batch:
                if path not in refused:
                    path.unlink(missing_ok=True)
            delivered += len(batch) - len(refused)
            aside += len(refused)
        return Drained(delivered, aside)

    def _one_by_one(self, batch: dict[Path, Entry], deliver: Callable[[Sequence[Entry]], object]) -> list[Path]:
        refused = []
        for path, entry in batch.items():
            try:
                deliver([entry])
            except _LATER:
                raise
            except Exception as exc:  # noqa: BLE001 - one record must not hold up the others
                self._set_aside(path, _REFUSED, f"{type(exc).__name__}: {redact(exc)}")
                refused.append(path)
        return refused

    def _read(self, names: Sequence[str]) -> tuple[dict[Path, Entry], list[tuple[Path, str]]]:
        """The next batch, and the files among it that cannot be used."""
        batch: dict[Path, Entry] = {}
        damaged: list[tuple[Path, str]] = []
        size = 0
        for name in names[:BATCH]:
            path = self.folder / name
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            size += len(data)
            if batch and size > BATCH_BYTES:
                break
            head, _, body = data.partition(b"\n")
            body = body.removesuffix(b"\n")
            try:
                if hashlib.sha256(body).hexdigest().encode() != head:
                    raise ValueError("the content does not fit its hash")
                batch[path] = parse(body)
            except ValueError as exc:
                damaged.append((path, str(exc)))
        return batch, damaged

    def _set_aside(self, path: Path, kind: str, why: str) -> None:
        folder = self.folder / kind
        folder.mkdir(mode=0o700, exist_ok=True)
        path.replace(folder / path.name)
        log.error("outbox: %s was set aside as %s: %s", path.name, kind, why)

    def check(self) -> None:
        """Raises OSError when a record could not be kept here now."""
        self._make()
        with tempfile.TemporaryFile(dir=self.folder) as file:
            file.write(b"x")
            file.flush()

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.folder) as found:
                return sorted(entry.name for entry in found if entry.name.endswith(SUFFIX))
        except FileNotFoundError:
            return []

    def _make(self) -> None:
        if self.folder.is_dir():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / _WHERE).write_text(f"records that wait for {self._where}\n", encoding="utf-8")
        _sync(self.folder.parent)

    def _moment(self) -> int:
        """Nanoseconds since 1970, never the same twice and never back in this process."""
        with self._lock:
            self._last = max(time.time_ns(), self._last + 1)
            return self._last

    def _tidy(self) -> None:
        """Beginnings of files whose writer died: nobody was told that they are safe."""
        for part in self.folder.glob(f"*{_PART}"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > STALE_SECONDS:
                    part.unlink()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
