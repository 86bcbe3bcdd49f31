"""``eval``: seed, offline, snapshot, live, compare, calibrate, accept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.output import add_json, dumps, emit, note, say, settings, user
from core.errors import BadInput, CheckFailed
from core.evaluation.desk import MODES, EvaluationDesk, LiveEvaluation
from core.evaluation.difference import Difference
from core.evaluation.gate import GateResult
from core.evaluation.markdown import report_csv, report_markdown, share_text
from core.evaluation.report import Report, plain, report_data
from core.model import Mode

if TYPE_CHECKING:
    from core.bootstrap import App
    from core.evaluation.calibrate import ErrorRate
    from core.evaluation.compare import Comparison


def add(commands: Any) -> None:
    parser = commands.add_parser("eval", help="golden cases: did a change make retrieval better, and where")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    seed = add_json(actions.add_parser("seed", help="build the evaluation's own index from seed-docs/"))
    seed.set_defaults(run=run_seed)

    offline = add_json(actions.add_parser("offline", help="judge the frozen fixtures; needs no store"))
    _mode(offline)
    offline.add_argument("--gate", action="store_true", help="exit 1 unless everything holds against the baseline")
    offline.add_argument("--format", choices=["text", "markdown", "csv"], default="text")
    offline.add_argument("--write", action="store_true", help="also write report and difference under reports/")
    offline.set_defaults(run=run_offline)

    frozen = add_json(actions.add_parser("snapshot", help="run the cases through the real stack and freeze fixtures"))
    frozen.add_argument("--mode", action="append", choices=[m.value for m in MODES], help="default: both")
    frozen.add_argument("--depth", type=int, help="of the probe beside each lookup; 0: none (default: the setting)")
    frozen.set_defaults(run=run_snapshot)

    live = add_json(actions.add_parser("live", help="run the cases and judge at once, writing nothing"))
    _mode(live)
    live.add_argument("--generation", type=int, help="a held generation instead of the active one")
    live.add_argument("--depth", type=int, default=0, help="also probe each branch to this depth")
    live.set_defaults(run=run_live)

    pair = add_json(
        actions.add_parser("compare", help="two runs, case by case: dense against hybrid, before and after")
    )
    pair.add_argument("--a", default="dense", choices=[m.value for m in MODES], help="before")
    pair.add_argument("--b", default="hybrid", choices=[m.value for m in MODES], help="after")
    pair.add_argument("--before", type=Path, help="another folder of fixtures, held against this one in mode --b")
    pair.set_defaults(run=run_compare)

    scale = add_json(actions.add_parser("calibrate", help="distance scale and thresholds from judged queries"))
    _mode(scale)
    scale.add_argument("--basis", choices=["dense", "lexical", "rerank"], default="dense")
    scale.add_argument("--save", action="store_true", help="save what is suggested for this embedding profile")
    scale.add_argument("--why", default="", help="kept with what is saved")
    scale.set_defaults(run=run_calibrate)

    accepted = add_json(actions.add_parser("accept", help="make the offline run the baseline"))
    _mode(accepted)
    accepted.add_argument("--reason", required=True, help="why the new baseline is right; kept in its history")
    accepted.add_argument("--who", default=user())
    accepted.set_defaults(run=run_accept)


def run_seed(args: argparse.Namespace) -> int:
    from core.cli.index import progress_line

    with _evaluation() as (app, _, live):
        if live.seeded() is None:
            number = app.generations.active_number(app.alias)
            emit(args, {"generation": number, "built": False}, f"seed corpus: generation {number} is up to date")
            return 0
        with progress_line(quiet=args.json) as progress:
            outcome = app.rebuild.rebuild(
                "REBUILD",
                who=user(),
                why="seed corpus of the evaluation",
                allow_shrink=True,
                progress=progress,
            )
        wrong = live.seeded()
        if wrong:
            raise CheckFailed(f"the seed corpus is not whole: {wrong}")
        emit(
            args,
            {"generation": outcome.generation, "built": True},
            f"seed corpus: generation {outcome.generation} is active under {app.alias}",
        )
    return 0


def run_offline(args: argparse.Namespace) -> int:
    desk, mode = _desk(), Mode(args.mode)
    report = desk.offline(mode)
    verdict = desk.gate(report, mode) if args.gate else None
    if args.write:
        for path in desk.write(report, mode):
            note(f"written: {path}")
    for problem in report.unresolved:
        note(f"label that points to nothing, mend it first: {problem}")
    if args.format != "text":
        text = report_markdown(report) if args.format == "markdown" else report_csv(report)
        sys.stdout.write(text)
    else:
        emit(args, _data(report, desk.difference(report, mode), verdict), _text(report, verdict))
    return 1 if report.unresolved or (verdict is not None and not verdict.passed) else 0


def run_snapshot(args: argparse.Namespace) -> int:
    modes = [Mode(m) for m in args.mode] if args.mode else list(MODES)
    with _evaluation() as (app, _, live):
        depth = app.settings.evaluation.depth if args.depth is None else args.depth
        frozen = live.snapshot(modes, depth=depth, progress=_progress(args))
        rows = [{"mode": s.mode, "cases": len(s.fixtures.fixtures), "folder": str(s.folder)} for s in frozen]
        lines = [f"{row['mode']}: {row['cases']} fixtures in {row['folder']}" for row in rows]
        emit(args, {"snapshots": rows, "failed": [s.failed for s in frozen]}, "\n".join(lines))
    return 0


def run_live(args: argparse.Namespace) -> int:
    mode = Mode(args.mode)
    with _evaluation() as (_, desk, live):
        report = live.live(mode, generation=args.generation, depth=args.depth, progress=_progress(args))
        emit(args, _data(report, desk.difference(report, mode), None), _text(report, None))
    failed = [row for row in report.rows if row.gates and row.passed is not True]
    return 1 if failed else 0


def run_compare(args: argparse.Namespace) -> int:
    desk = _desk()
    other = _folder(args.before) if args.before else None
    found = desk.compare(Mode(args.a), Mode(args.b), other=other)
    if args.json:
        print(dumps(plain(found)))
    else:
        say(_comparison_text(found))
    return 0


def run_calibrate(args: argparse.Namespace) -> int:
    from core.bootstrap import make_embedder
    from core.evaluation.calibration_file import CalibrationFile, scale_of

    configured, desk = settings(), _desk()
    profile = make_embedder(configured).profile
    current = None
    if args.basis == "dense":
        span = profile.max_distance - profile.min_distance
        current = profile.min_distance + (1 - profile.reference_threshold) * span
    found = desk.calibrate(args.basis, Mode(args.mode), current)
    lines = [
        f"{found.basis}: {found.answerable} answerable, {found.unanswerable} unanswerable queries "
        f"of {', '.join(found.sets) or 'no set'}; separation (AUROC) {_number(found.separation)}",
        *(f"note: {text}" for text in found.warnings),
    ]
    suggested = found.suggestion.reference if found.suggestion is not None else None
    for name, point in (("now", found.current), ("suggested", suggested)):
        if point is not None:
            lines.append(
                f"{name}: gate at {point.threshold:.4f}; false fallback {_rate(point.false_fallback)}, "
                f"missed fallback {_rate(point.missed_fallback)}"
            )
    if found.suggestion is not None:
        s = found.suggestion
        lines.append(
            f"scale {_number(s.min_distance)} to {_number(s.max_distance)}, "
            f"thresholds {s.reference_threshold:.3f} / {s.precise_threshold:.3f}"
        )
    if args.save:
        if found.suggestion is None:
            raise CheckFailed("nothing to save: both answerable and unanswerable cases are needed")
        file = CalibrationFile(configured.path(configured.embedding.calibration))
        file.save(scale_of(found.suggestion, profile.profile_id, who=user(), why=args.why))
        lines.append(f"saved for {profile.profile_id} in {file.path}; running processes take it at their next start")
    emit(args, plain(found), "\n".join(lines))
    return 0


def run_accept(args: argparse.Namespace) -> int:
    desk, mode = _desk(), Mode(args.mode)
    report = desk.offline(mode)
    baseline = desk.accept(report, who=args.who, reason=args.reason, mode=mode)
    desk.write(report, mode)
    entry = baseline.history[-1]
    emit(args, plain(entry), f"baseline: {entry.passed} of {entry.total} reviewed cases pass; {entry.reason}")
    return 0


# --------------------------------------------------------------------------------------------- shared


def _mode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mode", choices=[m.value for m in MODES], default=Mode.HYBRID.value, help="of the fixtures")


def _desk() -> EvaluationDesk:
    from core.bootstrap import evaluation_desk

    return evaluation_desk(settings())


@contextmanager
def _evaluation() -> Iterator[tuple[App, EvaluationDesk, LiveEvaluation]]:
    from core.bootstrap import build_evaluation

    app, desk, live = build_evaluation(settings())
    try:
        yield app, desk, live
    finally:
        app.close()


def _progress(args: argparse.Namespace) -> Any:
    if args.json or not sys.stderr.isatty():
        return None

    def show(number: int, total: int, case_id: str) -> None:
        print(f"\r{number}/{total} {case_id:<40}", end="\n" if number == total else "", file=sys.stderr, flush=True)

    return show


def _data(report: Report, diff: Difference | None, verdict: GateResult | None) -> dict[str, Any]:
    data: dict[str, Any] = {"report": report_data(report)}
    if diff is not None:
        data["difference"] = {"comparable": diff.comparable, **plain(diff)}
    if verdict is not None:
        data["gate"] = {"passed": verdict.passed, "reasons": [str(reason) for reason in verdict.reasons]}
    return data


def _text(report: Report, verdict: GateResult | None) -> str:
    judged = report.judgement
    lines = [
        f"passed {share_text(judged.pass_rate)}; reviewed {share_text(judged.gating_pass_rate)}; "
        f"case recall {share_text(judged.case_recall)}; {report.elapsed_ms:.0f} ms"
    ]
    for row in report.rows:
        if row.passed is not True:
            mark = "FAIL" if row.gates else "fail (draft)"
            lines.append(
                f"{mark}  {row.case_id}  {row.status.value}  {'; '.join(row.failures)}  loss {row.loss or 'none'}"
            )
    if verdict is not None:
        lines += [str(reason) for reason in verdict.reasons]
        lines.append("gate: passed" if verdict.passed else f"gate: closed, {len(verdict.reasons)} reasons")
    return "\n".join(lines)


def _comparison_text(found: Comparison) -> str:
    lines = [found.verdict, ""]
    for m in found.metrics:
        lines.append(
            f"{m.stage.value:<10} {m.metric:<12} {_number(m.mean_a)} → {_number(m.mean_b)}  "
            f"delta {_number(m.delta)}  p {_number(m.p)}  {m.wins}/{m.ties}/{m.losses} of {m.pairs}"
        )
    for row in found.worst:
        lines.append(f"worse: {row.case_id} by {_number(row.delta)}, rank {row.rank_a} → {row.rank_b}")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _rate(rate: ErrorRate) -> str:
    if rate.rate is None:
        return "none to count"
    between = f" [{rate.interval.low:.1%}, {rate.interval.high:.1%}]" if rate.interval else ""
    return f"{rate.count} of {rate.total} ({rate.rate:.1%}{between})"


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise BadInput(f"{path}: no such folder")
    return path
