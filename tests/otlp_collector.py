"""An OTLP receiver in this process: it speaks protobuf over HTTP, as any collector does, and keeps what it is sent."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

__all__ = ["Collector", "Providers", "ReceivedSpan", "collecting"]


@dataclass
class ReceivedSpan:
    """One span, as it came over the wire."""

    name: str
    id: str
    parent: str
    """Id of the parent span; empty for a root."""
    trace: str
    kind: int
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    links: list[str]
    """Ids of the spans that it links to."""
    status: str
    """``UNSET``, ``OK`` or ``ERROR``."""
    message: str
    start: int
    """Nanoseconds of the Unix epoch."""
    end: int
    scope: str
    """Name of the library that made the span."""


@dataclass
class Collector:
    """What the receiver has been sent."""

    endpoint: str
    """To be the value of ``OTEL_EXPORTER_OTLP_ENDPOINT``."""
    spans: list[ReceivedSpan] = field(default_factory=list)
    points: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)
    """Metrics: the name, the attributes, and the protobuf point (`as_int`, `as_double`, `sum`, `count`)."""
    schemas: set[str] = field(default_factory=set)
    """Addresses of the conventions that spans and metrics say they follow."""
    faults: list[str] = field(default_factory=list)
    """Requests that could not be read."""

    def one(self, name: str) -> ReceivedSpan:
        """The only span of that name."""
        (span,) = self.named(name)
        return span

    def named(self, name: str) -> list[ReceivedSpan]:
        """The spans of that name, by their start."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start)

    def parent_of(self, span: ReceivedSpan) -> ReceivedSpan | None:
        """The span's parent; None for a root. Fails if the parent never arrived."""
        if not span.parent:
            return None
        (parent,) = (each for each in self.spans if each.id == span.parent)
        assert parent.trace == span.trace
        return parent

    def tree(self) -> list[str]:
        """Every span as ``"root > child > grandchild"``, by its start."""
        return [self._path(span) for span in sorted(self.spans, key=lambda span: span.start)]

    def _path(self, span: ReceivedSpan) -> str:
        parent = self.parent_of(span)
        return span.name if parent is None else f"{self._path(parent)} > {span.name}"

    def metric(self, name: str, **attributes: Any) -> list[Any]:
        """The last values of a metric, one for each set of attributes that includes `attributes`: the value of a
        counter or gauge, the count of a histogram."""
        return [value_of(point) for point in self._last(name, attributes)]

    def total(self, name: str, **attributes: Any) -> float:
        """The sum of everything that was recorded in a histogram with these attributes."""
        return sum(float(point.sum) for point in self._last(name, attributes))

    def _last(self, name: str, attributes: dict[str, Any]) -> list[Any]:
        last: dict[tuple[Any, ...], Any] = {}
        for each, own, point in self.points:
            wanted = {key.replace("__", "."): value for key, value in attributes.items()}
            if each == name and wanted.items() <= own.items():
                last[tuple(sorted(own.items()))] = point
        return list(last.values())

    def receive(self, path: str, body: bytes) -> None:
        """Keep one request."""
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            self.schemas |= {group.schema_url for each in traces.resource_spans for group in each.scope_spans}
            self.spans += [
                _received(span, group.scope.name)
                for each in traces.resource_spans
                for group in each.scope_spans
                for span in group.spans
            ]
        elif path == "/v1/metrics":
            metrics = ExportMetricsServiceRequest.FromString(body)
            self.schemas |= {group.schema_url for each in metrics.resource_metrics for group in each.scope_metrics}
            self.points += [
                (metric.name, _attributes(point.attributes), point)
                for each in metrics.resource_metrics
                for group in each.scope_metrics
                for metric in group.metrics
                for point in getattr(metric, metric.WhichOneof("data") or "gauge").data_points
            ]


class Begun(SpanProcessor):
    """Keeps the id of every span that has begun."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        """Names by id."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.ids[f"{span.get_span_context().span_id:016x}"] = span.name


@dataclass(frozen=True)
class Providers:
    """Providers of the OpenTelemetry SDK that export to a collector."""

    collector: Collector
    tracer: TracerProvider
    meter: MeterProvider
    begun: Begun

    def flush(self) -> Collector:
        """Export everything that has ended, and return the collector."""
        assert self.tracer.force_flush()
        assert self.meter.force_flush()
        assert not self.collector.faults
        return self.collector

    def all_ended(self) -> Collector:
        """The same; fails if a span has begun and has not arrived with its end, once, below a parent that has."""
        collector = self.flush()
        arrived = [span.id for span in collector.spans]
        assert len(arrived) == len(set(arrived))
        assert not {id: name for id, name in self.begun.ids.items() if id not in arrived}
        collector.tree()
        assert all(span.end >= span.start for span in collector.spans)
        return collector


@contextmanager
def collecting() -> Iterator[Providers]:
    """A receiver on a free port of this machine, and providers that export to it."""
    collector = Collector("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                unpacked = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
                collector.receive(self.path, unpacked)
            except Exception as error:
                collector.faults.append(repr(error))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        collector.endpoint = f"http://127.0.0.1:{server.server_port}"
        tracer = TracerProvider(shutdown_on_exit=False)
        begun = Begun()
        tracer.add_span_processor(begun)
        tracer.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.endpoint}/v1/traces")))
        exporter = OTLPMetricExporter(f"{collector.endpoint}/v1/metrics")
        meter = MeterProvider([PeriodicExportingMetricReader(exporter, 3_600_000)], shutdown_on_exit=False)
        try:
            yield Providers(collector, tracer, meter, begun)
        finally:
            tracer.shutdown()
            meter.shutdown()
            server.shutdown()
            thread.join()


def value_of(point: Any) -> Any:
    """The value of a metric's protobuf point."""
    if hasattr(point, "count"):  # of a histogram of either kind
        return point.count
    return getattr(point, point.WhichOneof("value"))


def _received(span: Any, scope: str) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name, id=span.span_id.hex(), parent=span.parent_span_id.hex(), trace=span.trace_id.hex(),
        kind=span.kind, attributes=_attributes(span.attributes),
        events=[(event.name, _attributes(event.attributes)) for event in span.events],
        links=[link.span_id.hex() for link in span.links],
        status=("UNSET", "OK", "ERROR")[span.status.code], message=span.status.message,
        start=span.start_time_unix_nano, end=span.end_time_unix_nano, scope=scope,
    )  # fmt: skip


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    which = value.WhichOneof("value")
    if which == "array_value":
        return [_value(each) for each in value.array_value.values]
    return None if which is None else getattr(value, which)
