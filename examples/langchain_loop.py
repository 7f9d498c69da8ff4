"""LangChain's tools, made by callgate: a loop as LangChain's agents have it, and the same tools without any event loop.

The tools carry their own schemas to the model (`convert_to_openai_tool`, which `bind_tools` uses), take LangChain's
`ToolCall`s and answer with its `ToolMessage`s, whose `artifact` is for the host.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from callgate import Runtime
from callgate_bench.model.stand_in import Call, Move, OpenAIChat, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs
from shop import TOOLS, over_budget

with needs("langchain,openai"):
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.messages import ToolCall as LangChainCall
    from langchain_core.messages.utils import convert_to_openai_messages
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from openai import AsyncOpenAI

    from callgate.adapters.langchain import langchain_tools

PROGRAM = """
over = []
for customer in await list_customers("south"):
    orders = await list_orders(customer.id)
    spent = [order.amount * await exchange_rate(order.currency) for order in orders]
    if sum(spent) > customer.budget:
        over.append(customer.name)
print(*over, sep=", ")
"""


async def converse(client: AsyncOpenAI, runtime: Runtime, question: str) -> list[Any]:
    """The loop: messages of LangChain, tools of callgate."""
    tools = {tool.name: tool for tool in langchain_tools(runtime)}
    shown: Any = [convert_to_openai_tool(tool) for tool in tools.values()]
    messages: list[Any] = [HumanMessage(question)]
    while True:
        history: Any = convert_to_openai_messages(messages)
        completion = await client.chat.completions.create(model="gpt-6", messages=history, tools=shown)
        said = completion.choices[0].message
        calls = [
            LangChainCall(
                name=call.function.name, args=json.loads(call.function.arguments), id=call.id, type="tool_call"
            )
            for call in said.tool_calls or []
            if call.type == "function"
        ]
        messages.append(AIMessage(said.content or "", tool_calls=calls))
        if not calls:
            return messages
        messages += [await tools[call["name"]].ainvoke(call) for call in calls]


def writes_a_program(turn: Turn) -> Move:
    return [Call("execute_code", {"code": PROGRAM}), Call("describe_tools", {"names": ["list_oders"]})]


def concludes(turn: Turn) -> Move:
    program, described = (answer.text for answer in turn.answers)
    assert "list_orders" in described, described
    return f"Over budget: {program}"


def without_an_event_loop() -> str:
    """For a program that is not async: `invoke` enters the runtime, and leaves it when the call has ended."""
    tools = {tool.name: tool for tool in langchain_tools(Runtime(TOOLS))}
    return str(tools["execute_code"].invoke({"code": PROGRAM}))


async def main() -> None:
    api = OpenAIChat(Script(writes_a_program, concludes))
    with serving(api) as url:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client, Runtime(TOOLS) as runtime:
            messages = await converse(client, runtime, "Which customers in the south are over their budget?")

    *_, last = messages
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert last.content == f"Over budget: {', '.join(over_budget('south'))}"
    run = results[0].artifact["structured"]
    assert run["ok"]
    print(f"the program made {run['tool_calls']} calls; in the end the model said: {last.content}")


if __name__ == "__main__":
    asyncio.run(main())
    assert without_an_event_loop() == ", ".join(over_budget("south"))
    print("and the same without an event loop")
