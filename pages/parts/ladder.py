"""The rank ladder: one row a chunk, one column a stage, ranks as numbers and as lines that the eye can follow.

``ladder_rows`` reads an attempt; ``ladder_figure`` draws it as a bump chart (up is better); ``ladder_table`` gives the
numbers. All three are pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
import plotly.graph_objects as go

from core.model import AttemptTrace, Candidate, QualityBasis, Stage, StageStatus
from pages.parts.look import BAD, DROPPED, FADED, LINES, ink, paper
from pages.parts.numbers import NONE, finite, score
from pages.parts.text import cell, fit, in_figure

_FIELDS: Final[Mapping[Stage, str]] = {
    Stage.DENSE: "dense_rank",
    Stage.BM25: "bm25_rank",
    Stage.FUSE: "rrf_rank",
    Stage.RERANK: "rerank_rank",
    Stage.EVIDENCE: "evidence_rank",
    Stage.PACK: "pack_rank",
    Stage.PROJECT: "projection_rank",
}
LABELS: Final[Mapping[Stage, str]] = {
    Stage.DENSE: "Dense",
    Stage.BM25: "BM25",
    Stage.FUSE: "RRF",
    Stage.RERANK: "Rerank",
    Stage.EVIDENCE: "Evidence",
    Stage.PACK: "Pack",
    Stage.PROJECT: "Projection",
}
_OPTIONAL = {Stage.BM25, Stage.FUSE, Stage.RERANK}
_STEPS = 10  # points of a curve between two columns: enough to look smooth and to be hovered anywhere along it
_LEAD = 0.34  # a drop ends this far before the column of the stage that dropped it


@dataclass(frozen=True, slots=True)
class LadderRow:
    """One chunk on its way. ``ranks`` has a key for every shown column, None where it has no rank there."""

    key: str
    doc_id: str
    title: str
    breadcrumb: str
    category: str
    ranks: Mapping[Stage, int | None]
    drop_stage: Stage | None
    drop_reason: str | None
    duplicate_of: str | None
    dense_distance: float | None
    bm25_score: float | None
    rrf_score: float | None
    rerank_score: float | None
    quality: float | None
    basis: QualityBasis | None
    hit_reasons: tuple[str, ...]

    @property
    def reached_agent(self) -> bool:
        return self.ranks.get(Stage.PROJECT) is not None

    @property
    def name(self) -> str:
        return self.title or self.doc_id or self.key


def ladder_columns(attempt: AttemptTrace) -> tuple[Stage, ...]:
    """The stages to show: BM25, RRF and rerank only where they ran, failed or left a rank."""
    seen = {branch.branch.value for branch in attempt.branches if branch.status is not StageStatus.NOT_RUN}
    seen |= {stage.stage.value for stage in attempt.stages if stage.status is not StageStatus.NOT_RUN}
    return tuple(
        stage
        for stage, name in _FIELDS.items()
        if stage not in _OPTIONAL
        or stage.value in seen
        or any(getattr(candidate, name) is not None for candidate in attempt.candidates)
    )


def ladder_states(attempt: AttemptTrace) -> dict[Stage, str]:
    """What a column's head must say beside its name: the status of every shown stage that did not complete."""
    states = {stage.stage: stage.status for stage in attempt.stages}
    states |= {Stage(branch.branch.value): branch.status for branch in attempt.branches}
    columns = ladder_columns(attempt)
    return {
        stage: status.value.replace("_", " ")
        for stage, status in states.items()
        if stage in columns and status is not StageStatus.COMPLETE
    }


def ladder_rows(attempt: AttemptTrace) -> tuple[LadderRow, ...]:
    """Every candidate of ``attempt`` in its original order (fusion, or rerank where on); those without one come last,
    by their best branch rank."""
    columns = ladder_columns(attempt)
    return tuple(_row(candidate, columns) for candidate in sorted(attempt.candidates, key=_order))


def _order(candidate: Candidate) -> tuple[int, int, str]:
    last = 10**9
    branch = min(rank for rank in (candidate.dense_rank, candidate.bm25_rank, last) if rank is not None)
    first = candidate.original_rank or (candidate.rrf_rank or last)
    return (first, branch, candidate.evidence_key)


def _row(candidate: Candidate, columns: Sequence[Stage]) -> LadderRow:
    return LadderRow(
        key=candidate.evidence_key,
        doc_id=candidate.doc_id,
        title=candidate.title,
        breadcrumb=candidate.breadcrumb,
        category=candidate.category,
        ranks={stage: getattr(candidate, _FIELDS[stage]) for stage in columns},
        drop_stage=candidate.drop_stage,
        drop_reason=candidate.drop_reason.value if candidate.drop_reason else None,
        duplicate_of=candidate.duplicate_of,
        dense_distance=finite(candidate.dense_distance),
        bm25_score=finite(candidate.bm25_score),
        rrf_score=finite(candidate.rrf_score),
        rerank_score=finite(candidate.rerank_score),
        quality=finite(candidate.quality_score),
        basis=candidate.quality_basis,
        hit_reasons=candidate.hit_reasons,
    )


def ladder_table(rows: Sequence[LadderRow], columns: Sequence[Stage]) -> pd.DataFrame:
    """The ladder as numbers, one row a chunk in the order of ``rows``; missing ranks are missing, not 0."""
    data: dict[str, object] = {
        "Title": [cell(row.name, 120) for row in rows],
    }
    for stage in columns:
        data[LABELS[stage]] = pd.array([row.ranks[stage] for row in rows], dtype="Int64")
    data["Dropped by"] = [row.drop_reason or "" for row in rows]
    data["Quality"] = pd.array([row.quality for row in rows], dtype="Float64")
    data["Basis"] = [row.basis.value if row.basis else "" for row in rows]
    data["Distance²"] = pd.array([row.dense_distance for row in rows], dtype="Float64")
    data["BM25 score"] = pd.array([row.bm25_score for row in rows], dtype="Float64")
    data["RRF score"] = pd.array([row.rrf_score for row in rows], dtype="Float64")
    if Stage.RERANK in columns:
        data["Rerank score"] = pd.array([row.rerank_score for row in rows], dtype="Float64")
    data["Chunk"] = [cell(row.key, 120) for row in rows]
    data["Same as"] = [cell(row.duplicate_of or "", 120) for row in rows]
    data["Hit reasons"] = [cell(", ".join(row.hit_reasons)) for row in rows]
    return pd.DataFrame(data)


# --------------------------------------------------------------------------------------------- the picture


@dataclass(frozen=True, slots=True)
class Path:
    """Where a row runs in the picture: its stations (column position, rank) and its end, where it was dropped."""

    stations: tuple[tuple[float, int], ...]
    end: tuple[float, int] | None


def ladder_path(row: LadderRow, columns: Sequence[Stage]) -> Path:
    """A drop ends just before the stage that dropped it, at the rank it had until then; a row that has a rank in that
    very stage (beyond the fusion window) ends on it."""
    stations = [(float(at), rank) for at, stage in enumerate(columns) if (rank := row.ranks[stage]) is not None]
    if row.drop_reason is None or not stations:
        return Path(tuple(stations), None)
    last_x, last_rank = stations[-1]
    if row.drop_stage in columns and row.ranks[row.drop_stage] is None:
        at = float(list(columns).index(row.drop_stage))
        if at > last_x:
            return Path(tuple(stations), (at - _LEAD, last_rank))
    return Path(tuple(stations), (last_x, last_rank))


def ladder_figure(
    rows: Sequence[LadderRow],
    columns: Sequence[Stage],
    *,
    states: Mapping[Stage, str] | None = None,
    dark: bool = False,
    chosen: str | None = None,
) -> go.Figure:
    """The ladder as a bump chart: x = stage, y = rank with 1 on top, one line a chunk.

    What reached the agent is coloured, what was dropped is grey and ends in an x with its reason. ``chosen`` (an
    evidence key) is drawn bold and on top, all others faded. ``states`` marks columns that did not complete. Each point's ``customdata[0]`` is the evidence key.
    """
    figure = go.Figure()
    deepest = max((rank for row in rows for rank in row.ranks.values() if rank is not None), default=1)
    colours = _colours(rows)
    ordered = sorted(rows, key=lambda row: (row.key == chosen, row.reached_agent))
    for row in ordered:
        _draw_row(figure, row, columns, colours[row.key], dark=dark, chosen=chosen)
    figure.update_layout(
        height=max(300, 90 + 18 * deepest),
        margin={"l": 44, "r": 175, "t": 40, "b": 12},
        showlegend=False,
        hovermode="closest",
        hoverdistance=12,
        dragmode=False,
        clickmode="event+select",
        font={"color": ink(dark)},
        uirevision="ladder",
    )
    figure.update_xaxes(
        type="linear",
        range=[-0.18, len(columns) - 0.9],
        tickvals=list(range(len(columns))),
        ticktext=[_head(stage, (states or {}).get(stage)) for stage in columns],
        side="top",
        showgrid=True,
        zeroline=False,
        fixedrange=True,
    )
    figure.update_yaxes(
        type="linear",
        range=[deepest + 0.8, 0.2],
        tickvals=[1, *range(5, deepest + 1, 5)],
        title_text="rank",
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
    return figure


def _head(stage: Stage, state: str | None) -> str:
    return f"<b>{LABELS[stage]}</b>" + (f" <i>{state}</i>" if state else "")


def _colours(rows: Sequence[LadderRow]) -> dict[str, str]:
    kept = [row.key for row in rows if row.reached_agent]
    return {row.key: LINES[kept.index(row.key) % len(LINES)] if row.key in kept else DROPPED for row in rows}


def _draw_row(
    figure: go.Figure, row: LadderRow, columns: Sequence[Stage], colour: str, *, dark: bool, chosen: str | None
) -> None:
    path = ladder_path(row, columns)
    if not path.stations:
        return
    bold = row.key == chosen
    faded = chosen is not None and not bold
    strength = (FADED if faded else 1.0) if row.reached_agent or bold else (0.15 if faded else 0.5)
    points = [*path.stations, path.end] if path.end and path.end != path.stations[-1] else list(path.stations)
    x, y = _curve(points)
    hover = _hover(row, columns)
    common = {"customdata": [[row.key]] * len(x), "hovertemplate": hover + "<extra></extra>", "name": ""}
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line={
            "color": colour if not bold or row.reached_agent else ink(dark),
            "width": 5 if bold else 2.6 if row.reached_agent else 1.4,
        },
        opacity=strength,
        **common,
    )
    figure.add_scatter(
        x=[station[0] for station in path.stations],
        y=[station[1] for station in path.stations],
        mode="markers+text" if row.reached_agent or bold else "markers",
        marker={"color": colour, "size": 16 if row.reached_agent or bold else 6, "opacity": 1},
        text=[str(station[1]) for station in path.stations],
        textfont={"size": 10, "color": "#ffffff"},
        opacity=strength,
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
        **{**common, "customdata": [[row.key]] * len(path.stations)},
    )
    if path.end is not None:
        _draw_drop(figure, row, path.end, bold=bold, faded=faded, dark=dark, hover=hover)
    elif row.reached_agent:
        figure.add_annotation(
            x=path.stations[-1][0],
            y=path.stations[-1][1],
            text=in_figure(fit(row.name, 24)),
            showarrow=False,
            xanchor="left",
            xshift=13,
            font={"size": 12, "color": ink(dark)},
            opacity=strength,
        )


def _draw_drop(
    figure: go.Figure, row: LadderRow, end: tuple[float, int], *, bold: bool, faded: bool, dark: bool, hover: str
) -> None:
    strength = 0.3 if faded else 1.0
    figure.add_scatter(
        x=[end[0]],
        y=[end[1]],
        mode="markers",
        marker={"symbol": "x-thin", "size": 8, "line": {"width": 2, "color": BAD}},
        opacity=strength,
        customdata=[[row.key]],
        hovertemplate=hover + "<extra></extra>",
        name="",
    )
    figure.add_annotation(
        x=end[0],
        y=end[1],
        text=(row.drop_reason or "").replace("_", " ") + (f" · {in_figure(fit(row.name, 30))}" if bold else ""),
        showarrow=False,
        xanchor="left",
        xshift=7,
        font={"size": 12 if bold else 10, "color": ink(dark) if bold else DROPPED},
        bgcolor=paper(dark),
        borderpad=0,
        opacity=strength,
    )


def _curve(points: Sequence[tuple[float, int]]) -> tuple[list[float], list[float]]:
    """Points of a line that leaves and enters each station level, so that crossings can be told apart."""
    x, y = [points[0][0]], [float(points[0][1])]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        for step in range(1, _STEPS + 1):
            part = step / _STEPS
            x.append(x0 + (x1 - x0) * part)
            y.append(y0 + (y1 - y0) * part * part * (3 - 2 * part))
    return x, y


def _hover(row: LadderRow, columns: Sequence[Stage]) -> str:
    ranks = " · ".join(f"{LABELS[stage]} {row.ranks[stage] or NONE}" for stage in columns)
    basis = f" ({row.basis.value})" if row.basis else ""
    lines = [f"<b>{_safe(row.name, 60)}</b>", _safe(row.key, 80), ranks, f"quality {score(row.quality)}{basis}"]
    if row.drop_reason:
        lines.append(f"dropped: {row.drop_reason.replace('_', ' ')}")
    if row.duplicate_of:
        lines.append(f"same as {_safe(row.duplicate_of, 70)}")
    return "<br>".join(lines)


def _safe(text: str, limit: int) -> str:
    """For a hover template, in which ``%{…}`` would be read as a variable."""
    return in_figure(text, limit).replace("%{", "%&#123;")
