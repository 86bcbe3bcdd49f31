"""Where an expected document was lost: read from the result, by a deeper look where it lies past the window."""

from __future__ import annotations

from typing import Any

import pytest

from core import probe
from core.errors import NotFound, StoreUnavailable
from core.lookup import WhatIf
from core.model import Branch, Document, DropReason, L0Match
from core.probe import ExpectedReport, Verdict, probe_expected
from tests.unit.lookup_world import FixedL0, World, row, world


def setup(**options: Any) -> World:
    rows = [
        *(row(f"near{i}", f"text {i}", distance=0.1 * i, words="redis pool") for i in range(1, 7)),
        row("far", "another text", distance=1.9, words="kafka lag", category="mq", title="消费延迟手册"),
        row("secret", "hidden", distance=0.0, words="redis pool", scope="ops"),
    ]
    return world(rows, **options)


def expect(made: World, reference: str, what_if: WhatIf | None = None, **request: Any) -> ExpectedReport:
    outcome = made.ask("redis pool", what_if, **request)
    return probe_expected(made.service, outcome.result, reference)


def test_a_document_that_came_is_returned_with_its_place_and_nothing_more_is_searched() -> None:
    made = setup()
    outcome = made.ask("redis pool")
    searches = dict(made.index.calls)
    report = probe_expected(made.service, outcome.result, "near1")

    assert report.verdict is Verdict.RETURNED
    assert report.reason == "evidence 1, place 1 for the agent"
    assert dict(made.index.calls) == searches
    assert "dense 1, BM25 1, RRF 1, evidence 1, pack 1, projection 1" in report.lines[1]


def test_a_document_that_was_dropped_names_stage_and_reason() -> None:
    report = expect(setup(), "near6")

    assert report.verdict is Verdict.DROPPED
    assert report.reason == f"dropped in stage evidence with {DropReason.RETURN_LIMIT}"
    assert [c.evidence_key for _, c in report.candidates] == ["near6#chunk-0"]


def test_a_document_past_the_window_gets_its_rank_by_a_deeper_look() -> None:
    report = expect(setup(), "near5", WhatIf(retrieve_k=2))
    ranks = {(d.branch, d.category): d.rank for d in report.deep}

    assert report.verdict is Verdict.BEYOND_WINDOW
    assert ranks == {(Branch.DENSE, None): 5, (Branch.BM25, None): 5}
    assert report.reason == "beyond the window: dense 5, bm25 5"


def test_a_document_that_only_the_filter_left_out_says_so_with_its_rank_without_it() -> None:
    rows = [row("a", "text", distance=0.1, words="redis pool", category="redis")]
    rows += [row("far", "another", distance=0.5, words="redis pool", category="mq")]
    made = world(rows, l0=FixedL0(L0Match(category_filter="redis")))
    report = expect(made, "far")

    assert report.verdict is Verdict.FILTER_EXCLUDED
    assert "'redis'" in report.reason
    assert "dense 2" in report.reason
    assert {d.category for d in report.deep} == {"redis", None}


def test_a_document_of_another_scope_is_told_apart_and_never_searched_for() -> None:
    made = setup()
    outcome = made.ask("redis pool")
    searches = made.index.calls["search_dense"]
    report = probe_expected(made.service, outcome.result, "secret")

    assert (report.verdict, report.kb_scope) == (Verdict.OTHER_SCOPE, "ops")
    assert report.deep == ()
    assert made.index.calls["search_dense"] == searches
    assert expect(setup(), "secret", kb_scope=["ops", "default"]).verdict is Verdict.RETURNED


def test_a_document_that_is_not_there_is_not_in_the_index() -> None:
    report = expect(setup(), "nowhere")
    assert (report.verdict, report.doc_id) == (Verdict.NOT_IN_INDEX, None)
    assert "generation 7" in report.reason


def test_a_document_below_the_deepest_look_is_below_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "DEPTH", 3)
    report = expect(setup(), "far", WhatIf(retrieve_k=2))
    assert report.verdict is Verdict.BELOW_EVERYTHING
    assert [d.rank for d in report.deep] == [None, None]


@pytest.mark.parametrize("reference", ["far", "far.md", "./far.md", "消费延迟手册", " far "])
def test_a_document_may_be_named_by_id_path_or_title(reference: str) -> None:
    made = setup()
    outcome = made.ask("redis pool")
    documents = [Document("far", "far.md", "消费延迟手册", "mq", "default", 1, "h")]
    assert probe_expected(made.service, outcome.result, reference, documents).doc_id == "far"


def test_a_store_that_fails_is_unknown_and_not_absent() -> None:
    made = setup()
    outcome = made.ask("redis pool", WhatIf(retrieve_k=2))
    made.index.failures = dict.fromkeys(("search_dense", "search_bm25"), StoreUnavailable("away"))
    report = probe_expected(made.service, outcome.result, "far")
    assert (report.verdict, report.reason) == (Verdict.UNKNOWN, "away")
    assert "not known (away)" in "\n".join(report.lines)

    made.index.failures["fetch"] = StoreUnavailable("away")
    assert probe_expected(made.service, outcome.result, "nowhere").verdict is Verdict.UNKNOWN


def test_a_probe_is_no_lookup_and_leaves_no_record() -> None:
    made = setup()
    outcome = made.ask("redis pool", WhatIf(retrieve_k=2))
    probe_expected(made.service, outcome.result, "near5")
    probe_expected(made.service, outcome.result.retrieval_trace, "near5")
    assert len(made.audit.records) == 1


def test_a_lookup_that_reached_no_index_cannot_be_probed() -> None:
    made = setup()
    made.snapshots.snapshot = None
    with pytest.raises(NotFound, match="never reached an index"):
        probe_expected(made.service, made.ask("redis pool").result, "near1")


def test_an_empty_set_of_scopes_stays_empty_in_a_probe() -> None:
    report = expect(setup(), "near1", kb_scope=[])
    assert report.verdict is Verdict.OTHER_SCOPE
    assert report.deep == ()
