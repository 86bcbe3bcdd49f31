"""First evidence loss: for each case with gold, the stage at which the necessary evidence was first gone.

The labels are judged before the pipeline (retrieval-quality, section 16.1): a case whose gold cannot carry a verdict is
``EVAL_INCOMPLETE``, says what is missing, and stays out of every regression count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from core.evaluation.behaviour import stale_pieces
from core.evaluation.cases import Case
from core.evaluation.context import missing_facts
from core.evaluation.fixtures import Fixture
from core.evaluation.gold import necessary, normalise, relevance, relevant
from core.evaluation.ladder import ORDER, Ladder, Loss, LossCode, chunk_loss, climb
from core.evaluation.observed import Observed

UNJUDGED_LIMIT: Final = 0.5
DEPTH: Final = 5
_SETTLED = {"adjudicated", "agreed", "resolved", "final", "complete"}
_ONE_BRANCH: Final = (LossCode.LEXICAL_MISS, LossCode.SEMANTIC_MISS)
_OPEN = {"disputed", "pending", "conflict", "open"}


@dataclass(frozen=True, slots=True)
class CaseLoss:
    """``primary`` null: nothing was lost. ``counts``: False keeps the case out of the regression counts.

    ``missing`` says what a person must add before an ``EVAL_INCOMPLETE`` case can be judged.
    """

    case_id: str
    primary: Loss | None = None
    contributing: tuple[Loss, ...] = ()
    missing: tuple[str, ...] = ()
    ladders: tuple[Ladder, ...] = ()
    counts: bool = True
    reason: str | None = None

    @property
    def layer(self) -> str | None:
        """Where the primary loss happened. Evidence that is incomplete was lost where what contributes to it was, a
        miss of one branch only aside."""
        if self.primary is None or self.primary.code is not LossCode.EVIDENCE_INCOMPLETE:
            return self.primary.layer if self.primary else None
        parts = [loss.layer for loss in self.contributing if loss.code not in _ONE_BRANCH]
        return parts[0] if parts else self.primary.layer


def first_loss(
    case: Case, fixture: Fixture | None, unresolved: Sequence[str] = (), unjudged_limit: float = UNJUDGED_LIMIT
) -> CaseLoss:
    """The loss of one case. ``unresolved``: labels of it that resolve to nothing (``gold.unresolved``)."""
    if fixture is None or fixture.failed or fixture.observed is None:
        why = "it was not run" if fixture is None else f"the lookup failed: {fixture.error or 'no reason recorded'}"
        return CaseLoss(case.case_id, counts=False, reason=why)
    observed = fixture.observed
    missing = tuple(_missing_labels(case, fixture, unresolved))
    ladders = tuple(climb(case, fixture, observed, doc_id) for doc_id in relevant(case))
    if missing:
        return _incomplete(case, missing, (), ladders)
    if not case.answerable:
        if observed.level is None:
            return CaseLoss(case.case_id)
        text = f"no answer exists, yet the lookup says {observed.level}"
        return CaseLoss(case.case_id, Loss(LossCode.SHOULD_REFUSE, text, observed.level))
    primary, contributing = _attribute(case, fixture, observed, ladders)
    if primary is not None:
        doubts = tuple(_doubts(case, observed, ladders, unjudged_limit))
        if doubts:
            return _incomplete(case, doubts, (primary, *contributing), ladders)
    return CaseLoss(case.case_id, primary, contributing, (), ladders)


def count_losses(losses: Iterable[CaseLoss]) -> dict[str, tuple[str, ...]]:
    """Failure code -> the cases whose primary failure it is, in pipeline order; codes without a case are absent."""
    listed = list(losses)
    found: dict[str, tuple[str, ...]] = {}
    for code in ORDER:
        ids = tuple(loss.case_id for loss in listed if loss.primary is not None and loss.primary.code is code)
        if ids:
            found[code.value] = ids
    return found


def labels_settle(case: Case, depth: int = DEPTH) -> bool:
    """Whether an unlabelled result can be read as not relevant: the pool was judged to ``depth``, or adjudicated."""
    return (case.pool_depth or 0) >= depth or case.adjudication_status in _SETTLED


def _incomplete(
    case: Case, missing: tuple[str, ...], contributing: tuple[Loss, ...], ladders: tuple[Ladder, ...]
) -> CaseLoss:
    primary = Loss(LossCode.EVAL_INCOMPLETE, "; ".join(missing))
    return CaseLoss(case.case_id, primary, contributing, missing, ladders, counts=False)


def _missing_labels(case: Case, fixture: Fixture, unresolved: Sequence[str]) -> Iterable[str]:
    yield from (f"gold that resolves to nothing: {text}" for text in unresolved)
    gold = relevant(case)
    if case.answerable and not gold:
        yield "answerable, but no gold document is labelled: add goldSources or mark it unanswerable"
    if not case.answerable and gold:
        yield f"marked unanswerable, but {gold[0]} is labelled relevant: correct one of the two"
    if case.adjudication_status in _OPEN:
        yield f"the labels are {case.adjudication_status}: adjudicate them"
    if fixture.kb_scope not in {None, "", case.kb_scope}:
        yield f"labelled in scope {case.kb_scope!r}, looked up in {fixture.kb_scope!r}"
    for document in fixture.probe.documents if fixture.probe else ():
        outside = document.kb_scope not in {None, "", case.kb_scope} and case.kb_scope != "*"
        if document.doc_id in gold and document.chunks and outside:
            yield f"gold {document.doc_id} is in scope {document.kb_scope!r}, the case asks {case.kb_scope!r}"


def _attribute(
    case: Case, fixture: Fixture, observed: Observed, ladders: Sequence[Ladder]
) -> tuple[Loss | None, tuple[Loss, ...]]:
    needed = set(necessary(case))
    here = [ladder for ladder in ladders if ladder.doc_id in needed]
    lost = [(ladder, ladder.lost) for ladder in here if ladder.lost is not None]
    aside = tuple(loss for ladder in here for loss in ladder.contributing)
    expects_all = bool(case.expected_doc_ids or case.expected_sources)
    if here and len(lost) == len(here):
        first = max((loss for _, loss in lost), key=lambda loss: ORDER.index(loss.code))
        return first, (*(loss for _, loss in lost if loss is not first), *aside)
    if lost and expects_all:
        names = ", ".join(ladder.doc_id for ladder, _ in lost)
        text = f"{len(here) - len(lost)} of {len(here)} necessary documents arrived; lost: {names}"
        return Loss(LossCode.EVIDENCE_INCOMPLETE, text), (*(loss for _, loss in lost), *aside)
    if stale_pieces(fixture):
        return Loss(LossCode.STALE_EVIDENCE, "evidence of an older revision than the index holds"), aside
    return _facts(case, fixture, observed, aside)


def _facts(
    case: Case, fixture: Fixture, observed: Observed, aside: tuple[Loss, ...]
) -> tuple[Loss | None, tuple[Loss, ...]]:
    total = len(case.required_facts)
    views: list[tuple[str, str, Loss | None]] = [
        ("evidence", "\n".join(piece.content for piece in observed.evidence), None)
    ]
    if observed.packed_text is not None:
        cut = Loss(LossCode.PACKING_DROP, "the pack cut the text of a fact away", "trimmed")
        views.append(("context", observed.packed_text, cut))
    if observed.agent is not None:
        cut = Loss(LossCode.PROJECTION_DROP, "the projection cut the text of a fact away", "trimmed")
        views.append(("agent's result", "\n".join(text for _, text in observed.agent), cut))
    for name, text, because in views:
        gone = missing_facts(case, text)
        if gone:
            sentence = f"the {name} covers {total - len(gone)} of {total} required facts; missing: {gone[0]}"
            more = (because,) if because else tuple(_chunks_of_facts(case, fixture, observed, gone))
            return Loss(LossCode.EVIDENCE_INCOMPLETE, sentence, name), (*more, *aside)
    return None, aside


def _chunks_of_facts(case: Case, fixture: Fixture, observed: Observed, gone: Sequence[str]) -> Iterable[Loss]:
    """Where the chunks that hold the missing facts were lost, as far as the index was asked for them."""
    anchors = {fact.anchor for fact in case.required_facts if fact.fact in gone}
    for passage in fixture.probe.passages if fixture.probe else ():
        if passage.anchor in anchors:
            if passage.evidence_keys:
                yield chunk_loss(observed, passage.evidence_keys)
            else:
                yield Loss(LossCode.PARSE_LOSS, f"no chunk of {passage.path} holds the text of a fact whole")


def _doubts(case: Case, observed: Observed, ladders: Sequence[Ladder], limit: float) -> Iterable[str]:
    grades: Mapping[str, int] = relevance(case)
    gone = {ladder.doc_id for ladder in ladders if ladder.lost is not None}
    anchors = [normalise(p.anchor) for p in case.gold_passages if p.grade and p.doc_id in gone]
    for piece in observed.evidence:
        if piece.doc_id not in grades and any(anchor in normalise(piece.content) for anchor in anchors):
            yield f"{piece.doc_id} holds the gold passage too and is not labelled: grade it"
    top = list(dict.fromkeys(piece.doc_id for piece in observed.evidence))[:DEPTH]
    unjudged = [doc_id for doc_id in top if doc_id not in grades]
    if top and len(unjudged) / len(top) > limit and not labels_settle(case):
        names = ", ".join(unjudged)
        yield f"{len(unjudged)} of the first {len(top)} documents are unjudged (limit {limit:.0%}): grade {names}"
