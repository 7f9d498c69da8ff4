"""Tools, a type and turns for tasks that a program or a plan may answer."""

from __future__ import annotations

import anyio
from pydantic import BaseModel

from callgate import ToolError, tool
from callgate.agent.models.scripted import Calls


class Weather(BaseModel):
    """Weather of a city."""

    city: str
    degrees: float


@tool(read_only=True)
async def weather(city: str) -> Weather:
    """Weather of a city."""
    if city == "Atlantis":
        raise ToolError("there is no such city")
    return Weather(city=city, degrees=21.5)


@tool(requires_approval=True)
async def buy(what: str) -> str:
    """Buy something."""
    return what


@tool
async def lose(what: str) -> str:
    """Never answers."""
    await anyio.sleep_forever()
    return what


@tool
async def send(what: str) -> str:
    """Send something."""
    return what


TOOLS = [weather, buy, lose]
PROGRAM = Calls(("execute_code", {"code": "w = await weather('Rome')\nfinal_answer(w)"}))
PLAN = Calls(
    ("execute_tool_plan",
     {"steps": [{"id": "w", "tool": "weather", "arguments": {"city": "Rome"}}], "answer": {"$ref": "w"}})
)  # fmt: skip
ROME = Weather(city="Rome", degrees=21.5)
JSON = '{"city":"Rome","degrees":21.5}'
ROME_OF_W = {"$ref": "w"}


def not_oslo(given: Weather) -> None:
    if given.city == "Oslo":
        raise ValueError("not Oslo, please")
