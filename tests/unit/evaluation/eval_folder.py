"""A whole evaluation folder, small and hand-made: five cases, their frozen lookups in both modes, four documents.

``good`` passes, ``lost`` (reviewed) was dropped by the document limit in hybrid mode, ``refuse`` has no answer and got
a level in hybrid mode, ``draft`` fails but gates nothing, ``unrun`` has no fixture.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.evaluation.cases import Case
from core.evaluation.fixtures import Fixture, write_fixtures
from core.evaluation.promote import file_data
from core.evaluation.report import to_json
from tests.unit.evaluation.eval_samples import a_case, a_fixture, attempt, evidence, lookup, row

GOOD = a_case(
    "good", "redis pool exhausted", expectedDocIds=["a"], goldSources=[{"docId": "a", "grade": 3}], poolDepth=5,
    queryType="exact_entity", tags=["en", "2"], referenceAnswer="raise maxTotal",
    requiredFacts=[{"fact": "raise maxTotal", "path": "a.md", "anchor": "text of a"}],
)  # fmt: skip
LOST = a_case(
    "lost", "why is <b>b</b> $slow$", expectedDocIds=["b"], goldSources=[{"docId": "b"}], poolDepth=5,
    queryType="paraphrase", tags=["en", "2+"],
)  # fmt: skip
REFUSE = a_case(
    "refuse", "weather on Mars", answerability="unanswerable", queryType="no_answer", tags=["en"], poolDepth=5
)
DRAFT = a_case("draft", "the draft one", expectedDocIds=["d"], poolDepth=5, review={"status": "draft"})
UNRUN = a_case(
    "unrun", "not frozen yet", expectedDocIds=["a"], poolDepth=5, queryType="12.1", review={"status": "draft"}
)
CASES = (GOOD, LOST, REFUSE, DRAFT, UNRUN)


def rows(first: str, *, dropped: str | None = None, distance: float = 0.1) -> list[dict[str, Any]]:
    found = [
        row(f"{first}#chunk-0", dense_rank=1, dense_distance=distance, bm25_rank=2, rrf_rank=1, original_rank=1),
        row("c#chunk-0", dense_rank=2, dense_distance=distance + 0.1, rrf_rank=3, original_rank=3),
    ]
    if dropped:
        found.append(row(f"{dropped}#chunk-0", bm25_rank=1, rrf_rank=2, original_rank=2, drop_reason="document_limit"))
    return found


def answers(first: str, *, dropped: str | None = None, level: str | None = "PRECISE", distance: float = 0.1) -> Any:
    found = lookup(
        [evidence(f"{first}#chunk-0"), evidence("c#chunk-0")],
        [attempt(rows=rows(first, dropped=dropped, distance=distance))],
        level=level,
    )
    found["retrieval_trace"]["timings"] = {"dense_ms": 4.0, "total_ms": 20.0}
    return found


HYBRID = (
    a_fixture(GOOD, answers("a")),
    a_fixture(LOST, answers("c2", dropped="b")),
    a_fixture(REFUSE, answers("c2", distance=0.5)),
    a_fixture(DRAFT, answers("c2")),
)
DENSE = (
    a_fixture(GOOD, answers("c2"), searchMode="dense"),
    a_fixture(LOST, answers("b"), searchMode="dense"),
    a_fixture(REFUSE, answers("c2", level=None, distance=0.6), searchMode="dense"),
    a_fixture(DRAFT, None, searchMode="dense"),
)


def write_cases(folder: Path, cases: Sequence[Case] = CASES) -> Path:
    path = folder / "cases" / "golden-cases.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(file_data(cases)), encoding="utf-8")
    return path


def an_evaluation(
    folder: Path,
    cases: Sequence[Case] = CASES,
    hybrid: Sequence[Fixture] = HYBRID,
    dense: Sequence[Fixture] = DENSE,
) -> Path:
    """``folder`` with cases, fixtures of both modes and the seed documents that the labels name."""
    write_cases(folder, cases)
    write_fixtures(folder / "fixtures", "hybrid", hybrid)
    write_fixtures(folder / "fixtures", "dense", dense)
    (folder / "seed-docs").mkdir(exist_ok=True)
    for name in "abcd":
        (folder / "seed-docs" / f"{name}.md").write_text(f"# {name}\n\ntext of {name}#chunk-0\n", encoding="utf-8")
    return folder


def all_passing(folder: Path) -> Path:
    """An evaluation of one reviewed case that passes in both modes: what a baseline can be made of."""
    dense = a_fixture(GOOD, answers("a"), searchMode="dense")
    return an_evaluation(folder, (GOOD,), (HYBRID[0],), (dense,))


def broken_cases(folder: Path) -> None:
    """The second case gets a key that does not exist."""
    data = json.loads(write_cases(folder).read_text(encoding="utf-8"))
    data["cases"][1]["expectedDocID"] = "<b>b</b>"
    (folder / "cases" / "golden-cases.json").write_text(to_json(data), encoding="utf-8")
