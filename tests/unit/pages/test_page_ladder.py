"""The rank ladder: rows, columns, paths and picture."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from core.model import (
    AttemptName,
    AttemptTrace,
    Branch,
    BranchTrace,
    Candidate,
    DropReason,
    Stage,
    StageStatus,
    StageTrace,
)
from pages.parts import bump, ladder
from tests.unit.pages import samples

ALL = (Stage.DENSE, Stage.BM25, Stage.FUSE, Stage.EVIDENCE, Stage.PACK, Stage.PROJECT)


def row(columns: tuple[Stage, ...] = ALL, **values: object) -> ladder.LadderRow:
    one = Candidate("a#chunk-0", "a", 0, **values)  # type: ignore[arg-type]
    attempt = AttemptTrace(AttemptName.UNFILTERED_VECTOR, StageStatus.COMPLETE, candidates=(one,))
    (only,) = ladder.ladder_rows(attempt)
    return replace(only, ranks={stage: only.ranks.get(stage) for stage in columns})


def test_rows_stand_in_their_original_order() -> None:
    rows = ladder.ladder_rows(samples.attempt())
    ranked = [r.ranks[Stage.FUSE] for r in rows]
    assert ranked == list(range(1, 36))


def test_a_missing_rank_is_none_and_never_zero() -> None:
    rows = ladder.ladder_rows(samples.attempt())
    only_bm25 = next(r for r in rows if r.ranks[Stage.BM25] == 4)
    assert only_bm25.ranks[Stage.DENSE] is None
    table = ladder.ladder_table(rows, ALL)
    assert 0 not in table["Dense"].dropna().tolist()


def test_the_rerank_column_appears_only_when_the_reranker_ran() -> None:
    plain = samples.attempt()
    assert ladder.ladder_columns(plain) == ALL
    on = replace(plain, stages=(*plain.stages[:3], StageTrace(Stage.RERANK, StageStatus.COMPLETE, 20, 20, 5.0)))
    assert Stage.RERANK in ladder.ladder_columns(on)


def test_a_dense_only_lookup_has_no_bm25_column() -> None:
    dense = AttemptTrace(
        AttemptName.UNFILTERED_VECTOR,
        StageStatus.COMPLETE,
        branches=(
            BranchTrace(Branch.DENSE, StageStatus.COMPLETE, hits=1),
            BranchTrace(Branch.BM25, StageStatus.NOT_RUN),
        ),
        candidates=(Candidate("a#chunk-0", "a", 0, dense_rank=1, original_rank=1),),
    )
    assert Stage.BM25 not in ladder.ladder_columns(dense)


def test_a_failed_branch_keeps_its_column_and_says_so() -> None:
    attempt = samples.degraded().retrieval_trace.attempts[0]
    assert Stage.BM25 in ladder.ladder_columns(attempt)
    assert ladder.ladder_states(attempt)[Stage.BM25] == "unavailable"


def test_a_drop_ends_between_its_last_stage_and_the_stage_that_dropped_it_at_the_rank_until_then() -> None:
    path = bump.ladder_path(
        row(dense_rank=3, rrf_rank=7, drop_stage=Stage.EVIDENCE, drop_reason=DropReason.RETURN_LIMIT), ALL
    )
    assert path.stations == ((0.0, 3), (2.0, 7))
    assert path.end == (pytest.approx(3 - 0.8), 7)


def test_a_drop_beyond_the_window_ends_on_its_own_fused_rank() -> None:
    path = bump.ladder_path(
        row(bm25_rank=20, rrf_rank=35, drop_stage=Stage.FUSE, drop_reason=DropReason.FUSION_WINDOW), ALL
    )
    assert path.end == (2.0, 35)


def test_a_row_that_reached_the_agent_has_no_end() -> None:
    path = bump.ladder_path(row(dense_rank=1, rrf_rank=1, evidence_rank=1, pack_rank=1, projection_rank=1), ALL)
    assert path.end is None
    assert path.stations[-1] == (5.0, 1)


def test_a_drop_at_a_stage_without_a_column_ends_at_its_last_station() -> None:
    path = bump.ladder_path(row(dense_rank=2, drop_stage=Stage.AUDIT, drop_reason=DropReason.STALE_REVISION), ALL)
    assert path.end == (0.0, 2)


def test_the_picture_carries_the_evidence_key_of_every_point() -> None:
    rows = ladder.ladder_rows(samples.attempt())
    figure = bump.ladder_figure(rows, ALL)
    keys = {point[0] for trace in figure.data for point in trace.customdata}
    assert keys == {r.key for r in rows}


def test_every_drop_is_labelled_with_its_reason() -> None:
    rows = ladder.ladder_rows(samples.attempt())
    labels = [a.text for a in bump.ladder_figure(rows, ALL).layout.annotations]
    assert labels.count("fusion window") == 15
    assert labels.count("document limit") == 1


def test_the_chosen_row_is_bold_and_drawn_last() -> None:
    rows = ladder.ladder_rows(samples.attempt())
    chosen = rows[5].key
    lines = [t for t in bump.ladder_figure(rows, ALL, chosen=chosen).data if t.mode == "lines"]
    assert lines[-1].customdata[0][0] == chosen
    assert lines[-1].line.width == max(t.line.width for t in lines)


def test_an_empty_attempt_draws_an_empty_picture_and_table() -> None:
    attempt = samples.empty().retrieval_trace.attempts[0]
    rows, columns = ladder.ladder_rows(attempt), ladder.ladder_columns(attempt)
    assert not any(trace.x for trace in bump.ladder_figure(rows, columns).data)
    assert len(ladder.ladder_table(rows, columns)) == 0


def test_case_70_impossible_scores_become_missing_and_the_picture_stays_valid_json() -> None:
    bad = replace(
        samples.attempt().candidates[0],
        dense_distance=float("nan"),
        bm25_score=float("inf"),
        quality_score=float("-inf"),
        rrf_score=float("nan"),
    )
    attempt = replace(samples.attempt(), candidates=(bad,))
    rows = ladder.ladder_rows(attempt)
    table = ladder.ladder_table(rows, ALL)
    assert table[["Distance²", "BM25 score", "Quality", "RRF score"]].isna().all().all()
    json.loads(bump.ladder_figure(rows, ALL).to_json(), parse_constant=lambda name: pytest.fail(name))


def test_case_113_and_114_titles_are_escaped_in_hover_and_labels() -> None:
    attempt = samples.hostile().retrieval_trace.attempts[0]
    rows = ladder.ladder_rows(attempt)
    figure = bump.ladder_figure(rows, ALL, chosen=rows[0].key)
    texts = [point[1] for t in figure.data for point in t.customdata] + [a.text for a in figure.layout.annotations]
    assert not any("<img" in text or "<svg" in text or "\u202e" in text for text in texts)
    assert any("&lt;img" in text for text in texts)


def test_a_hover_never_reads_a_title_as_a_template_variable() -> None:
    rows = ladder.ladder_rows(
        replace(
            samples.attempt(), candidates=(replace(samples.attempt().candidates[0], title="%{x} %{customdata[0]}"),)
        )
    )
    # the title stands in the data of the point, where Plotly fills in nothing
    for trace in bump.ladder_figure(rows, ALL).data:
        assert trace.hovertemplate == "%{customdata[1]}<extra></extra>"


def test_case_113_the_stage_axis_keeps_order_and_exact_labels() -> None:
    rows = ladder.ladder_rows(samples.attempt())
    axis = bump.ladder_figure(rows, ALL).layout.xaxis
    assert axis.type == "linear"
    assert list(axis.ticktext) == [f"<b>{n}</b>" for n in ("Dense", "BM25", "RRF", "Evidence", "Pack", "Projection")]
