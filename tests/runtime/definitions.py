"""What the tests of definitions share: tools of each kind, and what the providers' SDKs take."""

from __future__ import annotations

import functools
from typing import Any

import mcp.types
from anthropic.types import ToolParam
from anthropic.types.beta import BetaToolParam
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam, ToolSearchToolParam
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from callgate import Runtime, Tool, tool
from callgate.tools import Caller

META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]


@tool(
    read_only=True,
    examples=[{"city": "Oslo"}, {"arguments": {"city": "Rome", "unit": "F"}}, {"town": "x"}, "get_weather('Oslo')"],
    limitations=["knows large cities only"],
)
async def get_weather(city: str, unit: str = "C") -> dict[str, int]:
    """Current weather."""
    return {"temp": len(city)}


@tool(destructive=True, requires_approval=True, allowed_callers=["direct"])
async def delete_everything(why: str) -> str:
    """Deletes everything."""
    return why


@tool(allowed_callers=["code"])
async def only_in_code(n: int) -> int:
    return n


@tool(allowed_callers=["plan"])
async def only_in_plans(n: int) -> int:
    return n


@tool(allowed_callers=[])
async def for_nobody() -> None: ...


class Sky(TypedDict):
    temp: float
    sky: str


@tool(read_only=True, name="get_weather")
async def look_up(city: str) -> Sky:
    """Current weather of a city."""
    return {"temp": 1.0, "sky": "clear"}


@tool
async def order(product: str, count: int) -> str:
    """Orders a product. It cannot be undone."""
    return product


OF_EACH_KIND = [get_weather, delete_everything, only_in_code, only_in_plans, for_nobody]
TWO = [look_up, order]


def made(*tools: Any, sandbox: Any = None, **options: Any) -> Runtime:
    return Runtime(tools or OF_EACH_KIND, sandbox=sandbox, **options)


def many(count: int, **options: Any) -> list[Tool]:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    return [
        Tool.from_schema(f"tool_number_{n}", f"Does the thing that has the number {n}.", schema, print, **options)
        for n in range(count)
    ]


def callers(name: str, *allowed: Caller) -> Tool:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    return Tool.from_schema(name, f"Does {name}.", schema, print, allowed_callers=list(allowed))


def described(runtime: Runtime, name: str, **options: Any) -> str:
    definitions = {each["name"]: each for each in runtime.tool_definitions("anthropic", **options)}
    text: str = definitions[name]["description"]
    return text


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for each in inside for text in texts_in(each)]


def name_of(definition: dict[str, Any]) -> str:
    name: str = definition["function"]["name"] if "function" in definition else definition["name"]
    return name


@functools.cache
def adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def fits(definition: dict[str, Any], shape: Any) -> None:
    """Valid for the SDK, and nothing in it that the SDK does not know."""
    assert set(adapter(shape).validate_python(definition)) == set(definition)


def anthropics(definition: dict[str, Any]) -> None:
    fits(definition, ToolParam)
    fits(definition, BetaToolParam)


def openais(definition: dict[str, Any]) -> None:
    fits(definition, ChatCompletionFunctionToolParam)
    known = adapter(ChatCompletionFunctionToolParam).validate_python(definition)
    assert set(known["function"]) == set(definition["function"])


def responses(definition: dict[str, Any]) -> None:
    fits(definition, FunctionToolParam if definition["type"] == "function" else ToolSearchToolParam)


def mcps(definition: dict[str, Any]) -> None:
    known = mcp.types.Tool.model_validate(definition)
    assert known.model_dump(by_alias=True, exclude_none=True, mode="json") == definition


CHECK = {"anthropic": anthropics, "openai": openais, "openai-responses": responses, "mcp": mcps}
