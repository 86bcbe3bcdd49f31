"""The command line: ``python -m core COMMAND``.

Every command takes ``--json``, prints errors on stderr in one line that says what to do, and exits 0 (done), 1 (a gate
or check failed), 2 (bad use or bad input) or 3 (a store is away).
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
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
    secrets: tuple[str, ...] = ()
    try:
        args = parser().parse_args(argv)
        if args.settings:
            if not args.settings.is_file():
                raise BadInput(f"{args.settings}: no such settings file; name an existing one or leave --settings out")
            os.environ["RAG_SETTINGS"] = str(args.settings.resolve())
        return int(args.run(args))
    except RagError as exc:
        print(f"error: {redact(exc, secrets)}", file=sys.stderr)
        return exc.exit_code
    except BrokenPipeError:
        # the reader of our output went away (`… | head`): nothing is wrong, and nothing more can be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("error: interrupted; nothing of the active index was changed", file=sys.stderr)
        return 1
