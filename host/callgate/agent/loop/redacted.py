"""Redacted copies of an agent's events: for its transcript, and for people who watch. Decides nothing about the task.

1. The order of things is the order of the events: a program stands in the model's reply, before its calls are made. A
   secret in it is found by its name (``password="..."``), or if the task has seen it before.
2. A provider's own form of a turn is left out where anything in it would have to be redacted: it may be signed.
3. Arguments that are not whole have `REDACTED` in them, whatever took something out: such a call is never made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from callgate.agent.events import (
    AgentEvent,
    Answered,
    CallBegan,
    CallEnded,
    CallProgress,
    Faulted,
    Finished,
    InnerEvent,
    MessageAdded,
    ModelReplied,
    Planned,
    PlannedRun,
    Resumed,
    Routed,
    TaskBegan,
    TextArrived,
)  # fmt: skip
from callgate.agent.models.model import Assistant, ToolCall, ToolReplies
from callgate.runtime.redaction import REDACTED, Redactor
from callgate.runtime.run_redaction import RunRedaction

if TYPE_CHECKING:
    from callgate import Runtime

__all__ = ["RedactedEvents", "has_redacted"]


class RedactedEvents:
    """Redacts the events of one run of a task, which come in order.

    Args:
        runtime: the agent's; or the redaction of a page.
    """

    def __init__(self, runtime: Runtime | RunRedaction) -> None:
        self._run = runtime if isinstance(runtime, RunRedaction) else runtime.redaction.run(runtime.registry)

    def learn_from(self, other: RedactedEvents) -> None:
        """Learn the secrets of a task inside this one, whose answer may have them; or of an earlier run of this one."""
        self._run.learn_from(other._run)

    def redactor(self, runtime: Runtime) -> Redactor:
        """For the page of a result: it knows the secrets that were learned here."""
        return Redactor(runtime.redaction, runtime.registry, self._run)

    def of(self, event: AgentEvent) -> AgentEvent:
        """A redacted copy of an event."""
        run = self._run
        match event:
            case TaskBegan():
                plan = None if event.strategic_plan is None else run.value(event.strategic_plan)
                return replace(event, task=run.text(event.task), system=run.text(event.system), strategic_plan=plan)
            case ModelReplied():
                return replace(event, message=self._message(event.message), refusal=run.text(event.refusal))
            case CallBegan():
                return replace(event, arguments=self._arguments(event.name, event.arguments))
            case CallProgress():
                return replace(event, event=run.event(event.event))
            case CallEnded():
                text, answer = self._result(event.name, event.text), self._json(event.answer)
                return replace(event, run=self._ran(event.run), text=text, answer=answer, again=run.text(event.again))
            case Answered():
                return replace(event, json=self._json(event.json))
            case MessageAdded():
                return replace(event, text=run.text(event.text), replies=self._replies(event.replies))
            case Planned():
                notes = tuple(map(run.text, event.notes))
                return replace(event, plan=run.value(event.plan), reasoning=run.text(event.reasoning), notes=notes)
            case PlannedRun():
                return replace(event, results=tuple(run.value(event.results)), sources=tuple(run.value(event.sources)))
            case Faulted():
                return replace(event, detail=run.text(event.detail, is_cut=True))
            case Finished():
                return replace(event, answer=run.text(event.answer), reason=run.text(event.reason))
            case Routed() | Resumed():
                return replace(event, reason=run.text(event.reason))
            case TextArrived():
                return replace(event, text=run.text(event.text))
            case InnerEvent():
                return replace(event, event=self.of(event.event))
            case _:
                return event

    def _json(self, text: str) -> str:
        if not text:
            return ""
        value = json.loads(text)
        shown = self._run.value(value)
        return text if shown == value else json.dumps(shown, ensure_ascii=False, separators=(",", ":"))

    def words(self, text: str) -> str:
        """A redacted text about the task."""
        return self._run.text(text)

    def _message(self, message: Assistant) -> Assistant:
        calls = tuple(map(self._call, message.calls))
        shown = replace(message, text=self._run.text(message.text), calls=calls)
        if message.native is None:
            return shown
        kept = shown == message and self._run.value(message.native) == message.native
        return shown if kept else replace(shown, native=None, provider="")

    def _call(self, call: ToolCall) -> ToolCall:
        arguments = self._arguments(call.name, call.arguments)
        if arguments != call.arguments and not has_redacted(
            arguments
        ):  # the operator's function writes words of its own
            arguments = {**arguments, REDACTED: REDACTED}
        return replace(
            call,
            arguments=arguments,
            fault=self._run.text(call.fault),
            written=self._run.text(call.written),
        )

    def _arguments(self, name: str, arguments: Any) -> Any:
        if name == "execute_tool_plan" and isinstance(arguments.get("plan"), str):
            rest = self._run.value({key: each for key, each in arguments.items() if key != "plan"})
            return {**rest, "plan": self._run.plan(arguments["plan"])}
        if name == "execute_code" and isinstance(arguments.get("code"), str):
            rest = self._run.value({key: each for key, each in arguments.items() if key != "code"})
            return {**rest, "code": self._run.source(arguments["code"])}
        tool = self._run.tool(name)
        return self._run.value(arguments) if tool is None else self._run.arguments(tool, arguments)

    def _ran(self, run: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The result of a program or a plan."""
        if run is None or not isinstance(run.get("source"), str):
            return None if run is None else self._run.value(run)
        shown = self._run.value({**run, "source": ""})
        return {**shown, "source": self._run.source(run["source"])}

    def _result(self, name: str, text: str) -> str:
        """The text for the model: JSON, or the beginning of it, where a tool with secrets answers."""
        tool = self._run.tool(name)
        if tool is not None and tool.secret_result is not None and not text.startswith("Error"):
            return self._run.result(tool, text)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self._run.text(text)
        shown = self._run.result_value(tool, value)
        return text if shown == value else json.dumps(shown, ensure_ascii=False, separators=(",", ":"))

    def _replies(self, replies: ToolReplies | None) -> ToolReplies | None:
        if replies is None:
            return None
        made = tuple(replace(each, text=self._result(each.name, each.text)) for each in replies.replies)
        return ToolReplies(replies=made)


def has_redacted(value: Any) -> bool:
    """Whether a value is not whole: something in it was redacted."""
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str) and REDACTED in each:
            return True
        todo += (
            [*each, *each.values()] if isinstance(each, Mapping) else each if isinstance(each, (list, tuple)) else ()
        )
    return False
