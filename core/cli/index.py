"""``rebuild``, ``rollback``, ``switch``, ``ingest``, ``remove``: everything that changes the index."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from core.cli.output import add_json, app, emit, note, user
from core.knowledge.rebuild.guard import Word, confirm
from core.knowledge.rebuild.values import Plan, Progress, RebuildOutcome
from core.knowledge.source import Rejected
from core.wording import counted

if TYPE_CHECKING:
    from core.bootstrap import App

Tell = Callable[[Progress], None]
LISTED = 20  # rejected files shown; --json has them all
NAMED = 5  # skipped files named a rule


def add(commands: Any) -> None:
    rebuild = add_json(commands.add_parser("rebuild", help="build the index anew beside the old one, prove it, switch"))
    rebuild.add_argument("--confirm", default="", metavar="WORD", help="the word REBUILD, in full")
    rebuild.add_argument("--source", type=Path, metavar="DIR", help="another folder than knowledge.source")
    rebuild.add_argument("--dry-run", action="store_true", help="only say what would be done")
    rebuild.add_argument("--hold", action="store_true", help="stop before the switch; `switch` activates later")
    rebuild.add_argument("--allow-shrink", action="store_true", help="accept far fewer documents than before, or none")
    rebuild.add_argument("--skip-gate", action="store_true", help="leave the reviewed cases out")
    _who(rebuild)
    rebuild.set_defaults(run=run_rebuild)

    back = add_json(commands.add_parser("rollback", help="back to the previous generation, at once"))
    back.add_argument("--confirm", default="", metavar="WORD", help="the word ROLLBACK, in full")
    _who(back)
    back.set_defaults(run=run_rollback)

    switch = add_json(commands.add_parser("switch", help="activate a generation that was held after its proof"))
    switch.add_argument("--confirm", default="", metavar="WORD", help="the word SWITCH, in full")
    switch.add_argument("--generation", type=int, metavar="N", help="which one (default: the newest that is held)")
    switch.add_argument("--skip-gate", action="store_true", help="leave the reviewed cases out")
    _who(switch)
    switch.set_defaults(run=run_switch)

    ingest = add_json(
        commands.add_parser("ingest", help="files or folders into the index now, everything else as it is")
    )
    ingest.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a .md file, or a folder of them")
    _who(ingest)
    ingest.set_defaults(run=run_ingest)

    remove = add_json(commands.add_parser("remove", help="one document out of the index, now and in later rebuilds"))
    remove.add_argument("doc_id", metavar="DOC_ID", help="its path without suffix, as in redis/pool")
    _who(remove)
    remove.set_defaults(run=run_remove)


def _who(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--why", default="", help="kept in the history")
    parser.add_argument("--who", default=user(), help=argparse.SUPPRESS)


def run_rebuild(args: argparse.Namespace) -> int:
    source = args.source.absolute() if args.source else None
    if not args.dry_run:
        confirm(args.confirm, Word.REBUILD)
    with app() as built:
        if args.dry_run:
            plan = built.rebuild.dry_run(source)
            emit(args, plan, plan_text(plan))
            return 0
        with progress_line(quiet=args.json) as progress:
            outcome = built.rebuild.rebuild(
                args.confirm,
                who=args.who,
                why=args.why,
                source=source,
                hold=args.hold,
                allow_shrink=args.allow_shrink,
                skip_gate=args.skip_gate,
                progress=progress,
            )
        emit(args, outcome, outcome_text(outcome))
    return 0


def run_rollback(args: argparse.Namespace) -> int:
    confirm(args.confirm, Word.ROLLBACK)
    with app() as built, progress_line(quiet=args.json) as progress:
        outcome = built.rebuild.rollback(args.confirm, who=args.who, why=args.why, progress=progress)
    emit(args, outcome, outcome_text(outcome))
    return 0


def run_switch(args: argparse.Namespace) -> int:
    confirm(args.confirm, Word.SWITCH)
    with app() as built, progress_line(quiet=args.json) as progress:
        outcome = built.rebuild.switch(
            args.confirm,
            who=args.who,
            why=args.why,
            generation=args.generation,
            skip_gate=args.skip_gate,
            progress=progress,
        )
    emit(args, outcome, outcome_text(outcome))
    return 0


def run_ingest(args: argparse.Namespace) -> int:
    """Exit 1 when some of several files were rejected: they are listed, the others are in."""
    paths = [path.absolute() for path in args.paths]
    with app() as built, progress_line(quiet=args.json) as progress:
        outcome = built.rebuild.ingest(paths, who=args.who, why=args.why, progress=progress)
    emit(args, outcome, outcome_text(outcome))
    return 1 if outcome.rejected else 0


def run_remove(args: argparse.Namespace) -> int:
    with app() as built, progress_line(quiet=args.json) as progress:
        outcome = built.rebuild.remove(args.doc_id, who=args.who, why=args.why, progress=progress)
    emit(args, outcome, outcome_text(outcome))
    return 0


def build_sample(built: App) -> RebuildOutcome | None:
    """The first start: builds the index from ``knowledge.source`` when there is no active generation, with progress.
    None when there is one already. Raises what a rebuild raises."""
    if built.generations.active_number(built.settings.milvus.collection) is not None:
        return None
    with progress_line() as progress:
        return built.rebuild.rebuild("REBUILD", who=user(), why="first start", progress=progress)


@contextmanager
def progress_line(*, quiet: bool = False) -> Iterator[Tell | None]:
    """A bar on standard error while it is a terminal, a line a step where it is not, nothing when ``quiet``."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        with Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        ) as bar:
            bars = _Bars(bar)
            yield bars
            bars.finish()


class _Lines:
    def __init__(self) -> None:
        self._step = ""

    def __call__(self, progress: Progress) -> None:
        if progress.step != self._step:
            self._step = progress.step
            note(f"{progress.step}: {progress.message}")


class _Bars:
    """One bar a step: a count where there is one, else empty until the next step begins."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._step = ""
        self._task: Any = None

    def __call__(self, progress: Progress) -> None:
        total = progress.total or 1
        if progress.step != self._step:
            self.finish()
            self._step = progress.step
            self._task = self._bar.add_task(escape(progress.message), total=total, count="")
        rate = f" {progress.rate:.1f}/s" if progress.rate else ""
        count = f"{progress.done or 0}/{progress.total}{rate}" if progress.total else ""
        self._bar.update(self._task, completed=progress.done or 0, total=total, count=count)

    def finish(self) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=self._bar.tasks[-1].total)


def plan_text(plan: Plan) -> str:
    lines = [
        f"{plan.documents} documents: {len(plan.added)} added, {len(plan.changed)} changed, {len(plan.removed)} removed, "
        f"{len(plan.unchanged)} unchanged, {len(plan.kept)} kept in their earlier version",
        f"{plan.chunks} chunks: {plan.to_embed} to embed, {plan.from_cache} from the cache",
    ]
    if repeated := plan.chunks - plan.to_embed - plan.from_cache:
        lines[-1] += f", {repeated} of a text that is embedded once"
    if plan.seconds is None:
        lines.append(f"time: {plan.rate_from}")
    else:
        rate = f" at {plan.rate:.1f} passages a second ({plan.rate_from})" if plan.rate and plan.to_embed else ""
        lines.append(f"time: about {_span(plan.seconds)}{rate}")
    if plan.faster:
        lines.append(f"faster: embedding.provider = {plan.faster!r} needs about {_span(plan.faster_seconds or 0)}")
    lines += [f"! {demand}" for demand in plan.demands]
    if plan.refused:
        lines.append(f"! would be refused: {plan.refused}")
    for mark, ids in (("+", plan.added), ("~", plan.changed), ("-", plan.removed)):
        lines += [f"  {mark} {doc_id}" for doc_id in ids[:LISTED]]
        if len(ids) > LISTED:
            lines.append(f"  {mark} and {len(ids) - LISTED} more")
    return "\n".join([*lines, *_skipped(plan.skipped), *_rejected(plan.rejected)])


def outcome_text(outcome: RebuildOutcome) -> str:
    seconds = outcome.seconds.get("total", 0.0)
    what = "held, not yet active" if outcome.state == "VERIFIED" else "active"
    if outcome.generation == outcome.previous:
        return "\n".join(
            [*outcome.notes, f"generation {outcome.generation} stays active", *_rejected(outcome.rejected)]
        )
    lines = [f"generation {outcome.generation} is {what} ({_span(seconds)})"]
    if outcome.chunks:
        lines.append(
            f"{outcome.documents} documents (+{len(outcome.added)} ~{len(outcome.changed)} -{len(outcome.removed)}), "
            f"{outcome.chunks} chunks: {outcome.embedded} embedded, {outcome.from_cache} from the cache"
        )
    lines += outcome.notes
    lines += [f"! {warning}" for warning in outcome.warnings[:LISTED]]
    if outcome.kept:
        lines.append(f"{len(outcome.kept)} documents stay in their earlier version since their file is rejected now")
    return "\n".join([*lines, *_rejected(outcome.rejected)])


def _skipped(skipped: Sequence[Rejected]) -> list[str]:
    """By rule: the rule, and some of the names."""
    if not skipped:
        return []
    by_reason: dict[str, list[str]] = {}
    for item in skipped:
        by_reason.setdefault(item.reason, []).append(item.source)
    lines = [f"{counted(len(skipped), 'file')} skipped by rule:"]
    for reason, names in sorted(by_reason.items()):
        more = f" and {len(names) - NAMED} more (--json lists them)" if len(names) > NAMED else ""
        lines.append(f"  {reason}: {', '.join(names[:NAMED])}{more}".replace("\n", "\\n"))
    return lines


def _rejected(rejected: Any) -> list[str]:
    if not rejected:
        return []
    lines = [f"{len(rejected)} rejected:"]
    for item in rejected[:LISTED]:
        place = f"{item.source}:{item.line}" if item.line else item.source
        lines.append(f"  {place}: {item.reason}".replace("\n", "\\n"))  # a name must not look like a line of ours
    if len(rejected) > LISTED:
        lines.append(f"  and {len(rejected) - LISTED} more (--json lists them)")
    return lines


def _span(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
