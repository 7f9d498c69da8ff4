"""Spans of what runs above a runtime: agents and their requests to models. Knows the conventions' rules for such spans,
and nothing of agents and models. Imports no OpenTelemetry: `spans` does.

1. A span is the current one while its block runs, and ends with the block, whatever happens.
2. Texts and names are cut, and have no lone surrogates: an exporter would lose a whole batch to one.
3. What a model or a client chose becomes an attribute of a span, never of a metric: its values are not bounded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import anyio

from .content import Content, label
from .names import SECONDS, TABLES, TOKENS

if TYPE_CHECKING:
    from callgate.runtime.runtime import Runtime

__all__ = ["AgentSpan", "Tracing", "newest", "tracing"]

MAX_CONTENT: Final = 32_000
"""Characters of an attribute with messages: the newest that fit."""


class AgentSpan:
    """A span that has not ended.

    Args:
        span: OpenTelemetry's.
    """

    def __init__(self, span: Any) -> None:
        self._span = span
        self.fault = ""

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes. None and empty texts are left out."""
        for name, value in attributes.items():
            if value is not None and value != "":
                self._span.set_attribute(name, label(value) if isinstance(value, str) else value)

    def content(self, name: str, value: Any) -> None:
        """Set an attribute to the text of a JSON value that is redacted and bounded already."""
        self._span.set_attribute(name, _written(value))

    def failed(self, kind: str) -> None:
        """Say that it failed; the first kind stays."""
        if not self.fault:
            from .spans import mark_failed

            self.fault = kind
            mark_failed(self._span, label(kind))


class Tracing:
    """Spans and metrics of what runs above one runtime.

    Args:
        runtime: has `telemetry`.
    """

    def __init__(self, runtime: Runtime) -> None:
        from .spans import instruments

        assert runtime.telemetry is not None
        self.telemetry = runtime.telemetry
        self.runtime = runtime
        self.task = ""
        """Id of the agent's task, which its spans share."""
        self.content = Content.of(runtime.telemetry, runtime.redaction, runtime.registry)
        """Of all spans of the task; None if they have none."""
        self.names = names = TABLES[runtime.telemetry.conventions]
        self._tracer, meter = instruments(runtime.telemetry)
        self._tokens = meter.create_histogram(
            names.token_usage, "{token}", "Tokens of requests to models.", explicit_bucket_boundaries_advisory=TOKENS
        )
        self._seconds = meter.create_histogram(
            names.chat_duration, "s", "Duration of requests to models, and of agents' tasks.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )  # fmt: skip

    @contextmanager
    def span(self, operation: str, subject: str, provider: str, model: str, *, client: bool) -> Iterator[AgentSpan]:
        """A span that is the current one in the block, and the operation's duration.

        Args:
            operation: ``chat``, ``invoke_agent``.
            subject: stands behind it in the span's name.
            provider: of the model.
            model: that is asked.
            client: whether something outside of this process is asked.
        """
        from .spans import current

        fixed = {
            self.names.operation: operation,
            self.names.provider: label(provider),
            self.names.request_model: label(model),
        }
        began = time.perf_counter()
        with current(self._tracer, f"{operation} {label(subject)}".rstrip(), fixed, client=client) as inner:
            opened = AgentSpan(inner)
            opened.set({self.names.conversation: self.task})
            try:
                yield opened
            except GeneratorExit:
                opened.failed("cancelled")
                raise
            except BaseException as error:
                opened.failed(_kind_of(error))
                raise
            finally:
                metered = {**fixed, self.names.error_type: opened.fault} if opened.fault else fixed
                self._seconds.record(time.perf_counter() - began, metered)

    def tokens(self, provider: str, model: str, *, input: int, output: int) -> None:
        """Count the tokens of a request."""
        fixed = {
            self.names.operation: self.names.chat,
            self.names.provider: label(provider),
            self.names.request_model: label(model),
        }
        self._tokens.record(input, {**fixed, self.names.token_type: "input"})
        self._tokens.record(output, {**fixed, self.names.token_type: "output"})


tracing: ContextVar[Tracing | None] = ContextVar("callgate_tracing", default=None)
"""Set by an agent around its task: the requests to models inside have spans."""


def newest(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """As much of messages, the newest first, as fits into `MAX_CONTENT`; the newest last. Takes no more than it needs.

    Args:
        messages: each with `parts`, a list of JSON values.
    """
    kept: list[dict[str, Any]] = []
    room = MAX_CONTENT
    for message in messages:
        parts = []
        for part in message["parts"]:
            room -= len(_written(part)) + 2
            if room < 0:
                break
            parts.append(part)
        if parts:
            kept.append({**message, "parts": parts})
        room -= 100  # its role and its end
        if room < 0:
            break
    return kept[::-1]


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def _kind_of(error: BaseException) -> str:
    try:
        cancelled = isinstance(error, anyio.get_cancelled_exc_class())
    except Exception:  # in no event loop
        cancelled = False
    return "cancelled" if cancelled else type(error).__name__
