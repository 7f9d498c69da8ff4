"""The span of a task: `invoke_agent`, around everything that a run of the task does.

A task inside another one (`Agent.as_tool`) has its span inside that of the call, and the outer span counts it, too.
A task that is resumed has a new trace, with the same `gen_ai.conversation.id`: the first may have ended days ago, and
its trace is closed. The span counts what this run has spent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from callgate.agent.models.model import Assistant
from callgate.agent.models.traced import shown_assistant, shown_text
from callgate.runtime.telemetry.tracing import AgentSpan, Tracing, tracing

from .event_log import EventLog

__all__ = ["traced_task"]


@contextmanager
def traced_task(log: EventLog) -> Iterator[None]:
    """The span of a run of a task, where its runtime reports to OpenTelemetry."""
    options, state = log.options, log.state
    if options.runtime.telemetry is None:
        yield
        return
    tracer = Tracing(options.runtime)
    tracer.task = state.task.id
    before = tracing.get()
    tracing.set(tracer)
    usage, cost, turns, calls = state.usage, state.cost, state.all_turns, state.tool_calls
    model = options.model
    try:
        with tracer.span(tracer.names.invoke_agent, log.name, model.provider, model.name, client=False) as span:
            span.set(
                {
                    tracer.names.agent: log.name,
                    tracer.names.mode: state.mode,
                    tracer.names.resumed: state.resumed or None,
                }
            )
            if tracer.content is not None:
                asked = {"role": "user", "parts": [shown_text(tracer.content, state.task.task)]}
                span.content(tracer.names.input_messages, [asked])
            try:
                yield
            finally:
                spent = None if cost is None or state.cost is None else state.cost - cost
                span.set(
                    {
                        tracer.names.input_tokens: state.usage.input_tokens - usage.input_tokens,
                        tracer.names.output_tokens: state.usage.output_tokens - usage.output_tokens,
                        tracer.names.cost: spent,
                        tracer.names.turns: state.all_turns - turns,
                        tracer.names.task_calls: state.tool_calls - calls,
                    }
                )
                _end(tracer, span, log)
    finally:
        tracing.set(before)


def _end(tracer: Tracing, span: AgentSpan, log: EventLog) -> None:
    end = log.state.finished
    if end is None:
        return
    span.set({tracer.names.outcome: end.outcome})
    if end.outcome not in ("answered", "interrupted"):
        span.failed(end.outcome)
    if tracer.content is not None and end.answer:
        answer = shown_assistant(tracer.content, Assistant(text=end.answer), "stop")
        span.content(tracer.names.output_messages, [answer])
