"""Tools that nobody registered: each search loads some from elsewhere, and the agent goes on with them (*interrupt*).

The catalogue here is a database of 2,000 services; only what a search asks for becomes a tool, and only in the
conversation that asked. When the model's list of tools has changed, the agent ends, and another one, in another
runtime, resumes from what was kept: the messages, and the conversation's state, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from typing import Any

from callgate import Runtime, Tool
from callgate_bench.model.stand_in import AnthropicMessages, Call, Move, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs

with needs("anthropic"):
    from anthropic import AsyncAnthropic

KINDS = ("weather", "traffic", "tides", "pollen")
CATALOGUE = sqlite3.connect(":memory:", check_same_thread=False)
CATALOGUE.execute("CREATE VIRTUAL TABLE services USING fts5(name, description, reading UNINDEXED)")
for number in range(500):
    for kind in KINDS:
        row = (f"{kind}_station_{number}", f"The {kind} at station {number}.", (number * 7 + len(kind)) % 100)
        CATALOGUE.execute("INSERT INTO services VALUES (?, ?, ?)", row)
LOADED: list[str] = []
BLOCK = {"type", "text", "id", "name", "input"}
"""What goes back to the service of a block of its answer."""
QUESTION = "What is twice the tide at station 42?"


async def load(query: str) -> list[Tool]:
    """The services whose text has all the words: a few of the 2,000."""
    words = " ".join(f'"{word}"' for word in query.replace('"', "").split())
    found = CATALOGUE.execute(
        "SELECT name, description, reading FROM services WHERE services MATCH ? LIMIT 5", (words,)
    )
    tools = []
    for name, description, reading in found:

        async def read(reading: int = reading) -> int:
            return reading

        nothing: dict[str, Any] = {"type": "object", "properties": {}}
        tools.append(Tool.from_schema(name, description, nothing, read, read_only=True))
        LOADED.append(name)
    return tools


async def agent(client: AsyncAnthropic, checkpoint: str) -> tuple[str | None, str]:
    """One life of an agent: until it is done, or until its list of tools has changed.

    Returns:
        What it said in the end, or None; and what the next one needs to go on.
    """
    kept: dict[str, Any] = json.loads(checkpoint)
    messages = kept["messages"]
    async with (
        Runtime(sandbox=None) as runtime,
        runtime.conversation(loader=load, state=kept["state"]) as conversation,
    ):
        tools: Any = conversation.tool_definitions("anthropic")
        changed = False
        while not changed:
            reply = await client.messages.create(
                model="claude-opus-5-5", max_tokens=1000, messages=messages, tools=tools
            )
            said = [block.model_dump(include=BLOCK) for block in reply.content]
            messages.append({"role": "assistant", "content": said})
            results = []
            for block in reply.content:
                if block.type == "tool_use":
                    answer = await conversation.answer(block.name, block.input)
                    results.append(conversation.tool_result("anthropic", answer, block.id))
                    changed = changed or answer.tools_changed
            if not results:
                return "".join(block.text for block in reply.content if block.type == "text"), checkpoint
            messages.append({"role": "user", "content": results})
        return None, json.dumps({"messages": messages, "state": conversation.state()})


def searches(turn: Turn) -> Move:
    assert not any("station" in name for name in turn.tools)
    return Call("search_tools", {"query": "tides station 42"})


def calls_what_was_loaded(turn: Turn) -> Move:
    assert "tides_station_42" in turn.tools, sorted(turn.tools)
    assert "list of tools has changed" in turn.answer
    return Call("tides_station_42")


def writes_a_program(turn: Turn) -> Move:
    code = "print(await tides_station_42() * 2)"
    return Call("execute_code", {"code": code})


def concludes(turn: Turn) -> Move:
    return f"Twice the tide is {turn.answer}."


async def main() -> None:
    api = AnthropicMessages(Script(searches, calls_what_was_loaded, writes_a_program, concludes))
    lives = 0
    said = None
    checkpoint = json.dumps({"messages": [{"role": "user", "content": QUESTION}], "state": None})
    with serving(api) as url:
        async with AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
            while said is None:
                said, checkpoint = await agent(client, checkpoint)
                lives += 1
    tide = (42 * 7 + len("tides")) % 100
    assert said == f"Twice the tide is {tide * 2}."
    assert lives == 2, "one that searched, and one that was made with what it had found"
    assert set(LOADED) == {"tides_station_42"}, "loaded for the search, and once more by the agent that resumed"
    shown = [len(request["tools"]) for request in api.requests]
    print(f"{4 * 500} services; the model was shown {', then '.join(map(str, shown))} tools, in {lives} lives")
    print(f"in the end it said: {said}")


if __name__ == "__main__":
    asyncio.run(main())
