"""Plans read and driven by hand, and values to run them with. Used by the tests of this folder."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from callgate.limits import Limits
from callgate.plan.actions import (
    Action,
    Begin,
    Call,
    Event,
    Exceeded,
    Failed,
    Finished,
    GoOn,
    Paused,
    Returned,
    StepEnded,
)
from callgate.plan.compile import CompiledPlan, Reading
from callgate.plan.engine import Engine
from callgate.plan.faults import PlanFault
from callgate.plan.outcomes import Outcome
from callgate.runtime.gate import Gate
from callgate.runtime.plans.run import PlanRun
from callgate.tools import Registry, Tool
from callgate.tools.encoding import compact_json

DATA = Path(__file__).parents[3] / "shared" / "data" / "plans"

ANYTHING: dict[str, Any] = {"type": "object"}


def nothing(**arguments: Any) -> None:
    """The function of tools that are never called."""
    raise AssertionError(f"it was called with {arguments}")


def stub(name: str, input_schema: dict[str, Any] | None = None, **options: Any) -> Tool:
    """A tool that takes anything, unless it is given a schema, and cannot be called."""
    return Tool.from_schema(name, "A stub.", input_schema or ANYTHING, nothing, **options)


TAKE = stub("take", read_only=True)
TOOLS = (
    TAKE,
    stub("give"),
    stub(
        "get_weather",
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city"],
        },
        output_schema={
            "type": "object",
            "properties": {"temp": {"type": "number"}, "wind": {"type": "object", "properties": {"speed": {}}}},
        },
    ),
)


def plans(*tools: Tool) -> Gate:
    """The gate of a runtime with these tools, or with `TOOLS`."""
    return Gate(Registry(tools or TOOLS))


PLANS = plans()


def read(given: Any, *, door: Gate = PLANS, **limits: Any) -> Reading:
    """A plan, read."""
    return PlanRun(door, Limits(**limits)).read(given)


def compiled(given: Any, *, door: Gate = PLANS, **limits: Any) -> CompiledPlan:
    """A plan that has no errors, compiled."""
    reading = read(given, door=door, **limits)
    assert reading.plan is not None, [str(fault) for fault in reading.faults]
    return reading.plan


def told(faults: list[PlanFault]) -> list[tuple[str, str | None, str]]:
    """Code, step and place of each."""
    return [(fault.code, fault.step, fault.place) for fault in faults]


def step(id: str, tool: str = "take", /, **fields: Any) -> dict[str, Any]:
    """A step as it is written."""
    return {"id": id, "tool": tool, "arguments": {}, **fields}


class Play:
    """An engine driven by hand, and what it has said."""

    def __init__(
        self, plan: CompiledPlan, *, window: int = 64, max_bytes: int = 1 << 20, memory: int = 1 << 30, most: int = 1024
    ) -> None:
        self.ids = [each.id for each in plan.steps]
        self.engine = Engine(plan.steps, max_bytes=max_bytes, max_memory_bytes=memory, window=window, max_open=most)
        self.calls: list[Call] = []
        """All of them, in order."""
        self.open: deque[Call] = deque()
        """Those without an answer."""
        self.ended: list[int] = []
        self.finished = 0
        self.exceeded: list[int] = []

    def feed(self, event: Event) -> list[Action]:
        """One event."""
        actions = self.engine.handle(event)
        for action in actions:
            if isinstance(action, Call):
                self.calls.append(action)
                self.open.append(action)
            elif isinstance(action, StepEnded):
                self.ended.append(action.step)
            elif isinstance(action, Finished):
                self.finished += 1
            elif isinstance(action, Exceeded):
                self.exceeded.append(action.used_bytes)
        if any(isinstance(action, Paused) for action in actions):
            actions += self.feed(GoOn())
        return actions

    def begin(self) -> list[Call]:
        """The first calls."""
        return [action for action in self.feed(Begin()) if isinstance(action, Call)]

    def answer(self, call: Call, result: Any) -> list[Action]:
        """The call gave this JSON value, or raised this error."""
        self.open.remove(call)
        if isinstance(result, Exception):
            return self.feed(Failed(*call[:3], str(result), type(result).__name__, isinstance(result, TimeoutError)))
        return self.feed(Returned(*call[:3], compact_json(result)))

    def run(self, answers: Mapping[str, Any] | Callable[[Call], Any]) -> Play:
        """To the end; `answers` are results by step (None for others), or a function that makes them."""
        self.begin()
        while self.open:
            call = self.open[0]
            result = answers(call) if callable(answers) else answers.get(self.ids[call.step])
            self.answer(call, result)
        assert self.finished == 1, self.engine.outcomes
        return self

    def outcome(self, id: str) -> Outcome:
        """What became of a step."""
        return self.engine.outcomes[self.ids.index(id)]

    def result(self, id: str) -> Any:
        """What a step came to."""
        result = self.engine.inputs.results[self.ids.index(id)]
        assert result is not None
        return result.value

    @property
    def held_bytes(self) -> int:
        """Memory of results, as the engine counts it."""
        return self.engine.inputs.held_bytes

    def arguments(self, id: str) -> Any:
        """What a step's only call was made with."""
        (call,) = [each for each in self.calls if each.step == self.ids.index(id)]
        return call.arguments


def played(plan: Any, answers: Mapping[str, Any] | Callable[[Call], Any] = {}, **options: Any) -> Play:  # noqa: B006
    """A plan read, and run to its end."""
    return Play(compiled(plan), **options).run(answers)


def arrived(result: Any, written: Any, **plan_fields: Any) -> Any:
    """What the argument `written` becomes, where step ``s`` gave `result`."""
    play = referring(result, written, **plan_fields)
    assert play.outcome("t").status == "succeeded", play.outcome("t")
    return play.arguments("t")["x"]


def referring(result: Any, written: Any, **plan_fields: Any) -> Play:
    """The run of a plan whose step ``t`` has the argument `written`, where step ``s`` gave `result`."""
    return played({"steps": [step("s"), step("t", arguments={"x": written})], **plan_fields}, {"s": result})


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal with their types and the order of their keys: 1 is neither 1.0 nor true."""
    return compact_json(one) == compact_json(other)


def doubled(text: str) -> str:
    """Text as it is written before an insertion, to arrive as it is."""
    return re.sub(r"(\$+)(\{|ref:|$)", r"\1\1\2", text)


def escaped(text: str) -> str | dict[str, str]:
    """Text as it is written where it stands alone, to arrive as it is."""
    ours = text.startswith(("$ref:", "$item", "$index", "${", "$$"))
    if re.search(r"[{<%@#\[]|^\s*(?:=|\$|ref:|steps?[.\[])", text) and not ours:
        return {"$literal": text}
    text = re.sub(r"(\$+)(\{|ref:)", r"\1\1\2", text)
    return f"${text}" if re.match(r"\$+(item($|[.\[])|index$)", text) else text


TRAPS = [
    "", "007", "1e5", "true", "null", "$ref:s", "$ref:s.a", "${s}", "$${s}", "$$ref:s", "$item", "$index", "$", "$$",
    "steps[0].result", "[1,2]", '{"a":1}', "a.b", "a b", 'say "hi"', "it's", "a]b", "[*]", "length", "__class__", "-1",
    "0", "ä", "\n", "\\", "\u2028", "😀", "}", "{",
]  # fmt: skip
TEXTS = st.sampled_from(TRAPS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = (
    st.integers(-3, 300)
    | st.sampled_from([2**53 + 1, -(2**64), 10**40, 0.1, -0.0, 1.0, 1e300, 5e-324])
    | st.floats(allow_nan=False, allow_infinity=False)
)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    LEAVES, lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4), max_leaves=12
)
"""Any JSON value, with much in it that looks like the language of plans."""


def shared(name: str) -> Any:
    """The JSON of one of the shared files of plans: a skip where they are absent, in CI a failure."""
    path = DATA / name
    if not path.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} has to be there in CI")
        pytest.skip(f"{path} is absent")
    if path.suffix != ".gz":
        return json.loads(path.read_text(encoding="utf-8"))
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
