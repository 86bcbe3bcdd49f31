"""Calibration: operating points, the scale that puts them at 0.5 and 0.75, and the file that keeps it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import BadInput, InvalidSettings
from core.evaluation.calibrate import Aim, JudgedQuery, calibrate, judged_query, scale
from core.evaluation.calibration_file import CalibrationFile, SavedScale, scale_of
from core.model import EmbeddingProfile
from tests.unit.evaluation.eval_samples import a_case, a_fixture, attempt, lookup, row


def _queries(good: list[float], bad: list[float], basis: str = "dense") -> list[JudgedQuery]:
    listed = [JudgedQuery(f"g{n}", "one", basis, True, value, value, value + 0.1) for n, value in enumerate(good)]
    return listed + [JudgedQuery(f"b{n}", "two", basis, False, value) for n, value in enumerate(bad)]


def test_separable_groups_are_separated_without_error() -> None:
    found = calibrate(_queries([0.10, 0.12, 0.14, 0.16], [0.30, 0.32, 0.34, 0.36]))
    assert found.separation == 1.0
    assert found.suggestion is not None
    reference = found.suggestion.reference
    assert reference.threshold == pytest.approx((0.16 + 0.30) / 2)
    assert (reference.false_fallback.rate, reference.missed_fallback.rate) == (0.0, 0.0)
    assert found.suggestion.precise.threshold == pytest.approx(0.12)


def test_the_suggested_scale_puts_quality_05_and_075_at_the_operating_points() -> None:
    suggestion = calibrate(_queries([0.10, 0.12, 0.14, 0.16], [0.30, 0.32, 0.34, 0.36])).suggestion
    assert suggestion is not None
    low, high = suggestion.min_distance, suggestion.max_distance
    assert low is not None
    assert high is not None
    assert 1 - (suggestion.reference.threshold - low) / (high - low) == pytest.approx(0.5)
    quality = 1 - (suggestion.precise.threshold - low) / (high - low)
    assert quality == pytest.approx(suggestion.precise_threshold)


@pytest.mark.parametrize(
    ("reference", "precise", "expected"),
    [
        (0.3, 0.2, (0.1, 0.5, 0.75)),
        (1.0, 0.3, (0.0, 2.0, 0.85)),
        (3.0, 2.9, (2.8, 3.2, 0.75)),
        (2.5, 1.0, (1.0, 4.0, 1.0)),
    ],
)
def test_the_scale_by_hand(reference: float, precise: float, expected: tuple[float, float, float]) -> None:
    assert scale(reference, precise) == pytest.approx(expected)


@pytest.mark.parametrize(("reference", "precise"), [(0.2, 0.2), (0.2, 0.3), (0.2, -0.1)])
def test_a_scale_needs_the_precise_point_below_the_reference_point(reference: float, precise: float) -> None:
    with pytest.raises(ValueError, match="must be below"):
        scale(reference, precise)


def test_overlapping_groups_show_both_error_rates_with_intervals() -> None:
    found = calibrate(_queries([0.1, 0.2, 0.3, 0.9], [0.25, 0.8, 0.85, 0.95]), current_threshold=0.5)
    assert found.current is not None
    assert (found.current.false_fallback.count, found.current.false_fallback.total) == (1, 4)
    assert (found.current.missed_fallback.count, found.current.missed_fallback.total) == (1, 4)
    assert found.current.false_fallback.interval is not None
    assert found.current.false_fallback.interval.low < 0.25 < found.current.false_fallback.interval.high
    pairs_won = 4 + 4 + 3 + 1
    assert found.separation == pairs_won / 16


def test_the_aim_may_bound_the_false_fallbacks() -> None:
    good = [0.1] * 19 + [0.9]
    bad = [0.5, 0.6, 0.95, 0.99]
    balanced = calibrate(_queries(good, bad)).suggestion
    strict = calibrate(_queries(good, bad), aim=Aim.FALSE_FALLBACK, false_fallback=0.0).suggestion
    assert balanced is not None
    assert strict is not None
    assert balanced.reference.threshold < 0.5
    assert strict.reference.false_fallback.count == 0
    assert strict.reference.missed_fallback.count == 2


def test_few_negatives_or_negatives_of_one_set_are_told() -> None:
    warnings = calibrate(_queries([0.1] * 60, [0.4] * 20)).warnings
    assert warnings[0].startswith(
        "20 unanswerable queries are too few to tell (below 50): even none missed would allow"
    )
    assert "16%" in warnings[0]
    assert "one set" in warnings[1]


def test_an_empty_group_gives_no_suggestion() -> None:
    found = calibrate(_queries([0.1], []))
    assert (found.suggestion, found.separation) == (None, None)
    assert "both" in found.warnings[0]
    assert calibrate([]).suggestion is None


def test_all_values_equal_still_give_an_honest_answer() -> None:
    found = calibrate(_queries([0.2, 0.2], [0.2, 0.2]))
    assert found.separation == 0.5
    assert any("hardly differ" in text for text in found.warnings)
    assert found.suggestion is not None


def test_a_lexical_share_has_a_threshold_and_no_distance() -> None:
    found = calibrate(_queries([0.9, 0.8], [0.2, 0.1], "lexical"), "lexical")
    assert found.suggestion is not None
    assert found.suggestion.max_distance is None
    assert found.suggestion.reference_threshold == pytest.approx(0.5)
    assert found.suggestion.reference.false_fallback.count == 0
    saved = scale_of(found.suggestion, "p", who="pat", why="test")
    assert saved.lexical_reference_threshold == pytest.approx(0.5)
    assert saved.max_distance is None


def test_values_come_from_the_first_attempt_by_basis() -> None:
    rows = [
        row("gold#chunk-0", dense_distance=0.3, quality_basis="dense_hit", quality_score=0.5),
        row("x#chunk-0", exact_distance=0.2, quality_basis="dense_exact", quality_score=0.6),
        row("y#chunk-0", quality_basis="lexical", quality_score=0.4),
        row("z#chunk-0", quality_basis="rank", quality_score=1.0),
    ]
    case = a_case(goldSources=[{"docId": "gold"}])
    retry = attempt("UNFILTERED_VECTOR_RETRY", rows=[row("gold#chunk-0", dense_distance=0.01)])
    found = judged_query(case, a_fixture(case, lookup([], [attempt(rows=rows), retry])), "set")
    assert found == (
        JudgedQuery("c1", "set", "dense", True, 0.2, 0.3, 0.2),
        JudgedQuery("c1", "set", "lexical", True, 0.4, None, 0.4),
    )
    assert judged_query(case, a_fixture(case, None)) == ()


PROFILE = EmbeddingProfile("p1", "e5", 384)
WHEN = datetime(2026, 9, 1, tzinfo=UTC)


def test_a_saved_scale_is_read_back_and_applied(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path / "data" / "calibration.json")
    assert file.get("p1") is None
    file.save(SavedScale("p1", 0.1, 0.5, 0.8, 0.5, who="pat", why="dev sets"), now=WHEN)
    saved = file.get("p1")
    assert saved is not None
    assert saved.when == "2026-09-01T00:00:00+00:00"
    profile = saved.applied_to(PROFILE)
    assert (profile.min_distance, profile.max_distance, profile.precise_threshold, profile.calibrated) == (
        0.1,
        0.5,
        0.8,
        True,
    )
    with pytest.raises(BadInput, match="does not fit"):
        saved.applied_to(EmbeddingProfile("p2", "use", 512))


def test_a_later_save_keeps_what_it_does_not_name_and_the_history_grows(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path / "calibration.json")
    file.save(SavedScale("p1", 0.1, 0.5, who="pat", why="dev sets"), now=WHEN)
    file.save(SavedScale("p1", lexical_reference_threshold=0.4, who="kim", why="lexical"), now=WHEN)
    file.save(SavedScale("p2", 0.0, 1.4, who="kim", why="other model"), now=WHEN)
    found = file.get("p1")
    assert found is not None
    assert (found.max_distance, found.lexical_reference_threshold) == (0.5, 0.4)
    assert [entry.who for entry in file.history("p1")] == ["pat", "kim"]
    assert "NaN" not in file.path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "scale_",
    [
        SavedScale("p1", 0.1, 0.5, who="", why="x"),
        SavedScale("p1", 0.1, 0.5, who="x", why=" "),
        SavedScale("p1", 0.5, 0.5, who="x", why="x"),
        SavedScale("p1", 0.1, 5.0, who="x", why="x"),
        SavedScale("p1", 0.1, float("nan"), who="x", why="x"),
        SavedScale("p1", 0.1, 0.5, 0.4, 0.5, who="x", why="x"),
    ],
)
def test_a_scale_that_is_none_is_not_saved(tmp_path: Path, scale_: SavedScale) -> None:
    file = CalibrationFile(tmp_path / "calibration.json")
    with pytest.raises(BadInput):
        file.save(scale_)
    assert not file.path.exists()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"version": 2}', json.dumps({"version": 1, "profiles": {"p": {"x": 1}}, "history": []})]
)
def test_a_broken_file_is_told_and_never_taken_for_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "calibration.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSettings, match="not a calibration file"):
        CalibrationFile(tmp_path / "calibration.json").get("p")
