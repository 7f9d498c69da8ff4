"""Spans of runs and calls. The one file that imports OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace

from callgate.runtime.gate.records import CallRecord
from callgate.runtime.gate.watching import CallWatch, RunStart, RunWatch
from callgate.version import __version__

from .options import Telemetry

if TYPE_CHECKING:
    from callgate.runtime.runtime import Runtime
    from callgate.tools import Tool

__all__ = ["Spans", "current", "instruments", "mark_failed"]


class Spans:
    """Follows the runs of a runtime with spans."""

    def __init__(self, telemetry: Telemetry, runtime: Runtime) -> None:
        self.telemetry = telemetry

    def run(self, start: RunStart) -> RunWatch:
        return RunSpan()


class RunSpan:
    """The span of a run."""

    def call(self, record: CallRecord) -> CallWatch:
        return CallSpan()

    def ended(self, result: Any, error: BaseException | None) -> None:
        """End the span."""


class CallSpan:
    """The span of a call."""

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """Note the answer."""

    def calling(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """Note the beginning."""

    def ended(self, tool: Tool | None, text: str | None) -> None:
        """End the span."""


# for what runs above a runtime: see `tracing`


def instruments(telemetry: Telemetry) -> tuple[trace.Tracer, metrics.Meter]:
    """The tracer and the meter that these options name."""
    tracer = trace.get_tracer("callgate", __version__, telemetry.tracer_provider)
    return tracer, metrics.get_meter("callgate", __version__, telemetry.meter_provider)


@contextmanager
def current(tracer: trace.Tracer, name: str, attributes: Mapping[str, Any], *, client: bool) -> Iterator[trace.Span]:
    """A span that is the current one in the block. The context before is set again, not detached: a coroutine may be
    closed in another context than the one where it began."""
    kind = trace.SpanKind.CLIENT if client else trace.SpanKind.INTERNAL
    span = tracer.start_span(name, kind=kind, attributes=attributes)
    before = otel_context.get_current()
    otel_context.attach(trace.set_span_in_context(span, before))
    try:
        yield span
    finally:
        otel_context.attach(before)
        span.end()


def mark_failed(span: trace.Span, kind: str) -> None:
    """Say that what the span stands for failed."""
    span.set_attribute("error.type", kind)
    span.set_status(trace.StatusCode.ERROR)
