"""Replay on the Trace page: one press asks once, and the answer says what moved it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from streamlit.testing.v1 import AppTest

from core.difference import Change, Comparison, Moved, compare
from core.errors import BadInput, StoreUnavailable
from core.replay import Cause, Replay
from core.stores import StoredTrace
from pages.parts import replay
from tests.unit.pages import samples
from tests.unit.pages.fake_app import FakeApp
from tests.unit.pages.test_page_query import drawn

OpenPage = Callable[..., AppTest]
PATH = "pages/trace.py"


@dataclass
class FakeReplayer:
    answer: Replay
    error: Exception | None = None
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def replay(self, stored: StoredTrace, *, typed: str = "", actor: str = "") -> Replay:
        self.asked.append((stored.result.trace_id, typed, actor))
        if self.error is not None:
            raise self.error
        return self.answer


def moved(key: str, then: int | None, now: int | None, why: str) -> Moved:
    ranks = dict.fromkeys(("dense", "bm25", "rrf", "rerank", "evidence", "pack", "projection"))
    return Moved(key, key, {**ranks, "dense": 1, "evidence": then}, {**ranks, "dense": 4, "evidence": now}, why)


def answer(cause: Cause = Cause.INDEX) -> Replay:
    found = samples.found()
    changes = (Change("document", "redis/<b>pool</b>", "revision 1", "revision 2"),)
    rows = (moved("redis/pool#chunk-0", 1, None, "its document changed (revision 1 to 2)"),)
    today = replace(found, trace_id="tr-today")
    return Replay(found, today, Comparison(False, (), changes, rows), cause, "Evidence differs: 1 lost.")


def press(at: AppTest) -> AppTest:
    next(b for b in at.button if b.label == "Replay now").click().run()
    assert not at.exception
    return at


@pytest.fixture
def replayer(fake: FakeApp) -> FakeReplayer:
    fake.traces.stored["tr-found"] = samples.found()
    fake.replayer = FakeReplayer(answer())
    return fake.replayer


def test_a_replay_says_what_moved_and_what_moved_it(open_page: OpenPage, replayer: FakeReplayer) -> None:
    at = press(open_page(PATH, trace="tr-found"))
    assert [trace_id for trace_id, _, _ in replayer.asked] == ["tr-found"]
    assert "Evidence differs: 1 lost." in drawn(at)
    assert ":orange-badge[the index]" in [m.value for m in at.markdown]
    tables = [frame.value for frame in at.dataframe]
    causes = next(t for t in tables if "What" in t)
    assert list(causes["What"]) == ["redis/<b>pool</b>"]
    rows = next(t for t in tables if "Why" in t)
    assert list(rows["Then"]) == [1]
    assert rows["Now"].isna().all()
    assert list(rows["Dense"]) == ["1 → 4"]


def test_opening_a_trace_or_touching_a_widget_asks_nothing(open_page: OpenPage, replayer: FakeReplayer) -> None:
    at = open_page(PATH, trace="tr-found")
    assert replayer.asked == []
    press(at).run()
    assert len(replayer.asked) == 1
    assert "Evidence differs: 1 lost." in drawn(at)


def test_a_question_that_is_not_stored_is_asked_for(open_page: OpenPage, fake: FakeApp, replayer: FakeReplayer) -> None:
    fake.traces.stored["tr-found"] = replace(samples.found(), query="")
    fake.traces.content = "redacted"
    replayer.error = BadInput("this is not the question of that lookup: its SHA-256 differs")
    at = open_page(PATH, trace="tr-found")
    at.text_input(key="trace.replay.typed.tr-found").set_value("other")
    press(at)
    assert replayer.asked[0][1] == "other"
    assert "SHA-256 differs" in drawn(at)


def test_a_store_that_is_away_is_named(open_page: OpenPage, replayer: FakeReplayer) -> None:
    replayer.error = StoreUnavailable("milvus: connection refused")
    at = press(open_page(PATH, trace="tr-found"))
    assert "Not replayed: a store or a model cannot be used now" in [e.value for e in at.error]


def test_the_same_answer_shows_no_table_of_causes(open_page: OpenPage, replayer: FakeReplayer) -> None:
    found = samples.found()
    same = compare(found, found)
    replayer.answer = Replay(found, found, replace(same, evidence=()), Cause.NOTHING, "Same answer.")
    at = press(open_page(PATH, trace="tr-found"))
    assert ":green-badge[same]" in [m.value for m in at.markdown]
    assert not any("Why" in frame.value for frame in at.dataframe)


def test_tables_of_nothing_are_empty() -> None:
    assert len(replay.change_table([])) == 0
    assert len(replay.moved_table([])) == 0
