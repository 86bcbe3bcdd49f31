"""Two lookups of one question held against each other: what moved, and what could have moved it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from core.model import AttemptTrace, Candidate, Document, LookupResult, RetrievalTrace

ABSENT: Final = "absent"
MAX_CHANGES: Final = 200


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not as it was: a setting, a version, a document. Values are shown as text."""

    kind: str
    name: str
    then: str
    now: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A chunk that was evidence then or is evidence now. Ranks are None where the chunk did not stand in that stage;
    ``why`` is the nearest reason that the two traces give."""

    evidence_key: str
    title: str
    then: Mapping[str, int | None]
    now: Mapping[str, int | None]
    why: str
    rewritten: bool = False  # evidence both times, with another text

    @property
    def evidence_then(self) -> int | None:
        return self.then["evidence"]

    @property
    def evidence_now(self) -> int | None:
        return self.now["evidence"]

    @property
    def moved(self) -> bool:
        """Another place, or another text in the same place."""
        return self.rewritten or self.evidence_then != self.evidence_now


@dataclass(frozen=True, slots=True)
class Comparison:
    """``outcome``: level, status, attempt, fallback. ``causes``: what differs in index, settings, model and code.
    ``evidence``: every chunk that is evidence on either side, by its place then, newcomers last."""

    same: bool
    outcome: tuple[Change, ...]
    causes: tuple[Change, ...]
    evidence: tuple[Moved, ...]


_RANKS: Final = {
    "dense": "dense_rank",
    "bm25": "bm25_rank",
    "rrf": "rrf_rank",
    "rerank": "rerank_rank",
    "evidence": "evidence_rank",
    "pack": "pack_rank",
    "projection": "projection_rank",
}


def compare(
    then: LookupResult,
    now: LookupResult,
    *,
    settings_then: Mapping[str, Any] | None = None,
    settings_now: Mapping[str, Any] | None = None,
    documents_then: Sequence[Document] | None = None,
    documents_now: Sequence[Document] | None = None,
) -> Comparison:
    """``settings_*`` are the public settings behind the two fingerprints, ``documents_*`` those of the two generations;
    None where they are not known, which is said instead of guessed."""
    outcome = _outcome(then, now)
    old, new = _candidates(then), _candidates(now)
    changed = _documents(documents_then, documents_now)
    evidence = tuple(_moved(old, new, changed))
    causes = (
        *_versions(then.retrieval_trace, now.retrieval_trace),
        *_settings(then.retrieval_trace, now.retrieval_trace, settings_then, settings_now),
        *_touched(changed, {c.doc_id for c in (*old.values(), *new.values())}),
        *_health(then.retrieval_trace, now.retrieval_trace),
    )
    same = not outcome and not any(row.moved for row in evidence)
    return Comparison(same, outcome, causes[:MAX_CHANGES], evidence)


def _outcome(then: LookupResult, now: LookupResult) -> tuple[Change, ...]:
    def facts(result: LookupResult) -> dict[str, str]:
        trace = result.retrieval_trace
        return {
            "evidence status": result.evidence_status.value,
            "relevance level": _text(result.relevance_level),
            "selected attempt": _text(trace.selected_attempt),
            "fallback": _text(trace.fallback_reason),
            "error": _text(result.error_class),
        }

    return tuple(_changes("outcome", facts(then), facts(now)))


def _versions(then: RetrievalTrace, now: RetrievalTrace) -> Iterable[Change]:
    def facts(trace: RetrievalTrace) -> dict[str, str]:
        gate = trace.gate
        scale = f"{gate.min_distance:.4g} to {gate.max_distance:.4g}" if gate else "none"
        limits = f"{gate.reference_threshold:.4g} / {gate.precise_threshold:.4g}" if gate else "none"
        category = next((a.category_filter for a in trace.attempts if a.category_filter), None)
        return {
            "generation": _text(trace.generation),
            "corpus": trace.corpus_snapshot[:12],
            "embedding profile": trace.embedding_profile,
            "distance scale": scale,
            "thresholds": limits,
            "reranker": _text(trace.reranker_model),
            "analysis version": trace.analysis_version,
            "code version": trace.code_version,
            "scope": trace.kb_scope,
            "mode": trace.mode.value,
            "category filter": _text(category),
            "what-if": ", ".join(f"{k}={v}" for k, v in sorted(trace.what_if.items())) or "none",
        }

    return _changes("version", facts(then), facts(now))


def _settings(
    then: RetrievalTrace,
    now: RetrievalTrace,
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
) -> Iterable[Change]:
    if then.fingerprint == now.fingerprint:
        return ()
    if old is None or new is None:
        return (Change("setting", "fingerprint", then.fingerprint[:12] + " (settings not kept)", now.fingerprint[:12]),)
    return _changes("setting", _flat(old), _flat(new))


def _documents(
    old: Sequence[Document] | None, new: Sequence[Document] | None
) -> Mapping[str, tuple[Document | None, Document | None]]:
    """The documents that were added, removed or revised between two generations, by id."""
    if old is None or new is None:
        return {}
    before, after = {d.doc_id: d for d in old}, {d.doc_id: d for d in new}
    return {
        doc_id: (before.get(doc_id), after.get(doc_id))
        for doc_id in sorted({*before, *after})
        if _identity(before.get(doc_id)) != _identity(after.get(doc_id))
    }


def _identity(document: Document | None) -> tuple[Any, ...] | None:
    return (
        None if document is None else (document.content_hash, document.category, document.kb_scope, document.revision)
    )


def _touched(changed: Mapping[str, tuple[Document | None, Document | None]], seen: set[str]) -> Iterable[Change]:
    """Changed documents, those among the candidates first: the others can only have moved what stood near them."""
    for doc_id in sorted(changed, key=lambda d: (d not in seen, d)):
        before, after = changed[doc_id]
        yield Change("document", doc_id, _revision(before), _revision(after))


def _health(then: RetrievalTrace, now: RetrievalTrace) -> Iterable[Change]:
    old = (*then.degraded, *(reason for attempt in then.attempts for reason in attempt.degraded))
    new = (*now.degraded, *(reason for attempt in now.attempts for reason in attempt.degraded))
    if old != new:
        yield Change("health", "degraded", "; ".join(old) or "no", "; ".join(new) or "no")


def _candidates(result: LookupResult) -> dict[str, Candidate]:
    """The candidates of the attempt that served, by evidence key."""
    trace = result.retrieval_trace
    served: AttemptTrace | None = next((a for a in trace.attempts if a.name == trace.selected_attempt), None)
    return {c.evidence_key: c for c in served.candidates} if served else {}


def _moved(
    old: Mapping[str, Candidate],
    new: Mapping[str, Candidate],
    changed: Mapping[str, tuple[Document | None, Document | None]],
) -> Iterable[Moved]:
    keys = {c.evidence_key for c in (*old.values(), *new.values()) if c.evidence_rank is not None}

    def place(key: str) -> tuple[int, int, str]:
        then, now = old.get(key), new.get(key)
        return (
            (then.evidence_rank if then else None) or 10_000,
            (now.evidence_rank if now else None) or 10_000,
            key,
        )

    for key in sorted(keys, key=place):
        then, now = old.get(key), new.get(key)
        known = now or then
        if known is None:
            continue
        moved = Moved(key, known.title, _ranks(then), _ranks(now), "", _rewritten(then, now))
        why = _why(then, now, changed.get(known.doc_id), moved) if moved.moved else "stands where it stood"
        yield replace(moved, why=why)


def _ranks(candidate: Candidate | None) -> dict[str, int | None]:
    return {stage: getattr(candidate, name) if candidate else None for stage, name in _RANKS.items()}


def _rewritten(then: Candidate | None, now: Candidate | None) -> bool:
    if then is None or now is None or then.evidence_rank is None or now.evidence_rank is None:
        return False
    return then.content_sha256 is not None and then.content_sha256 != now.content_sha256


def _why(
    then: Candidate | None,
    now: Candidate | None,
    document: tuple[Document | None, Document | None] | None,
    moved: Moved,
) -> str:
    if document is not None:
        before, after = document
        if after is None:
            return "its document is no longer in the index"
        if before is None:
            return "its document is new in the index"
        if then is None or now is None or then.content_sha256 != now.content_sha256:
            return f"its document changed (revision {before.revision} to {after.revision})"
    if moved.rewritten:
        return "the same place, another text"
    if now is None:
        return "no branch found it any more, or it fell behind the window"
    if then is None:
        return "no branch had found it then, or it stood behind the window"
    if now.drop_reason is not None:
        return f"now dropped by {now.drop_reason.value} ({_path(then, now)})"
    if then.drop_reason is not None:
        return f"then dropped by {then.drop_reason.value} ({_path(then, now)})"
    return f"moved: {_path(then, now)}"


def _path(then: Candidate, now: Candidate) -> str:
    """The first stage whose rank differs, the place where the two runs part."""
    for stage, name in _RANKS.items():
        before, after = getattr(then, name), getattr(now, name)
        if before != after:
            return (
                f"{stage} rank {before if before is not None else 'none'} to {after if after is not None else 'none'}"
            )
    return "ranks are equal in every stage"


def _changes(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[Change]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name, ABSENT), new.get(name, ABSENT)
        if before != after:
            yield Change(kind, name, before, after)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = _text(value)
    return flat


def _revision(document: Document | None) -> str:
    return ABSENT if document is None else f"revision {document.revision}"


def _text(value: Any) -> str:
    return "none" if value is None else str(getattr(value, "value", value))
