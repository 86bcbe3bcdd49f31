"""The record that a pruning leaves of itself, and whether it stands behind what is said to have been pruned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from core import __version__
from core.audit.columns import TIMES, Status
from core.audit.entry import Entry
from core.audit.ledger import Pruned
from core.audit.record import bounded, search_text
from core.audit.redaction import text_hash
from core.model import Origin

TOOL: Final = "audit_prune"
_FACTS: Final = ("writer", "first_seq", "last_seq", "prev_hash", "last_hash")


def prune_entry(
    invocation_id: str,
    ranges: Sequence[Pruned],
    *,
    rows: int,
    before: datetime,
    who: str,
    now: datetime,
    content: str,
    origin: Origin,
) -> Entry:
    """The record of one pruning: how many rows went, and every range that is missing now, which makes older records of
    this kind dispensable."""
    details = {
        "before": before.astimezone(UTC).isoformat(timespec="microseconds"),
        "rows": rows,
        "pruned": [{name: getattr(r, name) for name in _FACTS} for r in ranges],
    }
    row: dict[str, Any] = {
        **dict.fromkeys(TIMES),
        "invocation_id": invocation_id,
        "tool_name": TOOL,
        "created_at": now,
        "origin": origin.value,
        "actor": who or None,
        "status": Status.OK.value,
        "evidence_status": "",
        "language": "other",
        "code_version": __version__,
        "content": content,
        "found": False,
        "degraded": False,
        "truncated": False,
        "what_if": False,
        "query_sha256": text_hash(""),
        "query_chars": 0,
        "details": json.dumps(details, ensure_ascii=False, separators=(",", ":")),
    }
    row = bounded(row)
    row["search_text"] = search_text(row, [f"before {details['before']}"])
    return Entry(row)


def backed(pruned: Pruned, record: Mapping[str, Any] | None) -> bool:
    """Whether ``record``, whose own hash the chain vouches for, says that ``pruned`` was removed on purpose."""
    if record is None or record["tool_name"] != TOOL or not record["details"]:
        return False
    try:
        said = json.loads(record["details"])["pruned"]
    except (ValueError, KeyError, TypeError):
        return False
    return {name: getattr(pruned, name) for name in _FACTS} in said
