"""The trends of the Audit page, over the records of the same filters; a click on a bar or a point leads to its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.audit.query import AuditFilter, Bucket, TrendBucket, Trends
from core.audit.trends import drill
from pages.parts import audit_filters, boxes, facts, look, services, trend_figures, views
from pages.parts.numbers import count, ms, share
from pages.parts.status import Fact
from pages.parts.trend_figures import LEVELS, MEASURES, RATES, Series

if TYPE_CHECKING:
    from core.bootstrap import App


_SIZES: Final = {"fitting": None, "by minute": Bucket.MINUTE, "by hour": Bucket.HOUR, "by day": Bucket.DAY} | {
    "by week": Bucket.WEEK
}


def draw(app: App, where: AuditFilter, page: str, zone: str) -> None:
    """Every trend of ``where``."""
    size = st.segmented_control(
        "Bars", list(_SIZES), default="fitting", required=True, key=f"{page}.bucket", label_visibility="collapsed"
    )
    bucket = _SIZES[size or "fitting"]
    with st.spinner("Reading the record…"):
        found: Trends | None = services.call(
            "The trends cannot be read", app.audit_log.trends, where, bucket, zone=zone
        )
    if found is None:
        return
    if found.total is None or not found.total.volume:
        boxes.empty("No record fits these filters", "There is nothing to draw a trend of.")
        return
    facts.strip(total_facts(found.total))
    if found.measured < found.total.volume:
        st.caption(
            f"Counts are exact; means and percentiles are of {count(found.measured)} records, drawn evenly from "
            f"{count(found.total.volume)}."
        )
    dark = look.is_dark()
    left, right = st.columns(2, gap="medium")
    with left:
        st.caption("Lookups by level")
        _chart(trend_figures.bars(found, LEVELS, dark=dark), found, LEVELS, where, f"{page}.trend.levels")
    with right:
        st.caption("Share of the lookups that …")
        figure = trend_figures.axis(trend_figures.lines(found, RATES, share, dark=dark), percent=True)
        _chart(figure, found, RATES, where, f"{page}.trend.rates")
    _latency(found, where, page, dark)
    _measures(found, where, page, dark)
    st.caption("Click a bar or a point to see its records.")


def _latency(found: Trends, where: AuditFilter, page: str, dark: bool) -> None:
    stages = list(found.total.latency) if found.total else []
    if not stages:
        return
    stages.sort(key=lambda name: name != "total_ms")
    stage = st.segmented_control(
        "Latency of",
        stages,
        default=stages[0],
        required=True,
        format_func=lambda name: name.removesuffix("_ms").replace("_", " "),
        key=f"{page}.stage",
    )
    stage = stage or stages[0]
    series = trend_figures.latency(stage)
    whole = found.total.latency[stage] if found.total else None
    if whole:
        words = " · ".join(f"{name} {ms(getattr(whole, name))}" for name in trend_figures.PERCENTILES)
        st.caption(f"{words} of {count(whole.count)} measured")
    figure = trend_figures.axis(trend_figures.lines(found, series, ms, dark=dark), unit=" ms")
    _chart(figure, found, series, where, f"{page}.trend.latency.{stage}")


def _measures(found: Trends, where: AuditFilter, page: str, dark: bool) -> None:
    columns = st.columns(4, gap="medium")
    for number, (title, (series, words, hint)) in enumerate(MEASURES.items()):
        with columns[number % 4]:
            whole = words(series.read(found.total)) if found.total else ""
            st.caption(f"{title}: {whole}", help=hint)
            figure = trend_figures.lines(found, (series,), words, dark=dark, height=trend_figures.SMALL)
            if words is share:
                trend_figures.axis(figure, percent=True)
            _chart(figure, found, (series,), where, f"{page}.trend.{series.name}")


def _chart(figure: Any, found: Trends, series: tuple[Series, ...], where: AuditFilter, key: str) -> None:
    st.plotly_chart(
        figure,
        key=key,
        config=look.CHART,
        on_select=lambda: _clicked(st.session_state.get(key), found, series, where),
        selection_mode="points",
        alt="Trend over time; a click on a point shows its records in the list.",
    )


def _clicked(event: Any, found: Trends, series: tuple[Series, ...], where: AuditFilter) -> None:
    """The list of the records behind the clicked point takes the place of the trends."""
    points = event["selection"]["points"] if event else []
    data = points[0].get("customdata") if points else None
    if not data:
        return
    at, name = int(data[0]), str(data[1])
    one = next((s for s in series if s.name == name), None)
    if one is not None and 0 <= at < len(found.buckets):
        audit_filters.go(drill(where, found.buckets[at], one.filters), **{views.ADDRESS: None})


def total_facts(total: TrendBucket) -> tuple[Fact, ...]:
    """The strip over all records of the filter."""
    names = (
        ("Failed", "failures", "red"),
        ("Timed out", "timeouts", "red"),
        ("Refused", "refused", "orange"),
        ("Retried", "retries", "orange"),
        ("Found nothing", "zero_results", "orange"),
        ("Fell back", "fallbacks", "blue"),
        ("Degraded", "degraded", "orange"),
    )
    return (
        Fact("Lookups", count(total.volume)),
        *(
            Fact(
                label,
                share(total.rate(name)),
                f"{count(getattr(total, name))} lookups",
                tone=tone if getattr(total, name) else "",
            )
            for label, name, tone in names
        ),
        *(
            Fact(level, share(total.levels.get(level, 0) / total.volume if total.volume else None))
            for level in ("PRECISE", "REFERENCE")
        ),
        Fact("Scope violations", count(total.scope_violations), tone="red" if total.scope_violations else ""),
    )
