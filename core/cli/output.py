"""What the commands share: settings and application on demand, JSON out, confirmations."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from core.codec import to_data
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
