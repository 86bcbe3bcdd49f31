"""The command line: ``python -m core COMMAND``.

Every command takes ``--json``, prints errors on stderr in one line that says what to do, and exits 0 (done), 1 (a gate
or check failed), 2 (bad use or bad input) or 3 (a store is away).
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from core.errors import BadInput, RagError, redact

# Imported when first needed: `--help` and a wrong option answer without loading a store or a model.
COMMANDS: Final = ("lookup", "index", "record", "evaluate", "system")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}; see `{self.prog} --help`")


def parser() -> argparse.ArgumentParser:
    """The whole grammar. Each module of this package adds its commands with ``add(commands)``."""
    root = _Parser(
        prog="python -m core", description="Look up runbook evidence, rebuild its index, prove a change by evaluation."
    )
    root.add_argument("--settings", type=Path, help="another settings.toml")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name in COMMANDS:
        importlib.import_module(f"core.cli.{name}").add(commands)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; never shows a stack trace."""
    try:
        args = parser().parse_args(argv)
        _check_text(args)
        if args.settings:
            if not args.settings.is_file():
                raise BadInput(f"{args.settings}: no such settings file; name an existing one or leave --settings out")
            os.environ["RAG_SETTINGS"] = str(args.settings.resolve())
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except RagError as exc:
        print(f"error: {redact(exc)}", file=sys.stderr)
        return exc.exit_code
    except BrokenPipeError:
        # the reader of our output went away (`… | head`): nothing is wrong, and nothing more can be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("error: interrupted; nothing of the active index was changed", file=sys.stderr)
        return 1
    except Exception as exc:  # noqa: BLE001 - a full disk, or a defect: one line, and the place for those who ask for it
        if os.environ.get("RAG_TRACEBACK"):
            traceback.print_exc()
        print(f"error: {_unexpected(exc)}", file=sys.stderr)
        _drop_output()
        return 1


def _check_text(args: argparse.Namespace) -> None:
    """Raises BadInput for an argument that was no valid UTF-8. A question is refused later, with a record of it."""
    for name, value in vars(args).items():
        texts = value if isinstance(value, list) else [value]
        if name != "query" and any(isinstance(t, str) and not t.isascii() and _broken(t) for t in texts):
            raise BadInput(f"{name}: the text is no valid UTF-8; give it as UTF-8")


def _broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _unexpected(exc: Exception) -> str:
    if isinstance(exc, OSError):
        place = f"{exc.filename}: " if exc.filename else ""
        return redact(f"{place}{exc.strerror or exc}; mend it and try again")
    return redact(f"unexpected {type(exc).__name__}: {exc}; RAG_TRACEBACK=1 shows where")


def _drop_output() -> None:
    """What is still to be written is given up: at its end the interpreter would fail on it once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
