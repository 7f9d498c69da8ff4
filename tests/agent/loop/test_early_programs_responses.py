"""A program that begins while a model behind OpenAI's Responses writes it, over the wire, in OpenAI's own events."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import pytest

from agent.loop.scripted_runs import of, sandboxed
from callgate import tool
from callgate.agent.events import CallEnded
from callgate.agent.loop.agent import Agent
from callgate.agent.models.named import model_named
from callgate_bench.model.stand_in import serving

pytestmark = pytest.mark.anyio

CODE = "a = await look_up(1)\nb = await look_up(a + 1)\nb"
TOKENS = ['{"', "code", '":"', "a", " =", " await", " look", "_up", "(", "1", ")\\", "n", "b", " =", " await look_up("]


class Responses:
    """An endpoint whose model writes one program, and says after it what came of it.

    Args:
        looked: has to be set before the last piece of the program is sent.
    """

    path = "/v1/responses"

    def __init__(self, looked: threading.Event) -> None:
        self.asked: list[dict[str, Any]] = []
        self._looked = looked

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> Iterator[Any]:
        self.asked.append(body)
        return self._program() if len(self.asked) == 1 else self._words(body["input"][-1]["output"])

    def refusal(self, refused: Any) -> dict[str, Any]:
        raise AssertionError(refused)

    def _program(self) -> Iterator[Any]:
        arguments = json.dumps({"code": CODE}, separators=(",", ":"))
        begun = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "execute_code"}
        at = {"item_id": "fc_1", "output_index": 0}
        yield from self._head({**begun, "arguments": "", "status": "in_progress"})
        for token in TOKENS:
            yield {"type": "response.function_call_arguments.delta", **at, "delta": token}
        assert self._looked.wait(10), "nothing began before the reply had ended"
        rest = arguments.removeprefix("".join(TOKENS))
        yield {"type": "response.function_call_arguments.delta", **at, "delta": rest}
        yield {"type": "response.function_call_arguments.done", **at, "arguments": arguments}
        yield from self._tail({**begun, "arguments": arguments, "status": "completed"})

    def _words(self, text: str) -> Iterator[Any]:
        begun = {"type": "message", "id": "msg_1", "role": "assistant"}
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        yield from self._head({**begun, "content": [], "status": "in_progress"})
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        yield {"type": "response.output_text.delta", **at, "delta": text, "logprobs": []}
        yield {"type": "response.output_text.done", **at, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}
        yield from self._tail({**begun, "content": [part], "status": "completed"})

    def _head(self, item: dict[str, Any]) -> Iterator[Any]:
        yield {"type": "response.created", "response": _response("in_progress")}
        yield {"type": "response.in_progress", "response": _response("in_progress")}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}

    def _tail(self, item: dict[str, Any]) -> Iterator[Any]:
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": _response("completed", item)}


def _response(status: str, *output: dict[str, Any]) -> dict[str, Any]:
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": status, "model": "m",
        "output": list(output), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, **details},
    }  # fmt: skip


async def test_over_responses_a_program_begins_before_its_reply_has_ended() -> None:
    looked = threading.Event()

    @tool(read_only=True)
    async def look_up(n: int) -> int:
        """Looks something up."""
        looked.set()
        return n

    endpoint: Any = Responses(looked)
    async with sandboxed([look_up]) as runtime:
        with serving(endpoint) as address, anyio.fail_after(30):
            model = model_named("openai-responses:m", base_url=f"{address}/v1", api_key="k")
            try:
                result = await Agent(model, runtime, mode="code").run("Look.")
            finally:
                await model.aclose()
    assert result.outcome == "answered", result.reason
    assert "Value: 2" in result.answer
    (run,) = (each.run for each in of(result, CallEnded))
    assert run is not None
    assert run["calls"][0]["early"]
    assert [call["arguments"] for call in run["calls"]] == [{"n": 1}, {"n": 2}]
