"""A rebuild service for page tests: one lease, hand-made values, and a note of everything it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from core.errors import Busy, NotConfirmed, RagError
from core.knowledge.rebuild.values import Drift, IndexStatus, Kind, Plan
from core.knowledge.source import Rejected
from core.model import EmbeddingProfile, Generation, GenerationState
from core.stores import RebuildRun, RunLogLine

START = datetime(2026, 3, 1, 8, 15, 30, tzinfo=UTC)
PROFILE = EmbeddingProfile("e5/test", "e5-small", 8)


def generation(number: int, **values: Any) -> Generation:
    plain: dict[str, Any] = {
        "documents": 12,
        "chunks": 80,
        "index_params": {"index_type": "FLAT"},
        "built_at": "2026-03-01T08:15:30+00:00",
        "built_by": "ann",
        "fingerprint": "ab" * 32,
    }
    return Generation(
        number, "biz", f"biz_g{number}", GenerationState.ACTIVE, PROFILE, "1", "1/800/1200", **{**plain, **values}
    )


def run(run_id: str = "run-1", **values: Any) -> RebuildRun:
    plain: dict[str, Any] = {
        "kind": "rebuild",
        "holder": "host-a pid 7",
        "who": "ann",
        "why": "new runbooks",
        "state": "BUILDING",
        "started_at": START,
        "heartbeat_at": START,
        "expires_at": START + timedelta(seconds=30),
        "held": True,
        "stage": "fill",
        "done": 30,
        "total": 120,
        "message": "embedding",
        "log": (RunLogLine(START, "plan", "12 documents"), RunLogLine(START, "fill", "80 chunks")),
    }
    return RebuildRun(run_id, "biz", **{**plain, **values})


def active(number: int = 3, **values: Any) -> IndexStatus:
    made = generation(number)
    plain: dict[str, Any] = {
        "documents": made.documents,
        "chunks": made.chunks,
        "model": "e5-small",
        "profile_id": "e5/test",
        "built_at": made.built_at,
        "built_by": made.built_by,
        "fingerprint": made.fingerprint,
    }
    return IndexStatus(made, **{**plain, **values})


@dataclass
class FakeRebuild:
    now: RebuildRun | None = None
    state: IndexStatus = field(default_factory=lambda: IndexStatus(None))
    on_disk: Drift = field(default_factory=lambda: Drift(None))
    plan: Plan = field(default_factory=Plan)
    past: list[RebuildRun] = field(default_factory=list)
    error: RagError | None = None
    started: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    cancelled: list[tuple[str, str]] = field(default_factory=list)
    plans: int = 0

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def running(self) -> RebuildRun | None:
        self._check()
        return self.now

    def status(self) -> IndexStatus:
        self._check()
        return self.state

    def drift(self) -> Drift:
        self._check()
        return self.on_disk

    def dry_run(self) -> Plan:
        self.plans += 1
        self._check()
        return self.plan

    def history(self, limit: int = 50) -> tuple[RebuildRun, ...]:
        self._check()
        return tuple(self.past[:limit])

    def run(self, run_id: str) -> RebuildRun | None:
        self._check()
        return next((one for one in ([self.now] if self.now else []) + self.past if one.run_id == run_id), None)

    def start(self, kind: Kind, confirm: str = "", **told: Any) -> str:
        word = {Kind.REBUILD: "REBUILD", Kind.ROLLBACK: "ROLLBACK", Kind.SWITCH: "SWITCH"}.get(kind, "")
        if confirm != word:
            raise NotConfirmed(f"not confirmed: type {word} in full")
        return self._begin(kind.value, told)

    def _begin(self, kind: str, told: Mapping[str, Any]) -> str:
        self._check()
        if self.now is not None:
            raise Busy(f"{self.now.kind} {self.now.run_id} by {self.now.who} ({self.now.holder}) is under way")
        self.started.append((kind, told))
        self.now = run(f"run-{len(self.started)}", kind=kind, who=told["who"])
        return self.now.run_id

    def cancel(self, run_id: str, who: str) -> bool:
        self._check()
        self.cancelled.append((run_id, who))
        if self.now is not None:
            self.now = replace(self.now, cancel_requested=True, cancelled_by=who)
        return True


REJECTED = (Rejected("bad/<b>yaml.md", "front matter: line 2: $x$ is no mapping", 2), Rejected("empty.md", "empty"))
