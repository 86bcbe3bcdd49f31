"""The waterfall: where the time of one lookup went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.model import AttemptTrace, RetrievalTrace, Stage, StageStatus
from pages.parts.look import BAD, DROPPED, LINES, ink
from pages.parts.numbers import finite, ms

_NAMES = {
    Stage.TRANSFORM: "Rewrite",
    Stage.DENSE: "Dense",
    Stage.BM25: "BM25",
    Stage.FUSE: "RRF",
    Stage.RERANK: "Rerank",
    Stage.EVIDENCE: "Evidence",
    Stage.PACK: "Pack",
    Stage.ASSEMBLE: "Assemble",
    Stage.PROJECT: "Projection",
    Stage.AUDIT: "Audit",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One stage in time, both in milliseconds from the start of the lookup."""

    label: str
    start: float
    ms: float
    status: StageStatus = StageStatus.COMPLETE


def waterfall_bars(trace: RetrievalTrace) -> tuple[Bar, ...]:
    """The stages laid end to end in pipeline order, the two branches side by side after the query's embedding.

    Start times are not recorded, so gaps between stages show up only in the last bar, ``Other`` (total minus all).
    """
    bars: list[Bar] = []
    whole = {stage.stage: stage for stage in trace.stages}
    now = 0.0
    rewrite = _ms(whole[Stage.TRANSFORM].ms if Stage.TRANSFORM in whole else trace.timings.query_rewrite_ms)
    now = _add(bars, "Rewrite", now, rewrite)
    now = _add(bars, "Embedding", now, _ms(trace.timings.embedding_ms))
    for number, attempt in enumerate(trace.attempts, 1):
        now = _attempt(bars, attempt, now, f" ({number})" if len(trace.attempts) > 1 else "")
    rest = {Stage.PACK: trace.timings.context_pack_ms, Stage.ASSEMBLE: None, Stage.PROJECT: trace.timings.project_ms}
    for stage, timing in rest.items():
        found = whole.get(stage)
        now = _add(bars, _NAMES[stage], now, _ms(found.ms if found and found.ms is not None else timing))
    now = _add(bars, "Audit", now, _ms(trace.timings.audit_ms))
    _add(bars, "Other", now, max(0.0, (_ms(trace.timings.total_ms) or 0.0) - now) or None, StageStatus.NOT_RUN)
    return tuple(bars)


def _attempt(bars: list[Bar], attempt: AttemptTrace, now: float, suffix: str) -> float:
    branches = [branch for branch in attempt.branches if _ms(branch.ms) is not None]
    ends = [now]
    for branch in branches:
        name = _NAMES[Stage(branch.branch.value)]
        ends.append(_add(bars, name + suffix, now, _ms(branch.ms), branch.status))
    now = max(ends)
    for stage in attempt.stages:
        if stage.stage not in (Stage.DENSE, Stage.BM25):
            now = _add(bars, _NAMES.get(stage.stage, stage.stage.value) + suffix, now, _ms(stage.ms), stage.status)
    return now


def _ms(value: float | None) -> float | None:
    return finite(value)


def _add(
    bars: list[Bar], label: str, start: float, took: float | None, status: StageStatus = StageStatus.COMPLETE
) -> float:
    if took is None:
        return start
    bars.append(Bar(label, start, took, status))
    return start + took


def waterfall_figure(bars: Sequence[Bar], *, dark: bool = False) -> go.Figure:
    """One row a stage, first on top; failed stages in red. Milliseconds to the right."""
    colours = {StageStatus.COMPLETE: LINES[0], StageStatus.NOT_RUN: DROPPED}
    places = list(range(len(bars)))
    end = max((bar.start + bar.ms for bar in bars), default=1.0) or 1.0
    figure = go.Figure()
    figure.add_bar(
        x=[max(bar.ms, end * 0.002) for bar in bars],
        base=[bar.start for bar in bars],
        y=places,
        orientation="h",
        width=0.62,
        marker={"color": [colours.get(bar.status, BAD) for bar in bars]},
        hovertext=[f"{bar.label}: {ms(bar.ms)}, from {ms(bar.start)}" for bar in bars],
        hoverinfo="text",
    )
    for place, bar in zip(places, bars, strict=True):
        figure.add_annotation(
            x=bar.start + bar.ms,
            y=place,
            text=ms(bar.ms),
            showarrow=False,
            xanchor="left",
            xshift=6,
            font={"size": 12, "color": ink(dark)},
        )
    figure.update_layout(
        height=60 + 26 * max(1, len(bars)), margin={"l": 96, "r": 8, "t": 8, "b": 36}, dragmode=False, showlegend=False
    )
    figure.update_xaxes(type="linear", title_text="ms", range=[0, end * 1.12], fixedrange=True)
    figure.update_yaxes(
        type="linear",
        tickvals=places,
        ticktext=[bar.label for bar in bars],
        range=[len(bars) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
    return figure
