"""The what-if knobs: other settings for one lookup, never saved. An untouched knob is empty and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import streamlit as st
from pydantic import BaseModel

from core.lookup_request import WhatIf
from core.model import Mode
from core.settings import HybridSettings, QualitySettings, RagSettings, Settings


@dataclass(frozen=True, slots=True)
class Knob:
    """A number of ``WhatIf``. ``part`` and ``name`` are the setting it stands in for, whose limits it takes."""

    name: str
    label: str
    part: type[BaseModel]
    help: str

    @property
    def whole(self) -> bool:
        return "int" in str(self.part.model_fields[self.name].annotation)

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest value that the setting allows."""
        metadata = self.part.model_fields[self.name].metadata
        low = next(m.ge for m in metadata if hasattr(m, "ge"))
        high = next(m.le for m in metadata if hasattr(m, "le"))
        return low, high

    def setting(self, settings: Settings) -> Any:
        """The value in force, None where the embedding profile decides."""
        if self.part is RagSettings:
            return getattr(settings.rag, self.name)
        if self.part is HybridSettings:
            value = getattr(settings.retrieval.hybrid, self.name)
            return settings.rank_window if self.name == "rank_window_size" else value
        return getattr(settings.quality, self.name)


KNOBS: Final = (
    Knob("retrieve_k", "retrieve_k", RagSettings, "Hits a branch may return. Higher finds more and costs more."),
    Knob("return_n", "return_n", RagSettings, "Evidence kept after de-duplication. Higher returns more."),
    Knob("max_chunks_per_document", "Chunks per document", RagSettings, "Higher lets one document take more places."),
    Knob("rrf_k", "rrf_k", HybridSettings, "k of 1 / (k + rank). Higher flattens the advantage of the first ranks."),
    Knob("rank_window_size", "Rank window", HybridSettings, "Fused ranks that go on. Lower drops more candidates."),
    Knob("dense_weight", "Dense weight", HybridSettings, "Higher trusts meaning more; 0 takes the dense branch out."),
    Knob("bm25_weight", "BM25 weight", HybridSettings, "Higher trusts words more; 0 takes the BM25 branch out."),
    Knob(
        "precise_threshold",
        "PRECISE from",
        QualitySettings,
        "Quality from which a lookup is PRECISE. Higher is stricter.",
    ),
    Knob(
        "reference_threshold",
        "REFERENCE from",
        QualitySettings,
        "Quality from which a lookup is REFERENCE, below it the gate says low quality. Higher is stricter.",
    ),
)


def draw(settings: Settings, page: str) -> WhatIf | None:
    """The knobs inside a form; None while none is touched. Values out of range are refused by field and by core."""
    st.caption("What-if: for this one lookup, marked as such in trace and audit, never saved. Empty: the setting.")
    columns = st.columns(4)
    current = settings.retrieval.search.mode
    mode = columns[0].selectbox(
        "Mode",
        [mode.value for mode in Mode],
        index=None,
        placeholder=current.value,
        help="hybrid: meaning and words; dense: meaning only, for comparison.",
        key=f"{page}.knob.mode",
    )
    values: dict[str, Any] = {"mode": mode}
    for place, knob in enumerate(KNOBS, 1):
        values[knob.name] = _number(knob, settings, columns[place % 4], page)
    off = columns[(len(KNOBS) + 1) % 4].checkbox(
        "Category filter off", key=f"{page}.knob.filter", help="Searches all categories at once; the scope stays."
    )
    what_if = WhatIf(**values, category_filter_off=True if off else None)
    return what_if if what_if.changes() else None


def _number(knob: Knob, settings: Settings, column: Any, page: str) -> float | int | None:
    low, high = knob.limits
    kind = int if knob.whole else float
    value = knob.setting(settings)
    return column.number_input(
        knob.label,
        min_value=kind(low),
        max_value=kind(high),
        value=None,
        step=1 if knob.whole else 0.05,
        placeholder="the profile's" if value is None else f"{value:g}",
        help=f"{knob.help} Allowed: {low:g} to {high:g}.",
        key=f"{page}.knob.{knob.name}",
    )
