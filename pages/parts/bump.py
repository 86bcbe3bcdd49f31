"""The picture of the rank ladder: a bump chart, up is better, one line a chunk that the eye can follow."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from core.model import Stage
from pages.parts.ladder import LABELS, LadderRow
from pages.parts.look import BAD, DROPPED, FADED, LINES, ink, paper
from pages.parts.numbers import NONE, score
from pages.parts.text import fit, in_figure

_STEPS: Final = 10  # points of a curve between two columns: enough to look smooth and to be hovered anywhere along it
_LEAD: Final = 0.8  # a drop ends this far before the column of the stage that dropped it: its reason fits between


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
    """x = stage, y = rank with 1 on top. What reached the agent is coloured, what was dropped is grey and ends in an x
    with its reason. ``chosen`` (an evidence key) is drawn bold and on top, all others faded. ``states`` marks columns
    that did not complete. Each point's ``customdata`` is the evidence key and the words of its hover box."""
    deepest = max((rank for row in rows for rank in row.ranks.values() if rank is not None), default=1)
    drawn = [row for row in rows if any(row.ranks.values())]
    kept = [row for row in drawn if row.reached_agent]
    colours = {row.key: LINES[at % len(LINES)] for at, row in enumerate(kept)}
    others = [row for row in drawn if not row.reached_agent and row.key != chosen]
    bold = [row for row in drawn if row.key == chosen]
    some = chosen is not None and bool(bold)
    data = _lines(others, columns, colour=DROPPED, width=1.4, size=6, opacity=0.15 if some else 0.5)
    for row in kept:
        if row.key != chosen:
            data += _lines([row], columns, colour=colours[row.key], opacity=FADED if some else 1.0)
    data += _ends([*others, *bold], columns, faded=some, chosen=chosen)
    for row in bold:
        data += _lines(
            [row], columns, colour=colours.get(row.key, ink(dark)), width=5, dots=colours.get(row.key, DROPPED)
        )
    notes = [note for row in drawn for note in _note(row, columns, dark=dark, some=some, bold=row.key == chosen)]
    return go.Figure({"data": data, "layout": {**_layout(columns, deepest, states or {}, dark), "annotations": notes}})


def _lines(
    rows: Sequence[LadderRow],
    columns: Sequence[Stage],
    *,
    colour: str,
    width: float = 2.6,
    size: int = 16,
    opacity: float = 1.0,
    dots: str = "",
) -> list[dict[str, Any]]:
    """Rows of one look as two traces, lines and points: a gap parts the lines. Many traces would be slow to draw."""
    line: dict[str, list[Any]] = {"x": [], "y": [], "customdata": []}
    point: dict[str, list[Any]] = {"x": [], "y": [], "customdata": [], "text": []}
    for row in rows:
        path, hover = ladder_path(row, columns), [row.key, _hover(row, columns)]
        end = [path.end] if path.end and path.end != path.stations[-1] else []
        x, y = _curve([*path.stations, *end])
        line["x"] += [*x, None]
        line["y"] += [*y, None]
        line["customdata"] += [hover] * (len(x) + 1)
        point["x"] += [station[0] for station in path.stations]
        point["y"] += [station[1] for station in path.stations]
        point["text"] += [str(station[1]) for station in path.stations]
        point["customdata"] += [hover] * len(path.stations)
    common = {"type": "scatter", "opacity": opacity, "hovertemplate": "%{customdata[1]}<extra></extra>", "name": ""}
    look = {"color": dots or colour, "size": size, "opacity": 1}
    return [
        {**common, **line, "mode": "lines", "line": {"color": colour, "width": width}},
        {
            **common,
            **point,
            "mode": "markers+text" if size > 10 else "markers",
            "marker": look,
            "textfont": {"size": 10, "color": "#ffffff"},
            "unselected": {"marker": {"opacity": 1}, "textfont": {"color": "#ffffff"}},
        },
    ]


def _ends(
    rows: Sequence[LadderRow], columns: Sequence[Stage], *, faded: bool, chosen: str | None
) -> list[dict[str, Any]]:
    ended = [(row, end) for row in rows if (end := ladder_path(row, columns).end) is not None]
    strength = [0.35 if faded and row.key != chosen else 1.0 for row, _ in ended]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [end[0] for _, end in ended],
            "y": [end[1] for _, end in ended],
            "marker": {"symbol": "x-thin", "size": 8, "opacity": strength, "line": {"width": 2, "color": BAD}},
            "unselected": {"marker": {"opacity": 1}},
            "customdata": [[row.key, _hover(row, columns)] for row, _ in ended],
            "hovertemplate": "%{customdata[1]}<extra></extra>",
            "name": "",
        }
    ]


def _note(row: LadderRow, columns: Sequence[Stage], *, dark: bool, some: bool, bold: bool) -> list[dict[str, Any]]:
    """The words at the end of a line: the title where it reached the agent, the reason where it was dropped."""
    path = ladder_path(row, columns)
    place: dict[str, Any] = {"showarrow": False, "xanchor": "left", "opacity": 0.35 if some and not bold else 1.0}
    if path.end is not None:
        reason = (row.drop_reason or "").replace("_", " ") + (f" · {in_figure(fit(row.name, 30))}" if bold else "")
        font = {"size": 12 if bold else 9, "color": ink(dark) if bold else DROPPED}
        box = {"borderpad": 0, "xshift": 7, **({"bgcolor": paper(dark)} if bold else {})}
        return [{**place, **box, "x": path.end[0], "y": path.end[1], "text": reason, "font": font}]
    if row.reached_agent or bold:
        x, y = path.stations[-1]
        name = in_figure(fit(row.name, 24))
        return [{**place, "x": x, "y": y, "text": name, "xshift": 13, "font": {"size": 12, "color": ink(dark)}}]
    return []


def _layout(columns: Sequence[Stage], deepest: int, states: Mapping[Stage, str], dark: bool) -> dict[str, Any]:
    still = {"type": "linear", "zeroline": False, "fixedrange": True}
    return {
        "height": max(300, 90 + 18 * deepest),
        "margin": {"l": 44, "r": 175, "t": 40, "b": 12},
        "showlegend": False,
        "hovermode": "closest",
        "hoverdistance": 12,
        "dragmode": False,
        "clickmode": "event+select",
        "font": {"color": ink(dark)},
        "uirevision": "ladder",
        "xaxis": {
            **still,
            "range": [-0.18, len(columns) - 0.9],
            "tickvals": list(range(len(columns))),
            "ticktext": [_head(stage, states.get(stage)) for stage in columns],
            "side": "top",
            "showgrid": True,
        },
        "yaxis": {
            **still,
            "range": [deepest + 0.8, 0.2],
            "tickvals": [1, *range(5, deepest + 1, 5)],
            "title": {"text": "rank"},
            "showgrid": False,
        },
    }


def _head(stage: Stage, state: str | None) -> str:
    return f"<b>{LABELS[stage]}</b>" + (f" <i>{state}</i>" if state else "")


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
    lines = [f"<b>{in_figure(row.name, 60)}</b>", in_figure(row.key), ranks, f"quality {score(row.quality)}{basis}"]
    if row.drop_reason:
        lines.append(f"dropped: {row.drop_reason.replace('_', ' ')}")
    if row.duplicate_of:
        lines.append(f"same as {in_figure(row.duplicate_of, 70)}")
    return "<br>".join(lines)
