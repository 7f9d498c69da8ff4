"""A plan that runs while the model is still writing it: Anthropic's event stream, joined to `Runtime.stream_plan`.

Each step of a read-only tool begins as soon as its own text is complete. The proof is in the stand-in: it does not send
the rest of the plan before the first step's tool was called.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

from callgate import Runtime, tool
from callgate_bench.model.stand_in import AnthropicMessages, Call, Move, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs

with needs("anthropic"):
    from anthropic import AsyncAnthropic

WRITTEN: list[str] = [""]
"""What the stand-in has sent of the plan."""
WRITTEN_AT_FIRST_CALL: list[str] = []
FIRST_CALL = threading.Event()

POPULATION = {"Oslo": 724_000, "Rome": 2_750_000, "Lima": 10_090_000}


@tool(read_only=True)
async def population(city: str) -> int:
    """How many people live in a city.

    Args:
        city: its name.
    """
    WRITTEN_AT_FIRST_CALL.append(WRITTEN[0])
    FIRST_CALL.set()
    return POPULATION[city]


async def pieces(queue: asyncio.Queue[str | None]) -> AsyncIterator[str]:
    while (piece := await queue.get()) is not None:
        yield piece


async def converse(client: AsyncAnthropic, runtime: Runtime, question: str) -> str:
    """The loop. Plans are run as they arrive; other calls, when they are complete."""
    tools: Any = [{**each, "eager_input_streaming": True} for each in runtime.tool_definitions("anthropic")]
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        running: dict[str, asyncio.Task[str]] = {}
        arriving: asyncio.Queue[str | None] | None = None
        async with (
            asyncio.TaskGroup() as tasks,
            client.messages.stream(model="claude-opus-5-5", max_tokens=4096, messages=messages, tools=tools) as stream,
        ):
            async for event in stream:
                match event.type:
                    case "content_block_start" if event.content_block.type == "tool_use":
                        if event.content_block.name == "execute_tool_plan":
                            arriving = asyncio.Queue()
                            plan = run_plan(runtime, arriving)
                            running[event.content_block.id] = tasks.create_task(plan)
                    case "content_block_delta" if event.delta.type == "input_json_delta" and arriving is not None:
                        arriving.put_nowait(event.delta.partial_json)
                    case "content_block_stop":
                        block = event.content_block
                        if arriving is not None:
                            arriving.put_nowait(None)
                            arriving = None
                        elif block.type == "tool_use":
                            running[block.id] = tasks.create_task(runtime.handle(block.name, block.input))
            message = await stream.get_final_message()
        messages.append({"role": "assistant", "content": message.content})
        if not running:
            return "".join(block.text for block in message.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": name, "content": task.result()} for name, task in running.items()
        ]
        messages.append({"role": "user", "content": results})


async def run_plan(runtime: Runtime, arriving: asyncio.Queue[str | None]) -> str:
    return (await runtime.stream_plan(pieces(arriving))).for_model()


def plans(turn: Turn) -> Move:
    steps = [{"id": city.lower(), "tool": "population", "arguments": {"city": city}} for city in POPULATION]
    return ["Let me look these up.", Call("execute_tool_plan", {"steps": steps})]


def concludes(turn: Turn) -> Move:
    assert all(f"{city.lower()}: {people}" in turn.answer for city, people in POPULATION.items()), turn.answer
    return "Lima is the largest of them."


def before_piece(written: str) -> None:
    WRITTEN[0] = written
    if "Rome" in written and not FIRST_CALL.wait(timeout=30):
        raise AssertionError("the second step is being written, and the first has not begun")


async def main() -> None:
    api = AnthropicMessages(Script(plans, concludes), before_piece=before_piece)
    with serving(api) as url:
        async with (
            AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client,
            Runtime([population], sandbox=None) as runtime,
        ):
            said = await converse(client, runtime, "Which is the largest: Oslo, Rome or Lima?")
    assert said == "Lima is the largest of them."
    assert len(WRITTEN_AT_FIRST_CALL) == 3, "no call was made twice"
    assert "Lima" not in WRITTEN_AT_FIRST_CALL[0]
    print(
        f"the first of {len(POPULATION)} calls began when this much of the plan was written: {WRITTEN_AT_FIRST_CALL[0]}"
    )
    print(f"in the end the model said: {said}")


if __name__ == "__main__":
    asyncio.run(main())
