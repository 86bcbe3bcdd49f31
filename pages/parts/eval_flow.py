"""The flow of evidence: every case enters on the left, and leaves at the stage where its evidence was first lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from core.evaluation.view import ARRIVED, CASES, Flow, Link
from core.wording import counted
from pages.parts.look import BAD, FAIR, GOOD, LINES, ink
from pages.parts.numbers import count
from pages.parts.text import in_figure

STREAM: Final = 5.0
"""Height of the whole stream, where one line of a label is 1."""
THIN: Final = 0.1
"""The thinnest band: one case of a thousand must still be seen."""
ROW_PIXELS: Final = 26
DOUBT: Final = "EVAL_INCOMPLETE"


def flow_figure(flow: Flow, *, dark: bool = False, chosen: str | None = None) -> go.Figure:
    """The stream shrinks from step to step; each loss bends down to a line of its own that names code and cases. Bands
    are as wide as they have cases. The dot of a loss carries its code as ``customdata``."""
    figure = go.Figure()
    steps = _steps(flow)
    exits = [(at, link) for at, (_, losses, _) in enumerate(steps) for link in losses]
    total = max((value for _, _, value in steps), default=1) or 1
    scale = STREAM / total
    rows = {link.code: len(exits) - 1 - place for place, (_, link) in enumerate(exits)}
    shapes: list[dict[str, Any]] = []
    for at, (name, losses, value) in enumerate(steps):
        left = value - sum(link.value for link in losses)
        if at + 1 < len(steps):
            shapes.append(_rectangle(at, at + 1, STREAM - left * scale, STREAM, LINES[0], 0.35))
        shapes.append(_rectangle(at - 0.03, at + 0.03, STREAM - value * scale, STREAM, LINES[0], 1.0))
        bottom = STREAM - value * scale
        for link in losses:
            colour = FAIR if link.code == DOUBT else BAD
            high = bottom + link.value * scale
            shapes.append(
                _band(at + 0.03, bottom, high, at + 0.78, -1.0 - rows[link.code], colour, chosen == link.code)
            )
            bottom = high
        figure.add_annotation(
            x=at,
            y=STREAM,
            yshift=4,
            yanchor="bottom",
            text=in_figure(f"{name} {count(value)}"),
            showarrow=False,
            font={"color": GOOD if name == ARRIVED else ink(dark)},
        )
    figure.add_scatter(
        x=[at + 0.82 for at, _ in exits],
        y=[-1.0 - rows[link.code] for _, link in exits],
        mode="markers+text",
        marker={
            "size": 12,
            "color": [FAIR if link.code == DOUBT else BAD for _, link in exits],
            "line": {"width": [3 if link.code == chosen else 0 for _, link in exits], "color": ink(dark)},
        },
        text=[f"  {in_figure(link.code or '')} · {_cases(link)}" for _, link in exits],
        textposition="middle right",
        textfont={"color": ink(dark)},
        customdata=[[link.code] for _, link in exits],
        hovertext=[in_figure(", ".join(link.cases[:8]) + (" …" if link.value > 8 else "")) for _, link in exits],
        hoverinfo="text",
        cliponaxis=False,
    )
    figure.update_traces(selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}})
    _frame(figure, shapes, len(steps), len(exits))
    return figure


def _steps(flow: Flow) -> list[tuple[str, list[Link], int]]:
    """The chain of the flow: name, the losses that leave there, and the cases that come in. Who arrived stands in the
    place of a last step that loses nothing."""
    here, name = 0, CASES
    found: list[tuple[str, list[Link], int]] = []
    while True:
        out = [link for link in flow.links if link.source == here]
        losses = [link for link in out if link.code is not None]
        onward = next((link for link in out if link.code is None), None)
        came = sum(link.value for link in out)
        if not out:
            before = next((link.value for link in flow.links if link.target == here), 0)
            passed = found[:-1] if name == ARRIVED and found and not found[-1][1] else found
            return [*passed, (name, [], before)]
        found.append((name, losses, came))
        if onward is None:
            return found
        here, name = onward.target, flow.nodes[onward.target]


def _cases(link: Link) -> str:
    return counted(link.value, "case")


def _rectangle(x0: float, x1: float, y0: float, y1: float, colour: str, opacity: float) -> dict[str, Any]:
    return {
        "type": "rect",
        "x0": x0,
        "x1": x1,
        "y0": y0,
        "y1": y1,
        "fillcolor": colour,
        "opacity": opacity,
        "line": {"width": 0},
        "layer": "below",
    }


def _band(x0: float, low: float, high: float, x1: float, row: float, colour: str, strong: bool) -> dict[str, Any]:
    half = max(high - low, THIN) / 2
    thin = min(half, 0.35)
    middle, centre = (x0 + x1) / 2, (low + high) / 2
    top, bottom = centre + half, centre - half
    path = (
        f"M {x0},{top} C {middle},{top} {middle},{row + thin} {x1},{row + thin} L {x1},{row - thin} "
        f"C {middle},{row - thin} {middle},{bottom} {x0},{bottom} Z"
    )
    return {
        "type": "path",
        "path": path,
        "fillcolor": colour,
        "opacity": 0.8 if strong else 0.45,
        "line": {"width": 0},
        "layer": "below",
    }


def _frame(figure: go.Figure, shapes: Sequence[dict[str, Any]], steps: int, exits: int) -> None:
    figure.update_layout(
        shapes=list(shapes),
        height=round(ROW_PIXELS * (STREAM + exits + 2.5)),
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        showlegend=False,
        dragmode=False,
        clickmode="event+select",
        hovermode="closest",
    )
    figure.update_xaxes(type="linear", visible=False, range=[-0.4, max(steps, 2) + 0.6], fixedrange=True)
    figure.update_yaxes(type="linear", visible=False, range=[-0.8 - exits, STREAM + 1.1], fixedrange=True)
