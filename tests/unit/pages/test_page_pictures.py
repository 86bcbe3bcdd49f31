"""Funnel, gate, waterfall, attempts side by side, status strip, projection report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from core.model import Gate, QualityBasis, RelevanceLevel, Stage, Timings
from core.ports import AuditReceipt
from pages.parts import attempts, funnel, gate, numbers, reading, status, waterfall
from tests.unit.pages import samples

# ---------------------------------------------------------------- funnel


def test_the_funnel_counts_every_loss_by_its_reason() -> None:
    trace = samples.found().retrieval_trace
    rows = {row.stage: row for row in funnel.funnel_rows(trace, trace.attempts[0])}
    assert rows[Stage.FUSE].counts == "35 → 20"
    assert rows[Stage.FUSE].losses == ("15 fusion window",)
    assert rows[Stage.EVIDENCE].losses == ("13 return limit", "1 duplicate content", "1 document limit")
    assert rows[Stage.PROJECT].losses == ("1 projection bytes",)


def test_a_failed_stage_shows_its_status_and_not_a_zero() -> None:
    trace = samples.failed().retrieval_trace
    rows = {row.stage: row for row in funnel.funnel_rows(trace, trace.attempts[0])}
    assert rows[Stage.DENSE].count_out is None
    assert rows[Stage.DENSE].counts == "error"
    assert rows[Stage.DENSE].reason == "milvus: connection refused"


def test_a_stage_that_found_nothing_shows_a_zero() -> None:
    trace = samples.empty().retrieval_trace
    rows = {row.stage: row for row in funnel.funnel_rows(trace, trace.attempts[0])}
    assert rows[Stage.DENSE].counts == "0"


def test_pack_and_projection_belong_to_the_selected_attempt_only() -> None:
    trace = samples.fallback().retrieval_trace
    first = {row.stage for row in funnel.funnel_rows(trace, trace.attempts[0])}
    second = {row.stage for row in funnel.funnel_rows(trace, trace.attempts[1])}
    assert Stage.PROJECT not in first
    assert Stage.PROJECT in second


# ---------------------------------------------------------------- gate


def test_the_distance_scale_is_the_inverse_of_the_quality_formula() -> None:
    scale = Gate(0.75, 0.5, 0.2, 0.4, calibrated=True)
    assert gate.distance_at(1.0, scale) == pytest.approx(0.2)
    assert gate.distance_at(0.75, scale) == pytest.approx(0.4 - 0.75 * (0.4 - 0.2))
    assert gate.distance_at(0.0, scale) == pytest.approx(0.4)


def test_the_gate_names_the_deciding_number_and_the_verdict() -> None:
    words = gate.gate_words(samples.attempt(), samples.GATE)
    assert words.startswith("Best quality 0.910 (distance of a dense hit)")
    assert words.endswith("PRECISE.")
    low = gate.gate_words(samples.attempt(best=0.41), samples.GATE)
    assert "below the reference threshold 0.500: low quality" in low


def test_a_lexical_share_has_its_own_threshold_and_no_precise_one() -> None:
    scale = replace(samples.GATE, lexical_reference_threshold=0.3)
    assert gate.thresholds(scale, QualityBasis.LEXICAL) == (0.3, None)
    assert gate.thresholds(scale, QualityBasis.DENSE_HIT) == (0.5, 0.75)


def test_no_candidate_at_all_is_said_apart_from_low_quality() -> None:
    assert "No candidate at all" in gate.gate_words(samples.empty().retrieval_trace.attempts[0], samples.GATE)
    assert "not reached" in gate.gate_words(samples.failed().retrieval_trace.attempts[0], samples.GATE)


def test_the_gate_picture_marks_both_thresholds_and_the_deciding_candidate() -> None:
    figure = gate.gate_figure(samples.attempt(), samples.GATE)
    texts = [a.text for a in figure.layout.annotations]
    assert {"REFERENCE", "PRECISE"} <= set(texts)
    assert any(text.startswith("best: ") for text in texts)


def test_case_114_the_gate_picture_escapes_titles() -> None:
    figure = gate.gate_figure(samples.hostile().retrieval_trace.attempts[0], samples.GATE)
    assert "<img" not in figure.to_json().replace("\\u003c", "<")


# ---------------------------------------------------------------- waterfall


def test_branches_start_together_and_the_next_stage_after_the_slower_one() -> None:
    bars = {bar.label: bar for bar in waterfall.waterfall_bars(samples.found().retrieval_trace)}
    assert bars["Dense"].start == bars["BM25"].start == pytest.approx(0.6 + 21.0)
    assert bars["RRF"].start == pytest.approx(0.6 + 21.0 + 14.2)


def test_what_no_stage_accounts_for_is_the_last_bar() -> None:
    bars = waterfall.waterfall_bars(samples.found().retrieval_trace)
    known = 0.6 + 21.0 + 14.2 + 0.4 + 0.9 + 0.3 + 0.1 + 0.5 + 1.8
    assert bars[-1].label == "Other"
    assert bars[-1].ms == pytest.approx(52.0 - known)


def test_both_attempts_have_their_own_bars() -> None:
    labels = [bar.label for bar in waterfall.waterfall_bars(samples.fallback().retrieval_trace)]
    assert "Dense (1)" in labels
    assert "Dense (2)" in labels


def test_a_lookup_without_times_has_no_bars() -> None:
    trace = replace(samples.found().retrieval_trace, attempts=(), stages=(), timings=Timings())
    assert waterfall.waterfall_bars(trace) == ()


# ---------------------------------------------------------------- attempts


def test_the_fallback_is_explained_and_judged() -> None:
    first, second = samples.fallback().retrieval_trace.attempts
    assert attempts.fallback_words(first, second).endswith("it helped.")
    assert attempts.fallback_words(second, first).endswith("it made things worse.")


def test_the_attempts_stand_side_by_side() -> None:
    table = attempts.attempt_facts(samples.fallback().retrieval_trace.attempts).set_index("Fact")
    assert table.loc["Category filter"].tolist() == ["kafka", "none"]
    assert table.loc["Best quality"].tolist() == ["0.410", "0.910"]
    assert table.loc["Level"].tolist() == ["none", "PRECISE"]


def test_a_chunk_of_one_attempt_only_has_no_rank_in_the_other() -> None:
    first, second = samples.fallback().retrieval_trace.attempts
    moves = attempts.attempt_moves(first, second)
    assert len(moves) == 35
    only_after = moves[moves["Found"] == "after"]
    assert len(only_after) == 35 - 12
    assert only_after["Rank before"].isna().all()


# ---------------------------------------------------------------- status strip


def test_the_strip_tells_what_the_agent_is_told() -> None:
    facts = {fact.label: fact for fact in status.status_facts(samples.found())}
    assert facts["Evidence"].value == "READY"
    assert facts["Level"].value == "PRECISE"
    assert facts["Returned"].value == "3 of 35"
    assert facts["Fallback"].value == "none"
    assert facts["Total"].value == "52 ms"


def test_a_queued_record_is_not_called_recorded() -> None:
    facts = {f.label: f for f in status.status_facts(samples.found(), AuditReceipt("i-1", "queued", 50.0, "away"))}
    assert (facts["Audit"].value, facts["Audit"].tone) == ("queued", "orange")


def test_remarks_name_degradation_what_if_calibration_and_violations() -> None:
    base = samples.degraded()
    trace = replace(
        base.retrieval_trace,
        what_if={"rrf_k": 10},
        gate=replace(samples.GATE, calibrated=False),
        attempts=(replace(base.retrieval_trace.attempts[0], scope_violations=2),),
    )
    text = "\n".join(status.remarks(replace(base, retrieval_trace=trace)))
    assert text.count("Degraded: bm25") == 1
    assert "What-if, not the saved settings: rrf_k = 10" in text
    assert "not calibrated" in text
    assert "2 hits outside the scope" in text
    assert status.remarks(samples.found()) == ()


def test_a_missing_level_is_none_and_evidence_can_still_be_ready() -> None:
    facts = {f.label: f.value for f in status.status_facts(replace(samples.found(), relevance_level=None))}
    assert (facts["Level"], facts["Evidence"]) == ("none", "READY")
    assert RelevanceLevel.PRECISE.value not in facts.values()


# ---------------------------------------------------------------- reading


def test_the_bounds_say_what_was_cut() -> None:
    report = samples.found().projection
    assert report is not None
    table = reading.bounds_table(report).set_index("Bound")
    assert table.loc["answer, bytes of JSON", ["Before", "After", "Allowed", "Cut"]].tolist() == [
        19200,
        15900,
        16384,
        "yes",
    ]
    assert table.loc["query, characters", "Cut"] == ""


def test_every_loss_of_the_projection_is_counted_in_characters_and_bytes() -> None:
    report = samples.found().projection
    assert report is not None
    table = reading.projection_table(report)
    assert table["Lost characters"].tolist()[0] == 1420 - 1200
    assert table[table["Kept"] == "no"]["Reason"].tolist() == ["projection_bytes", "pack_budget"]


def test_the_pack_names_what_was_trimmed_and_left_out() -> None:
    pack = samples.found().context_pack
    assert pack is not None
    assert reading.pack_table(pack)["State"].tolist() == ["included", "included", "included", "trimmed", "omitted"]


def test_case_69_identifiers_are_text_in_every_table() -> None:
    report = samples.found().projection
    assert report is not None
    big = replace(report, items=(replace(report.items[0], evidence_key="9007199254740993"),))
    assert reading.projection_table(big)["Evidence"].tolist() == ["9007199254740993"]


def test_case_70_json_is_strict_and_impossible_numbers_are_null() -> None:
    text = reading.json_text({"scores": [float("nan"), float("inf"), float("-inf"), -0.0, 0.5]})
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name)) == {"scores": [None, None, None, 0.0, 0.5]}


def test_the_download_keeps_chinese_and_survives_a_lone_surrogate() -> None:
    assert "连接池" in reading.json_text({"q": "连接池\ud800"})
    reading.json_text({"q": "\ud800"}).encode("utf-8")


# ---------------------------------------------------------------- numbers


def test_missing_and_impossible_numbers_are_dashes() -> None:
    assert [numbers.score(None), numbers.ms(float("nan")), numbers.count(None), numbers.share(float("inf"))] == [
        "–"
    ] * 4


def test_milliseconds_have_a_precision_that_fits() -> None:
    assert [numbers.ms(0.43), numbers.ms(52.4), numbers.ms(12_345)] == ["0.4 ms", "52 ms", "12.3 s"]


def test_case_77_a_time_keeps_its_milliseconds_and_names_its_zone() -> None:
    assert numbers.moment("2026-03-01T08:15:30.123456+00:00", "Asia/Shanghai") == "2026-03-01 16:15:30.123 CST"
    assert numbers.moment("2026-03-01T08:15:30.123456", "UTC") == "2026-03-01 08:15:30.123 UTC"
    assert numbers.moment("not a time") == "–"
