"""Fixtures: ours and the papers' form load, broken ones are refused, writing is all or nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidCases
from core.evaluation.fixtures import (
    DeepHit,
    IndexedDocument,
    IndexedPassage,
    Probe,
    fixture_data,
    load_fixtures,
    parse_fixture,
    read_fixture,
    stale,
    write_fixtures,
)
from tests.unit.evaluation.eval_samples import a_case, a_fixture, attempt, cases_of, evidence, fixtures_of, lookup, row

PAPER = {
    "caseId": "chat-l0-filter-fallback",
    "query": "怎么排查",
    "retrievedAt": "2026-07-28T10:00:00",
    "searchMode": "hybrid",
    "kbScope": "rag-eval",
    "lookupResult": {
        "evidence": [
            {"docId": "redis/pool", "chunkIndex": 2, "source": "redis/pool.md", "excerpt": "maxActive is 8"},
            {"source": "mysql/slow.md", "excerpt": "slow query"},
        ],
        "relevanceLevel": "REFERENCE",
        "retrievalTrace": {
            "selectedAttempt": "UNFILTERED_VECTOR_RETRY",
            "fallbackReason": "filtered_vector_low_quality",
        },
    },
}


def test_the_papers_camel_case_form_loads() -> None:
    observed = parse_fixture(PAPER).observed
    assert observed is not None
    assert [piece.key for piece in observed.evidence] == ["redis/pool#chunk-2", "rank:2"]
    assert [piece.doc_id for piece in observed.evidence] == ["redis/pool", "mysql/slow"]
    assert observed.evidence[0].content == "maxActive is 8"
    assert observed.selected_attempt == "UNFILTERED_VECTOR_RETRY"
    assert observed.fallback_reason == "FALLBACK_LOW_QUALITY"
    assert observed.level == "REFERENCE"
    assert (observed.status, observed.packed, observed.agent) == ("READY", None, None)


def test_meta_and_result_may_stand_apart_as_in_the_papers_picture() -> None:
    data = {"meta": {"caseId": "c", "query": "q", "searchMode": "dense"}, "result": {"evidence": []}}
    fixture = parse_fixture(data)
    assert (fixture.case_id, fixture.search_mode) == ("c", "dense")
    assert fixture.observed is not None
    assert fixture.observed.status == "NO_EVIDENCE"


def test_a_written_fixture_reads_back_the_same(tmp_path: Path) -> None:
    probe = Probe(
        depth=100,
        dense=(DeepHit("a#chunk-0", "a", 37, 0.4),),
        bm25=(DeepHit("a#chunk-1", "a", 21, -3.5),),
        documents=(IndexedDocument("a_B", 2, "redis", "rag-eval", 3),),
        passages=(IndexedPassage("a_B.md", "x", ("a#chunk-0",)),),
    )
    case = a_case("c1")
    rows = [row("a#chunk-0", dense_rank=1, dense_distance=0.25, rrf_rank=1, original_rank=1)]
    written = parse_fixture(
        {**fixture_data(a_fixture(case, lookup([evidence("a#chunk-0")], [attempt(rows=rows)])))}, mode="hybrid"
    )
    written = replace(written, probe=probe)
    write_fixtures(tmp_path, "hybrid", [written])
    read = load_fixtures(tmp_path, "hybrid").fixtures["c1"]
    assert read.probe == probe
    assert read.observed == written.observed
    assert read.probe.rank("dense", "a") == 37
    assert read.probe.rank("dense", "zzz") is None


def test_writing_replaces_a_mode_whole_and_leaves_no_scrap(tmp_path: Path) -> None:
    write_fixtures(tmp_path, "hybrid", [a_fixture(a_case("old"), lookup())])
    write_fixtures(tmp_path, "hybrid", [a_fixture(a_case("new"), lookup())])
    assert sorted(path.name for path in (tmp_path / "hybrid").iterdir()) == ["new.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["hybrid"]


def test_a_failed_write_leaves_the_old_fixtures(tmp_path: Path) -> None:
    write_fixtures(tmp_path, "hybrid", [a_fixture(a_case("old"), lookup())])
    broken = a_fixture(a_case("new"), lookup(top_quality=float("nan")))
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_fixtures(tmp_path, "hybrid", [a_fixture(a_case("also"), lookup()), broken])
    assert list(load_fixtures(tmp_path, "hybrid").fixtures) == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["hybrid"]


@pytest.mark.parametrize("case_id", ["../up", "a/b", ".hidden", "a:b", "a\nb"])
def test_an_id_that_is_no_file_name_is_refused(tmp_path: Path, case_id: str) -> None:
    with pytest.raises(InvalidCases, match="file name"):
        write_fixtures(tmp_path, "hybrid", [a_fixture(a_case(case_id), lookup())])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", ":1: not valid JSON"),
        ("[]", ":1: expected an object"),
        (
            '{"caseId": "c",\n"query": "q",\n"surprise": 1, "lookupResult": {"evidence": []}}',
            ":3: unknown key 'surprise'",
        ),
        ('{"caseId": "c", "query": "q"}', "lookupResult is missing"),
        ('{"caseId": "c", "lookupResult": {"evidence": []}}', "query is missing"),
        ('{"caseId": "c", "query": "q", "lookupResult": {"evidence": null}}', "lookupResult.evidence"),
    ],
)
def test_a_fixture_that_cannot_be_meant_is_refused_with_its_file(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "c.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidCases) as caught:
        load_fixtures(tmp_path, "hybrid")
    assert caught.value.problems[0].startswith("c.json")
    assert says in caught.value.problems[0]


def test_a_byte_order_mark_is_no_part_of_a_fixture_and_another_encoding_is_refused(tmp_path: Path) -> None:
    text = json.dumps({**PAPER, "caseId": "池"}, ensure_ascii=False)
    (tmp_path / "c.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert list(load_fixtures(tmp_path, "hybrid").fixtures) == ["池"]
    (tmp_path / "c.json").write_bytes(text.encode("gb18030"))
    with pytest.raises(InvalidCases, match=r"c\.json: cannot be read"):
        load_fixtures(tmp_path, "hybrid")


def test_only_a_fixture_that_is_read_alone_keeps_the_whole_result(tmp_path: Path) -> None:
    write_fixtures(tmp_path, "hybrid", [a_fixture(a_case("c"), lookup())])
    assert load_fixtures(tmp_path, "hybrid").fixtures["c"].lookup_result is None
    assert read_fixture(tmp_path / "hybrid" / "c.json", "hybrid").lookup_result == lookup()


def test_two_fixtures_of_one_case_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({**PAPER, "caseId": "same"}), encoding="utf-8")
    with pytest.raises(InvalidCases, match="has another fixture"):
        load_fixtures(tmp_path, "hybrid")


def test_a_missing_folder_says_to_take_a_snapshot(tmp_path: Path) -> None:
    with pytest.raises(InvalidCases, match="take a snapshot"):
        load_fixtures(tmp_path / "none", "hybrid")


def test_case_70_a_score_that_is_no_number_is_null_and_named_and_the_rest_survives(tmp_path: Path) -> None:
    rows = '[{"evidence_key": "a#chunk-0", "doc_id": "a", "dense_distance": NaN, "quality_score": 1e400, "rrf_score": -0.0}]'
    attempts = f'[{{"name": "UNFILTERED_VECTOR", "status": "complete", "candidates": {rows}}}]'
    result = f'{{"evidence": [], "evidence_status": "NO_EVIDENCE", "retrieval_trace": {{"attempts": {attempts}}}}}'
    (tmp_path / "c.json").write_text(f'{{"caseId": "c", "query": "q", "lookupResult": {result}}}', encoding="utf-8")
    observed = load_fixtures(tmp_path, "hybrid").fixtures["c"].observed
    assert observed is not None
    assert observed.attempts[0].rows[0].dense_distance is None
    assert observed.defects == (
        "a#chunk-0.dense_distance: not a finite number",
        "a#chunk-0.quality_score: not a finite number",
    )


def test_invalid_scores_that_were_made_null_when_written_stay_known() -> None:
    fixture = parse_fixture({**PAPER, "invalidScores": ["attempts.0.top_quality"]})
    assert fixture.observed is not None
    assert fixture.observed.defects == ("attempts.0.top_quality: not a finite number",)
    assert fixture_data(fixture)["invalidScores"] == ["attempts.0.top_quality"]


def test_a_failed_lookup_has_no_result_and_keeps_its_error() -> None:
    fixture = a_fixture(a_case(), None)
    assert (fixture.failed, fixture.error, fixture.observed) == (True, "DeadlineExceeded", None)


def test_stale_fixtures_are_told_by_query_scope_generation_and_missing_case() -> None:
    cases = [a_case(name) for name in ("a", "b", "c", "d", "e")]
    changes: dict[str, dict[str, Any]] = {
        "b": {"query": "an older text"},
        "c": {"kbScope": "default"},
        "d": {"generation": 2},
    }
    fixtures = [a_fixture(case, lookup(), **changes.get(case.case_id, {})) for case in cases]
    orphan = a_fixture(a_case("gone"), lookup())
    found = {item.case_id: item.reason for item in stale(cases_of(*cases), fixtures_of(*fixtures, orphan))}
    assert set(found) == {"b", "c", "d", "gone"}
    assert "query" in found["b"]
    assert "scope 'default'" in found["c"]
    assert "generation 2 while most of the set has 1" in found["d"]
