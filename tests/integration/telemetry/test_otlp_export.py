"""Spans over the wire: a receiver that speaks OTLP/HTTP takes what a lookup sends."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from core.adapters.telemetry import TelemetrySink
from core.model import Origin
from core.settings import TelemetrySettings
from tests.unit.lookup_world import ListAudit, row, world


class Receiver(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[ExportTraceServiceRequest] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> list[Any]:
        return [s for r in self.requests for rs in r.resource_spans for ss in rs.scope_spans for s in ss.spans]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        known = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
        if known:
            self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def _lookup(endpoint: str, **settings: Any) -> ListAudit:
    written = ListAudit()
    sink = TelemetrySink(written, TelemetrySettings(endpoint=endpoint, **settings))
    found = world([row("redis/a", "redis pool exhausted", distance=0.2)], audit=sink)  # type: ignore[arg-type]
    outcome = found.ask("redis pool", origin=Origin.AGENT, session_id="s-1")
    assert outcome.receipt.state == "recorded"
    found.service.close()
    sink.close()
    return written


def _attributes(span: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def test_one_lookup_arrives_as_one_trace_under_its_root(receiver: Receiver) -> None:
    written = _lookup(receiver.address)
    spans = receiver.spans()
    root = next(s for s in spans if s.name == "rag.query")
    assert len({s.trace_id for s in spans}) == 1
    assert not root.parent_span_id
    assert {s.name for s in spans} >= {"rag.retrieval", "rag.retrieval.dense", "rag.retrieval.bm25", "rag.fusion"}
    assert _attributes(root)["rag.trace_id"] == written.records[0].result.trace_id
    assert _attributes(root)["gen_ai.conversation.id"] == "s-1"
    (resource,) = {
        a.value.string_value
        for r in receiver.requests
        for rs in r.resource_spans
        for a in rs.resource.attributes
        if a.key == "rag.semantic_conventions"
    }
    assert resource == "gen-ai/0.1.0"


def test_neither_question_nor_evidence_is_on_the_wire_by_default(receiver: Receiver) -> None:
    _lookup(receiver.address)
    wire = b"".join(r.SerializeToString() for r in receiver.requests)
    assert wire
    assert b"redis pool" not in wire
    _lookup(receiver.address, content=True)
    assert b"redis pool" in b"".join(r.SerializeToString() for r in receiver.requests)


def test_a_rate_of_nothing_sends_nothing_and_records_all_the_same(receiver: Receiver) -> None:
    written = _lookup(receiver.address, sample_rate=0.0)
    assert receiver.spans() == []
    assert len(written.records) == 1


@pytest.mark.filterwarnings("ignore")
def test_a_receiver_that_is_away_costs_no_record() -> None:
    assert len(_lookup("http://127.0.0.1:9").records) == 1
