"""The cases as people work on them: lookups promoted to drafts, drafts made into cases, cases reviewed.

Drafts stand in a file of their own until a person takes them over, so collecting them closes no gate.
"""

from __future__ import annotations

import json

from core.errors import BadInput, NotFound
from core.evaluation.cases import Case, CaseSet, case_set, load_cases, parse_case
from core.evaluation.locate import DuplicateKey, NotJson, parse
from core.evaluation.places import Places
from core.evaluation.promote import Reviewed, add_case, case_data, promote, remove_case, replace_case, reviewed
from core.model import EVAL_SCOPE, LookupResult


class Collection:
    """The two case files of one evaluation folder."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def drafts(self) -> CaseSet:
        """Empty while there is no file. Raises InvalidCases with file and line."""
        path = self._places.drafts
        return load_cases(path) if path.exists() else case_set((), path.name)

    def promote(self, result: LookupResult, *, who: str, query: str = "", kb_scope: str = EVAL_SCOPE) -> Case:
        """A draft of ``result``. Raises BadInput when a case or a draft asks the same already, or without its text."""
        draft = promote(result, who=who, query=query or None, kb_scope=kb_scope)
        known = load_cases(self._places.cases).cases if self._places.cases.exists() else ()
        for case in known:
            if case.query == draft.query and case.kb_scope == draft.kb_scope:
                raise BadInput(f"case {case.case_id!r} asks this already; edit that one")
        add_case(self._places.drafts, draft)
        return draft

    def edit(self, case_id: str, text: str) -> Case:
        """Puts the case that ``text`` (JSON, camel case) describes in the place of the draft ``case_id``; the id may
        change; the review is not part of the text (``admit``). Raises BadInput or InvalidCases for what cannot be meant."""
        case = _case(text, self._draft(case_id))
        if case.case_id == case_id:
            replace_case(self._places.drafts, case)
        else:
            if case.case_id in self.drafts().by_id():
                raise BadInput(f"another draft is called {case.case_id!r}; choose a free id")
            remove_case(self._places.drafts, case_id)
            add_case(self._places.drafts, case)
        return case

    def admit(self, case_id: str, mark: Reviewed) -> Case:
        """The draft ``case_id`` as a golden case with a review. Raises BadInput while it expects nothing."""
        case = reviewed(self._draft(case_id), mark)
        add_case(self._places.cases, case)
        remove_case(self._places.drafts, case_id)
        return case

    def discard(self, case_id: str) -> None:
        """Raises NotFound."""
        remove_case(self._places.drafts, case_id)

    def review(self, case_id: str, mark: Reviewed) -> Case:
        """The golden case ``case_id`` with another review. Raises NotFound, or BadInput."""
        case = load_cases(self._places.cases).by_id().get(case_id)
        if case is None:
            raise NotFound(f"no case {case_id!r} in {self._places.cases.name}")
        changed = reviewed(case, mark)
        replace_case(self._places.cases, changed)
        return changed

    def _draft(self, case_id: str) -> Case:
        draft = self.drafts().by_id().get(case_id)
        if draft is None:
            raise NotFound(f"no draft {case_id!r}: it was taken over or discarded since")
        return draft


def case_text(case: Case) -> str:
    """A case as a person edits it: indented JSON, without what is at its default and without its review."""
    data = {key: value for key, value in case_data(case).items() if key != "review"}
    return json.dumps(data, ensure_ascii=False, indent=2)


def _case(text: str, draft: Case) -> Case:
    try:
        data = parse(text)
    except NotJson as exc:
        raise BadInput(f"line {exc.line}: not valid JSON ({exc})") from exc
    except DuplicateKey as exc:
        raise BadInput(f"key {exc.key!r} stands twice in one object; remove one") from exc
    if not isinstance(data, dict):
        raise BadInput("expected one object with caseId and query")
    if "review" in data:
        raise BadInput("the review is not edited here; take the draft over as a case instead")
    return parse_case({**data, "review": draft.review.model_dump(mode="json", by_alias=True)})
