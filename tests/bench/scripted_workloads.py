"""Workloads for the tests of the scripted model: what a script may do, and what it should not."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from callgate_bench.workloads.scripts import marked, read
from callgate_bench.workloads.workload import Call, ScriptFailed, Workload

CITIES = ("Rome", "Oslo", "Bäle")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"name": "get_weather", "description": "The weather of a city.", "input_schema": SCHEMA},
    {"name": "get_height", "description": "How high a city lies.", "input_schema": SCHEMA},
]
PROGRAM = "rows = await get_weather(city='Rome')\nf\"answer: {rows['temp']}\""
PLAN = {"steps": [{"id": "rome", "tool": "get_weather", "arguments": {"city": "Rome"}}]}


async def get_weather(city: str) -> dict[str, Any]:
    """The weather of a city."""
    return {"city": city, "temp": len(city)}


async def get_height(city: str) -> dict[str, Any]:
    """How high a city lies."""
    return {"city": city, "metres": 10 * len(city)}


def _calls() -> Generator[list[Call], list[str], str]:
    weather = yield [Call("get_weather", {"city": city}) for city in CITIES]
    warmest = max((read(text) for text in weather), key=lambda each: each["temp"])
    (height,) = yield [Call("get_height", {"city": warmest["city"]})]
    return f"{warmest['city']}: {warmest['temp']} degrees, {read(height)['metres']} m"


def _plans() -> Generator[dict[str, Any], str, str]:
    return "planned: " + (yield PLAN)


def _programs() -> Generator[str, str, str]:
    return "programmed: " + marked((yield PROGRAM))


def _fails() -> Generator[list[Call], list[str], str]:
    (text,) = yield [Call("get_weather", {"city": "Rome"})]
    raise ScriptFailed(f"not what was expected: {text}")


def _breaks() -> Generator[list[Call], list[str], str]:
    (text,) = yield [Call("get_weather", {"city": "Rome"})]
    return str(read(text)["no such key"])


def _invents() -> Generator[list[Call], list[str], str]:
    yield [Call("get_wether", {"city": "Rome"})]
    return "never"


def _stalls() -> Generator[list[Call], list[str], str]:
    yield []
    return "never"


def _workload(name: str, calls: Any, plans: Any = None) -> Workload:
    return Workload(
        name=name, title=name, about="", task="Where is it warmest?", tools=(get_weather, get_height),
        calls=calls, plans=plans, programs=_programs, answer="Rome", why_no_plan="nobody wrote one",
        why_no_calls="too much",
    )  # fmt: skip


WORKLOADS = {
    each.name: each
    for each in (
        _workload("weather", _calls, _plans),
        _workload("fails", _fails),
        _workload("breaks", _breaks),
        _workload("invents", _invents),
        _workload("stalls", _stalls),
        _workload("uncalled", None),
    )
}
