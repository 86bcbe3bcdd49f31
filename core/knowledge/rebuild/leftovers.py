"""What of old and broken generations goes, and when: never what serves, what can be rolled back to, what is held, or
what a lookup may still be reading.

A generation's rows and collection go in two steps: it is marked ``dropped_at`` and its rows go, its collection follows
when nobody can hold it any more. Collections that SQL knows nothing of are never touched.
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
    """The generations of an alias by what they are for. ``previous`` is what a roll-back returns to; ``spent`` are
    retired ones behind it; ``unknown`` are collections that SQL knows nothing of."""

    active: Generation | None
    previous: Generation | None
    held: tuple[Generation, ...]
    switching: tuple[Generation, ...]
    unfinished: tuple[Generation, ...]
    spent: tuple[Generation, ...]
    broken: tuple[Generation, ...]
    collections: frozenset[str]
    unknown: tuple[str, ...]


class Leftovers:
    """``grace``: seconds that a lookup may hold a generation after it ceased to be active."""

    def __init__(self, alias: str, store: GenerationStore, admin: IndexAdmin, clock: Clock, grace: float) -> None:
        self._alias, self._store, self._admin, self._clock = alias, store, admin, clock
        self._grace = timedelta(seconds=grace)

    def shelf(self) -> Shelf:
        """Reads SQL and the store."""
        generations = self._store.all(self._alias)
        found = self._admin.collections(f"{self._alias}_g", timeout=DROP_SECONDS)
        ours = re.compile(rf"{re.escape(self._alias)}_g\d+")
        collections = frozenset(info.name for info in found if ours.fullmatch(info.name))
        active = next((g for g in generations if g.state is GenerationState.ACTIVE), None)
        retired = sorted(
            (g for g in generations if g.state is GenerationState.RETIRED),
            key=lambda g: (g.activated_at or "", g.number),
            reverse=True,
        )
        previous = next((g for g in retired if g.collection in collections and not self._dropped(g)), None)
        verified = [g for g in generations if g.state is GenerationState.VERIFIED]
        held = tuple(g for g in verified if self._store.facts(self._alias, g.number).get("held"))
        names = {g.collection for g in generations}
        return Shelf(
            active=active,
            previous=previous,
            held=held,
            switching=tuple(g for g in generations if g.state is GenerationState.SWITCHING),
            unfinished=tuple(g for g in generations if g.state in UNFINISHED) + tuple(set_minus(verified, held)),
            spent=tuple(g for g in retired if g is not previous and g.collection in collections),
            broken=tuple(g for g in generations if g.state in BROKEN and g.collection in collections),
            collections=collections,
            unknown=tuple(sorted(collections - names)),
        )

    def discard(self, generation: Generation, state: GenerationState, reason: str) -> None:
        """Takes a generation that never served away, now: its state and ``reason`` first, then rows, then collection."""
        self._store.set_state(self._alias, generation.number, state, reason=reason, held=False)
        self._store.discard(self._alias, generation.number)
        self._admin.drop(generation.collection, timeout=DROP_SECONDS)

    def sweep(self, note: Callable[[str], None]) -> None:
        """Drops broken generations and, once their grace is over, those behind the previous one. One that cannot be
        dropped stays for the next time, with a line in the log."""
        shelf = self.shelf()
        now = self._clock.now()
        for generation in shelf.broken:
            self._drop(generation, note)
        for generation in shelf.spent:
            if self._free(shelf, now):
                self._drop(generation, note)

    def _free(self, shelf: Shelf, now: datetime) -> bool:
        """A generation behind the previous one ceased to be active when, at the latest, the previous one became it."""
        since = shelf.previous.activated_at if shelf.previous else shelf.active.activated_at if shelf.active else None
        return since is None or now - datetime.fromisoformat(since) >= self._grace

    def _drop(self, generation: Generation, note: Callable[[str], None]) -> None:
        try:
            facts: dict[str, Any] = {"dropped_at": self._clock.now().isoformat(timespec="seconds")}
            self._store.set_state(self._alias, generation.number, generation.state, **facts)
            self._store.discard(self._alias, generation.number)
            self._admin.drop(generation.collection, timeout=DROP_SECONDS)
            note(
                f"generation {generation.number} ({generation.state}) is gone: rows and collection {generation.collection}"
            )
        except RagError as exc:
            log.warning("generation %s stays for now: %s", generation.number, redact(exc))
            note(f"generation {generation.number} could not be dropped ({redact(exc)}); the next run tries again")

    def _dropped(self, generation: Generation) -> bool:
        return bool(self._store.facts(self._alias, generation.number).get("dropped_at"))


def set_minus(these: list[Generation], those: tuple[Generation, ...]) -> list[Generation]:
    numbers = {g.number for g in those}
    return [g for g in these if g.number not in numbers]
