"""How long judging takes without any store: cases, fixtures and labels read, metrics, losses, gate and difference made.

The cases and fixtures are the shipped ones, repeated under new names until there are enough, so that their size is that
of real lookups; the first run is accepted as the baseline of the others. Each number is a run in a process of its own,
timed from the moment its command starts (the interpreter and the libraries are there then), and the same run again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, Final

from core.evaluation.desk import EvaluationDesk
from core.evaluation.places import Places
from core.model import Mode
from core.settings import ROOT, load

GOALS: Final = {80: 0.5, 1000: 3.0}


def repeated(shipped: Places, folder: Path, count: int) -> None:
    """``count`` cases with a fixture each in ``folder``, and the seed documents that their labels name."""
    data = json.loads(shipped.cases.read_text(encoding="utf-8"))
    made: list[dict[str, Any]] = []
    target = Places(folder)
    (target.fixtures / "hybrid").mkdir(parents=True)
    target.cases.parent.mkdir(parents=True)
    fixtures = {path.stem: path.read_text(encoding="utf-8") for path in (shipped.fixtures / "hybrid").glob("*.json")}
    for number, case in enumerate(islice(cycle(data["cases"]), count)):
        case_id = f"{case['caseId']}-{number:04}"
        made.append({**case, "caseId": case_id})
        fixture = {**json.loads(fixtures[case["caseId"]]), "caseId": case_id}
        text = json.dumps(fixture, ensure_ascii=False, indent=1)
        (target.fixtures / "hybrid" / f"{case_id}.json").write_text(text, encoding="utf-8")
    target.cases.write_text(json.dumps({**data, "cases": made}, ensure_ascii=False, indent=1), encoding="utf-8")
    shutil.copytree(shipped.seed, target.seed)


def judge(folder: Path) -> dict[str, Any]:
    """One offline run with its difference and gate, twice over: seconds of each, and of the processor."""
    desk = EvaluationDesk(folder)
    seconds, processor = [], []
    for _ in range(2):
        began, used = time.perf_counter(), time.process_time()
        report = desk.offline(Mode.HYBRID)
        verdict = desk.gate(report, Mode.HYBRID)
        seconds.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
        if not verdict.passed or verdict.difference is None or not verdict.difference.comparable:
            raise RuntimeError(f"the gate is not open: {[str(reason) for reason in verdict.reasons[:3]]}")
    return {"seconds": seconds, "processor": processor, "cases": len(report.rows)}


def measured(folder: Path, runs: int) -> list[dict[str, Any]]:
    """``judge`` in ``runs`` processes, one after another."""
    found = []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.offline_evaluation", "--judge", str(folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offline_evaluation", description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=list(GOALS), help="of cases")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--judge", type=Path, help="only one run over this folder, as JSON")
    chosen = parser.parse_args(argv or [])
    if chosen.judge:
        print(json.dumps(judge(chosen.judge)))
        return
    shipped = Places(load(environ={}).path("eval/rag-retrieval"))
    for count in chosen.counts:
        folder = Path(tempfile.mkdtemp(prefix="bench-offline-"))
        try:
            repeated(shipped, folder, count)
            desk = EvaluationDesk(folder)
            desk.accept(desk.offline(Mode.HYBRID), who="benchmark", reason="the run to compare with")
            size = sum(path.stat().st_size for path in (folder / "fixtures").rglob("*.json")) / 1e6
            runs = measured(folder, chosen.runs)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        first, again = (median(run["seconds"][n] for run in runs) for n in (0, 1))
        used = median(run["processor"][0] for run in runs)
        goal = f"; goal: at most {GOALS[count]:g} s" if count in GOALS else ""
        print(
            f"{count} cases ({size:.0f} MB of fixtures), judged with metrics, losses, difference and gate: "
            f"median {first:.2f} s, processor {used:.2f} s, again {again:.2f} s ({chosen.runs} processes{goal})"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
