"""An agent on OpenAI's Chat Completions: the loop, with the real SDK, against a stand-in on this machine.

The model is made to begin with a plan (`tool_choice`): a call for each customer of a region, which the host makes
without running any code of the model's. Its calls are handed over as they come, arguments as JSON text; what is wrong
with them is answered in words, and the model corrects itself. Every reminder waits for approval.

What the stand-in checks is in callgate_bench.model.stand_in; what plays the model is `SCRIPT`, which sees what a model
would see.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from callgate import ApprovalRequest, Runtime
from callgate_bench.model.stand_in import Call, Move, OpenAIChat, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs
from shop import SENT, TOOLS, list_customers

with needs("openai"):
    from openai import AsyncOpenAI

QUESTION = "Tell every customer in the north which budget was agreed."


async def converse(client: AsyncOpenAI, runtime: Runtime, question: str) -> str:
    """The loop. The first answer has to be a plan; after that the model is free."""
    tools: Any = runtime.tool_definitions("openai", direct=["list_customers"])
    choice = runtime.tool_choice("openai", "execute_tool_plan", parallel=False)
    messages: list[Any] = [
        {"role": "system", "content": runtime.instructions(direct=["list_customers"])},
        {"role": "user", "content": question},
    ]
    while True:
        completion = await client.chat.completions.create(model="gpt-6", messages=messages, tools=tools, **choice)
        choice = runtime.tool_choice("openai", "auto")
        said = completion.choices[0].message
        messages.append(said)
        if not said.tool_calls:
            return said.content or ""
        answers = {}
        for call in said.tool_calls:
            assert call.type == "function"
            answers[call.id] = await runtime.answer(call.function.name, call.function.arguments)
        messages += runtime.tool_results("openai", answers)  # with the pictures that programs made


def plan(argument: str) -> Call:
    customers = {"id": "customers", "tool": "list_customers", "arguments": {argument: "north"}}
    reminders = {
        "id": "reminders",
        "tool": "send_reminder",
        "for_each": "$ref:customers",
        "arguments": {"customer_id": "$item.id", "text": "Dear ${item.name}, we agreed on ${item.budget} euros."},
    }
    return Call("execute_tool_plan", {"steps": [customers, reminders], "output_steps": ["reminders"]})


def plans(turn: Turn) -> Move:
    return plan("area")


def corrects_the_plan(turn: Turn) -> Move:
    meant = re.search(r"missing argument '(\w+)'", turn.answer)
    assert meant is not None, turn.answer
    return plan(meant[1])


def concludes(turn: Turn) -> Move:
    done = re.search(r"reminders \(send_reminder\): succeeded, (\d+) of \d+ items", turn.answer)
    assert done is not None, turn.answer
    return f"I wrote to {done[1]} customers."


SCRIPT = Script(plans, corrects_the_plan, concludes)


async def approve(request: ApprovalRequest) -> bool:
    """Whoever decides here: a person, a form, a rule."""
    return "budget" not in request.arguments["text"]


async def main() -> None:
    api = OpenAIChat(SCRIPT)
    with serving(api) as url:
        async with (
            AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
            Runtime(TOOLS, approve=approve, sandbox=None) as runtime,
        ):
            said = await converse(client, runtime, QUESTION)

    north = await list_customers("north")
    assert said == f"I wrote to {len(north)} customers."
    assert sorted(SENT) == [(each.id, f"Dear {each.name}, we agreed on {each.budget} euros.") for each in north]
    first, second, third = api.requests
    assert first["tool_choice"] == {"type": "function", "function": {"name": "execute_tool_plan"}}
    assert second["tool_choice"] == third["tool_choice"] == "auto"
    assert json.dumps(first["tools"]) == json.dumps(third["tools"]), "byte-stable: a prompt cache survives"

    print(f"{len(TOOLS)} tools, {len(first['tools'])} definitions, {len(api.requests)} requests, {len(SENT)} reminders")
    print(f"in the end the model said: {said}")


if __name__ == "__main__":
    asyncio.run(main())
