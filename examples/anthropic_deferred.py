"""All tools sent to Anthropic's Messages API, and kept out of the model's context until callgate's search found them.

The other way to the *filter* pattern: the list of definitions is the same in every request, so that the provider's
prompt cache is good from the first to the last; `defer_loading` keeps tools from the model, and a search is answered
with references (`tool_reference`), for which the service loads the definitions.
"""

from __future__ import annotations

import asyncio
from typing import Any

from callgate import Runtime
from callgate_bench.model.stand_in import AnthropicMessages, Call, Move, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs
from shop import DATABASE, TOOLS

with needs("anthropic"):
    from anthropic import AsyncAnthropic


async def converse(client: AsyncAnthropic, runtime: Runtime, question: str) -> str:
    """The loop."""
    tools: Any = runtime.tool_definitions("anthropic", meta=["search_tools"], direct="all", defer="all")
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        reply = await client.messages.create(model="claude-opus-5-5", max_tokens=1000, messages=messages, tools=tools)
        messages.append({"role": "assistant", "content": reply.content})
        results = []
        for block in reply.content:
            if block.type == "tool_use":
                answer = await runtime.answer(block.name, block.input)
                results.append(runtime.tool_result("anthropic", answer, block.id, defer="all", direct="all"))
        if not results:
            return "".join(block.text for block in reply.content if block.type == "text")
        messages.append({"role": "user", "content": results})


def searches(turn: Turn) -> Move:
    assert list(turn.tools) == ["search_tools"], "the others are deferred"
    return Call("search_tools", {"query": "count vouchers", "limit": 3})


def calls_what_it_found(turn: Turn) -> Move:
    assert "count_vouchers" in turn.tools
    assert len(turn.tools) <= 4
    return Call("count_vouchers")


def concludes(turn: Turn) -> Move:
    return f"There are {turn.answer} vouchers."


async def main() -> None:
    api = AnthropicMessages(Script(searches, calls_what_it_found, concludes))
    with serving(api) as url:
        async with (
            AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client,
            Runtime(TOOLS, sandbox=None) as runtime,
        ):
            said = await converse(client, runtime, "How many vouchers are there?")
    count = DATABASE.execute("SELECT COUNT(*) FROM vouchers").fetchone()[0]
    assert said == f"There are {count} vouchers."
    first, *_, last = (request["tools"] for request in api.requests)
    assert first == last
    assert sum("defer_loading" in tool for tool in first) == len(TOOLS)
    print(f"{len(first)} definitions, the same in {len(api.requests)} requests; all but one were deferred")
    print(f"in the end the model said: {said}")


if __name__ == "__main__":
    asyncio.run(main())
