"""What left the pipeline, in numbers: evidence as the agent gets it, the pack's sources, the projection's losses."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from core.codec import to_data
from core.model import ContextPack, ProjectionReport
from pages.parts.numbers import count
from pages.parts.text import cell


def json_text(value: Any) -> str:
    """``value`` as strict, indented JSON with Chinese left readable: what the command line prints."""
    return json.dumps(to_data(value), ensure_ascii=False, indent=2, allow_nan=False)


def pack_table(pack: ContextPack) -> pd.DataFrame:
    """One row a piece of evidence offered to the pack: included, trimmed or omitted, and its characters."""
    return pd.DataFrame(
        {
            "Evidence": [cell(source.evidence_key, 120) for source in pack.sources],
            "State": [source.state for source in pack.sources],
            "Characters used": pd.array([source.chars for source in pack.sources], dtype="Int64"),
            "Characters of content": pd.array([source.content_chars for source in pack.sources], dtype="Int64"),
        }
    )


def bounds_table(report: ProjectionReport) -> pd.DataFrame:
    """The four bounds of the projection: what came, what was let through, what is allowed."""
    kept = [item for item in report.items if item.kept]
    longest = max((item.chars_before for item in report.items), default=0)
    longest_kept = max((item.chars_after for item in kept), default=0)
    rows = (
        ("query, characters", report.query_chars_before, report.query_chars_after, report.max_query_chars),
        ("longest excerpt, characters", longest, longest_kept, report.max_excerpt_chars),
        ("pieces of evidence", len(report.items), len(kept), report.max_evidence),
        ("answer, bytes of JSON", report.bytes_before, report.bytes_after, report.max_bytes),
    )
    return pd.DataFrame(
        {
            "Bound": [row[0] for row in rows],
            "Before": [row[1] for row in rows],
            "After": [row[2] for row in rows],
            "Allowed": [row[3] for row in rows],
            "Cut": ["yes" if row[2] < row[1] else "" for row in rows],
        }
    )


def projection_table(report: ProjectionReport) -> pd.DataFrame:
    """One row a piece of evidence: kept or not, and the characters and bytes that it lost, with the bound that cut."""
    return pd.DataFrame(
        {
            "Evidence": [cell(item.evidence_key, 120) for item in report.items],
            "Kept": ["yes" if item.kept else "no" for item in report.items],
            "Cut by": [item.bound or "" for item in report.items],
            "Reason": [item.drop_reason.value if item.drop_reason else "" for item in report.items],
            "Characters": [f"{count(item.chars_before)} → {count(item.chars_after)}" for item in report.items],
            "Lost characters": [item.chars_before - item.chars_after for item in report.items],
            "Bytes": [f"{count(item.bytes_before)} → {count(item.bytes_after)}" for item in report.items],
            "Lost bytes": [item.bytes_before - item.bytes_after for item in report.items],
        }
    )
