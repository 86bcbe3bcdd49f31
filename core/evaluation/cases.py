"""Golden cases: what is asked and what should happen (offline-evaluation, section 5; retrieval-quality, section 3).

Names in the file are camel case. A file is refused as a whole when anything in it cannot be meant: unknown keys,
duplicates, nulls in lists, expectations that contradict each other. Only a case that a person reviewed gates.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from core.errors import InvalidCases, redact
from core.evaluation import locate
from core.model import EVAL_SCOPE, AttemptName, EvidenceStatus, FallbackReason, RelevanceLevel

FORMAT_VERSION: Final = 1
NONE: Final = "NONE"  # an expectation that there is no fallback, or no level
OLD_FALLBACKS: Final = {
    "filtered_vector_low_quality": FallbackReason.LOW_QUALITY.value,
    "low_quality": FallbackReason.LOW_QUALITY.value,
    "filtered_vector_no_evidence": FallbackReason.NO_EVIDENCE.value,
    "filtered_vector_empty": FallbackReason.NO_EVIDENCE.value,
    "no_evidence": FallbackReason.NO_EVIDENCE.value,
}
_NOT_COMPARED = {"notes", "review", "reference_answer"}


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=False,
        serialize_by_alias=True,
    )


class GoldSource(_Part):
    """A judged document. Grade 0 is judged not relevant, 1 to 3 are degrees of relevance."""

    doc_id: str = Field(min_length=1)
    grade: int = Field(1, ge=0, le=3)


class GoldPassage(_Part):
    """A passage by path inside the source folder and a text that stands in it: survives any other chunking."""

    path: str = Field(min_length=1)
    anchor: str = Field(min_length=1)
    grade: int = Field(1, ge=0, le=3)

    @property
    def doc_id(self) -> str:
        return doc_id_of(self.path)


class RequiredFact(_Part):
    """What an answer must cover, and where it is said."""

    fact: str = Field(min_length=1)
    path: str = Field(min_length=1)
    anchor: str = Field(min_length=1)

    @property
    def doc_id(self) -> str:
        return doc_id_of(self.path)


class Review(_Part):
    who: str = ""
    when: str = ""
    status: Literal["draft", "reviewed", "approved", "rejected"] = "draft"


class Case(_Part):
    """One golden case. Empty lists and nulls expect nothing; the text "NONE" expects that there is none."""

    case_id: str = Field(min_length=1, max_length=128)
    scenario: str = ""
    query: str = Field(min_length=1)
    kb_scope: str = EVAL_SCOPE
    as_of: str | None = None
    tags: tuple[str, ...] = ()
    query_type: str = ""
    notes: str = ""
    reference_answer: str = ""
    expected_doc_ids: tuple[str, ...] = ()
    expected_sources: tuple[str, ...] = ()
    expected_keywords: tuple[str, ...] = ()
    expected_breadcrumbs: tuple[str, ...] = ()
    expected_selected_attempt: str | None = None
    expected_fallback_reason: str | None = None
    expected_evidence_status: str | None = None
    expected_evidence_keys: tuple[str, ...] = ()
    min_evidence_count: int | None = Field(None, ge=0)
    first_expected_rank_max: int | None = Field(None, ge=1)
    must_not_doc_ids: tuple[str, ...] = ()
    must_not_sources: tuple[str, ...] = ()
    expected_relevance_level: str | None = None
    gold_sources: tuple[GoldSource, ...] = ()
    gold_passages: tuple[GoldPassage, ...] = ()
    required_facts: tuple[RequiredFact, ...] = ()
    answerability: Literal["answerable", "unanswerable"] = "answerable"
    label_version: int | str = 1
    label_source: str = ""
    pool_depth: int | None = Field(None, ge=0)
    adjudication_status: str = ""
    review: Review = Review()

    @property
    def gates(self) -> bool:
        """Drafts and rejected cases never gate."""
        return self.review.status in {"reviewed", "approved"}

    @property
    def answerable(self) -> bool:
        return self.answerability == "answerable"

    @property
    def fingerprint(self) -> str:
        """Identity of what is asked and expected; notes, reference answer and review do not change it."""
        return _digest(self.model_dump(mode="json", exclude=_NOT_COMPARED))

    @field_validator("as_of")
    @classmethod
    def _as_of(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value) if "T" in value else date.fromisoformat(value)
        return value

    @field_validator("expected_fallback_reason")
    @classmethod
    def _fallback(cls, value: str | None) -> str | None:
        value = OLD_FALLBACKS.get(value, value) if value else value
        return _one_of(value, [*FallbackReason, NONE])

    @field_validator("expected_selected_attempt")
    @classmethod
    def _attempt(cls, value: str | None) -> str | None:
        return _one_of(value, AttemptName)

    @field_validator("expected_evidence_status")
    @classmethod
    def _status(cls, value: str | None) -> str | None:
        return _one_of(value, EvidenceStatus)

    @field_validator("expected_relevance_level")
    @classmethod
    def _level(cls, value: str | None) -> str | None:
        return _one_of(value, [*RelevanceLevel, NONE])

    @model_validator(mode="after")
    def _consistent(self) -> Case:
        for name in _UNIQUE_LISTS:
            _no_duplicates(name, getattr(self, name))
        _no_duplicates("gold_sources", [gold.doc_id for gold in self.gold_sources])
        _no_duplicates("gold_passages", [(gold.path, gold.anchor) for gold in self.gold_passages])
        _no_duplicates("required_facts", [(fact.path, fact.anchor, fact.fact) for fact in self.required_facts])
        wanted = {*self.expected_doc_ids, *(gold.doc_id for gold in self.gold_sources if gold.grade)}
        both = sorted(wanted & set(self.must_not_doc_ids))
        both += sorted(set(self.expected_sources) & set(self.must_not_sources))
        if both:
            raise ValueError(f"{both[0]!r} is wanted and forbidden at once; keep one of the two")
        if self.first_expected_rank_max and not (self.expected_doc_ids or self.expected_sources):
            raise ValueError("firstExpectedRankMax needs expectedDocIds or expectedSources")
        grades = {gold.doc_id: gold.grade for gold in self.gold_sources}
        if bad := [doc for doc in self.expected_doc_ids if grades.get(doc) == 0]:
            raise ValueError(f"{bad[0]!r} is expected and graded 0 in goldSources; keep one of the two")
        return self


_UNIQUE_LISTS = (
    "tags",
    "expected_doc_ids",
    "expected_sources",
    "expected_keywords",
    "expected_breadcrumbs",
    "expected_evidence_keys",
    "must_not_doc_ids",
    "must_not_sources",
)


class CaseSet(_Part):
    """All cases of one file. ``lines`` maps a case id to the line on which the case begins."""

    version: int
    cases: tuple[Case, ...]
    file: str = Field("", exclude=True)
    lines: dict[str, int] = Field(default_factory=dict, exclude=True)

    @property
    def fingerprint(self) -> str:
        return _digest(sorted((case.case_id, case.fingerprint) for case in self.cases))

    def by_id(self) -> dict[str, Case]:
        return {case.case_id: case for case in self.cases}

    def where(self, case_id: str) -> str:
        """``file:line`` of a case, for messages."""
        line = self.lines.get(case_id)
        return f"{self.file}:{line}" if line else self.file or case_id


def doc_id_of(path: str) -> str:
    """The document of a path relative to the source folder: without the suffix ``.md``."""
    return path.removesuffix(".md")


def load_cases(path: Path) -> CaseSet:
    """The case set of ``path``. Raises InvalidCases; ``problems`` lists each with file and line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidCases([f"{path}: cannot be read ({redact(exc)}); give a UTF-8 JSON file of golden cases"]) from exc
    name = path.name
    try:
        data = locate.parse(text)
    except locate.NotJson as exc:
        raise InvalidCases([f"{name}:{exc.line}: not valid JSON ({exc}); mend the file"]) from exc
    except locate.DuplicateKey as exc:
        line = locate.line_of_duplicate(text, exc.key)
        raise InvalidCases([f"{name}:{line}: key {exc.key!r} stands twice in one object; remove one"]) from exc
    return _validated(data, name, text)


def case_set(cases: Iterable[Case], file: str = "") -> CaseSet:
    """A set from cases made in memory. Raises InvalidCases for a doubled id."""
    listed = tuple(cases)
    doubled = [name for name, count in Counter(case.case_id for case in listed).items() if count > 1]
    if doubled:
        raise InvalidCases([f"case {name!r} is given twice; ids must be unique" for name in doubled])
    return CaseSet.model_construct(version=FORMAT_VERSION, cases=listed, file=file, lines={})


def parse_case(data: dict[str, Any]) -> Case:
    """One case from camel-case data (tuples as lists). Raises InvalidCases."""
    try:
        return Case.model_validate_json(json.dumps(data))
    except ValidationError as exc:
        raise InvalidCases([_sentence(error) for error in exc.errors(include_url=False)]) from exc


def _validated(data: Any, name: str, text: str) -> CaseSet:
    def line_of(where: locate.Path) -> int:
        return locate.line_of(text, where)

    if not isinstance(data, dict) or not isinstance(data.get("cases"), list):
        raise InvalidCases([f'{name}:1: expected {{"version": {FORMAT_VERSION}, "cases": [...]}}'])
    problems = [
        f"{name}:{line_of((key,))}: unknown key {key!r}; allowed here: cases, version"
        for key in sorted(set(data) - {"version", "cases"})
    ]
    if data.get("version") != FORMAT_VERSION:
        problems.append(f"{name}:{line_of(('version',))}: version {data.get('version')!r}; this reads {FORMAT_VERSION}")
    cases: list[Case] = []
    first_line: dict[str, int] = {}
    for index, raw in enumerate(data["cases"]):
        at: locate.Path = ("cases", index)
        try:
            case = Case.model_validate_json(json.dumps(raw))
        except ValidationError as exc:
            problems += [
                f"{name}:{line_of((*at, *error['loc']))}: {_label(raw, index)}: {_sentence(error)}"
                for error in exc.errors(include_url=False)
            ]
            continue
        if case.case_id in first_line:
            problems.append(
                f"{name}:{line_of((*at, 'caseId'))}: case {case.case_id!r} is given twice; ids must be unique"
            )
            continue
        first_line[case.case_id] = index
        cases.append(case)
    if problems:
        raise InvalidCases(problems)
    starts = locate.item_lines(text, ("cases",))
    lines = {case.case_id: starts[index] for index, case in enumerate(cases)}
    return CaseSet.model_construct(version=FORMAT_VERSION, cases=tuple(cases), file=name, lines=lines)


def _label(raw: Any, index: int) -> str:
    name = raw.get("caseId") if isinstance(raw, dict) else None
    return f"case {name!r}" if isinstance(name, str) else f"case number {index + 1}"


def _sentence(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key {key!r}"
    if error["type"] == "missing":
        return f"{key!r} is missing"
    text = error["msg"].removeprefix("Value error, ")
    if error.get("input") is None and error["type"] != "value_error":
        text = "is null; leave the key out instead"
    return redact(f"{key}: {text}" if key else text)


def _one_of(value: str | None, allowed: Iterable[str]) -> str | None:
    names = [str(name) for name in allowed]
    if value is not None and value not in names:
        raise ValueError(f"{value!r} is none of {', '.join(names)}")
    return value


def _no_duplicates(name: str, values: Iterable[Any]) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise ValueError(f"{to_camel(name)} names {value!r} twice")
        if isinstance(value, str) and not value.strip():
            raise ValueError(f"{to_camel(name)} holds an empty text")


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
