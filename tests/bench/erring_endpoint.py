"""An endpoint that answers as it is told, on both wires, and a contestant that knows the weather."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from bench.scripted_workloads import TOOLS
from callgate.bench.contestants.seat import Opened, Turn
from callgate.bench.model.conversation import Conversation, converse
from callgate.bench.model.endpoint import Endpoint
from callgate.bench.model.model_client import Wire
from callgate.bench.model.stand_in.checks import Refused
from callgate.bench.model.stand_in.server import serving
from callgate.bench.workloads.workload import Call

Body = dict[str, Any]
WIRES: list[Wire] = ["openai", "anthropic"]


class Doing:
    """A contestant of one's own: notes what it is asked, and knows the weather."""

    def __init__(self) -> None:
        self.asked: list[list[Call]] = []

    async def __call__(self, calls: list[Call]) -> Turn:
        self.asked.append(calls)
        texts = [json.dumps({**call.arguments, "temp": len(str(call.arguments)), "metres": 23}) for call in calls]
        return Turn(texts=texts, seconds=0.0)


def opened(form: str = "direct-parallel", **rest: Any) -> Opened:
    return Opened(tools=TOOLS, form=form, **rest)


class Erring:
    """An endpoint that answers as it is told, on both wires."""

    def __init__(self, wire: Wire, *answers: Callable[[], Body] | Body) -> None:
        self.path = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}[wire]
        self.requests: list[Body] = []
        self._answers = list(answers)

    def reply(self, headers: Mapping[str, str], body: Body) -> Body:
        self.requests.append(body)
        answer = self._answers.pop(0)
        return answer() if callable(answer) else answer

    def refusal(self, refused: Refused) -> Body:
        return {"type": "error", "error": {"type": refused.kind, "message": str(refused)}}


def said(wire: Wire, text: str = "", calls: tuple[tuple[str, str], ...] = (), **rest: Any) -> Body:
    """A reply; arguments are JSON text, which on Anthropic's wire is always JSON."""
    if wire == "openai":
        made = [
            {"id": f"c{position}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for position, (name, arguments) in enumerate(calls)
        ]
        message: Body = {"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}
        message |= {"refusal": rest.get("refusal")}
        choice = {"index": 0, "message": message, "finish_reason": rest.get("finish", "stop")}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return {"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    blocks: list[Body] = [{"type": "text", "text": text}] if text else []
    blocks += [
        {"type": "tool_use", "id": f"c{position}", "name": name, "input": json.loads(arguments)}
        for position, (name, arguments) in enumerate(calls)
    ]
    usage = {"input_tokens": 60, "output_tokens": 10, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10}
    whole = {"id": "a", "type": "message", "role": "assistant", "model": "m", "content": blocks, "usage": usage}
    return {**whole, "stop_reason": rest.get("finish", "end_turn"), "stop_sequence": None}


async def talk(api: Erring, wire: Wire, *, act: Any = None, most_turns: int = 5, **options: Any) -> Conversation:
    with serving(api) as address:
        url = f"{address}/v1" if wire == "openai" else address
        async with Endpoint(wire, base_url=url, key="any", **{"retries": 0, **options}) as endpoint:
            return await converse(
                endpoint.model("m"), task="Where?", opened=opened(system="Be brief."), act=act or Doing(),
                most_turns=most_turns,
            )  # fmt: skip


def results_in(body: Body) -> list[str]:
    """The results that a request ends with."""
    last = body["messages"][-1]
    if last["role"] == "user":
        return [block["content"] for block in last["content"]]
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def refuses(status: int, kind: str = "invalid_request_error", text: str = "no") -> Callable[[], Body]:
    def raising() -> Body:
        raise Refused(text, status=status, kind=kind)

    return raising
