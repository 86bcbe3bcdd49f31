"""Tiny hand-made cases and lookups for the evaluation tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.evaluation.cases import Case, CaseSet, case_set, parse_case
from core.evaluation.fixtures import Fixture, FixtureSet, parse_fixture

REVIEWED = {"who": "pat", "when": "2026-09-01", "status": "reviewed"}


def a_case(case_id: str = "c1", query: str = "redis pool", **fields: Any) -> Case:
    """A reviewed case; ``fields`` in camel case."""
    return parse_case({"caseId": case_id, "query": query, "review": REVIEWED, **fields})


def cases_of(*cases: Case) -> CaseSet:
    return case_set(cases, "golden-cases.json")


def row(key: str, **fields: Any) -> dict[str, Any]:
    return {"evidence_key": key, "doc_id": key.partition("#")[0], **fields}


def evidence(key: str, content: str = "", **fields: Any) -> dict[str, Any]:
    doc_id = key.partition("#")[0]
    return {
        "evidence_key": key,
        "doc_id": doc_id,
        "chunk_index": 0,
        "source": f"{doc_id}.md",
        "title": doc_id,
        "breadcrumb": fields.pop("breadcrumb", ""),
        "content": content or f"text of {key}",
        **fields,
    }


def attempt(name: str = "UNFILTERED_VECTOR", rows: Sequence[dict[str, Any]] = (), **fields: Any) -> dict[str, Any]:
    branches = [{"branch": "dense", "status": "complete"}, {"branch": "bm25", "status": "complete"}]
    return {"name": name, "status": "complete", "candidates": list(rows), "branches": branches, **fields}


def lookup(
    pieces: Sequence[dict[str, Any]] = (),
    attempts: Sequence[dict[str, Any]] = (),
    *,
    packed: Sequence[str] | None = None,
    packed_text: str | None = None,
    agent: Sequence[tuple[str, str]] | None = None,
    selected: str | None = None,
    fallback: str | None = None,
    level: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A lookup result as JSON data; by default everything is packed and shown."""
    keys = [piece["evidence_key"] for piece in pieces] if packed is None else list(packed)
    by_key = {piece["evidence_key"]: piece["content"] for piece in pieces}
    text = "\n\n".join(by_key.get(key, "") for key in keys) if packed_text is None else packed_text
    shown = [(piece["evidence_key"], piece["content"]) for piece in pieces] if agent is None else agent
    selected = selected or (attempts[-1]["name"] if attempts else "UNFILTERED_VECTOR")
    return {
        "trace_id": "t1",
        "query": "redis pool",
        "evidence_status": "READY" if pieces else "NO_EVIDENCE",
        "evidence": list(pieces),
        "relevance_level": level,
        "top_quality": None,
        "context_pack": {"packed_text": text, "included_sources": keys, "omitted_sources": []},
        "tool_result": {"evidence": [{"document_id": k, "excerpt": t} for k, t in shown], "truncated": False},
        "retrieval_trace": {
            "attempts": list(attempts),
            "selected_attempt": selected,
            "fallback_reason": fallback,
            "timings": {},
        },
        **fields,
    }


def a_fixture(case: Case, result: dict[str, Any] | None, **fields: Any) -> Fixture:
    """The fixture of ``case``; ``result`` null: a failed lookup."""
    data = {
        "caseId": case.case_id,
        "query": case.query,
        "searchMode": "hybrid",
        "kbScope": case.kb_scope,
        "generation": 1,
        "profile": "e5",
        "fingerprint": "f",
        "corpusSnapshot": "s",
        "failed": result is None,
        "error": "DeadlineExceeded" if result is None else None,
        "lookupResult": result,
    }
    return parse_fixture({**data, **fields})


def fixtures_of(*fixtures: Fixture, mode: str = "hybrid") -> FixtureSet:
    return FixtureSet(mode, {fixture.case_id: fixture for fixture in fixtures})
