"""A pydantic-ai agent with callgate as a toolset: the real package, its Anthropic model, a stand-in for the service.

The agent is shown the meta-tools; what a search finds is its own tool from the next step on, in this run alone. A
failed call is a failed result that the model sees, approval is the runtime's, and the output is the agent's typed one.
"""

from __future__ import annotations

import asyncio
import json

from pydantic import BaseModel

from callgate import ApprovalRequest, Runtime
from callgate_bench.model.stand_in import AnthropicMessages, Call, Move, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs
from shop import SENT, TOOLS, over_budget

with needs("pydantic-ai,anthropic"):
    from anthropic import AsyncAnthropic
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    from callgate.adapters.pydantic_ai import CallgateToolset


class Report(BaseModel):
    over_budget: list[str]
    reminded: int


PROGRAM = """
rates = {currency: await exchange_rate(currency) for currency in ("EUR", "USD", "GBP", "JPY")}
over = []
for customer in await list_customers("east"):
    orders = await list_orders(customer.id)
    if sum(order.amount * rates[order.currency] for order in orders) > customer.budget:
        over.append(customer.name)
over
"""


def searches(turn: Turn) -> Move:
    assert "send_reminder" not in turn.tools
    return Call("search_tools", {"query": "send a reminder to a customer"})


def works(turn: Turn) -> Move:
    assert "send_reminder" in turn.tools
    return [
        Call("execute_code", {"code": PROGRAM}),
        Call("send_reminder", {"customer_id": 3, "text": "You are over your budget."}),
        Call("send_reminder", {"customer_id": 3}),
    ]


def reports(turn: Turn) -> Move:
    program, reminder, incomplete = (answer.text for answer in turn.answers)
    assert "'text'" in incomplete, incomplete
    names = [name.strip('" ') for name in program.removeprefix("Value: [").removesuffix("]").split(",")]
    return json.dumps({"over_budget": names, "reminded": int(reminder)})


async def approve(request: ApprovalRequest) -> bool:
    return True


async def main() -> None:
    api = AnthropicMessages(Script(searches, works, reports))
    with serving(api) as url:
        async with (
            AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client,
            Runtime(TOOLS, approve=approve) as runtime,
        ):
            model = AnthropicModel("claude-opus-5-5", provider=AnthropicProvider(anthropic_client=client))
            agent = Agent(model, output_type=Report, toolsets=[CallgateToolset(runtime)])
            result = await agent.run("Who in the east is over budget? Remind customer 3.")
    assert result.output == Report(over_budget=over_budget("east"), reminded=1)
    assert [customer for customer, _ in SENT] == [3]
    shown = [len(request["tools"]) for request in api.requests]
    assert shown[0] == 4, "the meta-tools"
    assert shown[0] < shown[1] < len(TOOLS)
    print(f"{len(TOOLS)} tools; the model was shown {', then '.join(map(str, shown))}")
    print(f"the agent's output: {result.output!r}")


if __name__ == "__main__":
    asyncio.run(main())
