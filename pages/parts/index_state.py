"""The index and the disk, as values a page can draw: what is active, what changed since, what a rebuild would do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
import streamlit as st

from core.knowledge.rebuild.values import Drift, IndexStatus, Plan
from core.knowledge.source import Rejected
from core.model import Generation
from pages.parts.numbers import NONE, count, moment, score
from pages.parts.pace import span
from pages.parts.status import Fact
from pages.parts.text import cell, literal

INDEX_HELP = "Of the vectors. Default: exact on Milvus Lite and below 5,000 chunks, IVF_FLAT beyond."
REJECTED_COLUMNS = {
    "File": st.column_config.TextColumn(width=220),
    "Line": st.column_config.NumberColumn(width=60),
    "State": st.column_config.TextColumn(width=80),
    "Reason": st.column_config.TextColumn(width=700),
}
ROWS = 500
"""Longest list of documents that a page draws; the heading says how many there are."""


def status_facts(status: IndexStatus, zone: str) -> tuple[Fact, ...]:
    """The strip of the active generation."""
    active = status.active
    number = active.number if active else None
    return (
        Fact("Generation", count(number), literal(active.collection) if active else "There is none yet."),
        Fact("Documents", count(status.documents if active else None), "Files that are in the index."),
        Fact("Chunks", count(status.chunks if active else None), "Pieces that a lookup can return."),
        Fact("Model", literal(status.model, 60), f"Embedding profile {literal(status.profile_id)}"),
        Fact("Built", moment(status.built_at, zone), f"In use since {moment(status.activated_at, zone)}."),
        Fact("Built by", literal(status.built_by, 60), f"Why: {literal(status.why)}" if status.why else ""),
        Fact("Index", literal(index_words(active), 60), INDEX_HELP),
        Fact("Recall", recall_words(status), proof_words(status)),
        Fact(
            "Settings",
            literal(status.fingerprint[:12]),
            f"SHA-256 over the settings it was built with: {literal(status.fingerprint)}",
        ),
        Fact(
            "Kept for roll-back",
            f"generation {status.previous.number}" if status.previous else "none",
            generation_words(status.previous, zone) if status.previous else "Only one generation has been active.",
        ),
    )


def recall_words(status: IndexStatus) -> str:
    """Recall of the vector index against exact search, as measured before the switch; a dash where it was not."""
    value = status.proof.get("recall")
    return score(float(value)) if isinstance(value, (int, float)) else NONE


def proof_words(status: IndexStatus) -> str:
    """What was proven before the switch."""
    chunks, sampled = (status.proof.get(name) for name in ("chunks", "sampled"))
    if not isinstance(chunks, int) or not isinstance(sampled, int):
        return "No proof is recorded."
    return (
        f"Against exact search. {count(chunks)} chunks counted in both stores, {count(sampled)} sampled ones found again "
        "by their own text in dense and BM25."
    )


def index_words(generation: Generation | None) -> str:
    """``FLAT``, or ``IVF_FLAT nlist=256 nprobe=64``, or ``default`` where the store chose; empty without one."""
    if generation is None:
        return ""
    if not generation.index_params:
        return "default"
    given = {**generation.index_params, **generation.search_params}
    kind = str(given.pop("index_type", ""))
    flat = {key: value for key, value in given.items() if isinstance(value, (int, float, str)) and key != "metric_type"}
    nested = given.get("params")
    if isinstance(nested, dict):
        flat |= {key: value for key, value in nested.items() if isinstance(value, (int, float, str))}
    return " ".join((kind, *(f"{key}={value}" for key, value in flat.items()))).strip()


def generation_words(generation: Generation, zone: str) -> str:
    """One line about a generation, safe in a label."""
    return (
        f"{generation.number}: {count(generation.documents)} documents, {count(generation.chunks)} chunks, "
        f"built {moment(generation.built_at, zone)} by {literal(generation.built_by, 60)}"
    )


def drift_words(drift: Drift) -> str:
    """The difference between disk and index in one line of our own words."""
    if drift.generation is None:
        return "There is no index yet: every document on disk is new."
    if drift.current:
        return "Nothing changed on disk since: the index is current."
    parts = [
        f"{len(ids):,} {name}"
        for name, ids in (("added", drift.added), ("changed", drift.changed), ("removed", drift.removed))
        if ids
    ]
    return ", ".join(parts) if parts else "No document changed, but the settings did."


def changes_table(
    added: Sequence[str], changed: Sequence[str], removed: Sequence[str], kept: Sequence[str] = (), rows: int = ROWS
) -> pd.DataFrame:
    """One row a document that differs; at most ``rows``."""
    pairs = [
        (word, doc_id)
        for word, ids in (("added", added), ("changed", changed), ("removed", removed), ("kept as it was", kept))
        for doc_id in ids
    ]
    return pd.DataFrame({"Change": [word for word, _ in pairs[:rows]], "Document": [cell(d) for _, d in pairs[:rows]]})


def rejected_table(rejected: Iterable[Rejected], skipped: Iterable[Rejected] = ()) -> pd.DataFrame:
    """One row a file that is not in the index, and why; rejected ones first."""
    rows = [*((item, "rejected") for item in rejected), *((item, "skipped") for item in skipped)]
    return pd.DataFrame(
        {
            "File": [cell(item.source) for item, _ in rows],
            "Line": pd.array([item.line for item, _ in rows], dtype="Int64"),
            "State": [state for _, state in rows],
            "Reason": [cell(item.reason, 400) for item, _ in rows],
        }
    )


def plan_facts(plan: Plan) -> tuple[Fact, ...]:
    """The strip of a dry run."""
    return (
        Fact("Added", count(len(plan.added)), tone="green" if plan.added else ""),
        Fact("Changed", count(len(plan.changed)), tone="blue" if plan.changed else ""),
        Fact("Removed", count(len(plan.removed)), tone="orange" if plan.removed else ""),
        Fact("Unchanged", count(len(plan.unchanged))),
        Fact("Rejected", count(len(plan.rejected)), tone="red" if plan.rejected else ""),
        Fact("Documents", f"{count(plan.documents_before)} → {count(plan.documents)}", "Before and after."),
        Fact("Chunks", count(plan.chunks), "Of the new generation."),
        Fact("To embed", count(plan.to_embed), "Chunks whose text the model has not seen."),
        Fact("From the cache", count(plan.from_cache), "Chunks whose vector is at hand."),
        Fact("Estimate", estimate(plan.seconds), _rate(plan)),
    )


def estimate(seconds: float | None) -> str:
    if seconds is not None and 0 <= seconds < 1:
        return "less than 1 s"
    return f"about {span(seconds)}" if span(seconds) != NONE else "unknown"


def _rate(plan: Plan) -> str:
    if plan.rate is None:
        return "No rate has been measured yet."
    return f"{plan.rate:.1f} chunks a second ({literal(plan.rate_from)})"


def plan_remarks(plan: Plan) -> tuple[str, ...]:
    """What else an operator must know before pressing. May hold foreign text: draw it as text."""
    lines = [f"It would be refused: {plan.refused}"] if plan.refused else []
    if plan.faster:
        lines.append(
            f"The embedding profile {plan.faster} would take {estimate(plan.faster_seconds)} "
            f"(embedding.provider = {plan.faster!r})."
        )
    lines += [f"Demanded: {reason}" for reason in plan.demands]
    if plan.kept:
        lines.append(f"{len(plan.kept):,} documents whose file is rejected now keep their earlier version.")
    return (*lines, *plan.warnings)
