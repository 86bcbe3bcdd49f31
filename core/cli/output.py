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
    """A file that appears only when it is whole, or standard output."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO = sys.stdout

    def __enter__(self) -> TextIO:
        if self._path is not None:
            try:
                self._part = self._path.with_name(self._path.name + f".{os.getpid()}.part")
                self._file = self._part.open("w", encoding="utf-8", newline="")
            except (OSError, ValueError) as exc:
                raise self._unusable(exc) from exc
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        if self._path is not None:
            self._file.close()
            try:
                if kind is None:
                    os.replace(self._part, self._path)
            except OSError as exc:
                raise self._unusable(exc) from exc
            finally:
                self._part.unlink(missing_ok=True)

    def _unusable(self, exc: Exception) -> BadInput:
        return BadInput(f"{self._path}: cannot be written ({getattr(exc, 'strerror', exc)}); name another --out")
