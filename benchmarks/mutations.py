"""Does the gate notice? The pipeline is broken on purpose, one way at a time, and judged live over the golden cases.

The seed corpus is indexed once, in a folder of its own. Each mutation replaces a function of the running pipeline for
one run over all cases; the run is held against the shipped baseline by the shipped gate. The unmutated control must
pass, every mutation must not, and what the gate says names the stage.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import core.lookup
import core.searcher
import core.stages.evidence
from benchmarks._stack import build_index, provider, settings_in, work_folder
from core.bootstrap import build_evaluation
from core.errors import CheckFailed
from core.evaluation.desk import EvaluationDesk, LiveEvaluation
from core.evaluation.fixtures import Probe
from core.evaluation.gate import GateResult
from core.evaluation.offline import evaluate
from core.evaluation.snapshot import run_cases
from core.model import Branch, Hit, L0Match, Mode, QualityBasis, SearchFilter, evolve
from core.ports import FusedRow
from core.stages.retrieve import Retrieved, Search

DEPTH: Final = 100


@dataclass(frozen=True)
class Mutation:
    """``where`` and ``name``: the function that ``broken`` stands in for; ``broken`` is given the sound one."""

    title: str
    where: Any
    name: str
    broken: Callable[[Callable[..., Any]], Callable[..., Any]]

    @contextmanager
    def applied(self) -> Iterator[None]:
        sound = getattr(self.where, self.name)
        with patch.object(self.where, self.name, self.broken(sound)):
            yield


# ------------------------------------------------------------------------------------------------ ways to break it


def score_sum(fuse: Callable[..., Any]) -> Callable[..., Any]:
    """Cosine of the dense hit plus score of the BM25 hit: scales that have nothing to do with each other."""

    def fused(hits: Mapping[Branch, Sequence[Hit]], guard: Any, **options: Any) -> Any:
        sums: dict[str, float] = {}
        chunks = {}
        for branch, found in hits.items():
            for hit in found:
                key = hit.chunk.evidence_key
                score = hit.score or 0.0
                sums[key] = sums.get(key, 0.0) + (1 - score / 2 if branch is Branch.DENSE else abs(score))
                chunks[key] = hit.chunk
        order = sorted(sums, key=lambda key: (-sums[key], key))
        rows = [FusedRow(chunks[key], rank, sums[key]) for rank, key in enumerate(order, start=1)]
        return fuse(hits, guard, **{**options, "rows": rows})

    return fused


def never_again(_: Callable[..., Any]) -> Callable[..., Any]:
    """No attempt is ever low enough for a retry."""
    return lambda **_options: None


def quality_by_rank(score_quality: Callable[..., Any]) -> Callable[..., Any]:
    """The first candidate has quality 1, however far away it is."""

    def scored(candidates: Any, *given: Any, **options: Any) -> Any:
        found = score_quality(candidates, *given, **options)
        live = [c.evidence_key for c in found if c.live]
        place = {key: position for position, key in enumerate(live)}
        return tuple(
            evolve(c, quality_score=1 - place[c.evidence_key] / len(live), quality_basis=QualityBasis.RANK)
            if c.live
            else c
            for c in found
        )

    return scored


def one_chunk_a_document(select: Callable[..., Any]) -> Callable[..., Any]:
    return lambda candidates, **options: select(candidates, **{**options, "max_chunks_per_document": 1})


def filtered_afterwards(retrieve: Callable[..., Retrieved]) -> Callable[..., Retrieved]:
    """Both branches search everything, and what is of another category is thrown away then."""

    def found(index: Any, embedder: Any, pool: Any, search: Search) -> Retrieved:
        category = search.where.category
        everything = replace(search, where=SearchFilter(search.where.scopes))
        return _with_hits(
            retrieve(index, embedder, pool, everything), lambda hit: category in (None, hit.chunk.category)
        )

    return found


def without(branch: Branch) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A branch that silently finds nothing."""

    def broken(retrieve: Callable[..., Retrieved]) -> Callable[..., Retrieved]:
        return lambda *given: _without_branch(retrieve(*given), branch)

    return broken


def budget_of(chars: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda pack: lambda evidence, _budget: pack(evidence, chars)


def at_most_bytes(limit: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda project: lambda result, call, bounds: project(result, call, replace(bounds, max_bytes=limit))


def never_copies(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda contents: [""] * len(contents)


def never_narrows(transform: Callable[..., Any]) -> Callable[..., Any]:
    """L0 matches nothing: no category filter, no alias."""

    def plan(query: str, scopes: Any, _l0: Any, **options: Any) -> Any:
        return transform(query, scopes, _Silent(), **options)

    return plan


class _Silent:
    def match(self, text: str, scopes: Any) -> L0Match:
        del text, scopes
        return L0Match()


def _with_hits(found: Retrieved, admits: Callable[[Hit], bool]) -> Retrieved:
    hits = {
        branch: tuple(replace(hit, rank=n) for n, hit in enumerate(filter(admits, listed), start=1))
        for branch, listed in found.hits.items()
    }
    return _counted(replace(found, hits=hits))


def _without_branch(found: Retrieved, branch: Branch) -> Retrieved:
    return _counted(replace(found, hits={b: () if b is branch else listed for b, listed in found.hits.items()}))


def _counted(found: Retrieved) -> Retrieved:
    traces = tuple(replace(b, hits=len(found.hits[b.branch])) if b.branch in found.hits else b for b in found.branches)
    return replace(found, branches=traces)


MUTATIONS: Final = (
    Mutation("score sum instead of RRF", core.lookup, "fuse", score_sum),
    Mutation("retry dropped", core.lookup, "fallback_reason", never_again),
    Mutation("quality by rank only", core.lookup, "score_quality", quality_by_rank),
    Mutation("document limit 1", core.lookup, "select", one_chunk_a_document),
    Mutation("category filter after the search", core.searcher, "retrieve", filtered_afterwards),
    Mutation("pack cut at 400 characters", core.lookup, "pack", budget_of(400)),
    Mutation("BM25 branch lost", core.searcher, "retrieve", without(Branch.BM25)),
    Mutation("dense branch lost", core.searcher, "retrieve", without(Branch.DENSE)),
    Mutation("near-copies kept", core.stages.evidence, "copy_keys", never_copies),
    Mutation("L0 lost", core.lookup, "transform", never_narrows),
    Mutation("projection at 2 KiB", core.lookup, "project_result", at_most_bytes(2048)),
)


# ------------------------------------------------------------------------------------------------ the runs


def judged(desk: EvaluationDesk, live: LiveEvaluation, probes: Mapping[str, Probe | None]) -> GateResult:
    """One run over all cases, through the shipped gate. ``probes``: what the index holds, which no mutation changes."""
    cases = desk.cases()
    found = run_cases(cases, Mode.HYBRID, live.lookup, probe=lambda case, _: probes[case.case_id])  # type: ignore[arg-type, return-value]
    return desk.gate(evaluate(cases, found), Mode.HYBRID)


def row(title: str, verdict: GateResult) -> str:
    """One line of the table."""
    stages = ", ".join(f"{stage} {count}" for stage, count in verdict.stages) or "none"
    rules = ", ".join(f"{rule} {count}" for rule, count in Counter(r.rule for r in verdict.reasons).most_common())
    cases = list(dict.fromkeys(r.case_id for r in verdict.reasons if r.case_id))
    first = ", ".join(cases[:3]) or "none"
    red = "no" if verdict.passed else "yes"
    return f"| {title} | {red} | {len(verdict.reasons)} ({rules or 'none'}) | {stages} | {len(cases)}: {first} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Raises CheckFailed when the control is red or a mutation green."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("--folder", type=Path, help="keeps the index there, for another run")
    parser.add_argument("--only", default="", help="mutations whose title holds this text")
    parser.add_argument("--reasons", action="store_true", help="also every reason of the gate")
    chosen = parser.parse_args(argv or [])
    wrong: list[str] = []
    with work_folder(chosen.folder) as folder:
        app, desk, live = build_evaluation(settings_in(folder, provider("e5")))
        try:
            if live.seeded() is not None:
                build_index(app, "mutations")
            control = live.observe(depth=DEPTH)
            probes = {case_id: fixture.probe for case_id, fixture in control.fixtures.fixtures.items()}
            print("| mutation | gate red | reasons | stages named | cases |\n|---|---|---|---|---|")
            verdict = desk.gate(control.report, Mode.HYBRID)
            _tell("none (control)", verdict, reasons=chosen.reasons or not verdict.passed)
            if not verdict.passed:
                wrong.append("the control is red")
            for mutation in MUTATIONS:
                if chosen.only not in mutation.title:
                    continue
                with mutation.applied():
                    verdict = judged(desk, live, probes)
                _tell(mutation.title, verdict, reasons=chosen.reasons)
                if verdict.passed:
                    wrong.append(f"{mutation.title}: the gate stays green")
        finally:
            app.close()
    if wrong:
        raise CheckFailed("; ".join(wrong))


def _tell(title: str, verdict: GateResult, *, reasons: bool) -> None:
    print(row(title, verdict), flush=True)
    if reasons:
        for reason in verdict.reasons:
            print(f"    {reason}")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
