"""The gate: every candidate's quality against both thresholds, and which candidate decided.

Order and measure are two signals, so the picture has two axes: rank upwards, quality to the right.
"""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go

from core.model import AttemptTrace, Candidate, Gate, QualityBasis, RelevanceLevel
from pages.parts.look import BAD, DROPPED, FAIR, GOOD, LINES, ink, paper
from pages.parts.numbers import finite, score
from pages.parts.text import fit, in_figure

_SYMBOLS: Final = {
    QualityBasis.RERANK: "diamond",
    QualityBasis.DENSE_HIT: "circle",
    QualityBasis.DENSE_EXACT: "circle-open",
    QualityBasis.LEXICAL: "square-open",
    QualityBasis.RANK: "triangle-up-open",
}
MEANING: Final = {
    QualityBasis.RERANK: "the reranker's score",
    QualityBasis.DENSE_HIT: "distance of a dense hit",
    QualityBasis.DENSE_EXACT: "exact distance of a BM25-only hit",
    QualityBasis.LEXICAL: "share of the query's character pairs",
    QualityBasis.RANK: "position only (no measure)",
}


def distance_at(quality: float, gate: Gate) -> float:
    """The squared L2 distance that gives ``quality``: ``max - quality * (max - min)``."""
    return gate.max_distance - quality * (gate.max_distance - gate.min_distance)


def thresholds(gate: Gate, basis: QualityBasis | None) -> tuple[float, float | None]:
    """Reference and precise threshold of a basis. The precise one is None for a lexical share: it never is PRECISE."""
    if basis is QualityBasis.LEXICAL:
        return gate.lexical_reference_threshold or gate.reference_threshold, None
    if basis in (QualityBasis.RERANK, QualityBasis.RANK):
        return gate.rerank_reference_threshold, gate.rerank_precise_threshold
    return gate.reference_threshold, gate.precise_threshold


def gate_words(attempt: AttemptTrace, gate: Gate) -> str:
    """What the gate decided and by which number, in one sentence of our own words."""
    best = finite(attempt.top_quality)
    if attempt.low_quality is None and best is None:
        return "The gate was not reached: nothing came out of the search."
    if best is None:
        return "No candidate at all: low quality."
    basis = f" ({MEANING[attempt.top_quality_basis]})" if attempt.top_quality_basis else ""
    reference, precise = thresholds(gate, attempt.top_quality_basis)
    if attempt.low_quality:
        verdict = f"below the reference threshold {score(reference)}: low quality"
    elif attempt.relevance_level is None:
        verdict = f"against the reference threshold {score(reference)}: no level"
    elif attempt.relevance_level is RelevanceLevel.PRECISE:
        verdict = f"at or above the precise threshold {score(precise)}: PRECISE"
    else:
        verdict = f"at or above the reference threshold {score(reference)}, not PRECISE: REFERENCE"
    return f"Best quality {score(best)}{basis}, {verdict}."


def gate_figure(attempt: AttemptTrace, gate: Gate, *, dark: bool = False, chosen: str | None = None) -> go.Figure:
    """Quality (x, with its squared distance below) against original rank (y). The deciding candidate is named."""
    figure = go.Figure()
    reference, precise = thresholds(gate, attempt.top_quality_basis)
    top = 1.0 if precise is None else precise
    for low, high, colour in ((0.0, reference, BAD), (reference, top, FAIR), (top, 1.0, GOOD)):
        figure.add_vrect(x0=low, x1=high, fillcolor=colour, opacity=0.1, line_width=0, layer="below")
    for threshold, name in ((reference, "REFERENCE"), (precise, "PRECISE")):
        if threshold is not None:
            figure.add_vline(x=threshold, line={"color": DROPPED, "width": 1, "dash": "dot"})
            figure.add_annotation(
                x=threshold, y=1, yref="paper", yanchor="bottom", text=name, showarrow=False, font={"size": 10}
            )
    measured = [c for c in attempt.candidates if finite(c.quality_score) is not None and c.original_rank is not None]
    for basis in QualityBasis:
        some = [candidate for candidate in measured if candidate.quality_basis is basis]
        if some:
            _draw(figure, some, basis)
    for candidate in measured:
        if candidate.evidence_key in (attempt.top_quality_key, chosen):
            _point_out(figure, candidate, dark=dark, best=candidate.evidence_key == attempt.top_quality_key)
    deepest = max((c.original_rank or 1 for c in measured), default=1)
    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)
    figure.update_layout(
        height=360,
        margin={"l": 44, "r": 12, "t": 26, "b": 8},
        hovermode="closest",
        dragmode=False,
        legend={"orientation": "h", "y": -0.28, "x": 0, "font": {"size": 11}, "itemclick": False},
    )
    figure.update_xaxes(
        type="linear",
        range=[-0.03, 1.03],
        tickvals=ticks,
        ticktext=[f"{q:g}<br><i>d² {distance_at(q, gate):.3g}</i>" for q in ticks],
        title_text="quality, and the squared distance that gives it",
        fixedrange=True,
        zeroline=False,
    )
    figure.update_yaxes(
        type="linear",
        range=[deepest + 0.8, 0.2],
        title_text="original rank",
        tickvals=[1, *range(5, deepest + 1, 5)],
        fixedrange=True,
        zeroline=False,
    )
    return figure


def _draw(figure: go.Figure, some: list[Candidate], basis: QualityBasis) -> None:
    figure.add_scatter(
        x=[finite(c.quality_score) for c in some],
        y=[c.original_rank for c in some],
        mode="markers",
        name=MEANING[basis],
        marker={"symbol": _SYMBOLS[basis], "size": 9, "color": LINES[0], "line": {"width": 1.5, "color": LINES[0]}},
        customdata=[[in_figure(c.title or c.doc_id, 60), in_figure(c.evidence_key, 80), basis.value] for c in some],
        hovertemplate="<b>%{customdata[0]}</b><br>%{customdata[1]}<br>rank %{y} · quality %{x:.3f} "
        "(%{customdata[2]})<extra></extra>",
    )


def _point_out(figure: go.Figure, candidate: Candidate, *, dark: bool, best: bool) -> None:
    quality = finite(candidate.quality_score) or 0.0
    figure.add_annotation(
        x=quality,
        y=candidate.original_rank,
        text=("best: " if best else "") + in_figure(fit(candidate.title or candidate.doc_id, 26)),
        showarrow=True,
        arrowhead=2,
        arrowcolor=ink(dark),
        ax=-30 if quality > 0.5 else 30,
        ay=26,
        xanchor="right" if quality > 0.5 else "left",
        font={"size": 12, "color": ink(dark)},
        bgcolor=paper(dark),
    )
