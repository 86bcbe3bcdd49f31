"""The history of work on the index: a table, one run whole, its log."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from core.knowledge.rebuild.values import Kind
from core.stores import RebuildRun
from pages.parts import pace
from pages.parts.numbers import moment
from pages.parts.text import cell, literal, visible

TONES = {
    "ACTIVE": "green",
    "VERIFIED": "blue",
    "RETIRED": "gray",
    "CANCELLED": "orange",
    "INTERRUPTED": "orange",
    "FAILED": "red",
}
"""Colour of a state at which a run can end; one that is under way has none."""


def state_words(run: RebuildRun) -> str:
    """The state in its colour, safe in Markdown."""
    tone = TONES.get(run.state)
    return f":{tone}[**{run.state}**]" if tone else literal(run.state)


def history_table(runs: Sequence[RebuildRun], zone: str) -> pd.DataFrame:
    """One row a run, in the given order."""
    return pd.DataFrame(
        {
            "Started": [moment(run.started_at, zone) for run in runs],
            "Work": [cell(run.kind) for run in runs],
            "State": [run.state for run in runs],
            "Took": [pace.took(run) for run in runs],
            "Generation": pd.array([run.generation for run in runs], dtype="Int64"),
            "Difference": [difference(run) for run in runs],
            "By": [cell(run.who) for run in runs],
            "Why": [cell(run.why) for run in runs],
            "Holder": [cell(run.holder, 80) for run in runs],
            "Run": [run.run_id for run in runs],
        }
    )


def log_text(run: RebuildRun, zone: str, last: int | None = None) -> str:
    """The log, one line an entry, times in ``zone``; ``last`` entries only where given."""
    lines = run.log if last is None else run.log[-last:]
    return "\n".join(
        f"{moment(line.at, zone).split(' ', 1)[1]}  {visible(line.stage):<10}  {' '.join(visible(line.message).split())}"
        for line in lines
    )


def many(value: object) -> int | None:
    """How many: the length of a list or the number itself; None for anything else."""
    if isinstance(value, (list, tuple)):
        return len(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def difference(run: RebuildRun) -> str:
    """What a run changed: ``3 added, 1 changed`` documents, or which generation it left; empty when nothing is
    recorded."""
    found = {name: many(run.outcome.get(name)) for name in ("added", "changed", "removed", "kept", "rejected")}
    if all(value is None for value in found.values()):
        return ""
    before = many(run.outcome.get("previous"))
    if run.kind in (Kind.ROLLBACK, Kind.SWITCH) and before is not None:
        return f"from generation {before}"
    parts = [f"{value:,} {name}" for name, value in found.items() if value]
    return ", ".join(parts) or "no difference"
