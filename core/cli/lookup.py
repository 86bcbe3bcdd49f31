"""``lookup``: one question, standard input, or a batch of them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.output import add_json, app, dumps, note, output, say
from core.errors import BadInput, RagError
from core.model import LookupResult, Mode, Origin, RagToolResult
from core.wording import counted, evidence_pieces

if TYPE_CHECKING:
    from core.bootstrap import App
    from core.lookup import LookupOutcome


def add(commands: Any) -> None:
    parser = add_json(commands.add_parser("lookup", help="look up evidence for a question"))
    parser.add_argument("query", nargs="?", help="the question; - reads standard input")
    parser.add_argument("--mode", choices=[m.value for m in Mode], help="what-if: another search mode for this call")
    parser.add_argument(
        "--kb-scope", action="append", metavar="SCOPE", help="access scope, repeatable; '*' is all of them"
    )
    parser.add_argument("--full", action="store_true", help="the whole LookupResult instead of what the agent sees")
    parser.add_argument("--session", help="session id for audit and trace")
    parser.add_argument("--run", dest="run_id", help="run id for audit and trace")
    parser.add_argument(
        "--batch", type=Path, metavar="FILE", help='JSON lines {"query_id", "query"}; - reads standard input'
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where the batch's results go (default: standard output)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if (args.query is None) == (args.batch is None):
        raise BadInput("lookup: give one question, `-` for standard input, or --batch FILE")
    if args.batch is not None:
        return _batch(args)
    if args.out is not None:
        raise BadInput("lookup: --out goes with --batch; one answer goes to standard output")
    query = sys.stdin.read() if args.query == "-" else args.query
    with app() as built:
        outcome = _lookup(built, args, query)
        if args.json:
            print(dumps(outcome.result if args.full else outcome.result.tool_result))
        elif args.full:
            print(dumps(outcome.result))
        else:
            say(_readable(outcome))
        if outcome.error is not None:
            raise outcome.error
        if outcome.receipt.state != "recorded":
            note(f"audit: {outcome.receipt.state}" + (f" ({outcome.receipt.reason})" if outcome.receipt.reason else ""))
    return 0


def _lookup(built: App, args: argparse.Namespace, query: str) -> LookupOutcome:
    from core.lookup import LookupRequest, WhatIf

    return built.lookup.lookup(
        LookupRequest(
            query=query,
            kb_scope=tuple(args.kb_scope) if args.kb_scope else None,
            origin=Origin.CLI,
            session_id=args.session,
            run_id=args.run_id,
            what_if=WhatIf(mode=Mode(args.mode)) if args.mode else None,
        )
    )


def _readable(outcome: LookupOutcome) -> str:
    from core.stages.evidence import by_document

    result: LookupResult = outcome.result
    tool: RagToolResult | None = result.tool_result
    trace = result.retrieval_trace
    head = [result.evidence_status.value, result.relevance_level.value if result.relevance_level else "no level"]
    head += [trace.selected_attempt.value] if trace.selected_attempt else []
    head += [trace.fallback_reason.value] if trace.fallback_reason else []
    head += [f"degraded: {reason}" for reason in trace.degraded]
    lines = [" · ".join(head), f"trace {result.trace_id}"]
    if tool is None or not tool.evidence:
        return "\n".join([*lines, result.message])
    others = {piece.evidence_key: piece.also_in for piece in result.evidence}
    sources = len(by_document(result.evidence))
    lines.append(f"{evidence_pieces(tool.returned_count)} from {counted(sources, 'document')}")
    for number, item in enumerate(tool.evidence, 1):
        path = item.breadcrumb or item.title
        also = others.get(item.document_id) or ()
        lines += [
            "",
            f"[{number}] {item.document_id}" + (f" (also in {', '.join(also)})" if also else ""),
            f"    {item.title} · {path}",
            f"    {item.source}",
            "",
        ]
        lines += [f"    {line}" for line in item.excerpt.splitlines()]
    if tool.truncated:
        lines += ["", "truncated: something was cut on the way to the agent; --full shows what"]
    return "\n".join(lines)


# --------------------------------------------------------------------------------------------- batch


def _batch(args: argparse.Namespace) -> int:
    rows = list(_rows(args.batch))
    failed = 0
    with app() as built, output(args.out, source=args.batch) as out:
        for query_id, query in rows:
            answer: dict[str, Any] = {"query_id": query_id}
            try:
                outcome = _lookup(built, args, query)
                if outcome.error is not None:
                    raise outcome.error
                answer["result"] = outcome.result
            except RagError as exc:
                failed += 1
                answer["error"] = {"class": exc.error_class, "message": str(exc)}
            out.write(dumps(answer, indent=None) + "\n")
    note(f"{len(rows) - failed} of {len(rows)} looked up" + (f", {failed} failed" if failed else ""))
    return 1 if failed else 0


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    """Every line is checked before the first lookup: a typo in line 900 must not cost 899 lookups."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadInput(f"{name}: cannot be read ({exc.__class__.__name__}); give a UTF-8 file of JSON lines") from exc
    seen: set[str] = set()
    for number, line in _numbered(text.split("\n")):
        try:
            row = json.loads(line)
            query_id, query = row["query_id"], row["query"]
        except (ValueError, KeyError, TypeError, RecursionError) as exc:
            raise BadInput(f'{name}, line {number}: expected {{"query_id": …, "query": …}}') from exc
        if not isinstance(query, str) or not isinstance(query_id, str | int):
            raise BadInput(f"{name}, line {number}: query_id and query are texts")
        if str(query_id) in seen:
            raise BadInput(f"{name}, line {number}: query_id {query_id!r} stands there twice")
        seen.add(str(query_id))
        yield str(query_id), query


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())
