"""What a rebuild is told, what it forecasts and what came of it: frozen values for page and command line alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from core.knowledge.source import Rejected
from core.model import Generation
from core.stores import RebuildRun


class Kind(StrEnum):
    """What a run does; the ``kind`` of its record."""

    REBUILD = "rebuild"
    INGEST = "ingest"
    UPLOAD = "upload"
    REMOVE = "remove"
    ROLLBACK = "rollback"
    SWITCH = "switch"
    RECOVER = "recover"


class Step(StrEnum):
    """Where a run is: the ``stage`` of its record. Each is announced before it is done."""

    SCAN = "scan"
    PLAN = "plan"
    BUILD = "build"
    CREATE = "create"
    FILL = "fill"
    SEAL = "seal"
    VERIFY = "verify"
    GATE = "gate"
    WARM = "warm"
    SWITCHING = "switching"
    UPLOADS = "uploads"
    SWITCH = "switch"
    ALIAS = "alias"
    SWEEP = "sweep"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the present step is. ``done`` and ``total`` count chunks while filling; ``rate`` is units a second and
    ``seconds_left`` the rest of the step: None where it cannot be told."""

    run_id: str
    step: str
    message: str
    done: int | None = None
    total: int | None = None
    rate: float | None = None
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rebuild would do now. The first four are document ids; ``kept`` are documents whose file is rejected now:
    their earlier version stays in the index. ``seconds`` is estimated from ``rate`` (passages a second), which
    ``rate_from`` names; None where no rate is known. ``faster`` names a faster embedding provider where the estimate is
    long, with the seconds it would take."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    skipped: tuple[Rejected, ...] = ()
    warnings: tuple[str, ...] = ()
    documents: int = 0
    documents_before: int | None = None
    chunks: int = 0
    to_embed: int = 0
    from_cache: int = 0
    seconds: float | None = None
    rate: float | None = None
    rate_from: str = ""
    faster: str | None = None
    faster_seconds: float | None = None
    demands: tuple[str, ...] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """What changed on disk since the active generation was built, as document ids, and what ``demands`` a rebuild
    (another embedding profile, analysis or chunk settings). ``generation`` is None while there is no active one."""

    generation: int | None
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    demands: tuple[str, ...] = ()
    source: str = ""

    @property
    def current(self) -> bool:
        """Nothing to do: the index is what the disk holds, made by the present settings."""
        return self.generation is not None and not (self.added or self.changed or self.removed or self.demands)


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """What is active, what can be activated, what is under way. ``rejected`` and ``kept`` belong to the active one."""

    active: Generation | None
    previous: Generation | None = None
    held: tuple[Generation, ...] = ()
    running: RebuildRun | None = None
    documents: int = 0
    chunks: int = 0
    model: str = ""
    profile_id: str = ""
    built_at: str | None = None
    activated_at: str | None = None
    built_by: str = ""
    fingerprint: str = ""
    why: str = ""
    source: str = ""
    rejected: tuple[Rejected, ...] = ()
    kept: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    proof: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RebuildOutcome:
    """What came of a finished run. ``state`` is ACTIVE, or VERIFIED for a held generation. ``seconds`` by part:
    ``embed``, ``insert`` (both run beside each other), ``total``. ``notes`` are lines for the operator."""

    run_id: str
    kind: Kind
    state: str
    generation: int | None
    previous: int | None = None
    documents: int = 0
    chunks: int = 0
    embedded: int = 0
    from_cache: int = 0
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    profile: str = ""
    recall: float | None = None
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, object]:
        """What the run's record keeps: counts instead of lists."""
        counted = ("added", "changed", "removed", "kept", "rejected", "warnings")
        record: dict[str, object] = {name: len(getattr(self, name)) for name in counted}
        same = ("documents", "chunks", "embedded", "from_cache", "previous", "profile", "recall")
        record |= {name: getattr(self, name) for name in same}
        record |= {"seconds": self.seconds.get("total"), "notes": list(self.notes)}
        return record | {f"{part}_seconds": self.seconds[part] for part in ("embed", "insert") if part in self.seconds}
