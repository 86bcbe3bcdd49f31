"""A lookup as the pages hold it: the result, and what may be shown beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.model import LookupResult
from core.ports import AuditReceipt


@dataclass(frozen=True, slots=True)
class View:
    """A result as a page shows it. ``texts`` holds the text of chunks by evidence key, None where it cannot be shown
    any more; a key that is absent was never asked for. ``receipt`` is set for a lookup made just now."""

    result: LookupResult
    receipt: AuditReceipt | None = None
    texts: Mapping[str, str | None] = field(default_factory=dict)
    note: str = ""

    def text(self, key: str) -> str | None:
        return self.texts.get(key)
