"""Cases as people work on them: promoted, edited, taken over, reviewed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.codec import from_data
from core.errors import BadInput, InvalidCases, NotFound
from core.evaluation.cases import load_cases
from core.evaluation.collection import Collection, case_text
from core.evaluation.places import Places
from core.evaluation.promote import Reviewed
from core.model import LookupResult
from tests.unit.evaluation.eval_folder import CASES, write_cases
from tests.unit.pages import samples

PAT = Reviewed("pat", "reviewed")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    write_cases(tmp_path)
    return Places(tmp_path)


@pytest.fixture
def collection(places: Places) -> Collection:
    return Collection(places)


def expecting(collection: Collection, case_id: str, **fields: object) -> str:
    data = json.loads(case_text(collection.drafts().by_id()[case_id]))
    return json.dumps({**data, **fields})


def test_without_a_file_there_are_no_drafts(collection: Collection) -> None:
    assert collection.drafts().cases == ()


def test_a_promoted_lookup_is_a_draft_beside_the_cases(collection: Collection, places: Places) -> None:
    draft = collection.promote(samples.found(), who="pat")
    assert [case.case_id for case in collection.drafts().cases] == [draft.case_id]
    assert (draft.gates, draft.expected_doc_ids, draft.review.who) == (False, (), "pat")
    assert len(load_cases(places.cases).cases) == len(CASES)


def test_the_same_question_is_promoted_once(collection: Collection) -> None:
    collection.promote(samples.found(), who="pat")
    with pytest.raises(BadInput, match="asks this already"):
        collection.promote(samples.found(), who="pat")
    with pytest.raises(BadInput, match="case 'good' asks this already"):
        collection.promote(samples.found(), who="pat", query=CASES[0].query)


def test_a_lookup_without_its_text_cannot_be_promoted(collection: Collection) -> None:
    empty = from_data(LookupResult, {**json.loads(json.dumps(_data())), "query": ""})
    with pytest.raises(BadInput, match="no longer holds its query text"):
        collection.promote(empty, who="pat")
    assert collection.promote(empty, who="pat", query="from the history").query == "from the history"


def _data() -> dict[str, object]:
    from core.codec import to_data

    found: dict[str, object] = to_data(samples.found())
    return found


def test_a_draft_expects_nothing_and_so_cannot_be_taken_over(collection: Collection, places: Places) -> None:
    draft = collection.promote(samples.found(), who="pat")
    with pytest.raises(BadInput, match="expects nothing yet"):
        collection.admit(draft.case_id, PAT)
    assert draft.case_id in collection.drafts().by_id()
    assert draft.case_id not in load_cases(places.cases).by_id()


def test_an_edited_draft_is_taken_over_with_a_review_and_gates(collection: Collection, places: Places) -> None:
    draft = collection.promote(samples.found(), who="pat")
    text = expecting(collection, draft.case_id, caseId="pool-1", expectedDocIds=["a"], tags=["draft", "en"])
    edited = collection.edit(draft.case_id, text)
    assert (edited.case_id, edited.review) == ("pool-1", draft.review)
    assert list(collection.drafts().by_id()) == ["pool-1"]
    collection.admit("pool-1", PAT)
    case = load_cases(places.cases).by_id()["pool-1"]
    assert (case.gates, case.tags, case.review.who) == (True, ("en",), "pat")
    assert collection.drafts().cases == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "line 1: not valid JSON"),
        ("[]", "one object with caseId and query"),
        ('{"caseId": "a", "caseId": "b"}', "key 'caseId' stands twice"),
        ('{"caseId": "a", "query": "q", "review": {"status": "approved"}}', "review is not edited here"),
    ],
)
def test_a_text_that_is_no_draft_is_refused(collection: Collection, text: str, problem: str) -> None:
    draft = collection.promote(samples.found(), who="pat")
    with pytest.raises(BadInput, match=problem):
        collection.edit(draft.case_id, text)
    assert collection.drafts().cases == (draft,)


def test_an_edit_with_an_unknown_key_is_refused(collection: Collection) -> None:
    draft = collection.promote(samples.found(), who="pat")
    with pytest.raises(InvalidCases, match="unknown key 'expected'"):
        collection.edit(draft.case_id, expecting(collection, draft.case_id, expected=1))


def test_a_draft_cannot_take_the_id_of_another(collection: Collection) -> None:
    one = collection.promote(samples.found(), who="pat")
    two = collection.promote(samples.found(), who="pat", query="another question")
    with pytest.raises(BadInput, match="another draft is called"):
        collection.edit(two.case_id, expecting(collection, two.case_id, caseId=one.case_id))
    assert set(collection.drafts().by_id()) == {one.case_id, two.case_id}


def test_a_discarded_draft_is_gone_and_what_is_gone_cannot_be_touched(collection: Collection) -> None:
    draft = collection.promote(samples.found(), who="pat")
    collection.discard(draft.case_id)
    assert collection.drafts().cases == ()
    for work in (lambda: collection.edit(draft.case_id, "{}"), lambda: collection.admit(draft.case_id, PAT)):
        with pytest.raises(NotFound, match="taken over or discarded"):
            work()


def test_a_review_changes_who_when_and_status_and_not_what_is_compared(collection: Collection, places: Places) -> None:
    before = load_cases(places.cases)
    collection.review("draft", PAT)
    after = load_cases(places.cases)
    assert (after.by_id()["draft"].gates, after.by_id()["draft"].review.who) == (True, "pat")
    assert after.fingerprint == before.fingerprint
    with pytest.raises(NotFound):
        collection.review("nobody", PAT)
    with pytest.raises(BadInput, match="name of the person"):
        collection.review("draft", Reviewed(" ", "approved"))
