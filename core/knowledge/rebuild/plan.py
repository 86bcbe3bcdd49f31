"""The forecast of a rebuild: what would change, what must be embedded, how long it takes. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from core.knowledge.rebuild.rows import DocumentRows, items
from core.knowledge.rebuild.values import Plan
from core.knowledge.source import Rejected
from core.model import Document, EmbeddingProfile, Generation
from core.stores import RebuildRun

LONG_SECONDS: Final = 120.0  # from here on a faster profile is worth a word
INSERT_RATE: Final = 300.0  # rows a second into the store while nothing has been measured
AT_ONCE: Final = 500
FEW: Final = 20  # embeddings of a run below which its rate says nothing
FASTER: Final[Mapping[str, tuple[str, float]]] = {"e5": ("use", 30.0)}  # provider -> faster one, its passages a second


class KnownVectors(Protocol):
    def get(self, profile_id: str, keys: Sequence[str]) -> dict[str, Any]:
        """key -> vector; missing keys are absent."""


def forecast(
    corpus: Iterable[DocumentRows | Rejected],
    *,
    before: Mapping[str, Document],
    cache: KnownVectors,
    profile_id: str,
) -> Plan:
    """Compares documents by content hash with those of the active generation (``before``); times are left out."""
    added, changed, unchanged = list[str](), list[str](), list[str]()
    kept, rejected, warnings = list[str](), list[Rejected](), list[str]()
    chunks = cached = 0
    seen: set[str] = set()
    missing: set[str] = set()
    keys: list[str] = []

    def look_up() -> None:
        nonlocal cached
        wanted = list(dict.fromkeys(keys))
        found = cache.get(profile_id, wanted)
        missing.update(key for key in wanted if key not in found)
        cached += sum(key in found for key in keys)
        keys.clear()

    for entry in corpus:
        if isinstance(entry, Rejected):
            rejected.append(entry)
            continue
        document = entry.document
        seen.add(document.doc_id)
        warnings.extend(document.warnings)
        chunks += len(entry.pieces)
        old = before.get(document.doc_id)
        if entry.kept:
            kept.append(document.doc_id)
        elif old is None:
            added.append(document.doc_id)
        else:
            (unchanged if old.content_hash == document.content_hash else changed).append(document.doc_id)
        for item in items(entry):
            keys.append(item.key)
            if len(keys) == AT_ONCE:
                look_up()
    look_up()
    return Plan(
        added=tuple(added),
        changed=tuple(changed),
        removed=tuple(sorted(set(before) - seen)),
        unchanged=tuple(unchanged),
        kept=tuple(kept),
        rejected=tuple(rejected),
        warnings=tuple(warnings),
        documents=len(seen),
        documents_before=len(before) if before else None,
        chunks=chunks,
        to_embed=len(missing),
        from_cache=cached,
    )


def shrinks(documents: int, kept: int, before: int, ratio: float) -> str | None:
    """Why a generation of ``documents``, ``kept`` of them only carried over, must not replace one of ``before``: there
    are none, or fewer than ``ratio`` of them. None when it may."""
    fresh = documents - kept
    if fresh == 0:
        return f"no usable document was found (the active index has {before}): check the source folder and what was rejected"
    if fresh < ratio * before:
        return (
            f"{fresh} usable documents where the active index has {before}, fewer than {ratio:.0%}: check the source "
            "folder, or insist with --allow-shrink"
        )
    return None


def demands(active: Generation | None, profile: EmbeddingProfile, analysis: str, chunking: str) -> tuple[str, ...]:
    """What of the present settings the active generation was not built with; each demands a rebuild."""
    if active is None:
        return ()
    pairs = (
        ("embedding profile", active.profile.profile_id, profile.profile_id),
        ("analysis version", active.analysis_version, analysis),
        ("chunk settings", active.chunking_version, chunking),
    )
    return tuple(f"{what}: built with {old}, now {new}: a rebuild is needed" for what, old, new in pairs if old != new)


def measured_rate(runs: Sequence[RebuildRun], profile: EmbeddingProfile) -> tuple[float | None, str]:
    """Passages a second and where the number comes from: the last run with this profile that embedded enough to tell,
    else the profile's own, else None."""
    for run in runs:
        embedded, seconds = run.outcome.get("embedded", 0), run.outcome.get("embed_seconds", 0.0)
        if run.outcome.get("profile") == profile.profile_id and embedded >= FEW and seconds > 0:
            return embedded / seconds, f"measured by {run.kind} of {run.started_at:%Y-%m-%d %H:%M}"
    if profile.passages_per_second:
        return profile.passages_per_second, "typical of the model, not yet measured here"
    return None, "unknown: nothing has been embedded here yet"


def duration(to_embed: int, chunks: int, rate: float | None) -> float | None:
    """Seconds: embedding and insertion run beside each other, so the longer one counts."""
    inserting = chunks / INSERT_RATE
    if not to_embed:
        return inserting
    return None if rate is None else max(to_embed / rate, inserting)


def faster(provider: str, plan: Plan) -> tuple[str, float] | None:
    """A faster embedding provider and the seconds a rebuild with it takes, where the estimate is long."""
    other = FASTER.get(provider)
    if other is None or plan.seconds is None or plan.seconds < LONG_SECONDS:
        return None
    seconds = max(plan.chunks / other[1], plan.chunks / INSERT_RATE)  # its vectors are others: all are embedded anew
    return (other[0], seconds) if seconds < plan.seconds / 2 else None
