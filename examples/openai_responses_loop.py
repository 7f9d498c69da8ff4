"""An agent on OpenAI's Responses API whose list of tools grows: the *filter* pattern, with the real SDK.

All tools are registered; the model is shown the meta-tools. What its searches find is in its list from the next turn
on, for this conversation alone. The service keeps the history (`previous_response_id`), and callgate the set of what
was found: as JSON, which a server may keep in a database from one request to the next.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from callgate import Runtime
from callgate_bench.model.stand_in import Call, Move, OpenAIResponses, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs
from shop import DATABASE, TOOLS

with needs("openai"):
    from openai import AsyncOpenAI


async def converse(client: AsyncOpenAI, runtime: Runtime, question: str) -> str:
    """The loop; nothing of it is kept in memory from one turn to the next but `saved` and `previous`."""
    saved: str | None = None
    previous: str | None = None
    given: Any = [{"role": "user", "content": question}]
    while True:
        conversation = runtime.conversation(state=None if saved is None else json.loads(saved))
        tools: Any = conversation.tool_definitions("openai-responses")
        response = await client.responses.create(
            model="gpt-6",
            input=given,
            tools=tools,
            previous_response_id=previous,
            **runtime.tool_choice("openai-responses", "auto"),
        )
        given = []
        for item in response.output:
            if item.type == "function_call":
                answer = await conversation.answer(item.name, item.arguments)
                given.append(conversation.tool_result("openai-responses", answer, item.call_id))
        if not given:
            return str(response.output_text)
        previous = response.id
        saved = json.dumps(conversation.state())


def searches(turn: Turn) -> Move:
    assert "delete_tickets" not in turn.tools
    return [Call("search_tools", {"query": "delete a ticket"}), Call("search_tools", {"query": "count tickets"})]


def calls_what_it_found(turn: Turn) -> Move:
    assert {"delete_tickets", "count_tickets"} <= set(turn.tools), sorted(turn.tools)
    return Call("delete_tickets", {"id": 3})


def counts(turn: Turn) -> Move:
    assert turn.answer == "1"
    return Call("count_tickets")


def concludes(turn: Turn) -> Move:
    return f"Done; {turn.answer} tickets are left."


SCRIPT = Script(searches, calls_what_it_found, counts, concludes)


async def main() -> None:
    api = OpenAIResponses(SCRIPT)
    with serving(api) as url:
        async with (
            AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
            Runtime(TOOLS, sandbox=None) as runtime,
        ):
            said = await converse(client, runtime, "Delete ticket 3. How many are left?")
            somebody_else = runtime.conversation().tool_definitions("openai-responses")

    left = DATABASE.execute("SELECT COUNT(*) FROM tickets").fetchone()[0]
    assert left == len("tickets") - 1
    assert said == f"Done; {left} tickets are left."
    assert len(somebody_else) == len(api.requests[0]["tools"]), "what one conversation found, no other is shown"
    shown = [len(request["tools"]) for request in api.requests]
    assert shown[0] < shown[1] < len(TOOLS)
    begin = api.requests[1]["tools"][: shown[0]]
    assert begin == api.requests[0]["tools"], (
        "what was found comes behind, so that a prompt cache of the rest stays good"
    )

    print(f"{len(TOOLS)} tools; the model was shown {', then '.join(map(str, shown))}")
    print(f"in the end it said: {said}")


if __name__ == "__main__":
    asyncio.run(main())
