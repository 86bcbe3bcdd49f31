"""Judged sets in BEIR form: what is read, what is refused, and the tables with hand-worked values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.judged_sets import level_table, main, metric_table, paired_table, read_set
from core.errors import BadInput
from tests.unit.evaluation.eval_samples import a_case, a_fixture, cases_of, evidence, fixtures_of, lookup


def _set(folder: Path, documents: list[dict[str, Any]], queries: list[dict[str, Any]], qrels: str) -> Path:
    (folder / "dev").mkdir(parents=True)
    for name, rows in (("corpus.jsonl", documents), ("dev/queries_full.jsonl", queries)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "dev" / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{qrels}", encoding="utf-8")
    return folder


DOCUMENTS = [
    {"_id": "redis/pool.md", "title": "Pool", "text": "Raise maxTotal."},
    {"_id": "kafka/lag", "title": "Lag", "text": "# Lag\n\nLook."},
    {"_id": "jvm/heap.md", "title": "Heap", "text": "---\ntitle: Heap\n---\nDump it."},
]


def test_documents_become_markdown_and_labels_become_cases(tmp_path: Path) -> None:
    queries = [
        {"query_id": "q1", "query": "pool", "answerability": "answerable"},
        {"query_id": "q2", "query": "weather on Mars", "answerability": "unanswerable"},
        {"query_id": "q3", "query": "tides"},
    ]
    found = read_set(_set(tmp_path / "ops", DOCUMENTS, queries, "q1\tredis/pool.md\t2\nq1\tkafka/lag\t1\n"))
    assert found.name == "ops"
    assert found.documents == {
        "redis/pool.md": "# Pool\n\nRaise maxTotal.",
        "kafka/lag.md": "# Lag\n\nLook.",
        "jvm/heap.md": "---\ntitle: Heap\n---\nDump it.",  # its front matter has to stay first
    }
    first, second, third = found.cases.cases
    assert {gold.doc_id: gold.grade for gold in first.gold_sources} == {"redis/pool": 2, "kafka/lag": 1}
    assert (first.answerable, second.answerable, third.answerable) == (True, False, False)


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../b.md"])
def test_a_document_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="leads outside the folder"):
        read_set(_set(tmp_path / "bad", [{"_id": name, "text": "x"}], [], ""))


def test_a_folder_of_another_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a judged set in BEIR form"):
        read_set(tmp_path)


def test_without_a_set_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert "no judged set is named" in capsys.readouterr().out


def _values(*hits: float) -> dict[str, dict[str, float | None]]:
    names = ("ndcg@10", "recall@5", "recall@20", "mrr")
    return {f"q{n}": dict.fromkeys(names, hit) for n, hit in enumerate(hits)}


def test_means_are_over_every_query_with_gold() -> None:
    assert metric_table({"bm25": _values(1.0, 0.0, 0.5)})[-1] == "| bm25 | 0.500 | 0.500 | 0.500 | 0.500 |"


def test_pairs_show_delta_interval_p_and_who_won() -> None:
    lines = paired_table([("fused - bm25", _values(0.0, 0.0, 0.0, 1.0), _values(1.0, 1.0, 1.0, 1.0))])
    # three queries differ: of the 2^3 patterns of signs two are as far out as the one that was seen
    assert lines[2].startswith("| fused - bm25 | ndcg@10 | +0.750 | ")
    assert lines[2].endswith(" | 0.250 | 3 / 1 / 0 |")
    assert not any("recall@20" in line for line in paired_table([("evidence: a - b", _values(1.0), _values(1.0))]))


def test_every_level_for_a_question_without_an_answer_is_counted() -> None:
    cases = [a_case("yes", goldSources=[{"docId": "a"}]), *(a_case(n, answerability="unanswerable") for n in "xyz")]
    levels = {"yes": "PRECISE", "x": "PRECISE", "y": "REFERENCE", "z": None}
    found = fixtures_of(
        *(a_fixture(c, lookup([evidence("a#chunk-0")], level=levels[c.case_id])) for c in cases), mode="hybrid"
    )
    answerable, unanswerable = level_table(cases_of(*cases), {"hybrid": found})[2:]
    assert answerable.startswith("| hybrid | 1 answerable | 1 (100% ")
    assert [cell.strip().partition(" ")[0] for cell in unanswerable.split("|")[3:6]] == ["1", "1", "1"]
