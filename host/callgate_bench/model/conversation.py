"""The loop with the model, the same for every contestant, and its cost. Knows no wire format and no contestant.

The model is asked, what it calls is handed to the contestant, the results go back, until the model answers. Tokens are
those that the endpoint says; none are counted here. Seconds are of `time.perf_counter`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

import anyio

from callgate import ContextExceeded, ModelError
from callgate.agent.models.model import (
    Delta,
    Message,
    Model,
    Reply,
    Request,
    ToolCall,
    ToolReplies,
    ToolReply,
    User,
)
from callgate.runtime.streaming import own_tasks
from callgate_bench.contest.process import PeerFailed
from callgate_bench.contestants.contestant import Opened, Turn
from callgate_bench.results import Outcome, Round
from callgate_bench.workloads.workload import Call, Workload

__all__ = ["SYSTEM", "Conversation", "Talk", "converse", "round_of"]

SYSTEM = (
    "You have tools that only read data. Do the user's task with them; do not guess what they can tell you. "
    "When you are done, answer in plain text, short, with the names and numbers that were asked for."
)
"""The instructions for every model; the contestant's own words follow."""

_Act = Callable[[Sequence[Call]], Awaitable[Turn]]
_Hear = Callable[[str], Awaitable[Any]]


@dataclass(kw_only=True, slots=True)
class Conversation:
    """A conversation and its cost.

    Attributes:
        ended: ``right`` where the model answered, not yet checked; ``cannot`` where the input was too long.
        answer: the last words; empty where there are none.
        reason: why it did not end with an answer; empty where it did.
        turns: requests to the model.
        input_tokens: of all requests, by the endpoint's count.
        output_tokens: of all replies, by the endpoint's count.
        model_seconds: from each request to its reply, in all.
        acted: the contestant's turns.
    """

    ended: Outcome = "failed"
    answer: str = ""
    reason: str = ""
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    model_seconds: float = 0.0
    acted: list[Turn] = field(default_factory=list)


class Talk(Protocol):
    """One conversation with the model, from the task to its last word."""

    async def __call__(
        self, workload: Workload, opened: Opened, act: _Act, hear: _Hear | None = None, *, waits: bool
    ) -> Conversation:
        """Have the conversation.

        Args:
            workload: what it is about.
            opened: what the contestant shows the model.
            act: does what the model calls.
            hear: receives the arguments of the first call piece by piece, if the contestant wants them as they come.
            waits: whether the model takes its simulated time.
        """


async def converse(
    model: Model, *, task: str, opened: Opened, act: _Act, hear: _Hear | None = None, most_turns: int
) -> Conversation:
    """Have a conversation.

    A call of a missing tool, or with arguments that are not a JSON object, is answered with an error; the contestant
    does not see this call. A refusal, an empty or cut reply, or a failing endpoint ends the conversation, with the
    reason.

    Args:
        model: who is asked.
        task: what the user says.
        opened: what the contestant shows the model; only the form ``direct`` takes one call at a time.
        act: does what the model called in a turn. What it raises goes through.
        hear: receives the first call's arguments while the model writes them; without it nobody hears them.
        most_turns: requests to the model, at most.

    Raises:
        PeerFailed: the contestant did not give a text for each call.
    """
    talked = Conversation()
    system = f"{SYSTEM}\n\n{opened.system}" if opened.system else SYSTEM
    messages: list[Message] = [User(text=task)]
    tools = [_definition(model.provider, each) for each in opened.tools]
    parallel = opened.form != "direct" if tools else None
    names = [str(tool["name"]) for tool in opened.tools]
    while talked.turns < most_turns:
        talked.turns += 1
        began = time.perf_counter()
        try:
            request = Request(messages=messages, system=system, tools=tools, parallel=parallel)
            reply = await (model.ask(request) if hear is None else _heard(model, request, hear))
        except ModelError as failed:
            talked.ended = "cannot" if isinstance(failed, ContextExceeded) else "failed"
            talked.reason = str(failed)
            return talked
        finally:
            talked.model_seconds += time.perf_counter() - began
        talked.input_tokens += reply.usage.input_tokens
        talked.output_tokens += reply.usage.output_tokens
        talked.reason = _unusable(reply)
        if talked.reason:
            return talked
        talked.answer = reply.turn.text
        if not reply.turn.calls:
            talked.ended = "right"
            return talked
        texts, final = await _done(reply.turn.calls, names, act, talked)
        if final:
            talked.answer, talked.ended = final, "right"
            return talked
        pairs = zip(reply.turn.calls, texts, strict=True)
        replies = tuple(ToolReply(id=call.id, name="", text=text) for call, text in pairs)
        messages += [reply.turn, ToolReplies(replies=replies)]
    talked.reason = f"no answer after {most_turns} turns of the model"
    return talked


async def _heard(model: Model, request: Request, hear: _Hear) -> Reply:
    """Ask the model, and pass on the arguments of the first call while it writes."""
    put, pieces = anyio.create_memory_object_stream[str](math.inf)

    async def pass_on() -> None:
        async for piece in pieces:
            await hear(piece)
        passed.set()

    def note(delta: Delta) -> None:
        if delta.call == 0 and delta.arguments:
            put.send_nowait(delta.arguments)

    passed = anyio.Event()
    with pieces:
        async with own_tasks() as tasks:
            tasks.start_soon(pass_on)
            with put:
                reply = await model.ask(request, on_delta=note)
            await passed.wait()
    return reply


def _definition(wire: str, definition: dict[str, Any]) -> dict[str, Any]:
    if wire == "anthropic":
        return dict(definition)
    named = {"name": definition["name"], "description": definition.get("description", "")}
    return {"type": "function", "function": {**named, "parameters": definition["input_schema"]}}


def _unusable(reply: Reply) -> str:
    """Why the conversation cannot go on; empty if it can."""
    if reply.usage.estimated:
        return "the model's endpoint gave a reply without its usage, which is what is measured"
    if reply.ended == "refused":
        return f"the model refused: {reply.refusal}"
    if reply.ended == "cut":
        return f"the model's reply was cut at {reply.usage.output_tokens} tokens"
    return "the model's reply is empty" if reply.ended == "empty" else ""


async def _done(
    calls: Sequence[ToolCall], names: Sequence[str], act: _Act, talked: Conversation
) -> tuple[list[str], str]:  # fmt: skip
    """The text for each call, and the last words if the program gave them."""
    texts = [_wrong(each, names) for each in calls]
    right = [position for position, text in enumerate(texts) if not text]
    if not right:
        return texts, ""
    turn = await act([Call(calls[position].name, calls[position].arguments) for position in right])
    talked.acted.append(turn)
    if len(turn.texts) != len(right):
        raise PeerFailed(f"it gave {len(turn.texts)} texts for {len(right)} calls")
    for position, text in zip(right, turn.texts, strict=True):
        texts[position] = text.encode(errors="replace").decode()  # half of a surrogate pair cannot be sent
    return texts, turn.final


def _wrong(call: ToolCall, names: Sequence[str]) -> str:
    """The error text for a call that cannot be made; empty if it can."""
    if call.name not in names:
        near = get_close_matches(call.name, names, 1)
        meant = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(names)}."
        return f"Error: there is no tool {call.name!r}.{meant}"
    if call.fault:
        return f"Error: the arguments of {call.name} cannot be read: {call.fault}. Call it again."
    return ""


def round_of(talked: Conversation) -> Round:
    """Split the cost of a conversation into parts. Pure."""
    contestant = sum(each.seconds for each in talked.acted)
    tools = sum(each.tool_seconds for each in talked.acted)
    return Round(
        wall_seconds=talked.model_seconds + contestant,
        model_seconds=talked.model_seconds,
        tool_seconds=tools,
        overhead_seconds=max(0.0, contestant - tools),
        turns=talked.turns,
        calls=sum(each.calls for each in talked.acted),
        input_tokens=talked.input_tokens,
        output_tokens=talked.output_tokens,
        concurrency=max((each.concurrency for each in talked.acted), default=0),
    )
