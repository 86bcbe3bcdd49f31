"""Which generation a lookup runs on: resolved once, held to its end.

SQL's active row decides. One cheap read before each lookup notices a switch made by any process; the snapshot itself
(L0, revisions) is built once per generation and kept for the last few.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from core.codec import from_json, to_json
from core.errors import IndexNotReady, NotFound, ProfileMismatch, StoreUnavailable, Unavailable
from core.model import Document, EmbeddingProfile, Generation, GenerationState
from core.ports import GenerationStore, IndexAdmin, L0Index, Snapshot

KEPT: Final = 4
NO_INDEX: Final = "no active index for {alias!r}: build one with `python -m core rebuild --confirm REBUILD`"


class Snapshots:
    """``core.ports.SnapshotSource`` over SQL, with the collection's properties as the way out when SQL is away.

    ``make_l0`` builds the L0 index of a list of documents. ``running`` is the profile and the analysis version of this
    process: another generation's vectors or tokens are refused (ProfileMismatch), never searched with the wrong ones.
    """

    def __init__(
        self,
        store: GenerationStore,
        admin: IndexAdmin,
        alias: str,
        make_l0: Callable[[list[Document]], L0Index],
        running: Callable[[], tuple[EmbeddingProfile, str]],
        *,
        timeout: float = 5.0,
    ) -> None:
        self._store = store
        self._admin = admin
        self._alias = alias
        self._make_l0 = make_l0
        self._running = running
        self._timeout = timeout
        self._lock = threading.Lock()
        self._known: OrderedDict[int, Snapshot] = OrderedDict()
        self._last: Snapshot | None = None

    def current(self) -> Snapshot:
        """The active generation. Raises IndexNotReady (none yet) or ProfileMismatch (it must be rebuilt)."""
        try:
            number = self._store.active_number(self._alias)
        except Unavailable as exc:
            return self._without_sql(exc)
        if number is None:
            raise IndexNotReady(NO_INDEX.format(alias=self._alias))
        snapshot = self._snapshot(number)
        self._last = snapshot
        return snapshot

    def of(self, number: int) -> Snapshot:
        """Generation ``number``, active or not. Raises NotFound when it was dropped or never was."""
        snapshot = self._snapshot(number)
        if snapshot.generation.state not in {GenerationState.ACTIVE, GenerationState.VERIFIED, GenerationState.RETIRED}:
            raise NotFound(f"generation {number} is {snapshot.generation.state}; name one that can serve")
        return snapshot

    def forget(self) -> None:
        """Drops what is kept: the next lookup reads everything anew."""
        with self._lock:
            self._known.clear()

    def _snapshot(self, number: int) -> Snapshot:
        with self._lock:
            known = self._known.get(number)
            if known is not None and known.generation.state is GenerationState.ACTIVE:
                self._known.move_to_end(number)
                self._check(known.generation)
                return known
        generation = self._store.get(self._alias, number)
        if generation is None:
            raise NotFound(f"there is no generation {number} of {self._alias!r}; see them on the rebuild page")
        self._check(generation)
        documents = self._store.documents(self._alias, number)
        snapshot = Snapshot(generation, self._make_l0(documents), {d.doc_id: d.revision for d in documents})
        with self._lock:
            self._known[number] = snapshot
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return snapshot

    def _check(self, generation: Generation) -> None:
        profile, analysis = self._running()
        if generation.profile.profile_id != profile.profile_id:
            raise ProfileMismatch(
                f"generation {generation.number} was built with {generation.profile.profile_id}, this process embeds with "
                f"{profile.profile_id}: rebuild, or set embedding.provider and embedding.model back"
            )
        if generation.analysis_version != analysis:
            raise ProfileMismatch(
                f"generation {generation.number} was cut by analysis {generation.analysis_version}, this process cuts by "
                f"{analysis}: rebuild"
            )

    def _without_sql(self, exc: Unavailable) -> Snapshot:
        """The last snapshot; in a fresh process one from the alias and the collection's properties, without L0."""
        note = "the database is away: "
        if self._last is not None:
            last = self._last
            return Snapshot(
                last.generation, last.l0, last.revisions, note + f"generation {last.generation.number} as last seen"
            )
        target = self._admin.alias_target(self._alias, timeout=self._timeout)
        if target is None:
            raise StoreUnavailable(f"{exc}; and no collection stands under {self._alias!r}") from exc
        for info in self._admin.collections(target, timeout=self._timeout):
            if info.name == target:
                generation = generation_of(self._alias, target, info.properties)
                self._check(generation)
                return Snapshot(generation, None, {}, note + "no L0, no category filter, no revision check")
        raise StoreUnavailable(f"{exc}; and collection {target!r} cannot be read") from exc


def properties_of(generation: Generation) -> dict[str, str]:
    """What the collection itself says of its generation, so that it can serve while SQL is away."""
    return {
        "rag.generation": str(generation.number),
        "rag.profile": to_json(generation.profile),
        "rag.analysis": generation.analysis_version,
        "rag.chunking": generation.chunking_version,
        "rag.search_params": json.dumps(dict(generation.search_params), sort_keys=True),
    }


def generation_of(alias: str, collection: str, properties: Mapping[str, str]) -> Generation:
    """The generation that ``properties_of`` described. Raises IndexNotReady when the properties are not ours."""
    try:
        return Generation(
            number=int(properties["rag.generation"]),
            alias=alias,
            collection=collection,
            state=GenerationState.ACTIVE,
            profile=from_json(EmbeddingProfile, properties["rag.profile"]),
            analysis_version=properties["rag.analysis"],
            chunking_version=properties.get("rag.chunking", ""),
            search_params=json.loads(properties.get("rag.search_params", "{}")),
        )
    except (KeyError, ValueError) as exc:
        raise IndexNotReady(f"collection {collection!r} does not say what it holds: rebuild") from exc
