"""After a crash: what was switching is finished, what was being built is taken away, the alias points where SQL says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.knowledge.rebuild.leftovers import Leftovers, Shelf
from core.knowledge.rebuild.switch import ALIAS_SECONDS, Announce, Switcher
from core.model import GenerationState
from core.ports import IndexAdmin


@dataclass(frozen=True, slots=True)
class Recovery:
    """Runs under the lease only."""

    alias: str
    leftovers: Leftovers
    switcher: Switcher
    admin: IndexAdmin

    def needed(self, shelf: Shelf) -> bool:
        if shelf.switching or shelf.unfinished or shelf.broken:
            return True
        active = shelf.active
        return (
            active is not None
            and active.collection in shelf.collections
            and self.admin.alias_target(self.alias, timeout=ALIAS_SECONDS) != active.collection
        )

    def run(self, announce: Announce, note: Callable[[str], None]) -> list[str]:
        """Returns what was done, a line each."""
        done: list[str] = []

        def say(line: str) -> None:
            done.append(line)
            note(line)

        shelf = self.leftovers.shelf()
        for generation in shelf.switching:
            if generation.collection in shelf.collections:
                self.switcher.finish(generation.number, announce)
                say(f"the switch to generation {generation.number} was finished")
            else:
                self.leftovers.discard(generation, GenerationState.INTERRUPTED, "its collection is gone")
                say(f"generation {generation.number} was switching but its collection is gone: discarded")
        for generation in shelf.unfinished:
            self.leftovers.discard(generation, GenerationState.INTERRUPTED, "its run ended before it was active")
            say(f"generation {generation.number} was {generation.state} when its run ended: discarded")
        self.leftovers.sweep(say)
        shelf = self.leftovers.shelf()
        active = shelf.active
        if active is None or active.collection not in shelf.collections:
            return done
        if self.admin.alias_target(self.alias, timeout=ALIAS_SECONDS) != active.collection:
            self.switcher.point(active, announce)
            say(f"alias {self.alias} pointed elsewhere: now at {active.collection}")
        return done
