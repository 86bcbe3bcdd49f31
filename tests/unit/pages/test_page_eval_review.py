"""Cases as people work on them, on the Eval page: review list, drafts, promotion."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.evaluation.cases import load_cases
from core.evaluation.collection import Collection
from core.evaluation.places import Places
from core.settings import AuthSettings, EvaluationSettings, Settings
from pages.parts import access, eval_drafts, eval_promote
from tests.unit.evaluation.eval_folder import CASES, an_evaluation
from tests.unit.pages import samples
from tests.unit.pages.fake_app import FakeApp
from tests.unit.pages.test_page_eval import PATH, choose, no_markup, press
from tests.unit.pages.test_page_query import ask, drawn

OpenPage = Callable[..., AppTest]
VICTOR = access.User("victor", access.Role.VIEWER)


@pytest.fixture
def places(fake: FakeApp, tmp_path: Path) -> Places:
    folder = an_evaluation(tmp_path / "eval")
    fake.settings = Settings(evaluation=EvaluationSettings(folder=str(folder)))
    return Places(folder)


@pytest.fixture
def collection(places: Places) -> Collection:
    return Collection(places)


def viewer(fake: FakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.settings = fake.settings.model_copy(update={"auth": AuthSettings(mode="header")})
    monkeypatch.setattr(access, "identify", lambda *_: VICTOR)


def listed(at: AppTest) -> list[str]:
    return list(next(d.value for d in at.dataframe if "Review" in d.value)["Case"])


# ---------------------------------------------------------------- the review list


def test_cases_that_do_not_gate_come_first_and_filters_narrow(open_page: OpenPage, places: Places) -> None:
    del places
    at = open_page(PATH, view="review")
    assert listed(at) == ["draft", "unrun", "good", "lost", "refuse"]
    assert listed(choose(at, "review", "reviewed")) == ["good", "lost", "refuse"]
    at.text_input(key="eval.review.text").set_value("MARS").run()
    assert listed(at) == ["refuse"]
    at.text_input(key="eval.review.text").set_value("nothing like it").run()
    assert "No case fits these filters" in drawn(at)


def test_a_review_is_kept_with_the_name_and_the_keys_go_on(open_page: OpenPage, places: Places) -> None:
    at = open_page(PATH, view="review", case="draft")
    assert at.button(key="eval.review.as.draft").disabled
    press(at, "eval.review.as.approved")
    case = load_cases(places.cases).by_id()["draft"]
    assert (case.gates, case.review.status, case.review.who) == (True, "approved", "local")
    assert "Marked as approved" in [s.value for s in at.success]
    assert listed(at) == ["unrun", "draft", "good", "lost", "refuse"]
    press(at, "eval.review.next")
    assert at.query_params["case"] == "good"
    press(at, "eval.review.previous")
    assert at.query_params["case"] == "draft"


def test_a_viewer_reads_cases_and_marks_none(
    open_page: OpenPage, fake: FakeApp, places: Places, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = collection.promote(samples.found(), who="pat")
    viewer(fake, monkeypatch)
    at = open_page(PATH, view="review", case="draft")
    assert "Reviewing needs the operator role." in drawn(at)
    assert "Editing a draft needs the operator role." in drawn(at)
    assert not [b for b in at.button if str(b.key).startswith(("eval.review.as", "eval.draft", "eval.promote"))]
    monkeypatch.setattr(eval_drafts.st, "session_state", {})
    eval_drafts._discard(collection, draft.case_id, VICTOR, "eval")
    eval_promote.pressed(VICTOR, samples.found(), "eval")
    assert [case.case_id for case in Collection(places).drafts().cases] == [draft.case_id]


def test_without_cases_or_drafts_it_says_how_to_begin(open_page: OpenPage, fake: FakeApp, tmp_path: Path) -> None:
    fake.settings = Settings(evaluation=EvaluationSettings(folder=str(tmp_path / "nothing")))
    words = drawn(open_page(PATH, view="review"))
    assert "No golden cases yet" in words
    assert "An operator makes one of any lookup" in words


def test_a_broken_draft_file_is_one_box_and_the_cases_still_stand(open_page: OpenPage, places: Places) -> None:
    places.drafts.write_text('{"version": 1,\n"cases": [{]}', encoding="utf-8")
    at = open_page(PATH, view="review")
    assert [e.value for e in at.error] == ["The drafts cannot be read: this input cannot be used"]
    assert "drafts.json:2: not valid JSON" in drawn(at)
    assert len(listed(at)) == len(CASES)


# ---------------------------------------------------------------- promotion and drafts


def test_a_lookup_of_the_query_page_becomes_a_draft_at_one_press(
    open_page: OpenPage, places: Places, collection: Collection
) -> None:
    at = ask(open_page("pages/query.py"), "为什么 <b>慢</b>")
    press(at, "lookup.promote")
    (draft,) = collection.drafts().cases
    assert (draft.query, draft.review.who, draft.gates) == ("为什么 <b>慢</b>", "local", False)
    assert "A draft case waits under Eval, Review" in [s.value for s in at.success]
    press(at, "lookup.promote")
    assert "asks this already" in drawn(at)
    assert len(load_cases(places.cases).cases) == len(CASES)


def test_a_lookup_is_promoted_by_its_trace_id(open_page: OpenPage, fake: FakeApp, collection: Collection) -> None:
    fake.traces.stored["t-1"] = samples.found()
    at = open_page(PATH, view="review")
    at.text_input(key="eval.promote.trace").set_value(" t-1 ")
    press(at, "eval.promote.press")
    (draft,) = collection.drafts().cases
    assert draft.query == samples.found().query
    at.text_input(key="eval.promote.trace").set_value("gone")
    press(at, "eval.promote.press")
    assert "no lookup with this id is recorded" in drawn(at)


def test_a_draft_is_filled_in_and_taken_over(open_page: OpenPage, places: Places, collection: Collection) -> None:
    draft = collection.promote(samples.found(), who="pat")
    at = open_page(PATH, view="review")
    press(at, "eval.draft.admit")
    assert "expects nothing yet" in drawn(at)
    box = f"eval.draft.text.{draft.case_id}"
    data = json.loads(at.text_area(key=box).value)
    at.text_area(key=box).set_value(json.dumps({**data, "caseId": "pool-1", "expectedDocIds": ["a"]}))
    press(at, "eval.draft.save")
    assert at.query_params["draft"] == "pool-1"
    press(at, "eval.draft.admit")
    assert load_cases(places.cases).by_id()["pool-1"].gates
    assert collection.drafts().cases == ()
    assert "pool-1" in listed(at)


def test_a_draft_that_cannot_be_meant_stays_in_the_box_with_the_reason(
    open_page: OpenPage, collection: Collection
) -> None:
    draft = collection.promote(samples.found(), who="pat")
    at = open_page(PATH, view="review")
    box = f"eval.draft.text.{draft.case_id}"
    at.text_area(key=box).set_value("{\n nonsense")
    press(at, "eval.draft.save")
    assert "line 2: not valid JSON" in drawn(at)
    assert at.text_area(key=box).value == "{\n nonsense"
    assert collection.drafts().cases == (draft,)


def test_a_discarded_draft_is_gone(open_page: OpenPage, collection: Collection) -> None:
    collection.promote(samples.found(), who="pat")
    press(open_page(PATH, view="review"), "eval.draft.discard")
    assert collection.drafts().cases == ()


def test_case_114_a_draft_of_a_hostile_question_is_text(open_page: OpenPage, collection: Collection) -> None:
    collection.promote(samples.found(), who="pat", query="<script>$slow$ [x](y)")
    at = open_page(PATH, view="review")
    no_markup(at)
    assert "<script>$slow$ [x](y)" in [text.value for text in at.text]
