"""Pictures of the trends: bars and lines over time, each point of which leads to its records.

Places on the time axis are numbers from 0 with labels of our own, so that no picture guesses a type, a zone or a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import plotly.graph_objects as go

from core.audit.query import Bucket, TrendBucket, Trends
from pages.parts.look import BAD, DROPPED, FAIR, GOOD, LINES, ink
from pages.parts.numbers import count, finite, score, share

LABELS: Final = 8
HEIGHT: Final = 230
SMALL: Final = 140
WHOLE_TICKS: Final = 6
MARKED: Final = 40
"""Up to so many points each has a mark; more of them are a line only."""
_FORMATS: Final[Mapping[Bucket, str]] = {
    Bucket.MINUTE: "%m-%d %H:%M",
    Bucket.HOUR: "%m-%d %H:%M",
    Bucket.DAY: "%Y-%m-%d",
    Bucket.WEEK: "%Y-%m-%d",
}


@dataclass(frozen=True, slots=True)
class Series:
    """One line or stack. ``filters`` are the conditions that its records meet, beside the time, so that a click finds
    just these; ``read`` gives the value of a bucket, None where there is none."""

    name: str
    colour: str
    read: Callable[[TrendBucket], float | None]
    filters: Mapping[str, str]


LEVELS: Final = (
    Series("PRECISE", GOOD, lambda b: b.levels.get("PRECISE", 0), {"relevance_level": "PRECISE"}),
    Series("REFERENCE", FAIR, lambda b: b.levels.get("REFERENCE", 0), {"relevance_level": "REFERENCE"}),
    Series("no level", DROPPED, lambda b: b.levels.get("none", 0), {"relevance_level": "none"}),
)
RATES: Final = (
    Series("failed", BAD, lambda b: b.rate("failures"), {"status": "error"}),
    Series("timed out", LINES[1], lambda b: b.rate("timeouts"), {"status": "timeout"}),
    Series("refused", DROPPED, lambda b: b.rate("refused"), {"status": "refused"}),
    Series("retried", LINES[4], lambda b: b.rate("retries"), {"only": "retried"}),
    Series("found nothing", LINES[0], lambda b: b.rate("zero_results"), {"evidence_status": "NO_EVIDENCE"}),
    Series("fell back", LINES[2], lambda b: b.rate("fallbacks"), {"fallback": "any"}),
    Series("degraded", LINES[3], lambda b: b.rate("degraded"), {"degraded": "yes"}),
)
PERCENTILES: Final = ("p50", "p90", "p95", "p99")
MEASURES: Final[Mapping[str, tuple[Series, Callable[[float | None], str], str]]] = {
    "Candidates a lookup": (
        Series("candidates", LINES[0], lambda b: b.candidate_count, {}),
        lambda v: score(v, 1),
        "Mean number after fusion.",
    ),
    "Dense and BM25 overlap@10": (
        Series("overlap", LINES[2], lambda b: b.overlap_at_10, {}),
        share,
        "Chunks that both branches have among their first ten, of those that either has.",
    ),
    "Top-1 to top-2 gap": (
        Series("gap", LINES[4], lambda b: b.quality_gap, {}),
        score,
        "A feature of model and query type, not a confidence.",
    ),
    "Unique sources": (
        Series("sources", LINES[6], lambda b: b.unique_sources, {}),
        lambda v: score(v, 1),
        "Mean number of documents behind an answer.",
    ),
    "Scope violations": (
        Series("violations", BAD, lambda b: float(b.scope_violations), {"only": "scope_violation"}),
        lambda v: score(v, 0),
        "Hits outside the scope that had to be dropped: should be none.",
    ),
    "Stale rate": (
        Series("stale", LINES[1], lambda b: b.stale_rate, {"only": "stale"}),
        share,
        "Share of candidates that were of an older revision.",
    ),
    "Budget-drop rate": (
        Series("dropped", LINES[3], lambda b: b.budget_drop_rate, {"only": "budget_drop"}),
        share,
        "Share of the evidence that did not fit into the context pack.",
    ),
}


def latency(stage: str) -> tuple[Series, ...]:
    """The percentiles of one stage; ``stage`` is its column."""

    def reader(name: str) -> Callable[[TrendBucket], float | None]:
        return lambda b: getattr(b.latency[stage], name) if stage in b.latency else None

    colours = (LINES[0], LINES[2], LINES[1], BAD)
    return tuple(Series(name, colour, reader(name), {}) for name, colour in zip(PERCENTILES, colours, strict=True))


def bars(trends: Trends, series: Sequence[Series], *, dark: bool) -> go.Figure:
    """Stacked bars, one a bucket."""
    figure, labels = go.Figure(), names(trends)
    for one in series:
        values = _values(trends, one)
        figure.add_bar(
            x=list(range(len(values))),
            y=values,
            name=one.name,
            marker={"color": one.colour, "line": {"width": 0}},
            customdata=[[at, one.name] for at in range(len(values))],
            hovertext=[f"{label}: {count(int(v or 0))} {one.name}" for label, v in zip(labels, values, strict=True)],
            hoverinfo="text",
        )
    figure.update_layout(barmode="stack", bargap=0.12)
    framed = _framed(figure, labels, dark)
    highest = max(
        (sum(v or 0 for v in stack) for stack in zip(*(bar.y for bar in figure.data), strict=True)), default=0
    )
    return framed.update_yaxes(dtick=1) if highest <= WHOLE_TICKS else framed  # no half of a lookup


def lines(
    trends: Trends, series: Sequence[Series], words: Callable[[float | None], str], *, dark: bool, height: int = HEIGHT
) -> go.Figure:
    """Lines with a point a bucket; a bucket without a value is a gap."""
    figure, labels = go.Figure(), names(trends)
    for one in series:
        values = _values(trends, one)
        figure.add_scatter(
            x=list(range(len(values))),
            y=values,
            name=one.name,
            mode="lines+markers" if len(values) <= MARKED else "lines",
            connectgaps=False,
            line={"color": one.colour, "width": 1.5},
            marker={"size": 6, "color": one.colour},
            customdata=[[at, one.name] for at in range(len(values))],
            hovertext=[f"{label}: {one.name} {words(v)}" for label, v in zip(labels, values, strict=True)],
            hoverinfo="text",
        )
    figure.update_layout(showlegend=len(series) > 1)
    return _framed(figure, labels, dark, height)


def names(trends: Trends) -> list[str]:
    """The beginning of each bucket, in the zone of the trends."""
    return [_local(bucket.start, trends.zone).strftime(_FORMATS[trends.bucket]) for bucket in trends.buckets]


def _local(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone))


def _values(trends: Trends, one: Series) -> list[float | None]:
    return [finite(one.read(bucket)) for bucket in trends.buckets]


def _framed(figure: go.Figure, labels: Sequence[str], dark: bool, height: int = HEIGHT) -> go.Figure:
    step = max(1, -(-len(labels) // (LABELS if height > SMALL else 2)))
    places = list(range(0, len(labels), step))
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        dragmode=False,
        clickmode="event+select",
        hovermode="closest",
        font={"color": ink(dark)},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )
    figure.update_xaxes(
        type="linear",
        tickvals=places,
        ticktext=[labels[at] for at in places],
        tickangle=0,
        range=[-0.6, max(len(labels), 1) - 0.4],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        automargin=True,
    )
    figure.update_yaxes(type="linear", rangemode="tozero", fixedrange=True, automargin=True, zeroline=False)
    figure.update_traces(selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}})
    return figure


def axis(figure: go.Figure, *, percent: bool = False, unit: str = "") -> go.Figure:
    """The vertical axis in per cent, or with a unit."""
    if percent:
        figure.update_yaxes(tickformat=".2~%")
    if unit:
        figure.update_yaxes(ticksuffix=unit)
    return figure
