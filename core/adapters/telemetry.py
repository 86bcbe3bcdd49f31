"""OpenTelemetry export, beside the record and apart from it: off without an endpoint, by a sample rate of its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from core import __version__
from core.audit.spans import CONVENTIONS, Span, sampled, spans_of
from core.errors import InvalidSettings, redact
from core.ports import AuditReceipt, AuditRecord, AuditSink

if TYPE_CHECKING:
    from core.settings import TelemetrySettings

log = logging.getLogger(__name__)
PATH: Final = "/v1/traces"
EXPORT_SECONDS: Final = 5
CLOSE_MS: Final = 3_000
EXTRA: Final = "pip install -r requirements-telemetry.txt"


class TelemetrySink:
    """An ``AuditSink`` around another: the record is written first, spans are queued after it and exported by a thread.
    A receiver that is away costs spans, never a lookup and never a record."""

    def __init__(self, inner: AuditSink, settings: TelemetrySettings) -> None:
        self.inner = inner
        self._settings = settings
        self._provider, self._tracer, self._trace = _open(settings.endpoint)

    def record(self, record: AuditRecord, *, timeout: float) -> AuditReceipt:
        receipt = self.inner.record(record, timeout=timeout)
        try:
            if sampled(record.result.trace_id, self._settings.sample_rate):
                self._export(spans_of(record.result, record.created_at, content=self._settings.content), None)
        except Exception as exc:  # noqa: BLE001 - telemetry never costs an answer
            log.warning("telemetry: %s", redact(exc))
        return receipt

    def close(self) -> None:
        """Sends what is queued, for at most a few seconds."""
        self._provider.force_flush(CLOSE_MS)
        self._provider.shutdown()

    def _export(self, span: Span, context: Any) -> None:
        made = self._tracer.start_span(
            span.name, context=context, start_time=span.start, attributes=dict(span.attributes)
        )
        for name, attributes in span.events:
            made.add_event(name, dict(attributes), timestamp=span.end)
        if span.error is not None:
            made.set_status(self._trace.StatusCode.ERROR, span.error)
        below = self._trace.set_span_in_context(made)
        for child in span.children:
            self._export(child, below)
        made.end(end_time=span.end)


def _open(endpoint: str) -> tuple[Any, Any, Any]:
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as exc:
        raise InvalidSettings(
            f"telemetry.endpoint: the exporter is not installed; {EXTRA}, or leave the setting empty"
        ) from exc
    url = endpoint if endpoint.rstrip("/").endswith(PATH) else endpoint.rstrip("/") + PATH
    resource = Resource.create(
        {
            "service.name": "knowledge-lookup",
            "service.version": __version__,
            "rag.semantic_conventions": CONVENTIONS,
        }
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=EXPORT_SECONDS)))
    return provider, provider.get_tracer("knowledge-lookup", __version__), trace
