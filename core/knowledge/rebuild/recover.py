"""After a crash: what was switching is finished, what was being built is taken away, the alias points where SQL says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.knowledge.rebuild.leftovers import Shelf
from core.knowledge.rebuild.parts import Parts
from core.knowledge.rebuild.sources import clear_staging
from core.knowledge.rebuild.switch import ALIAS_SECONDS, Announce
from core.model import GenerationState


@dataclass(frozen=True, slots=True)
class Recovery:
    parts: Parts

    def needed(self) -> bool:
        """Whether ``run`` would do anything. Reads only."""
        leftovers = self.parts.leftovers
        shelf = leftovers.shelf()
        return bool(shelf.switching or shelf.unfinished or leftovers.due(shelf)) or self._astray(shelf)

    def run(self, announce: Announce, note: Callable[[str], None]) -> list[str]:
        """Under the lease only. Returns what was done, a line each."""
        leftovers, switcher = self.parts.leftovers, self.parts.switcher
        done: list[str] = []

        def say(line: str) -> None:
            done.append(line)
            note(line)

        shelf = leftovers.shelf()
        for generation in shelf.switching:
            if generation.collection in shelf.collections:
                switcher.finish(generation.number, announce)
                say(f"the switch to generation {generation.number} was finished")
            else:
                leftovers.discard(generation, GenerationState.INTERRUPTED, "its collection is gone")
                say(f"generation {generation.number} was switching but its collection is gone: discarded")
        for generation in shelf.unfinished:
            leftovers.discard(generation, GenerationState.INTERRUPTED, "its run ended before it was active")
            say(f"generation {generation.number} was {generation.state} when its run ended: discarded")
        # what an interrupted ingest staged; a switch that was finished above has moved its own into place
        clear_staging(self.parts.uploads)
        leftovers.sweep(say)
        shelf = leftovers.shelf()
        if shelf.active is not None and self._astray(shelf):
            switcher.point(shelf.active, announce)
            say(f"alias {self.parts.alias} pointed elsewhere: now at {shelf.active.collection}")
        return done

    def _astray(self, shelf: Shelf) -> bool:
        """The alias does not point at the active generation, though its collection is there."""
        active = shelf.active
        if active is None or active.collection not in shelf.collections:
            return False
        return self.parts.admin.alias_target(self.parts.alias, timeout=ALIAS_SECONDS) != active.collection
