"""Actions (the calls that a planner decided on) and observations (their results). Values only.

1. A call whose arguments cannot be read stays a call with a fault, which the model corrects. Such a call never gets
   empty arguments instead.
2. Every call becomes an action. Those that cannot be made have a fault, and those that have to wait are named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from callgate.agent.models.model import Reply, ToolCall, ToolReply

__all__ = [
    "MAX_CALLS", "Action", "HistoryEntry", "Observation", "actions_of", "arguments_text", "faulty", "noted",
]  # fmt: skip

MAX_CALLS = 64
"""Of one turn that are made; the others are answered, and not made."""
_MAX_WRITTEN = 20_000
_SHOWN = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """A call of a tool that is to be made.

    Attributes:
        tool_name: the tool.
        tool_args: its arguments; empty where there is a fault.
        id: of the call, on the wire; two actions that differ in nothing else are equal.
        fault: why it cannot be made, for the model; empty where it can.
        written: the arguments as the model wrote them, where they have a fault.
    """

    tool_name: str
    tool_args: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default="", compare=False)
    fault: str = ""
    written: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """The result of an action.

    Attributes:
        tool_name: the tool.
        content: for the model.
        ok: False where the call failed, was refused, or was not made.
        id: of the action.
    """

    tool_name: str
    content: str
    ok: bool = True
    id: str = ""


HistoryEntry = Action | Observation


def actions_of(reply: Reply) -> list[Action]:
    """The calls of a reply, in its order. Calls of a reply that was cut, and those after the first `MAX_CALLS`, have a
    fault that says so."""
    calls = reply.turn.calls
    fault = f"it was not made: {len(calls)} calls in one turn are too many, at most {MAX_CALLS} are made"
    if reply.ended == "cut":
        fault = "the reply was cut at its limit of tokens, so the call was not made: make it again, with less in it"
    made = 0 if reply.ended == "cut" else MAX_CALLS
    bounded = [call if place < made else faulty(call, fault) for place, call in enumerate(calls)]
    return [
        Action(tool_name=call.name, tool_args=call.arguments, id=call.id, fault=call.fault, written=call.written)
        for call in bounded
    ]


def faulty(call: ToolCall, fault: str) -> ToolCall:
    """The call with this fault, or with its own. The written arguments stay: the model sees its calls again."""
    written = call.written or (arguments_text(call.arguments)[:_MAX_WRITTEN] if call.arguments else "")
    return replace(call, arguments={}, fault=call.fault or fault, written=written)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON that any wire carries: halves of characters become question marks."""
    try:
        text = json.dumps(dict(arguments), ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "{...}"
    return text.encode("utf-8", "replace").decode()


def noted(replies: Sequence[ToolReply], most: int) -> tuple[ToolReply, ...]:
    """The results of a turn, with a note behind the last on those that had to wait.

    Args:
        replies: in the order of the calls.
        most: the number of calls that run at the same time.
    """
    waited = [each.name[:64] for each in replies[most:]]
    if not waited:
        return tuple(replies)
    shown = ", ".join(waited[:_SHOWN]) + (", ..." if len(waited) > _SHOWN else "")
    note = f"Note: {len(replies)} calls in one turn; at most {most} run at the same time, so these waited: {shown}."
    return (*replies[:-1], replace(replies[-1], text=f"{replies[-1].text}\n\n{note}"))
