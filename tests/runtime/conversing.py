"""Tools for the tests of conversations, and such as have to be loaded first."""

from __future__ import annotations

from typing import Any

import anyio

from callgate import Tool, ToolError, tool

META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]


@tool(read_only=True)
async def get_weather(city: str) -> str:
    """Current weather of a city."""
    return f"sunny in {city}"


@tool(read_only=True)
async def get_forecast(city: str) -> str:
    """Weather forecast of a city for the next days."""
    return f"rain in {city}"


@tool
async def send_mail(to: str) -> str:
    """Sends an electronic mail."""
    if to == "nobody":
        raise ToolError("there is nobody")
    return f"sent to {to}"


@tool(allowed_callers=["code"])
async def weather_archive(year: int) -> int:
    """Weather of past years."""
    return year


TOOLS = [get_weather, get_forecast, send_mail, weather_archive]


def named(definitions: list[dict[str, Any]]) -> list[str]:
    return [each["function"]["name"] if "function" in each else each["name"] for each in definitions]


def thing(name: str, says: str = "") -> Tool:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    return Tool.from_schema(name, says or f"Does {name}.", schema, lambda x: f"{name} {x}", read_only=True)


class Elsewhere:
    """Tools that cannot be listed beforehand."""

    def __init__(self, **found: list[Any]) -> None:
        self.found = found
        self.queries: list[str] = []

    async def load(self, query: str) -> list[Any]:
        self.queries.append(query)
        await anyio.lowlevel.checkpoint()
        return [each for word, tools in self.found.items() if word in query for each in tools]
