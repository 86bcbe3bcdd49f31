"""What of old and broken generations goes, and when: never what serves, what can be rolled back to, what is held, or
what a lookup may still be reading.

A generation goes in this order: marked ``dropped_at``, then its rows, then its collection. Collections that SQL knows
nothing of are never touched: they may belong to somebody else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from core.errors import RagError, redact
from core.model import Generation, GenerationState
from core.ports import Clock, GenerationStore, IndexAdmin

log = logging.getLogger(__name__)
DROP_SECONDS: Final = 60.0
UNFINISHED: Final = frozenset({GenerationState.PLANNED, GenerationState.BUILDING})
BROKEN: Final = frozenset({GenerationState.FAILED, GenerationState.CANCELLED, GenerationState.INTERRUPTED})


@dataclass(frozen=True, slots=True)
class Shelf:
    """The generations of an alias by what they are for, newest first. ``previous`` is what a roll-back returns to,
    ``waiting`` what a switch can activate; ``stale`` were held but something newer is active or waiting; ``spent`` are
    retired ones behind ``previous``; ``unknown`` are collections that SQL knows nothing of."""

    active: Generation | None
    previous: Generation | None
    waiting: tuple[Generation, ...]
    stale: tuple[Generation, ...]
    switching: tuple[Generation, ...]
    unfinished: tuple[Generation, ...]
    spent: tuple[Generation, ...]
    broken: tuple[Generation, ...]
    collections: frozenset[str]
    unknown: tuple[str, ...]


class Leftovers:
    """``grace``: seconds that a lookup may hold a generation after another one took over."""

    def __init__(self, alias: str, store: GenerationStore, admin: IndexAdmin, clock: Clock, grace: float) -> None:
        self._alias, self._store, self._admin, self._clock = alias, store, admin, clock
        self._grace = timedelta(seconds=grace)

    def shelf(self) -> Shelf:
        """Reads SQL and the store."""
        generations = self._store.all(self._alias)
        found = self._admin.names(f"{self._alias}_g", timeout=DROP_SECONDS)
        ours = re.compile(rf"{re.escape(self._alias)}_g\d+")
        collections = frozenset(name for name in found if ours.fullmatch(name))

        def of(*states: GenerationState) -> list[Generation]:
            return [g for g in generations if g.state in states]

        active = next(iter(of(GenerationState.ACTIVE)), None)
        retired = sorted(
            (g for g in of(GenerationState.RETIRED) if g.collection in collections),
            key=lambda g: (g.activated_at or "", g.number),
            reverse=True,
        )
        previous = next((g for g in retired if not self._facts(g).get("dropped_at")), None)
        verified = of(GenerationState.VERIFIED)
        held = [g for g in verified if self._facts(g).get("held")]
        waiting = [g for g in held[:1] if active is None or g.number > active.number]
        return Shelf(
            active=active,
            previous=previous,
            waiting=tuple(waiting),
            stale=tuple(g for g in held if g not in waiting),
            switching=tuple(of(GenerationState.SWITCHING)),
            unfinished=(*of(*UNFINISHED), *(g for g in verified if g not in held)),
            spent=tuple(g for g in retired if g != previous),
            broken=tuple(g for g in of(*BROKEN) if g.collection in collections),
            collections=collections,
            unknown=tuple(sorted(collections - {g.collection for g in generations})),
        )

    def discard(self, generation: Generation, state: GenerationState, reason: str) -> None:
        """Takes a generation that never served away, now: its state and ``reason`` first, then rows, then collection."""
        self._store.set_state(self._alias, generation.number, state, reason=reason, held=False)
        self._store.discard(self._alias, generation.number)
        self._admin.drop(generation.collection, timeout=DROP_SECONDS)

    def due(self, shelf: Shelf) -> list[tuple[Generation, GenerationState]]:
        """What can go now, with the state it ends in: broken generations at once; stale and spent ones when the
        generation that took their place has served for the time of grace."""
        due = [(g, g.state) for g in shelf.broken]
        if self._served(shelf.active):
            due += [(g, GenerationState.CANCELLED) for g in shelf.stale]
        # whatever is behind the previous generation had ceased to be active when that one became it
        if self._served(shelf.previous):
            due += [(g, g.state) for g in shelf.spent]
        return due

    def sweep(self, note: Callable[[str], None]) -> None:
        """Drops what is due. What cannot be dropped stays for the next time, with a line in the log."""
        for generation, state in self.due(self.shelf()):
            try:
                self._drop(generation, state)
            except RagError as exc:
                log.warning("generation %s stays for now: %s", generation.number, redact(exc))
                note(f"generation {generation.number} could not be dropped ({redact(exc)}); the next run tries again")
            else:
                note(f"generation {generation.number} ({generation.state}) is gone with {generation.collection}")

    def _served(self, generation: Generation | None) -> bool:
        if generation is None or generation.activated_at is None:
            return True
        return self._clock.now() - datetime.fromisoformat(generation.activated_at) >= self._grace

    def _drop(self, generation: Generation, state: GenerationState) -> None:
        # its lists go too: the rows of generations stay for ever and are read together
        facts: dict[str, Any] = {"held": False, "rejected": [], "warnings": [], "kept": []}
        facts["dropped_at"] = self._clock.now().isoformat(timespec="seconds")
        self._store.set_state(self._alias, generation.number, state, **facts)
        self._store.discard(self._alias, generation.number)
        self._admin.drop(generation.collection, timeout=DROP_SECONDS)

    def _facts(self, generation: Generation) -> dict[str, Any]:
        return self._store.facts(self._alias, generation.number)
