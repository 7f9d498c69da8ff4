"""callgate in an agent of the Claude Agent SDK: its meta-tools as tools of the agent's process.

The SDK starts Claude Code, which it brings along, and hands calls of such tools back to this process. Here Claude Code
is the real one; its model is a script on this machine, so that nothing leaves it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Unpack

from callgate import Runtime
from callgate.runtime.model import DefinitionOptions
from callgate_bench.model.stand_in import AnthropicMessages, Call, Move, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs
from shop import TOOLS, over_budget

with needs(None, "claude-agent-sdk"):
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, SdkMcpTool, create_sdk_mcp_server, query
    from claude_agent_sdk.types import McpSdkServerConfig


def callgate_server(runtime: Runtime, **options: Unpack[DefinitionOptions]) -> McpSdkServerConfig:
    """callgate's tools for ``ClaudeAgentOptions(mcp_servers={"callgate": callgate_server(runtime)})``.

    Args:
        runtime: an open runtime. Approval is its own: ``Runtime(approve=...)``.
        options: what to define, as for `Runtime.tool_definitions`: `direct`, `meta`, ...
    """

    def tool_of(definition: dict[str, Any]) -> SdkMcpTool[Any]:
        async def answered(arguments: dict[str, Any]) -> dict[str, Any]:
            tools, meta = options.get("tools"), options.get("meta")
            answer = await runtime.answer(definition["name"], arguments, tools=tools, meta=meta)
            return {"content": answer.blocks("mcp"), "is_error": not answer.ok}

        return SdkMcpTool(definition["name"], definition["description"], definition["inputSchema"], answered)

    return create_sdk_mcp_server(
        "callgate", tools=[tool_of(each) for each in runtime.tool_definitions("mcp", **options)]
    )


# the example

PROGRAM = """
over = []
for customer in await list_customers("south"):
    orders = await list_orders(customer.id)
    spent = [order.amount * await exchange_rate(order.currency) for order in orders]
    if sum(spent) > customer.budget:
        over.append(customer.name)
print(*over, sep=", ")
"""
MEANT = "mcp__callgate__execute_code"
"""Claude Code's name for the tool."""


def mistakes_a_name(turn: Turn) -> Move:
    assert MEANT in turn.tools, sorted(turn.tools)
    return Call(MEANT, {"code": "await list_oders('c_1')"})


def writes_a_program(turn: Turn) -> Move:
    assert "did you mean `list_orders`" in turn.answer, turn.answer
    return Call(MEANT, {"code": PROGRAM})


def concludes(turn: Turn) -> Move:
    return f"Over budget: {turn.answer}"


async def ask(prompt: str, options: ClaudeAgentOptions) -> str | None:
    """What the agent says in the end."""
    said = [
        message.result async for message in query(prompt=prompt, options=options) if isinstance(message, ResultMessage)
    ]
    return said[-1]


async def main(home: Path) -> None:
    api = AnthropicMessages(Script(mistakes_a_name, writes_a_program, concludes))
    with serving(api) as url:
        async with Runtime(TOOLS) as runtime:
            options = ClaudeAgentOptions(
                mcp_servers={"callgate": callgate_server(runtime)},
                allowed_tools=["mcp__callgate"],  # Claude Code asks nobody about them; callgate's approval holds
                tools=[],  # none of Claude Code's own
                setting_sources=[],
                model="claude-opus-5-5",
                cwd=home,
                env={
                    "ANTHROPIC_BASE_URL": url,
                    "ANTHROPIC_API_KEY": KEY,
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                    "CLAUDE_CONFIG_DIR": str(home / "claude"),
                    "HOME": str(home),
                },
            )
            said = await ask("Which customers in the south are over their budget?", options)
    assert said == f"Over budget: {', '.join(over_budget('south'))}"
    print(f"{len(api.requests)} turns of Claude Code; in the end it said: {said}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
