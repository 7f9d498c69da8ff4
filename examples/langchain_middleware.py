"""An agent of LangChain: its tools appear as they are found (*filter*), and its graph stops for people (*interrupt*).

`CallgateMiddleware` gives the model callgate's tools of the moment, so the agent is made once. A program that wants to
pay money back waits for a person: the graph stops, the process may end, and another one goes on with the answer. What
the program had done is not done again. The model is LangChain's own fake one, and follows a script.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from callgate import Conversation, Runtime, tool
from needs import needs

with needs("langchain"):
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage, ToolCall
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    from callgate.adapters.langchain_middleware import CallgateMiddleware

DONE: list[str] = []
"""What happened in the shop."""
PROGRAM = "await refund(order=17, euros=await get_order(17))"


@tool(read_only=True)
async def get_order(number: int) -> float:
    """What was paid for an order, in euros."""
    DONE.append(f"order {number} read")
    return 42.5


@tool(requires_approval=True)
async def refund(order: int, euros: float) -> str:
    """Pay money back for an order."""
    DONE.append(f"{euros} euros paid for order {order}")
    return f"paid {euros} euros back"


class Scripted(GenericFakeChatModel):
    """Says what a script says; prints the tools that it is shown."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        print(f"the model is shown: {', '.join(each.name for each in tools)}")
        return self


def calls(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(name=name, args=arguments, id=f"call of {name}")])


async def main(folder: Path) -> None:
    saver = InMemorySaver()  # of langgraph-checkpoint-postgres, where processes really end
    thread: Any = {"configurable": {"thread_id": "ann"}}
    question: Any = {"messages": [HumanMessage("Give Ann her money back for order 17.")]}
    turns = [calls("search_tools", query="order"), calls("execute_code", code=PROGRAM), AIMessage("Ann has it.")]
    model = Scripted(messages=iter(turns))

    def agent(conversation: Conversation) -> Any:
        middleware = CallgateMiddleware(conversation, interrupt_on_approval=True)
        return create_agent(model, middleware=[middleware], checkpointer=saver)

    async with Runtime([get_order, refund], durable=str(folder / "runs.db")) as runtime:
        conversation = runtime.conversation()
        stopped = await agent(conversation).ainvoke(question, thread)
        found = conversation.state()
    (call,) = stopped["__interrupt__"][0].value["calls"]
    assert DONE == ["order 17 read"]
    print(f"the graph has stopped: may {call['tool']} be called with {call['arguments']}?")

    async with Runtime([get_order, refund], durable=str(folder / "runs.db")) as runtime:
        conversation = runtime.conversation(state=found)
        result = await agent(conversation).ainvoke(Command(resume={call["call"]: True}), thread)
    assert DONE == ["order 17 read", "42.5 euros paid for order 17"]
    print(f"{'; '.join(DONE)}; in the end the model said: {result['messages'][-1].content}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
