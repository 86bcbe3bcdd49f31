"""What the commands share: settings and application on demand, JSON out, confirmations."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from core.codec import to_data
from core.errors import BadInput
from core.settings import Settings, load

if TYPE_CHECKING:
    from core.bootstrap import App


def add_json(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    return parser


def settings() -> Settings:
    return load()


@contextmanager
def app(configured: Settings | None = None) -> Iterator[App]:
    """The whole application, closed at the end. Imported here: building it loads stores and models."""
    from core.bootstrap import build

    built = build(configured or settings())
    try:
        yield built
    finally:
        built.close()


def user() -> str:
    """The account's name, or its number where it has none (a container run under a bare uid)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """JSON of a plain or frozen value: UTF-8 as it is, no NaN."""
    return json.dumps(to_data(value), ensure_ascii=False, indent=indent, allow_nan=False)


def say(text: str) -> None:
    """Text that may come from documents: control characters that could drive a terminal are made visible."""
    print("".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text))


def emit(args: argparse.Namespace, value: Any, text: str) -> None:
    if args.json:
        print(dumps(value))
    else:
        say(text)


def note(text: str) -> None:
    print(text, file=sys.stderr)


class output:
    """A file that appears only when it is whole, or standard output. A link is followed; a device or pipe is written to
    as it is. ``source``: the file that is read meanwhile, which must be another one."""

    def __init__(self, path: Path | None, *, source: Path | None = None) -> None:
        self._path = path.resolve() if path is not None else None
        self._source = source
        self._file: TextIO = sys.stdout
        self._part: Path | None = None

    def __enter__(self) -> TextIO:
        path = self._path
        if path is None:
            return self._file
        if path.is_dir():
            raise BadInput(f"{path}: a folder; name a file in it with --out")
        if self._source is not None and self._source.resolve() == path:
            raise BadInput(f"{path}: would overwrite what is read; name another --out")
        try:
            special = path.exists() and not path.is_file()
            self._part = None if special else path.with_name(path.name + f".{os.getpid()}.part")
            self._file = (self._part or path).open("w", encoding="utf-8", newline="")
        except (OSError, ValueError) as exc:
            raise self._unusable(exc) from exc
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        if self._path is None:
            return
        try:
            self._file.close()
            if kind is None and self._part is not None:
                os.replace(self._part, self._path)
        except OSError as exc:
            raise self._unusable(exc) from exc
        finally:
            if self._part is not None:
                self._part.unlink(missing_ok=True)

    def _unusable(self, exc: Exception) -> BadInput:
        return BadInput(f"{self._path}: cannot be written ({getattr(exc, 'strerror', exc)}); name another --out")
