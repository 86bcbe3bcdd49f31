"""Retrieval on a judged set of its own: ``python -m benchmarks.judged_sets FOLDER``.

``FOLDER`` has the form of BEIR: ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``dev/queries_full.jsonl``
(``query_id``, ``query``, ``answerability``) and ``dev/qrels.tsv``. The documents become a folder of Markdown, the real
rebuild makes an index of it, and every query runs through the whole pipeline, dense and hybrid. Metrics are over
documents at their best chunk, of 20 chunks a branch; ``evidence`` holds at most five chunks. Gold that such a set lacks
counts as not relevant, so that systems may be compared on it, not sets with each other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks._stack import build_index, provider, settings_in, work_folder
from core.bootstrap import App, build
from core.errors import BadInput
from core.evaluation.cases import Case, CaseSet, case_set, doc_id_of, parse_case
from core.evaluation.compare import compare
from core.evaluation.fixtures import FixtureSet
from core.evaluation.offline import evaluate
from core.evaluation.report import Report
from core.evaluation.snapshot import run_cases
from core.evaluation.stages import RankedStage
from core.evaluation.stats import bootstrap_mean, randomisation_test, wilson
from core.lookup_request import LookupOutcome, LookupRequest, WhatIf
from core.model import Mode, Origin

SCOPE: Final = "default"
KS: Final = (5, 10, 20)
SHOWN: Final = ("ndcg@10", "recall@5", "recall@20", "mrr")
Values = Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True, slots=True)
class JudgedSet:
    name: str
    documents: Mapping[str, str]  # path -> Markdown
    cases: CaseSet


# ------------------------------------------------------------------------------------------------ reading a set


def read_set(folder: Path) -> JudgedSet:
    """Raises BadInput for a folder of another form, or a document id that leads out of it."""
    try:
        documents = dict(_document(item) for item in _lines(folder / "corpus.jsonl"))
        gold = _gold(folder / "dev" / "qrels.tsv")
        queries = list(_lines(folder / "dev" / "queries_full.jsonl"))
    except (OSError, ValueError, KeyError) as exc:
        raise BadInput(f"{folder}: not a judged set in BEIR form ({type(exc).__name__}: {exc})") from exc
    return JudgedSet(folder.name, documents, case_set(_case(item, gold) for item in queries))


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())


def _document(item: Mapping[str, Any]) -> tuple[str, str]:
    path = _path(str(item["_id"]))
    title, text = str(item.get("title") or "").strip(), str(item.get("text") or "")
    if title and not text.lstrip("# \n").startswith(title) and not text.startswith("---\n"):
        text = f"# {title}\n\n{text}"
    return path, text


def _path(doc_id: str) -> str:
    path = doc_id if doc_id.endswith(".md") else f"{doc_id}.md"
    if path.startswith("/") or ".." in Path(path).parts:
        raise ValueError(f"document {doc_id!r} leads outside the folder")
    return path


def _gold(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        found.setdefault(query, {})[doc_id_of(_path(document))] = int(grade)
    return found


def _case(item: Mapping[str, Any], gold: Mapping[str, Mapping[str, int]]) -> Case:
    query_id = str(item["query_id"])
    grades = gold.get(query_id, {})
    return parse_case(
        {
            "caseId": query_id,
            "query": str(item["query"]),
            "kbScope": SCOPE,
            "goldSources": [{"docId": doc_id, "grade": grade} for doc_id, grade in grades.items()],
            "answerability": str(item.get("answerability") or ("answerable" if grades else "unanswerable")),
        }
    )


# ------------------------------------------------------------------------------------------------ running it


def run(app: App, cases: CaseSet, mode: Mode) -> FixtureSet:
    """Every query live, one after another. Raises RuntimeError when a lookup failed or was degraded."""

    def lookup(case: Case, how: Mode) -> LookupOutcome:
        return app.lookup.lookup(
            LookupRequest(case.query, kb_scope=SCOPE, origin=Origin.EVAL, what_if=WhatIf(mode=how))
        )

    found = run_cases(cases, mode, lookup)
    bad = [f for f in found.fixtures.values() if f.failed or (f.observed and f.observed.degraded)]
    if bad:
        why = bad[0].error or (bad[0].observed and bad[0].observed.degraded)
        raise RuntimeError(f"{len(bad)} lookups failed or were degraded, first {bad[0].case_id}: {why}")
    return found


def values(report: Report, stage: RankedStage) -> Values:
    """query -> metric -> value of one stage, over the queries that have gold."""
    return {row.case_id: row.metrics[stage.value] for row in report.rows if stage.value in row.metrics}


# ------------------------------------------------------------------------------------------------ the tables


def metric_table(rows: Mapping[str, Values]) -> list[str]:
    lines = [f"| stage | {' | '.join(SHOWN)} |", "|---|" + "---|" * len(SHOWN)]
    for name, scored in rows.items():
        cells = [f"{fmean(row[metric] or 0.0 for row in scored.values()):.3f}" for metric in SHOWN]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def paired_table(pairs: Iterable[tuple[str, Values, Values]]) -> list[str]:
    """Second minus first, query by query: mean, 95 % bootstrap interval, randomisation p, wins / ties / losses."""
    lines = ["| pair | metric | delta | 95 % interval | p | wins / ties / losses |", "|---|---|---|---|---|---|"]
    for name, first, second in pairs:
        for metric in SHOWN:
            if metric == "recall@20" and name.startswith("evidence"):
                continue  # of five pieces it is recall@5 again
            deltas = [(second[q][metric] or 0.0) - (first[q][metric] or 0.0) for q in first if q in second]
            interval = bootstrap_mean(deltas)
            between = f"{interval.low:+.3f} to {interval.high:+.3f}" if interval else "none"
            p = randomisation_test(deltas)
            wins, losses = sum(d > 1e-9 for d in deltas), sum(d < -1e-9 for d in deltas)
            lines.append(
                f"| {name} | {metric} | {fmean(deltas):+.3f} | {between} | {'< 0.001' if p < 0.001 else f'{p:.3f}'} "
                f"| {wins} / {len(deltas) - wins - losses} / {losses} |"
            )
    return lines


def level_table(cases: CaseSet, runs: Mapping[str, FixtureSet]) -> list[str]:
    """How many lookups got which level: for a question without an answer every level is a false accept."""
    lines = ["| mode | queries | PRECISE | REFERENCE | no level |", "|---|---|---|---|---|"]
    kinds: tuple[tuple[str, Callable[[Case], bool]], ...] = (
        ("answerable", lambda case: case.answerable),
        ("unanswerable", lambda case: not case.answerable),
    )
    for mode, found in runs.items():
        for kind, admits in kinds:
            ids = [case.case_id for case in cases.cases if admits(case)]
            levels = Counter(o.level if (o := found.fixtures[i].observed) else None for i in ids)
            cells = [_share(levels[name], len(ids)) for name in ("PRECISE", "REFERENCE", None)]
            lines.append(f"| {mode} | {len(ids)} {kind} | {' | '.join(cells)} |")
    return lines


def _share(count: int, total: int) -> str:
    interval = wilson(count, total)
    if interval is None:
        return "0 of 0"
    return f"{count} ({count / total:.0%} [{interval.low:.0%}, {interval.high:.0%}])"


def tell(judged: JudgedSet, dense: FixtureSet, hybrid: FixtureSet) -> None:
    one, both = (evaluate(judged.cases, found, ks=KS) for found in (dense, hybrid))
    of = {stage: values(both, stage) for stage in RankedStage}
    alone = values(one, RankedStage.EVIDENCE)
    rows = {
        "bm25": of[RankedStage.BM25],
        "dense": of[RankedStage.DENSE],
        "fused": of[RankedStage.FUSED],
        "evidence, hybrid": of[RankedStage.EVIDENCE],
        "evidence, dense mode": alone,
    }
    pairs = (
        ("fused - bm25", of[RankedStage.BM25], of[RankedStage.FUSED]),
        ("fused - dense", of[RankedStage.DENSE], of[RankedStage.FUSED]),
        ("evidence: hybrid - dense", alone, of[RankedStage.EVIDENCE]),
    )
    for table in (
        metric_table(rows),
        paired_table(pairs),
        level_table(judged.cases, {"hybrid": hybrid, "dense": dense}),
    ):
        print("\n".join([*table, ""]))
    print(compare(judged.cases, dense, hybrid, unjudged_limit=1.0).verdict, flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.judged_sets",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER", help="judged sets, one after another")
    parser.add_argument("--folder", type=Path, help="keeps the index of a single set there, for another run")
    chosen = parser.parse_args(argv or [])
    if not chosen.folders:
        print("no judged set is named, so nothing is measured: give folders in BEIR form")
    if chosen.folder and len(chosen.folders) != 1:
        raise BadInput("--folder keeps the index of one set: name one")
    for source in chosen.folders:
        measure(read_set(source), provider("use"), chosen.folder)


def measure(judged: JudgedSet, embedding: str, kept: Path | None) -> None:
    """Builds the index (unless ``kept`` holds it), runs both modes and prints the tables of one set."""
    with work_folder(kept) as folder:
        source = folder / "documents"
        for path, text in judged.documents.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(text, encoding="utf-8")
        knowledge = {"source": str(source), "uploads": str(folder / "uploads"), "shipped_vectors": str(folder / "none")}
        app = build(settings_in(folder, embedding, knowledge=knowledge))
        try:
            if app.generations.active_number(app.alias) is None:
                build_index(app, judged.name)
            status = app.rebuild.status()
            gold = sum(bool(case.gold_sources) for case in judged.cases.cases)
            print(
                f"\n### {judged.name}, {app.embedder.profile.profile_id}: {status.documents} documents, "
                f"{status.chunks} chunks, {gold} queries with gold, {len(judged.cases.cases) - gold} without\n",
                flush=True,
            )
            dense, hybrid = (run(app, judged.cases, mode) for mode in (Mode.DENSE, Mode.HYBRID))
        finally:
            app.close()
    tell(judged, dense, hybrid)


if __name__ == "__main__":
    main(sys.argv[1:])
