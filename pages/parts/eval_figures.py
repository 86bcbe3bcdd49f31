"""Pictures of evaluation numbers. Places on an axis are numbers with labels of our own, so that no name becomes a
number, no two merge, and none is read as markup; a value that is not there is a gap with a note, never a zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from core.evaluation.calibrate import Distribution
from core.evaluation.compare import PairedMetric
from pages.parts.look import BAD, DROPPED, GOOD, LINES, ink
from pages.parts.numbers import finite, score
from pages.parts.text import fit, in_figure

ROW: Final = 26
NAME_COLUMNS: Final = 34
GAP: Final = "no value"
BINS: Final = 32


@dataclass(frozen=True, slots=True)
class Bar:
    """``name`` is drawn exactly as it is. ``value`` None or not finite: there is none. ``note`` stands beside."""

    name: str
    value: float | None
    note: str = ""


def bars(rows: Sequence[Bar], *, dark: bool = False, top: float | None = 1.0) -> go.Figure:
    """One bar a row, in the given order from above. ``top``: the end of the axis; None fits it to the values."""
    figure = go.Figure()
    values = [finite(row.value) for row in rows]
    known = [value for value in values if value is not None]
    end = top if top is not None else max(known, default=1.0) or 1.0
    places = list(range(len(rows)))
    figure.add_bar(
        orientation="h",
        y=places,
        x=values,
        width=0.66,
        marker={"color": LINES[0]},
        hovertext=[
            f"{in_figure(row.name, 200)}: {score(value) if value is not None else GAP}"
            for row, value in zip(rows, values, strict=True)
        ],
        hoverinfo="text",
    )
    for place, row, value in zip(places, rows, values, strict=True):
        told = score(value) if value is not None else GAP
        figure.add_annotation(
            x=value or 0,
            y=place,
            text=in_figure(f"{told} · {row.note}" if row.note else told),
            showarrow=False,
            xanchor="left",
            xshift=6,
            font={"size": 11, "color": ink(dark) if value is not None else DROPPED},
        )
    figure.update_xaxes(type="linear", range=[0, end * 1.35], showgrid=False, visible=False, fixedrange=True)
    return _rows(figure, [in_figure(fit(row.name, NAME_COLUMNS)) for row in rows])


def forest(metrics: Sequence[PairedMetric]) -> go.Figure:
    """Paired deltas with their intervals around zero; a metric that no pair has is a gap with a note."""
    figure = go.Figure()
    places = list(range(len(metrics)))
    deltas = [finite(metric.delta) for metric in metrics]
    lows = [finite(m.interval.low) if m.interval else delta for m, delta in zip(metrics, deltas, strict=True)]
    highs = [finite(m.interval.high) if m.interval else delta for m, delta in zip(metrics, deltas, strict=True)]
    ends = [abs(value) for value in (*lows, *highs, *deltas) if value is not None]
    wide = max(ends, default=0.0) or 0.05
    for place, low, high, metric in zip(places, lows, highs, metrics, strict=True):
        if low is not None and high is not None:
            figure.add_shape(
                type="line", x0=low, x1=high, y0=place, y1=place, line={"width": 3, "color": _called(metric)}
            )
        else:
            figure.add_annotation(x=0, y=place, text=GAP, showarrow=False, xshift=34, font={"color": DROPPED})
    figure.add_scatter(
        x=deltas,
        y=places,
        mode="markers",
        marker={"size": 10, "color": [_called(metric) for metric in metrics]},
        hovertext=[
            f"{m.metric} of the {m.stage.value}: {score(delta)}" for m, delta in zip(metrics, deltas, strict=True)
        ],
        hoverinfo="text",
    )
    figure.add_vline(x=0, line={"color": DROPPED, "width": 1, "dash": "dot"})
    figure.update_xaxes(type="linear", range=[-wide * 1.1, wide * 1.1], fixedrange=True, zeroline=False)
    return _rows(figure, [f"{m.metric} {m.stage.value}" for m in metrics], axis=True)


def _called(metric: PairedMetric) -> str:
    if not metric.significant:
        return LINES[0]
    return GOOD if (metric.delta or 0) > 0 else BAD


def distributions(
    good: Distribution, bad: Distribution, marks: Sequence[tuple[str, float, str]], *, dark: bool = False
) -> go.Figure:
    """Two groups as mirrored shares a bin, ``good`` up and ``bad`` down. ``marks``: name, place and colour of lines."""
    figure = go.Figure()
    places = [*good.values, *bad.values, *(place for _, place, _ in marks)]
    low, high = min(places, default=0.0), max(places, default=1.0)
    step = (high - low) / BINS or 0.01
    for group, sign, colour in ((good, 1, GOOD), (bad, -1, BAD)):
        counts = [0] * (BINS + 1)
        for value in group.values:
            counts[min(BINS, int((value - low) / step))] += 1
        total = len(group.values) or 1
        figure.add_bar(
            x=[low + (at + 0.5) * step for at in range(BINS + 1)],
            y=[sign * number / total for number in counts],
            width=step,
            name=f"{group.label}, {len(group.values)}",
            marker={"color": colour, "opacity": 0.75},
            hovertext=[
                f"{number} {group.label} near {low + (at + 0.5) * step:.3f}" for at, number in enumerate(counts)
            ],
            hoverinfo="text",
        )
    for number, (name, place, colour) in enumerate(sorted(marks, key=lambda mark: mark[1])):
        figure.add_vline(x=place, line={"color": colour, "width": 2, "dash": "dash"})
        figure.add_annotation(
            x=place,
            y=1,
            yref="paper",
            yanchor="bottom",
            yshift=2 + 14 * (number % 3),
            text=in_figure(f"{name} {place:.3f}"),
            showarrow=False,
            font={"size": 11, "color": colour},
        )
    figure.update_layout(
        barmode="overlay",
        bargap=0,
        height=300,
        margin={"l": 8, "r": 8, "t": 48, "b": 8},
        dragmode=False,
        legend={"orientation": "h", "y": -0.16, "x": 0},
        font={"color": ink(dark)},
    )
    figure.update_xaxes(type="linear", fixedrange=True, zeroline=False)
    figure.update_yaxes(type="linear", tickformat=".0%", fixedrange=True, showticklabels=False, zeroline=True)
    return figure


def _rows(figure: go.Figure, labels: Sequence[str], *, axis: bool = False) -> go.Figure:
    figure.update_layout(
        height=(44 if axis else 16) + ROW * max(1, len(labels)),
        margin={"l": 8, "r": 8, "t": 8, "b": 24 if axis else 8},
        showlegend=False,
        dragmode=False,
    )
    figure.update_yaxes(
        type="linear",
        tickvals=list(range(len(labels))),
        ticktext=list(labels),
        range=[len(labels) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        automargin=True,
    )
    return figure
