"""A run of `callgate bench`: the workloads through every contestant, then the single things. Knows only their order."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from callgate import event_loop
from callgate.bench import machine, yardstick
from callgate.bench.contest.comparison import Pace, compare
from callgate.bench.contest.environments import Environment, ready
from callgate.bench.contest.seats import Seat
from callgate.bench.contestants.listed import MODES, PEERS, Listed
from callgate.bench.model.model_client import Wire
from callgate.bench.model.talks import RealModel, ScriptedModel, talking
from callgate.bench.model.tokens import TOKENIZER
from callgate.bench.results import ModelUsed, Results
from callgate.bench.rows import Row
from callgate.bench.singles import harness
from callgate.bench.singles.context import CALLS, FULL, QUICK, TINY, Sizes
from callgate.bench.singles.measures import MEASURES
from callgate.bench.workloads import WORKLOADS

__all__ = ["FULL_RUN", "QUICK_RUN", "TINY_RUN", "Asked", "begin", "names", "run"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is to be measured, and how.

    Attributes:
        kind: for people: ``full run``.
        sizes: how often the single things.
        pace: how often the workloads.
        model: the scripted one, or a real one.
        answer_seconds: after which a contestant's turn is given up.
        workloads: names; empty for none.
        modes: callgate's modes; names.
        peers: names.
        measures: names of `MEASURES`; empty for none.
        wire: ``openai`` or ``anthropic``.
        calls: the folder with BFCL's calls, for some measures.
        command: the command line, for the results.
    """

    kind: str
    sizes: Sizes
    pace: Pace
    model: ScriptedModel | RealModel
    answer_seconds: float = 120.0
    workloads: tuple[str, ...] = tuple(WORKLOADS)
    modes: tuple[str, ...] = tuple(each.name for each in MODES)
    peers: tuple[str, ...] = tuple(each.name for each in PEERS)
    measures: tuple[str, ...] = tuple(MEASURES)
    wire: Wire = "openai"
    calls: Path = CALLS
    command: str = ""


_BESIDE = ("monty", "langgraph", "llm-sandbox", "fastmcp")
"""Peers that single things are measured beside, and that pip installs."""

FULL_RUN = Asked(
    kind="full run",
    sizes=FULL,
    pace=Pace(rounds=5, cell_seconds=20.0),
    model=ScriptedModel(turn_seconds=0.5, token_seconds=0.005),
)
QUICK_RUN = Asked(
    kind="quick run",
    sizes=QUICK,
    pace=Pace(rounds=3, cell_seconds=3.0),
    model=ScriptedModel(turn_seconds=0.1, token_seconds=0.001),
)
TINY_RUN = Asked(
    kind="smoke run",
    sizes=TINY,
    pace=Pace(rounds=1, cell_seconds=1.0, paced=0.1),
    model=ScriptedModel(turn_seconds=0.0, token_seconds=0.0),
)


def names() -> tuple[str, ...]:
    """What `--only` takes: workloads, then single things."""
    return (*WORKLOADS, *MEASURES)


def begin(asked: Asked) -> Results:
    """Empty results, with where and when."""
    return Results(
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), sizes=asked.kind, command=asked.command,
        machine=machine.describe(), load=machine.load(), sandbox="",
        model=_model(asked) if asked.workloads else None,
    )  # fmt: skip


def _model(asked: Asked) -> ModelUsed:
    match asked.model:
        case RealModel() as real:
            endpoint = _without_secrets(real.base_url) or "the provider's own"
            return ModelUsed(simulated=False, name=real.name, wire=asked.wire, endpoint=endpoint)
        case scripted:
            return ModelUsed(
                simulated=True, name="a script for each workload", wire=asked.wire, tokenizer=TOKENIZER,
                turn_seconds=scripted.turn_seconds, token_seconds=scripted.token_seconds,
                context_tokens=scripted.context_tokens,
            )  # fmt: skip


def _without_secrets(address: str) -> str:
    """An address for people to read, who are not to have its password or the keys in its query."""
    scheme, mark, rest = address.partition("?")[0].partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}"


def run(asked: Asked, results: Results, told: Callable[[str], None], saved: Callable[[], None]) -> None:
    """Measure.

    Args:
        asked: what.
        results: from `begin`; whatever was measured is in it at once, also where this ends with an exception.
        told: called with what is being done.
        saved: called whenever a workload or a single thing is done.
    """
    environments = event_loop.run(_environments, asked, told)
    if asked.workloads:
        event_loop.run(_compare, asked, environments, results, told, saved)
    if asked.measures:

        def found(rows: list[Row]) -> None:
            results.rows += rows
            yardstick.note(results.yardstick.seconds)
            saved()

        yardstick.note(results.yardstick.seconds)
        pythons = {name: each.python for name, each in environments.items() if not each.failure and each.versions}
        measured = harness.run(
            asked.sizes, asked.measures, told, calls=asked.calls, found=found, interpreters=pythons
        )  # fmt: skip
        results.sandbox = results.sandbox or measured.sandbox
    results.load_after = machine.load()
    saved()


async def _environments(asked: Asked, told: Callable[[str], None]) -> dict[str, Environment]:
    """Of all contestants; without workloads, of those that single things are measured beside."""
    wanted = [each for each in _listed(asked) if asked.workloads or each.name in _BESIDE]
    return {each.name: await ready(each, told=told) for each in wanted}


def _listed(asked: Asked) -> list[Listed]:
    ours = [each for each in MODES if each.name in asked.modes]
    return ours + [each for each in PEERS if each.name in asked.peers]


async def _compare(
    asked: Asked,
    environments: Mapping[str, Environment],
    results: Results,
    told: Callable[[str], None],
    saved: Callable[[], None],
) -> None:
    async with AsyncExitStack() as stack:
        talk = await stack.enter_async_context(talking(asked.wire, asked.model))
        seats = [
            await stack.enter_async_context(_seat(each, environments[each.name], asked)) for each in _listed(asked)
        ]
        workloads = [WORKLOADS[name] for name in asked.workloads]
        results.entries += [seat.entry() for seat in seats]
        try:
            await compare(results, workloads, seats, talk, asked.pace, told, saved)
        finally:
            results.entries[:] = [seat.entry() for seat in seats]
            described = dict.fromkeys(seat.sandbox for seat in seats if seat.sandbox)
            results.sandbox = "; ".join(described)


def _seat(listed: Listed, environment: Environment, asked: Asked) -> Seat:
    return Seat(
        listed, environment.python, ours=listed in MODES, answer_seconds=asked.answer_seconds,
        failure=environment.failure,
    )  # fmt: skip
