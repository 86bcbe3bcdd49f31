"""``trace`` and ``audit``: what was recorded, whether it is whole, and how much of it is kept."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core.audit.export import Format, export
from core.audit.params import read_moment
from core.audit.query import AuditFilter, cursor_from_param, cursor_to_param
from core.cli.output import add_json, app, dumps, emit, note, output, say, user
from core.cli.record_text import moment, page_text, timeline, trace_text
from core.codec import to_data
from core.errors import BadInput, NotFound

if TYPE_CHECKING:
    from core.audit.verify import ChainReport
    from core.bootstrap import App

MOST_SHOWN: Final = 20
_HELP: Final[Mapping[str, str]] = {
    "since": "from this moment on: 2026-11-30 or 2026-11-30T08:15:00+08:00; without an offset in audit.timezone",
    "until": "before this moment",
    "status": "ok, refused, timeout or error",
    "error": "class of the error",
    "relevance_level": "PRECISE, REFERENCE or none",
    "evidence_status": "READY, NO_EVIDENCE or ERROR",
    "attempt": "FILTERED_VECTOR, UNFILTERED_VECTOR, UNFILTERED_VECTOR_RETRY or none",
    "fallback": "any, none or a reason",
    "degraded": "yes or no",
    "only": "retried, scope_violation, stale, budget_drop, truncated, what_if, cut; several with commas",
    "tool": "name of the tool",
    "origin": "agent, console, cli or eval",
    "session": "session id",
    "run": "run id",
    "trace": "trace id",
    "scope": "one scope among those of the lookup",
    "language": "of the query",
    "generation": "of the index",
    "model": "embedding profile",
    "reranker": "model of the reranker",
    "min_ms": "took at least so many milliseconds",
    "max_ms": "took at most so many milliseconds",
    "text": "stands in what is stored",
}


def add(commands: Any) -> None:
    trace = add_json(commands.add_parser("trace", help="one lookup as it was recorded, or a session or run in order"))
    trace.add_argument("id", nargs="?", metavar="ID", help="trace id, or the invocation or tool call id of its record")
    trace.add_argument("--session", metavar="S", help="every call and event of a session")
    trace.add_argument("--run", dest="run_id", metavar="R", help="every call and event of a run")
    trace.set_defaults(run=run_trace)

    audit = add_json(commands.add_parser("audit", help="the record of all calls, newest first"))
    for f in fields(AuditFilter):
        names = [f"--{f.name.replace('_', '-')}", *_ALIASES.get(f.name, ())]
        audit.add_argument(*names, dest=f"where_{f.name}", metavar="VALUE", default="", help=_HELP[f.name])
    audit.add_argument("--limit", type=int, default=MOST_SHOWN, help="records shown, up to 1000")
    audit.add_argument("--older-than", metavar="PLACE", help="the next page: what the page before names at its end")
    audit.add_argument("--oldest", action="store_true", help="the last page")
    audit.add_argument("--format", choices=[f.value for f in Format], help="all of them as a file")
    audit.add_argument("--out", type=Path, metavar="FILE", help="where the file goes (default: standard output)")
    audit.set_defaults(run=run_audit)

    actions = audit.add_subparsers(dest="action", metavar="[verify | prune]", parser_class=type(audit))
    verify = actions.add_parser("verify", help="whether any row was changed, removed or inserted; exit 1 if so")
    verify.add_argument("--rows-only", action="store_true", help="leave traces and events out, which is faster")
    prune = actions.add_parser("prune", help="removes old records on purpose; the chain stays verifiable")
    prune.add_argument("--before", required=True, metavar="DATE", help="what was recorded before this moment goes")
    prune.add_argument("--force", action="store_true", help="also rows that are not as they were written")
    for action, run in ((verify, run_verify), (prune, run_prune)):
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="machine-readable output")
        action.set_defaults(run=run)


_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {"relevance_level": ("--level",), "scope": ("--kb-scope",)}


# --------------------------------------------------------------------------------------------- trace


def run_trace(args: argparse.Namespace) -> int:
    if (args.id is None) == (args.session is None and args.run_id is None):
        raise BadInput("trace: give one id, or --session S, or --run R")
    with app() as built:
        return _one(built, args) if args.id is not None else _several(built, args)


def _one(built: App, args: argparse.Namespace) -> int:
    wanted = args.id.removeprefix("call_")  # the tool_call_id that an agent holds names its record
    stored, trace_id, invocation_id = built.traces.load(wanted), wanted, None
    if stored is None and (record := built.audit_log.get(wanted)) is not None and record.row.trace_id:
        trace_id, invocation_id = record.row.trace_id, record.row.invocation_id
        stored = built.traces.load(trace_id)
    if stored is None:
        raise NotFound(f"no lookup {args.id!r} is recorded: it never was, or it was pruned{_waiting(built)}")
    if invocation_id is None:
        rows = built.audit_log.page(AuditFilter(trace=trace_id), limit=1).rows
        invocation_id = rows[0].invocation_id if rows else None
    query = stored.result.query
    if not query and (asked := built.history.get(trace_id)) is not None:
        query = asked.query
    about = {
        "invocation_id": invocation_id,
        "created_at": stored.created_at,
        "content": stored.content,
        "query_sha256": stored.query_sha256,
        "query_chars": stored.query_chars,
        "cut": stored.cut,
    }
    data = to_data(stored.result) | {"query": query, "stored": about}
    emit(args, data, trace_text(stored, query, invocation_id, built.settings.audit.timezone))
    return 0


def _several(built: App, args: argparse.Namespace) -> int:
    where = AuditFilter.from_params({"session": args.session or "", "run": args.run_id or ""})
    rows = list(built.audit_log.export(where))[::-1]
    events = built.traces.events(session_id=where.session, run_id=where.run)
    if not rows and not events:
        raise NotFound(f"nothing is recorded of this session or run{_waiting(built)}")
    data = {"session_id": where.session, "run_id": where.run, "invocations": rows, "events": events}
    emit(args, data, timeline(rows, events, built.settings.audit.timezone))
    return 0


def _waiting(built: App) -> str:
    count = built.audit.waiting()
    return (
        f"; {count} record{'s' if count > 1 else ''} still wait{'' if count > 1 else 's'} in the outbox"
        if count
        else ""
    )


# --------------------------------------------------------------------------------------------- audit


def run_audit(args: argparse.Namespace) -> int:
    if args.out and not args.format:
        raise BadInput("audit: --out writes a file: give --format csv or --format jsonl too")
    with app() as built:
        zone = built.settings.audit.timezone
        given = {f.name: getattr(args, f"where_{f.name}") for f in fields(AuditFilter)}
        where = AuditFilter.from_params(given, zone)
        if args.format:
            return _file(built, args, where, zone)
        before = cursor_from_param(args.older_than, "--older-than") if args.older_than else None
        page = built.audit_log.page(where, limit=args.limit, before=before, oldest=args.oldest)
        older = cursor_to_param(page.older) if page.older else None
        data = {"total": page.total, "total_exact": page.total_exact, "rows": page.rows, "older_than": older}
        emit(args, data, page_text(page, zone))
        if older and not args.json:
            note(f"older: --older-than {older}")
        if waiting := _waiting(built):
            note(waiting.removeprefix("; "))
    return 0


def _file(built: App, args: argparse.Namespace, where: AuditFilter, zone: str) -> int:
    written = -1 if args.format == Format.CSV else 0  # the header is no record
    with output(args.out) as out:
        for line in export(built.audit_log, where, Format(args.format), zone=zone):
            out.write(line)
            written += 1
    if args.json and args.out:
        print(dumps({"records": written, "out": str(args.out)}))
    else:
        note(f"{written} records")
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Exit 0 when every row is as it was written, 1 otherwise; the report is printed either way."""
    from core.audit.verify import verify

    with app() as built:
        report = verify(built.ledger, deep=not args.rows_only)
        waiting = built.audit.waiting()
    emit(args, to_data(report) | {"waiting": waiting}, _report(report, waiting))
    return 0 if report.ok else 1


def _report(report: ChainReport, waiting: int) -> str:
    lines = [str(finding) for finding in report.findings]
    if report.count > len(lines):
        lines.append(f"and {report.count - len(lines)} more")
    exposed = "without a key: whoever can write to the database could write it anew"
    kept = "with a key" if report.keyed else exposed
    if report.keyed and report.unkeyed:
        kept += f", {report.unkeyed} of them from before {exposed}"
    pruned = f", {report.pruned} pruned on purpose" if report.pruned else ""
    lines.append(f"{report.rows} rows{pruned}, chained {kept}" + (f"; {waiting} wait in the outbox" if waiting else ""))
    lines += [f"head of {head.writer}: row {head.seq}, {head.row_hash}" for head in report.heads]
    lines.append("the record is whole" if report.ok else f"the record is not what was written: {report.count} findings")
    return "\n".join(lines)


def run_prune(args: argparse.Namespace) -> int:
    from core.audit.prune import prune

    with app() as built:
        zone = built.settings.audit.timezone
        before = read_moment("--before", args.before, zone)
        outcome = prune(built.ledger, before, user(), content=built.settings.audit.content, force=args.force)
    text = f"{outcome.rows} records and {outcome.traces} traces from before {moment(before, zone)} removed"
    if args.json:
        print(dumps(outcome))
    else:
        say(text)
    return 0
