"""What a lookup is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from core.errors import RagError
from core.model import Fusion, LookupResult, Mode, Origin
from core.ports import AuditReceipt

TOOL_NAME: Final = "lookup_knowledge"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Other settings for this one lookup, never saved; None: the setting. For operators only (not ``Origin.AGENT``).

    Values are checked when the lookup resolves them, by the same rules as the settings they stand in for.
    """

    mode: Mode | str | None = None
    fusion: Fusion | str | None = None
    retrieve_k: int | None = None
    return_n: int | None = None
    max_chunks_per_document: int | None = None
    rrf_k: int | None = None
    rank_window_size: int | None = None
    dense_weight: float | None = None
    bm25_weight: float | None = None
    precise_threshold: float | None = None
    reference_threshold: float | None = None
    category_filter_off: bool | None = None
    rerank: bool | None = None

    def changes(self) -> dict[str, Any]:
        """The knobs that were touched, by name, as JSON data."""
        return {name: getattr(v, "value", v) for name, v in asdict(self).items() if v is not None}


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """One call. ``kb_scope``: None takes the setting, otherwise as in ``core.filters.parse_scopes``. ``generation``:
    None is the active one. ``actor`` is who is named in the audit."""

    query: str
    kb_scope: str | Iterable[str] | None = None
    origin: Origin = Origin.AGENT
    session_id: str | None = None
    run_id: str | None = None
    tool_call_id: str | None = None
    tool_name: str = TOOL_NAME
    what_if: WhatIf | None = None
    generation: int | None = None
    actor: str = ""


@dataclass(frozen=True, slots=True)
class LookupOutcome:
    """``error`` is set when the lookup failed or was refused: ``result`` says ``ERROR`` then, and is audited too."""

    result: LookupResult
    receipt: AuditReceipt
    error: RagError | None = None
