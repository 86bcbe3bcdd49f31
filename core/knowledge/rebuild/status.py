"""What is active, what could be, and what is under way: read anew on every call, from durable state only."""

from __future__ import annotations

from typing import Any

from core.errors import RagError, redact
from core.knowledge.rebuild.parts import Parts
from core.knowledge.rebuild.values import IndexStatus
from core.knowledge.source import Rejected
from core.model import Generation, GenerationState
from core.stores import RebuildRun


def status(parts: Parts, running: RebuildRun | None) -> IndexStatus:
    """Raises StoreUnavailable when SQL is away; a vector store that is away is one of the ``problems``."""
    generations = parts.store.all(parts.alias)
    active = next((g for g in generations if g.state is GenerationState.ACTIVE), None)
    facts: dict[str, Any] = parts.store.facts(parts.alias, active.number) if active else {}
    problems: list[str] = []
    previous: Generation | None = None
    held: tuple[Generation, ...] = ()
    try:
        shelf = parts.leftovers.shelf()
        previous, held = shelf.previous, shelf.waiting
        if active is not None and active.collection not in shelf.collections:
            problems.append(f"collection {active.collection} of the active generation is gone: rebuild")
        if shelf.unknown:
            problems.append(
                f"collections that nobody here knows: {', '.join(shelf.unknown)}; drop them by hand if unused"
            )
    except RagError as exc:
        problems.append(redact(exc))
    return IndexStatus(
        active=active,
        previous=previous,
        held=held,
        running=running,
        documents=active.documents if active else 0,
        chunks=active.chunks if active else 0,
        model=active.profile.model if active else "",
        profile_id=active.profile.profile_id if active else "",
        built_at=active.built_at if active else None,
        activated_at=active.activated_at if active else None,
        built_by=active.built_by if active else "",
        fingerprint=active.fingerprint if active else "",
        why=str(facts.get("why", "")),
        source=str(facts.get("source", "")),
        rejected=rejected_of(facts),
        kept=tuple(facts.get("kept", ())),
        warnings=tuple(facts.get("warnings", ())),
        proof=dict(facts.get("proof", {})),
        problems=tuple(problems),
    )


def rejected_of(facts: dict[str, Any]) -> tuple[Rejected, ...]:
    """The rejected files recorded with a generation."""
    return tuple(Rejected(source, reason, line) for source, reason, line in facts.get("rejected", ()))
