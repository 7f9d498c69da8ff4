"""Spans and metrics of runs and calls. The one file that imports OpenTelemetry.

1. A call's span is a child of its run's span, a fallback's of the call that failed. The parent is given, not found:
   calls begin in tasks and callbacks that know nothing of the run.
2. A span is the current span while its work runs, so what tools do stands below it. The context before it is set again
   afterwards, and only where the span is still current: a context is never detached in another one.
3. The gate tells the end of every run and call, so no span stays open.
4. A hostile program names tools that do not exist: their names stand in spans, short, and in no metric.
5. A provider that fails costs spans, never a call.
"""

from __future__ import annotations

import builtins
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final
from weakref import WeakSet, WeakValueDictionary

from opentelemetry.context import Context, attach, get_current
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation, get_meter_provider
from opentelemetry.trace import (
    INVALID_SPAN,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    format_span_id,
    format_trace_id,
    get_current_span,
    get_tracer_provider,
    set_span_in_context,
)

from callgate.runtime.gate.records import CallRecord
from callgate.runtime.gate.watching import CallWatch, Origin, RunStart, RunWatch, origin, place
from callgate.runtime.redaction import Redaction
from callgate.runtime.result import CodeResult
from callgate.sandbox.pool import WarmPool
from callgate.tools import Registry, Tool
from callgate.version import __version__
from callgate_guest.wire import ERRORS

from .content import Content, label
from .names import SECONDS, TABLES, Names
from .options import Telemetry
from .tracing import tracing

__all__ = ["Meters", "OpenSpan", "Spans", "current", "instruments", "mark_failed"]

logger = logging.getLogger("callgate")

Attributes = dict[str, Any]
_META_TOOL: Final = {"code": "execute_code", "plan": "execute_tool_plan"}
_RUN_ERRORS: Final = frozenset(
    {"CheckFailed", "GuestDied", "LimitReached", "NotAGraph", "PlanDenied", "PlanRefused", "ProtocolError",
     "SandboxCrashed", "StepFailed", "ToolCancelled", "ToolError", "ToolNotAllowed", "ToolTimedOut", *ERRORS.values()}
)  # fmt: skip
_LOGGERS: Final = ("callgate", "callgate.mcp", "callgate.mcp.servers")
"""All of ours: a logger's filter does not hold for those below it."""
_CANCELLATIONS: Final = frozenset({"CancelledError", "Cancelled", "GeneratorExit"})


class OpenSpan:
    """A span that is current until its end.

    Args:
        tracer: makes the span.
        name: of the span.
        attributes: known at its start, for samplers.
        above: context of its parent; the current one by default.
        kind: of the span.
    """

    __slots__ = ("_before", "context", "span")

    def __init__(
        self,
        tracer: Tracer,
        name: str,
        attributes: Attributes,
        above: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        self._before = get_current()
        above = self._before if above is None else above
        try:
            self.span: Span = tracer.start_span(name, above, kind, attributes, record_exception=False)
        except Exception:
            logger.exception("a span could not be made")
            self.span = INVALID_SPAN
        self.context = set_span_in_context(self.span, above)
        attach(self.context)

    def end(self, attributes: Attributes, error_type: str | None = None, message: str | None = None) -> None:
        """End the span, as failed if there is an `error_type`, and set the context before it again."""
        try:
            span = self.span
            if span.is_recording():
                span.set_attributes(attributes)
                if error_type is not None:
                    span.set_status(Status(StatusCode.ERROR, message))
            span.end()
        except Exception:
            logger.exception("a span could not be ended")
        finally:
            if get_current() is self.context:
                attach(self._before)


class Spans:
    """Follows the runs of a runtime.

    Attributes:
        essential: a runtime works on without its spans.
        tracer: makes spans.
        names: the names of spans, attributes and metrics.
        meters: the metrics.
    """

    essential: Final = False

    def __init__(self, telemetry: Telemetry, redaction: Redaction) -> None:
        self.names = TABLES[telemetry.conventions]
        self._telemetry = telemetry
        self._redaction = redaction
        provider = telemetry.tracer_provider or get_tracer_provider()
        self.tracer = provider.get_tracer("callgate", __version__, schema_url=self.names.schema_url)
        self.meters = Meters.of(telemetry.meter_provider or get_meter_provider(), self.names)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_with_trace_ids)  # the same one, which is added once

    def run(self, start: RunStart) -> RunWatch:
        """Begin the span of a run."""
        return RunSpan(self, start)

    def content(self, registry: Registry) -> Content | None:
        """What the spans of a run that begins have of content; None for nothing."""
        task = tracing.get()
        if task is not None and task.telemetry is self._telemetry:
            return task.content  # shared: what a program prints comes to the model
        return Content.of(self._telemetry, self._redaction, registry)


class RunSpan:
    """The span of a run. A single call has its own span alone."""

    __slots__ = ("_began", "_open", "calls", "content", "spans", "start")

    def __init__(self, spans: Spans, start: RunStart) -> None:
        self.spans = spans
        self.start = start
        self.content = spans.content(start.offer.registry)
        self.calls: dict[int, CallSpan] = {}
        """Calls under way, by the id of the object of their span."""
        self._open: OpenSpan | None = None
        self._began = time.perf_counter()
        if start.kind == "direct":
            return
        names, tool = spans.names, _META_TOOL[start.kind]
        attributes: Attributes = {
            names.operation: names.execute_tool,
            names.tool: tool,
            names.tool_type: "function",
            names.run_id: start.id,
            names.caller: start.kind,
        }
        attributes |= self._who(start.origin)
        self._open = OpenSpan(spans.tracer, f"{names.execute_tool} {tool}", attributes)

    def _who(self, asked: Origin | None) -> Attributes:
        """Who asked for the run, as far as it is known."""
        if asked is None:
            return {}
        names = self.spans.names
        said = {names.call_id: asked.call, names.task: asked.task, names.client: asked.client}
        who: Attributes = {key: label(text) for key, text in said.items() if text}
        if asked.turn:
            who[names.turn] = asked.turn
        return who

    @property
    def context(self) -> Context | None:
        """Where the spans of its calls stand; None for the current one."""
        return None if self._open is None else self._open.context

    def call(self, record: CallRecord) -> CallWatch:
        """Begin the span of a call."""
        return CallSpan(self, record)

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """Say how the plan was answered."""
        if self._open is not None:
            names, span = self.spans.names, self._open.span
            span.set_attribute(names.approval, "denied" if not granted else "changed" if changed else "granted")
            if by:
                span.set_attribute(names.approved_by, label(by))

    def ended(self, result: Any, error: BaseException | None) -> None:
        """End the span."""
        if self._open is None:
            return
        names, content = self.spans.names, self.content
        attributes: Attributes = {}
        failed = message = measured_as = None
        if error is not None:
            kind, message = type(error).__name__, str(error)
            failed = measured_as = "cancelled" if kind in _CANCELLATIONS else label(kind)
        elif result is None:
            failed = measured_as = "cancelled"
        else:
            attributes = _of_result(names, result)
            if result.error is not None:
                failed, message = label(result.error.kind), result.error.message
                measured_as = failed if _is_ours(failed) else "ProgramError"
        if self.start.source is None:  # it began before the model's call was whole
            attributes |= self._who(origin.get())
        if failed is not None:
            attributes[names.error_type] = failed
        said = None
        if content is not None and self._open.span.is_recording():
            if self.start.kind == "code":
                source = self.start.source
                attributes[names.call_arguments] = content.source(
                    getattr(result, "source", "") if source is None else source
                )
            elif plan := self.start.source or (result and result.plan):  # a streamed plan is known when it has come
                attributes[names.call_arguments] = content.plan(plan)
            if result is not None:
                attributes[names.call_result] = content.run(result)
            said = None if message is None else content.text(message)
        measured: Attributes = {names.caller: self.start.kind}
        if result is not None:
            measured[names.path] = result.path
        if measured_as is not None:
            measured[names.error_type] = measured_as
        self.spans.meters.run_ended(time.perf_counter() - self._began, measured, self._open.context)
        self._open.end(attributes, failed, said)


class CallSpan:
    """The span of a call."""

    __slots__ = ("_key", "_open", "_record", "_run")

    def __init__(self, run: RunSpan, record: CallRecord) -> None:
        names, start = run.spans.names, run.start
        self._open: OpenSpan
        self._run, self._record = run, record
        name = label(record.tool)
        attributes: Attributes = {
            names.operation: names.execute_tool,
            names.tool: name,
            names.tool_type: "function",
            names.run_id: start.id,
            names.caller: record.caller,
            names.call_number: record.id,
        }
        where, origin = place.get(), start.origin
        if where is not None:
            if where.step is not None:
                attributes[names.step] = label(where.step)
            if where.item is not None:
                attributes[names.item] = where.item
            if where.speculative:
                attributes[names.speculative] = True
        if start.kind == "direct" and origin is not None and origin.call:
            attributes[names.call_id] = label(origin.call)
        failed = run.calls.get(id(get_current_span())) if run.calls else None
        is_fallback = failed is not None and failed._record.fallback_call == record.id
        above = failed._open.context if failed is not None and is_fallback else run.context
        self._open = OpenSpan(run.spans.tracer, f"{names.execute_tool} {name}", attributes, above)
        self._key = id(self._open.span)
        run.calls[self._key] = self

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """No-op: the record has the answer."""

    def calling(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """No-op: the span is open."""

    def ended(self, tool: Tool | None, text: str | None) -> None:
        """End the span."""
        record, spans, opened = self._record, self._run.spans, self._open
        names, content = spans.names, self._run.content
        self._run.calls.pop(self._key, None)
        failed = None if record.status == "succeeded" else record.status
        measured: Attributes = {names.caller: record.caller, names.cached: record.cached}
        if tool is not None:
            measured[names.tool] = tool.name
        attributes: Attributes = {names.attempts: record.attempts, names.cached: record.cached}
        if failed is not None:
            measured[names.error_type] = attributes[names.error_type] = failed
        message = None
        if opened.span.is_recording():
            if tool is None:
                opened.span.update_name(names.execute_tool)
            if record.queued_seconds:
                attributes[names.queued] = record.queued_seconds
            if record.approval is not None:
                attributes[names.approval] = record.approval
                if record.approved_by:
                    attributes[names.approved_by] = label(record.approved_by)
            if record.reused:
                attributes[names.reused] = True
            if record.fallback is not None:
                attributes[names.fallback] = label(record.fallback)
            if content is not None:
                given = record.arguments if record.changed_arguments is None else record.changed_arguments
                attributes[names.call_arguments] = content.arguments(tool, given)
                if text is not None:
                    attributes[names.call_result] = content.result(tool, text)
                if record.error is not None:
                    message = content.text(record.error)
        if not record.reused:
            spans.meters.call_ended(record, measured, opened.context)
        opened.end(attributes, failed, message)


class Meters:
    """The metrics; one of them for each provider, since an instrument is made once."""

    _made: ClassVar[WeakValueDictionary[tuple[int, str], Meters]] = WeakValueDictionary()

    def __init__(self, provider: MeterProvider, names: Names) -> None:
        meter = provider.get_meter("callgate", __version__, schema_url=names.schema_url)
        self._names = names
        self._provider = provider  # so that no other one gets its id
        self._pools: WeakSet[WarmPool] = WeakSet()
        self._calls = meter.create_histogram(
            names.call_duration, "s", "Duration of tool calls", explicit_bucket_boundaries_advisory=SECONDS
        )
        self._queued = meter.create_histogram(
            names.call_queued, "s", "Time that tool calls waited for a place",
            explicit_bucket_boundaries_advisory=SECONDS,
        )  # fmt: skip
        self._runs = meter.create_histogram(
            names.run_duration, "s", "Duration of programs and plans", explicit_bucket_boundaries_advisory=SECONDS
        )
        meter.create_observable_gauge(names.guests, [self._observed_guests], "{guest}", "Guests in use, and idle")
        self._misses = meter.create_counter(names.pool_misses, "{guest}", "Guests opened while a run waited for them")
        self._missed(0)  # the series exists from the beginning

    @classmethod
    def of(cls, provider: MeterProvider, names: Names) -> Meters:
        """The metrics of a provider."""
        key = id(provider), names.schema_url  # providers need not be hashable
        made = cls._made.get(key)
        if made is None:
            made = cls._made[key] = cls(provider, names)
        return made

    def watch(self, pool: WarmPool) -> None:
        """Count the guests of a pool, as long as it exists."""
        self._pools.add(pool)
        pool.on_miss = self._missed

    def run_ended(self, seconds: float, attributes: Attributes, context: Context | None) -> None:
        """Count a run."""
        _quietly_record(self._runs, seconds, attributes, context)

    def call_ended(self, record: CallRecord, attributes: Attributes, context: Context) -> None:
        """Count a call, and the time that it waited."""
        _quietly_record(self._calls, record.duration_seconds, attributes, context)
        if record.queued_seconds:
            _quietly_record(self._queued, record.queued_seconds, {self._names.caller: record.caller}, context)

    def _observed_guests(self, _: CallbackOptions) -> Iterable[Observation]:
        pools = list(self._pools)
        yield Observation(sum(pool.in_use for pool in pools), {self._names.state: "in_use"})
        yield Observation(sum(pool.idle for pool in pools), {self._names.state: "idle"})

    def _missed(self, guests: int = 1) -> None:
        try:
            self._misses.add(guests)
        except Exception:
            logger.exception("a metric could not be recorded")


def _with_trace_ids(record: logging.LogRecord) -> bool:
    """Give a log record the ids of the current span, by the names of OpenTelemetry's logging instrumentation."""
    if not hasattr(record, "otelTraceID"):
        context = get_current_span().get_span_context()
        record.otelTraceID = format_trace_id(context.trace_id) if context.is_valid else "0"
        record.otelSpanID = format_span_id(context.span_id) if context.is_valid else "0"
    return True


def _quietly_record(histogram: Histogram, value: float, attributes: Attributes, context: Context | None) -> None:
    try:
        histogram.record(value, attributes, context)
    except Exception:
        logger.exception("a metric could not be recorded")


def _is_ours(kind: str) -> bool:
    """Whether a kind of error is one of a known set: a program may name its own classes as it likes."""
    known = getattr(builtins, kind, None)
    return kind in _RUN_ERRORS or (isinstance(known, type) and issubclass(known, BaseException))


def _of_result(names: Names, result: Any) -> Attributes:
    """The attributes of a `CodeResult` or a `PlanResult`."""
    attributes: Attributes = {
        names.path: result.path,
        names.tool_calls: result.usage.tool_calls,
        names.artifacts: len(result.artifacts),
    }
    if result.error is not None and result.error.limit:
        attributes[names.limit] = label(result.error.limit)
    if result.usage.cpu_seconds is not None:
        attributes[names.cpu_seconds] = result.usage.cpu_seconds
    if result.usage.peak_memory_bytes is not None:
        attributes[names.peak_memory] = result.usage.peak_memory_bytes
    if isinstance(result, CodeResult):
        attributes[names.sandbox] = label(result.sandbox)
        attributes[names.notes] = len(result.notes)
        attributes[names.unused_calls] = len(result.speculative)
    else:
        attributes[names.steps] = len(result.steps)
    return attributes


# for what runs above a runtime: see `tracing`


def instruments(telemetry: Telemetry) -> tuple[Tracer, Meter]:
    """The tracer and the meter that these options name."""
    schema = TABLES[telemetry.conventions].schema_url
    tracers, meters = (
        telemetry.tracer_provider or get_tracer_provider(), telemetry.meter_provider or get_meter_provider()
    )  # fmt: skip
    return (
        tracers.get_tracer("callgate", __version__, schema_url=schema),
        meters.get_meter("callgate", __version__, schema_url=schema),
    )


@contextmanager
def current(tracer: Tracer, name: str, attributes: Attributes, *, client: bool) -> Iterator[Span]:
    """A span that is the current one in the block."""
    opened = OpenSpan(tracer, name, attributes, kind=SpanKind.CLIENT if client else SpanKind.INTERNAL)
    try:
        yield opened.span
    finally:
        opened.end({})


def mark_failed(span: Span, kind: str) -> None:
    """Say that what the span stands for failed."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
