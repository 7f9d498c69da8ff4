"""An agent of the OpenAI Agents SDK with callgate's tools: the real package, and a stand-in for the Responses API.

Made from a conversation, the agent's list of tools grows by what its searches find.
"""

from __future__ import annotations

import asyncio

from callgate import Runtime
from callgate_bench.model.stand_in import Call, Move, OpenAIResponses, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from needs import needs
from shop import TABLES, TOOLS

with needs("openai-agents"):
    from agents import Agent, ModelSettings, OpenAIResponsesModel, RunConfig, Runner
    from openai import AsyncOpenAI

    from callgate.adapters.openai_agents import openai_agents_tools

PROGRAM = """
import asyncio

names = {tables!r}
counted = await asyncio.gather(*(tool_call(f"count_{{name}}") for name in names))
most = max(counted)
{{"most": most, "of": [name for name, count in zip(names, counted) if count == most]}}
"""


def searches(turn: Turn) -> Move:
    return Call("search_tools", {"query": "count trucks"})


def calls_what_it_found(turn: Turn) -> Move:
    assert "count_trucks" in turn.tools, sorted(turn.tools)
    return [Call("count_trucks"), Call("execute_code", {"code": PROGRAM.format(tables=list(TABLES))})]


def concludes(turn: Turn) -> Move:
    trucks, program = (answer.text for answer in turn.answers)
    return f"There are {trucks} trucks. {program}"


async def main() -> None:
    api = OpenAIResponses(Script(searches, calls_what_it_found, concludes))
    with serving(api) as url:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client, Runtime(TOOLS) as runtime:
            model = OpenAIResponsesModel(model="gpt-6", openai_client=client)
            agent = Agent(
                name="clerk",
                model=model,
                tools=openai_agents_tools(runtime.conversation()),
                model_settings=ModelSettings(parallel_tool_calls=True),
            )
            result = await Runner.run(
                agent,
                "How many trucks are there, and what is there most of?",
                run_config=RunConfig(tracing_disabled=True),
            )
    most = max(map(len, TABLES))
    assert result.final_output.startswith(f"There are {len('trucks')} trucks. Value: "), result.final_output
    assert f'"most": {most}' in result.final_output
    shown = [len(request["tools"]) for request in api.requests]
    assert shown[0] == 4
    assert shown[0] < shown[1] == shown[2]
    print(f"{len(TOOLS)} tools; the model was shown {', then '.join(map(str, shown))}")
    print(f"in the end it said: {result.final_output}")


if __name__ == "__main__":
    asyncio.run(main())
