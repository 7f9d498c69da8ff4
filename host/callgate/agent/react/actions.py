"""What a planner decided, and what came of it: actions and observations; and a reply's calls as actions. Values only.

1. A call whose arguments cannot be read stays a call: with its fault, for the model to correct, and never with empty
   arguments in their place.
2. No call is dropped. Those that cannot be made have a fault, and those that have to wait are told of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from callgate.agent.models.model import Reply, ToolCall, ToolReply

__all__ = [
    "MAX_CALLS",
    "Action",
    "HistoryEntry",
    "Observation",
    "actions_of",
    "arguments_text",
    "faulty",
    "noted",
    "surplus_note",
    "within_bounds",
]

MAX_CALLS = 64
"""Of one turn that are made; the others are answered, and not made."""
_MAX_ANSWERED = 256
_MAX_DEPTH = 100  # as deep as a tool's schema may be
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
    """What came of an action.

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
    """The calls of a reply, in its order. Those of a reply that was cut are not to be made, and say so."""
    cut = "the reply was cut at its limit of tokens, so the call was not made: make it again, with less in it"
    return [
        Action(
            tool_name=call.name,
            tool_args=call.arguments if not call.fault and reply.ended != "cut" else {},
            id=call.id,
            fault=cut if reply.ended == "cut" else call.fault,
            written=call.written,
        )
        for call in reply.turn.calls
    ]


def within_bounds(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls of one turn; those after the first `MAX_CALLS` with a fault. After 256, their number alone is told."""
    fault = f"it was not made: {len(calls)} calls in one turn are too many, at most {MAX_CALLS} are made"
    return tuple(
        _checked(call) if place < MAX_CALLS else faulty(call, fault) for place, call in enumerate(calls[:_MAX_ANSWERED])
    )


def faulty(call: ToolCall, fault: str) -> ToolCall:
    """The call with a fault, unless it has one; what was written stays, for the model sees its own calls again."""
    written = call.written or (arguments_text(call.arguments)[:_MAX_WRITTEN] if call.arguments else "")
    return replace(call, arguments={}, fault=call.fault or fault, written=written)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON that any wire carries: halves of characters become question marks."""
    try:
        text = json.dumps(dict(arguments), ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "{...}"
    return text.encode("utf-8", "replace").decode()


def _checked(call: ToolCall) -> ToolCall:
    """The call; with a fault where its arguments are nested more deeply than any tool takes."""
    level: list[Any] = [call.arguments]
    for _ in range(_MAX_DEPTH):
        level = [below for each in level for below in _below(each)]
        if not level:
            return call
    return faulty(call, f"they are nested more than {_MAX_DEPTH} levels deep")


def _below(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else ()


def surplus_note(names: Sequence[str], most: int) -> str:
    """A sentence on those calls of a turn that had to wait; empty where none had to.

    Args:
        names: of the tools that were called, in order.
        most: so many run at the same time.
    """
    waited = names[most:]
    if not waited:
        return ""
    shown = ", ".join(each[:64] for each in waited[:_SHOWN]) + (", ..." if len(waited) > _SHOWN else "")
    return f"Note: {len(names)} calls in one turn; at most {most} run at the same time, so these waited: {shown}."


def noted(replies: Sequence[ToolReply], most: int) -> tuple[ToolReply, ...]:
    """The same, with the note on those that had to wait behind the last."""
    note = surplus_note([each.name for each in replies], most)
    if not note:
        return tuple(replies)
    return (*replies[:-1], replace(replies[-1], text=f"{replies[-1].text}\n\n{note}"))
