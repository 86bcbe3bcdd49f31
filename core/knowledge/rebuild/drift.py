"""What changed on disk since the active generation was built, cheap enough for every visit.

A file of the same size and time is taken as unchanged; any other is read and compared by content hash, once for each of
its versions in this process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from core.knowledge.rebuild.parts import Parts
from core.knowledge.rebuild.values import Drift
from core.knowledge.source import Rejected, SourceFile, load_file
from core.model import Document, Generation

REMEMBERED: Final = 20_000


class DriftWatch:
    """Thread-safe."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._indexed: tuple[Generation, dict[str, Document]] | None = None
        self._read: OrderedDict[tuple[Path, int, int], str | Rejected] = OrderedDict()

    def drift(self, source: Path | None = None) -> Drift:
        """``source`` None: the settings' folder. Raises BadInput when it is no readable folder, StoreUnavailable."""
        parts = self._parts
        active = parts.store.active(parts.alias)
        sources = parts.sources(source)
        listing = sources.listing()
        earlier = self._documents(active)
        added, changed, rejected = list[str](), list[str](), list(listing.rejected)
        seen: set[str] = set()
        for file in listing.files:
            document = earlier.get(file.doc_id)
            seen.add(file.doc_id)
            if document is not None and _untouched(document, file):
                continue
            found = self._content(file)
            if isinstance(found, Rejected):
                rejected.append(found)
            elif document is None:
                added.append(file.doc_id)
            elif found != document.content_hash:
                changed.append(file.doc_id)
        kept = {r.source for r in rejected}
        removed = [d.doc_id for d in earlier.values() if d.doc_id not in seen and not _kept(d, kept)]
        return Drift(
            generation=active.number if active else None,
            added=tuple(added),
            changed=tuple(changed),
            removed=tuple(sorted(removed)),
            rejected=tuple(rejected),
            demands=parts.demands(active),
            source=str(sources.root),
        )

    def _documents(self, active: Generation | None) -> dict[str, Document]:
        """A generation never changes: its documents are read once."""
        with self._lock:
            known = self._indexed
        if active is not None and known is not None and known[0] == active:
            return known[1]
        documents = self._parts.documents_of(active)
        if active is not None:
            with self._lock:
                self._indexed = (active, documents)
        return documents

    def _content(self, file: SourceFile) -> str | Rejected:
        """The content hash of a file, or why it has none."""
        key = (file.path, file.size, file.mtime_ns)
        with self._lock:
            if key in self._read:
                self._read.move_to_end(key)
                return self._read[key]
        loaded = load_file(file)
        found = loaded if isinstance(loaded, Rejected) else loaded.content_hash
        with self._lock:
            self._read[key] = found
            while len(self._read) > REMEMBERED:
                self._read.popitem(last=False)
        return found


def _untouched(document: Document, file: SourceFile) -> bool:
    return (document.size, document.mtime_ns, document.uploaded) == (file.size, file.mtime_ns, file.uploaded)


def _kept(document: Document, rejected: set[str]) -> bool:
    """Its own file, or a folder above it, is rejected now: a rebuild would keep its earlier version."""
    parents = {str(parent) for parent in Path(document.source).parents}
    return document.source in rejected or bool(parents & rejected)
