"""An application for page tests: it answers with hand-made results and counts what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from core.documents import Restored
from core.errors import InvalidQuery, RagError
from core.lookup_request import LookupOutcome, LookupRequest
from core.model import Document, EvidenceStatus, LookupResult
from core.ports import AuditReceipt
from core.settings import Settings
from core.stores import ConsoleQuery, Cursor, DiagnosisEvent, Page, StoredTrace, TraceSummary
from tests.unit.pages import samples
from tests.unit.pages.fake_audit import FakeAuditLog, FakeOutbox
from tests.unit.pages.fake_rebuild import FakeRebuild

NOW = datetime(2026, 3, 1, 8, 15, 30, 123456, tzinfo=UTC)


@dataclass
class FakeLookup:
    answer: Callable[[], LookupResult] = samples.found
    error: RagError | None = None
    receipt: str = "recorded"
    warming: bool = False
    requests: list[LookupRequest] = field(default_factory=list)

    def lookup(self, request: LookupRequest) -> LookupOutcome:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        base = self.answer()
        trace_id = f"{base.trace_id}-{len(self.requests)}"
        what_if = request.what_if.changes() if request.what_if else {}
        trace = replace(base.retrieval_trace, trace_id=trace_id, what_if=what_if)
        result = replace(base, trace_id=trace_id, query=request.query, retrieval_trace=trace)
        error = None
        if not request.query.strip():
            error = InvalidQuery("the query is empty: type a question")
            result = replace(
                result,
                found=False,
                evidence=(),
                tool_result=None,
                evidence_status=EvidenceStatus.ERROR,
                error_class="InvalidQuery",
                message=str(error),
                retrieval_trace=replace(trace, attempts=(), selected_attempt=None, stages=()),
            )
        return LookupOutcome(result, AuditReceipt(f"i-{trace_id}", self.receipt, 1.0), error)


@dataclass
class FakeTraces:
    stored: dict[str, LookupResult] = field(default_factory=dict)
    content: str = "full"
    error: RagError | None = None
    reads: int = 0
    rows: list[TraceSummary] = field(default_factory=list)
    cursor: Cursor | None = None
    stream: list[DiagnosisEvent] = field(default_factory=list)
    asked: dict[str, str | None] = field(default_factory=dict)

    def list(self, *, session_id: str | None, run_id: str | None, limit: int) -> Page[TraceSummary]:
        if self.error is not None:
            raise self.error
        self.asked = {"session_id": session_id, "run_id": run_id}
        return Page(tuple(self.rows[:limit]), self.cursor)

    def events(self, *, session_id: str | None, run_id: str | None) -> Sequence[DiagnosisEvent]:
        del session_id, run_id
        return self.stream

    def load(self, trace_id: str) -> StoredTrace | None:
        self.reads += 1
        if self.error is not None:
            raise self.error
        result = self.stored.get(trace_id)
        return StoredTrace(result, self.content, NOW, "ab" * 32, 23) if result else None


@dataclass
class FakeHistory:
    questions: list[ConsoleQuery] = field(default_factory=list)

    def get(self, trace_id: str) -> ConsoleQuery | None:
        return next((q for q in self.questions if q.trace_id == trace_id), None)

    def recent(self, *, limit: int = 50) -> Page[ConsoleQuery]:
        return Page(tuple(self.questions[:limit]), None)


def document(doc_id: str, title: str, kb_scope: str = "default") -> Document:
    return Document(doc_id, f"{doc_id}.md", title, doc_id.split("/")[0], kb_scope, 1, "00")


@dataclass
class FakeApp:
    settings: Settings = field(default_factory=Settings)
    lookup: FakeLookup = field(default_factory=FakeLookup)
    traces: FakeTraces = field(default_factory=FakeTraces)
    texts: Mapping[str, str | None] = field(default_factory=dict)
    history: FakeHistory = field(default_factory=FakeHistory)
    rebuild: FakeRebuild = field(default_factory=FakeRebuild)
    audit_log: FakeAuditLog = field(default_factory=FakeAuditLog)
    audit: FakeOutbox = field(default_factory=FakeOutbox)
    ledger: str = "ledger"
    replayer: Any = None

    @property
    def documents(self) -> Any:
        listed = [
            document("redis/connection-pool-exhausted", "Redis 连接池耗尽排查"),
            document("other/unrelated", "<b>other</b>", "rag-eval"),
        ]
        chunk = SimpleNamespace(
            evidence_key="redis/connection-pool-exhausted#chunk-0",
            chunk_index=0,
            breadcrumb="排查",
            revision=1,
            content="先看应用侧。",
            tokens="先 看 应用 侧",
        )
        return SimpleNamespace(all=lambda: listed, chunks=lambda doc_id: [chunk] if doc_id.startswith("redis") else [])

    def restored(self, stored: StoredTrace) -> Restored:
        return Restored(stored.result, dict(self.texts))
