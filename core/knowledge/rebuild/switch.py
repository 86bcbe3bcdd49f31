"""One generation takes over from another: recorded as SWITCHING, then SQL's active row, then the alias.

SQL's row decides what lookups use; the alias follows for other readers. Interrupted anywhere, ``finish`` does the rest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from core.errors import RagError, redact
from core.knowledge.rebuild.sources import Sources, clear_staging, write_removed, writing
from core.knowledge.rebuild.values import Step
from core.model import Generation, GenerationState
from core.ports import GenerationStore, IndexAdmin

log = logging.getLogger(__name__)
ALIAS_SECONDS: Final = 60.0
Announce = Callable[[Step, str], None]


class Switcher:
    """The one way in which a generation becomes active."""

    def __init__(self, alias: str, store: GenerationStore, admin: IndexAdmin, uploads: Path) -> None:
        self._alias, self._store, self._admin, self._uploads = alias, store, admin, uploads

    def activate(self, number: int, announce: Announce, prove: Callable[[], None]) -> Generation:
        """``announce`` hears of each step before it is done; ``prove`` raises when the run must not go on. Once the
        generation is SWITCHING there is no way back: what is interrupted then, ``finish`` does later."""
        prove()
        self._store.set_state(self._alias, number, GenerationState.SWITCHING)
        return self.finish(number, announce)

    def finish(self, number: int, announce: Announce) -> Generation:
        """What is left to do for a generation that is SWITCHING; interrupted and done again it comes to the same."""
        announce(Step.UPLOADS, "uploads into place")
        if change := self._store.facts(self._alias, number).get("uploads"):
            self._apply_uploads(change)
            # once only: a roll-back to this generation must not undo what was done to the uploads since
            self._store.set_state(self._alias, number, GenerationState.SWITCHING, uploads={})
        announce(Step.SWITCH, f"generation {number} becomes the active one")
        active = self._store.switch(self._alias, number)
        self.point(active, announce)
        return active

    def point(self, active: Generation, announce: Announce) -> None:
        """The alias follows. A store that is away does not undo the switch: the alias is mended at the next start."""
        announce(Step.ALIAS, f"{self._alias} points at {active.collection}")
        try:
            self._admin.point_alias(self._alias, active.collection, timeout=ALIAS_SECONDS)
        except RagError as exc:
            log.warning("alias %s does not point at %s yet: %s", self._alias, active.collection, redact(exc))

    def _apply_uploads(self, change: Mapping[str, Any]) -> None:
        """``change``: ``staged`` (path in the staging folder -> name below uploads), ``deleted`` (names below uploads),
        ``removed`` (tombstones by document id to set), ``restored`` (document ids whose tombstone goes)."""
        with writing(self._uploads):
            self._change(change)

    def _change(self, change: Mapping[str, Any]) -> None:
        for staged, name in dict(change.get("staged") or {}).items():
            source, target = self._uploads / staged, self._uploads / name
            if source.exists():  # else an interrupted switch moved it already
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(source, target)
        for name in change.get("deleted") or ():
            (self._uploads / name).unlink(missing_ok=True)
        removed, restored = dict(change.get("removed") or {}), set(change.get("restored") or ())
        if removed or restored:
            known = Sources(self._uploads, self._uploads).removed()
            wanted = {doc_id: facts for doc_id, facts in (known | removed).items() if doc_id not in restored}
            if wanted != known:
                write_removed(self._uploads, wanted)
        if folder := change.get("folder"):
            clear_staging(self._uploads, str(folder))
