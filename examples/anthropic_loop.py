"""An agent on Anthropic's Messages API: the loop, with the real SDK, against a stand-in on this machine.

52 tools, and the model is sent six definitions: the four meta-tools, and two tools that it may call itself. It
searches, writes a program, gets one argument wrong, reads what is wrong, and writes it again. Then it calls a tool that
waits for approval, which is the host's business and not the model's.

What the stand-in checks is in callgate_bench.model.stand_in; what plays the model is `SCRIPT`, which sees what a model
would see.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from callgate import Allow, ApprovalRequest, Deny, Runtime
from callgate_bench.model.stand_in import AnthropicMessages, Call, Move, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs
from shop import SENT, TOOLS, over_budget

with needs("anthropic"):
    from anthropic import AsyncAnthropic
    from anthropic.types import MessageParam

QUESTION = "Which customers in the west are over their budget? Remind the first of them."
DIRECT = ["exchange_rate", "send_reminder"]


async def converse(client: AsyncAnthropic, runtime: Runtime, question: str) -> str:
    """The loop: definitions out, calls in, answers back, until the model has nothing more to call."""
    tools: Any = runtime.tool_definitions("anthropic", direct=DIRECT, inline_characters=0)  # as if there were hundreds
    choice = runtime.tool_choice("anthropic", "auto")
    system = runtime.instructions(direct=DIRECT)
    messages: list[MessageParam] = [{"role": "user", "content": question}]
    while True:
        reply = await client.messages.create(
            model="claude-opus-5-5", max_tokens=4096, system=system, messages=messages, tools=tools, **choice
        )
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason != "tool_use":
            return "".join(block.text for block in reply.content if block.type == "text")
        results: list[Any] = []
        for block in reply.content:
            if block.type == "tool_use":
                answer = await runtime.answer(block.name, block.input)
                results.append(runtime.tool_result("anthropic", answer, block.id))
        messages.append({"role": "user", "content": results})


PROGRAM = """
import asyncio

customers = await list_customers("west")
orders = await asyncio.gather(*(list_orders(customer=each["id"]) for each in customers))
rates = {currency: await exchange_rate(currency) for currency in ("EUR", "USD", "GBP", "JPY")}
over = [
    customer
    for customer, placed in zip(customers, orders)
    if sum(order["amount"] * rates[order["currency"]] for order in placed) > customer["budget"]
]
print(", ".join(customer["name"] for customer in over))
print("first:", over[0]["id"])
"""


def searches(turn: Turn) -> Move:
    assert "execute_code" in turn.tools
    assert "list_orders" not in turn.tools, "found by searching, called by programs"
    return [Call("search_tools", {"query": "customers of a region"}), Call("search_tools", {"query": "orders placed"})]


def writes_a_program(turn: Turn) -> Move:
    customers, orders = turn.answers
    assert "list_customers(" in customers.text
    assert "list_orders(" in orders.text
    return ["I can do that in one program.", Call("execute_code", {"code": PROGRAM})]


def corrects_it(turn: Turn) -> Move:
    meant = re.search(r"did you mean `(\w+)`", turn.answer)
    assert meant is not None, turn.answer
    return Call("execute_code", {"code": PROGRAM.replace("customer=", f"{meant[1]}=")})


def reminds(turn: Turn) -> Move:
    first = re.search(r"first: (\d+)", turn.answer)
    assert first is not None, turn.answer
    return [
        turn.answer.partition("\n")[0],
        Call("send_reminder", {"customer_id": int(first[1]), "text": "You are over your budget."}),
        Call("send_reminder", {"customer_id": 999, "text": "You, too?"}),
    ]


def concludes(turn: Turn) -> Move:
    sent, denied = (answer.text for answer in turn.answers)
    return f"{sent} reminder sent. {denied}"


SCRIPT = Script(searches, writes_a_program, corrects_it, reminds, concludes)


async def approve(request: ApprovalRequest) -> Allow | Deny:
    """Whoever decides here: a person, a form, a rule."""
    return Allow() if request.arguments["customer_id"] < 100 else Deny("there is no such customer")


async def main() -> None:
    api = AnthropicMessages(SCRIPT)
    with serving(api) as url:
        async with (
            AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client,
            Runtime(TOOLS, approve=approve) as runtime,
        ):
            said = await converse(client, runtime, QUESTION)

    assert said.startswith("1 reminder sent."), said
    assert "there is no such customer" in said
    assert [customer for customer, _ in SENT] == [2]
    program = api.requests[3]["messages"][-1]["content"][0]
    assert "is_error" not in program
    assert program["content"].splitlines()[0] == ", ".join(over_budget("west"))
    refused = api.requests[2]["messages"][-1]["content"][0]
    assert refused["is_error"] is True
    assert [block.get("is_error") for block in api.requests[4]["messages"][-1]["content"]] == [None, True]

    print(f"{len(TOOLS)} tools, of which the model was shown {len(api.requests[0]['tools'])}")
    print(f"{len(api.requests)} requests; in the end the model said: {said}")


if __name__ == "__main__":
    asyncio.run(main())
