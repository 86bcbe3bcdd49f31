"""From a lookup to a golden case: a draft at one click, its expectations filled in by a person, who then reviews it.

Drafts live in a file of their own, so that collecting them changes neither the gate nor what baselines are compared on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from core.errors import BadInput, NotFound
from core.evaluation.baseline import write_text
from core.evaluation.cases import FORMAT_VERSION, Case, CaseSet, case_set, load_cases, parse_case
from core.evaluation.report import to_json
from core.model import EVAL_SCOPE, LookupResult

DRAFT_TAG: Final = "draft"


@dataclass(frozen=True, slots=True)
class Reviewed:
    who: str
    status: str


def promote(
    result: LookupResult,
    *,
    who: str,
    query: str | None = None,
    kb_scope: str = EVAL_SCOPE,
    now: datetime | None = None,
) -> Case:
    """A draft case of one lookup. What was seen stands in ``notes`` for the person to judge, and nowhere else: what
    happened is no expectation. ``query``: the text, where the stored result no longer holds it. Raises BadInput
    without one."""
    text = query or result.query
    if not text.strip():
        raise BadInput("this lookup no longer holds its query text, so no case can be made of it")
    when = (now or datetime.now(UTC)).isoformat(timespec="seconds")
    trace = result.retrieval_trace
    seen = [f"{n}. {piece.doc_id}" for n, piece in enumerate(result.evidence, start=1)]
    notes = [
        f"Promoted from lookup {result.trace_id}. Fill in what should happen, then review.",
        f"Seen: attempt {trace.selected_attempt}, fallback {trace.fallback_reason}, level {result.relevance_level}.",
        f"Evidence: {', '.join(seen) or 'none'}.",
    ]
    mark = hashlib.sha256(f"{text}\n{result.trace_id}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return parse_case(
        {
            "caseId": f"draft-{when[:10]}-{mark}",
            "scenario": "promoted lookup",
            "query": text,
            "kbScope": kb_scope,
            "tags": [DRAFT_TAG],
            "notes": "\n".join(notes),
            "labelSource": "promoted",
            "review": {"who": who, "when": when, "status": "draft"},
        }
    )


def add_case(path: Path, case: Case) -> CaseSet:
    """Adds ``case`` to the file (made when missing). Raises BadInput when its id or its query is there already."""
    with FileLock(f"{path}.lock"):
        known = _load(path)
        for other in known.cases:
            if other.case_id == case.case_id or (other.query == case.query and other.kb_scope == case.kb_scope):
                raise BadInput(f"case {other.case_id!r} asks this already; edit that one")
        return _save(path, [*known.cases, case])


def replace_case(path: Path, case: Case) -> CaseSet:
    """Puts ``case`` in the place of the case with its id. Raises NotFound."""
    with FileLock(f"{path}.lock"):
        known = _load(path)
        if case.case_id not in known.by_id():
            raise NotFound(f"no case {case.case_id!r} in {path.name}")
        return _save(path, [case if other.case_id == case.case_id else other for other in known.cases])


def remove_case(path: Path, case_id: str) -> CaseSet:
    """Takes a case out of the file. Raises NotFound."""
    with FileLock(f"{path}.lock"):
        known = _load(path)
        if case_id not in known.by_id():
            raise NotFound(f"no case {case_id!r} in {path.name}")
        return _save(path, [other for other in known.cases if other.case_id != case_id])


def reviewed(case: Case, mark: Reviewed, now: datetime | None = None) -> Case:
    """``case`` with a person's review. Raises InvalidCases for an unknown status, BadInput without a name, and for a
    review of a case that expects nothing."""
    if not mark.who.strip():
        raise BadInput("a review needs the name of the person who did it")
    data = case_data(case)
    expects = set(data) & _EXPECTATIONS or not case.answerable
    if mark.status in {"reviewed", "approved"} and not expects:
        raise BadInput(f"case {case.case_id!r} expects nothing yet; say what should happen before it is reviewed")
    when = (now or datetime.now(UTC)).isoformat(timespec="seconds")
    tags = [tag for tag in case.tags if tag != DRAFT_TAG or mark.status == "draft"]
    return parse_case({**data, "tags": tags, "review": {"who": mark.who, "when": when, "status": mark.status}})


_EXPECTATIONS = {
    "expectedDocIds",
    "expectedSources",
    "expectedKeywords",
    "expectedBreadcrumbs",
    "expectedSelectedAttempt",
    "expectedFallbackReason",
    "expectedEvidenceStatus",
    "minEvidenceCount",
    "mustNotDocIds",
    "mustNotSources",
    "goldSources",
    "goldPassages",
}


def case_data(case: Case) -> dict[str, Any]:
    """A case as it stands in a file: camel case, without what is at its default."""
    data: dict[str, Any] = case.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return data


def file_data(cases: Sequence[Case]) -> Mapping[str, Any]:
    return {"version": FORMAT_VERSION, "cases": [case_data(case) for case in cases]}


def _load(path: Path) -> CaseSet:
    return load_cases(path) if path.exists() else case_set((), path.name)


def _save(path: Path, cases: Sequence[Case]) -> CaseSet:
    write_text(path, to_json(file_data(cases)))
    return load_cases(path)
