"""What contestants that run callgate's plans, and have no plan language, do alike. The standard library alone.

The model writes callgate's plans for them and reads callgate's words about it, so that is what they show and answer.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from callgate.bench.contestants.references import as_text
from callgate.bench.contestants.seat import CannotDo, Meter, Opened, Turn, answered

__all__ = ["PLAN_FIELDS", "opened", "outputs", "plan_of", "ran", "refuse_others"]

PLAN_FIELDS = frozenset({"steps", "output_steps", "goal", "reasoning", "description"})
"""Of a plan, those that such a contestant can take."""


def opened(note: str) -> dict[str, Any]:
    """What `seat.Contestant.open` returns.

    Args:
        note: for the row.
    """
    tool, argument = "execute_tool_plan", "plan"
    return answered(Opened(tools=[], form="plan", tool=tool, argument=argument, own_words=False, note=note))


async def ran(
    calls: Sequence[Mapping[str, Any]],
    run: Callable[[Mapping[str, Any]], Awaitable[str]],
    meter: Meter,
    *,
    scripted: bool = True,
) -> dict[str, Any]:
    """What `seat.Contestant.turn` returns; the plans run at the same time.

    Args:
        calls: of the turn.
        run: takes the arguments of one, returns the text for the model.
        meter: of the tools.
        scripted: whether a script plays the model.

    Raises:
        CannotDo: as `run` does; a real model is told instead.
    """

    async def told(arguments: Mapping[str, Any]) -> str:
        try:
            return await run(arguments)
        except CannotDo as reason:
            if scripted:
                raise
            return f"The plan cannot be run: {reason}"

    meter.taken()
    started = time.perf_counter()
    texts = await asyncio.gather(*(told(each["arguments"]) for each in calls))
    seconds = time.perf_counter() - started
    return answered(Turn(texts=texts, seconds=seconds, intervals=meter.taken()))


def plan_of(arguments: Mapping[str, Any]) -> Any:
    """The plan in the arguments of a call, which may be JSON text, or be the arguments themselves.

    Raises:
        ValueError: it is text, and no JSON.
    """
    plan = arguments.get("plan", arguments)
    return json.loads(plan) if isinstance(plan, str) else plan


def outputs(results: Mapping[str, Any], shown: Sequence[str]) -> str:
    """What the model is told of a plan that was run.

    Args:
        results: by the steps' ids.
        shown: ids of the steps that it asked for; those without a result are left out.
    """
    return "\n".join(["Outputs:", *(f"{each}: {as_text(results[each])}" for each in shown if each in results)])


def refuse_others(what: str, given: Mapping[str, Any], fields: frozenset[str], why: str) -> None:
    """Do nothing where all fields are among those that can be taken.

    Args:
        what: the plan or one of its steps, for the text.
        given: it.
        fields: that can be taken.
        why: what it means that others cannot: a relative clause, for the text.

    Raises:
        CannotDo: there are others; the text names them.
    """
    others = sorted(set(given) - fields)
    if others:
        raise CannotDo(f"{what} asks for {', '.join(others)}, {why}")
