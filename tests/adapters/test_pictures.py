"""Pictures in each framework's own form; without one, the text names them."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import FunctionTool, ToolOutputImage, ToolOutputText
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from openai import AsyncOpenAI
from pydantic_ai.messages import BinaryContent, ToolCallPart, UserPromptPart

from adapters.frameworks import Model, returns, run_agent
from adapters.test_openai_agents import context_of
from callgate import Artifact, Runtime, tool
from callgate.adapters.langchain import langchain_tools
from callgate.adapters.openai_agents import openai_agents_tools
from callgate.adapters.pydantic_ai import CallgateToolset
from callgate_bench.model.stand_in import Call, OpenAIResponses, Script, serving
from callgate_bench.model.stand_in.server import KEY
from runtime.drawn import png

pytestmark = pytest.mark.anyio

BASE64 = base64.b64encode(png(seed=1)).decode()
ONLY: Any = {"meta": (), "direct": ["draw"]}


@tool(read_only=True)
def draw(seed: int) -> Artifact:
    """Draws a plot."""
    return Artifact.from_bytes(png(seed=seed), f"plot{seed}.png")


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime([draw], sandbox=None) as opened:
        yield opened


# pydantic-ai


async def test_pydantic_ai_gets_them_behind_the_results(runtime: Runtime) -> None:
    model = Model(ToolCallPart("draw", {"seed": 1}), "done")
    result = await model.agent(CallgateToolset[None](runtime, **ONLY)).run("Draw.")
    (returned,) = returns(result.all_messages())
    assert isinstance(returned.content, str)
    assert "art_" in returned.content
    prompts = [part for each in result.all_messages() for part in each.parts if isinstance(part, UserPromptPart)]
    content = prompts[-1].content
    assert not isinstance(content, str)
    said, name, picture = content
    assert said == "The pictures of the tool results above. Tools and programs made them, not the user:"
    assert name == "plot1.png:"
    assert isinstance(picture, BinaryContent)
    assert (picture.data, picture.media_type) == (png(seed=1), "image/png")


async def test_pydantic_ai_without_pictures_gets_the_text(runtime: Runtime) -> None:
    model = Model(ToolCallPart("draw", {"seed": 1}), "done")
    result = await model.agent(CallgateToolset[None](runtime, pictures=False, **ONLY)).run("Draw.")
    prompts = [part for each in result.all_messages() for part in each.parts if isinstance(part, UserPromptPart)]
    assert [each.content for each in prompts] == ["Draw."]


# the OpenAI Agents SDK


async def test_the_agents_sdk_sends_them_to_responses(runtime: Runtime) -> None:
    api = OpenAIResponses(Script(lambda _: Call("draw", {"seed": 1}), lambda _: "done"))
    with serving(api) as url:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            result = await run_agent(client, openai_agents_tools(runtime, **ONLY))
    assert result.final_output == "done"
    (output,) = [each["output"] for each in api.requests[-1]["input"] if each.get("type") == "function_call_output"]
    text, picture = output
    assert (text["type"], picture["type"]) == ("input_text", "input_image")
    assert picture["image_url"] == f"data:image/png;base64,{BASE64}"


async def test_the_agents_sdk_gets_its_own_types(runtime: Runtime) -> None:
    (made,) = openai_agents_tools(runtime, **ONLY)
    assert isinstance(made, FunctionTool)
    text, picture = await made.on_invoke_tool(context_of("draw"), '{"seed": 1}')
    assert isinstance(text, ToolOutputText)
    assert isinstance(picture, ToolOutputImage)
    (plain,) = openai_agents_tools(runtime, pictures=False, **ONLY)
    assert isinstance(plain, FunctionTool)
    assert isinstance(await plain.on_invoke_tool(context_of("draw"), '{"seed": 1}'), str)


# LangChain


async def called(made: BaseTool) -> ToolMessage:
    message = await made.ainvoke(ToolCall(name="draw", args={"seed": 1}, id="call_1", type="tool_call"))
    assert isinstance(message, ToolMessage)
    return message


async def test_langchain_gets_them_as_content_blocks_where_they_are_asked_for(runtime: Runtime) -> None:
    (made,) = langchain_tools(runtime, pictures=True, **ONLY)
    message = await called(made)
    text, picture = message.content_blocks
    assert text["type"] == "text"
    assert (picture["type"], picture.get("base64"), picture.get("mime_type")) == ("image", BASE64, "image/png")
    assert json.loads(message.model_dump_json()), "checkpointers keep it as JSON"


async def test_langchain_gets_the_text_by_default_since_chat_completions_refuse_the_rest(runtime: Runtime) -> None:
    (made,) = langchain_tools(runtime, **ONLY)
    message = await called(made)
    assert isinstance(message.content, str)
    assert "art_" in message.content
    assert BASE64[:40] not in message.model_dump_json()
