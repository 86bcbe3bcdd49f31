"""The funnel: how many chunks went into each stage, how many came out, and what the others were dropped for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.model import AttemptTrace, RetrievalTrace, Stage, StageStatus
from pages.parts.ladder import LABELS, ladder_columns
from pages.parts.look import DROPPED, LINES, ink
from pages.parts.numbers import count

_LOOKUP_STAGES = {Stage.PACK, Stage.PROJECT}


@dataclass(frozen=True, slots=True)
class FunnelRow:
    """One stage. ``count_out`` is None where the stage failed or did not run: that is not 0."""

    stage: Stage
    status: StageStatus
    count_in: int | None
    count_out: int | None
    lost: Mapping[str, int]
    ms: float | None
    reason: str | None

    @property
    def counts(self) -> str:
        """``35 → 20``, only ``20`` for a branch, the status for a stage that did not complete."""
        if self.status is not StageStatus.COMPLETE:
            return self.status.value.replace("_", " ")
        return count(self.count_out) if self.count_in is None else f"{count(self.count_in)} → {count(self.count_out)}"

    @property
    def losses(self) -> tuple[str, ...]:
        """``15 fusion window``, the most frequent reason first."""
        most = sorted(self.lost.items(), key=lambda item: -item[1])
        return tuple(f"{n} {reason.replace('_', ' ')}" for reason, n in most)


def funnel_rows(trace: RetrievalTrace, attempt: AttemptTrace) -> tuple[FunnelRow, ...]:
    """The stages of ``attempt`` and, when it is the selected one, of the lookup, in pipeline order."""
    stages = {stage.stage: stage for stage in attempt.stages}
    if attempt.name is trace.selected_attempt:
        stages |= {stage.stage: stage for stage in trace.stages if stage.stage in _LOOKUP_STAGES}
    hits = {Stage(branch.branch.value): branch for branch in attempt.branches}
    lost: dict[Stage, Counter[str]] = {}
    for candidate in attempt.candidates:
        if candidate.drop_stage and candidate.drop_reason:
            lost.setdefault(candidate.drop_stage, Counter())[candidate.drop_reason.value] += 1
    rows = []
    for name in ladder_columns(attempt):
        stage, branch = stages.get(name), hits.get(name)
        if stage is None and branch is None:
            continue
        status = stage.status if stage else branch.status if branch else StageStatus.NOT_RUN
        rows.append(
            FunnelRow(
                stage=name,
                status=status,
                count_in=stage.count_in if stage and branch is None else None,
                count_out=stage.count_out if stage else branch.hits if branch else None,
                lost=dict(lost.get(name, {})),
                ms=stage.ms if stage else branch.ms if branch else None,
                reason=stage.reason if stage and stage.reason else branch.reason if branch else None,
            )
        )
    return tuple(rows)


def _words(row: FunnelRow) -> str:
    """Counts, then the losses in lines of two, so that they stay beside a narrow picture."""
    lines = [" · ".join(row.losses[at : at + 2]) for at in range(0, len(row.losses), 2)]
    return "<br>".join([f"<b>{row.counts}</b>", *lines])


def funnel_figure(rows: Sequence[FunnelRow], *, dark: bool = False) -> go.Figure:
    """One bar a stage: what came out in colour, what was lost in grey, both in chunks, with the numbers beside it."""
    figure = go.Figure()
    places = list(range(len(rows)))
    out = [row.count_out or 0 for row in rows]
    gone = [max(0, (row.count_in or 0) - (row.count_out or 0)) for row in rows]
    widest = max((a + b for a, b in zip(out, gone, strict=True)), default=1) or 1
    hover = [" · ".join((f"{LABELS[row.stage]}: {row.counts}", *row.losses)) for row in rows]
    bar = {"orientation": "h", "y": places, "hovertext": hover, "hoverinfo": "text", "width": 0.62}
    figure.add_bar(x=out, marker={"color": LINES[0]}, **bar)
    figure.add_bar(x=gone, marker={"color": DROPPED, "opacity": 0.35}, **bar)
    for place, row in zip(places, rows, strict=True):
        figure.add_annotation(
            x=out[place] + gone[place],
            y=place,
            text=_words(row),
            align="left",
            showarrow=False,
            xanchor="left",
            xshift=8,
            font={"size": 11, "color": ink(dark)},
        )
    figure.update_layout(
        barmode="stack",
        height=40 + 36 * max(1, len(rows)),
        margin={"l": 76, "r": 8, "t": 8, "b": 8},
        showlegend=False,
        dragmode=False,
    )
    figure.update_xaxes(type="linear", visible=False, range=[0, widest * 2.3], fixedrange=True)
    figure.update_yaxes(
        type="linear",
        tickvals=places,
        ticktext=[LABELS[row.stage] for row in rows],
        range=[len(rows) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
    return figure
