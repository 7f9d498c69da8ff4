"""A run of `callgate bench`: the workloads through every contestant, then the single things. Knows only their order."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from callgate import event_loop
from callgate_bench import machine
from callgate_bench.contest.comparison import Pace, compare
from callgate_bench.contest.process import Environment, ready
from callgate_bench.contest.seats import Seat
from callgate_bench.contestants.listed import MODES, PEERS
from callgate_bench.figures import Row
from callgate_bench.model.talks import TOKENIZER, RealModel, ScriptedModel, Wire, talking
from callgate_bench.results import ModelUsed, Results
from callgate_bench.singles import measures
from callgate_bench.singles.bench import CALLS, FULL, QUICK, TINY, Sizes
from callgate_bench.singles.measures import MEASURES
from callgate_bench.workloads import WORKLOADS

__all__ = ["FULL_RUN", "QUICK_RUN", "TINY_RUN", "Asked", "begin", "run"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The options of a run.

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
        calls: the folder beside which the data of some measures is.
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


_BESIDE = ("monty", "langgraph", "dbos")
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


def begin(asked: Asked) -> Results:
    """Empty results, with the machine and the time."""
    return Results(
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), sizes=asked.kind, command=asked.command,
        machine=machine.describe(), load=machine.load(), sandbox="", model=_model(asked) if asked.workloads else None,
    )  # fmt: skip


def _model(asked: Asked) -> ModelUsed:
    model = asked.model
    if isinstance(model, RealModel):
        address = urlsplit(model.base_url)  # without its password, and the keys in its query
        endpoint = address._replace(netloc=address.netloc.rpartition("@")[2], query="", fragment="").geturl()
        return ModelUsed(simulated=False, name=model.name, wire=asked.wire, endpoint=endpoint or "the provider's own")
    return ModelUsed(
        simulated=True, name="a script for each workload", wire=asked.wire, tokenizer=TOKENIZER,
        turn_seconds=model.turn_seconds, token_seconds=model.token_seconds, context_tokens=model.context_tokens,
    )  # fmt: skip


def run(asked: Asked, results: Results, on_progress: Callable[[str], None], saved: Callable[[], None]) -> None:
    """Measure.

    Args:
        asked: what.
        results: from `begin`; whatever was measured is in it at once, also where this ends with an exception.
        on_progress: called with what is being done.
        saved: called whenever a workload or a single thing is done.
    """
    event_loop.run(_run, asked, results, on_progress, saved)


async def _run(asked: Asked, results: Results, on_progress: Callable[[str], None], saved: Callable[[], None]) -> None:
    listed = [each for each in MODES if each.name in asked.modes]
    listed += [each for each in PEERS if each.name in asked.peers]
    wanted = [each for each in listed if asked.workloads or each.name in _BESIDE]
    environments: dict[str, Environment] = {}
    for each in wanted:
        taken = (
            replace(each, cannot="") if each.name in _BESIDE else each
        )  # in the workloads its seat says that it cannot
        environments[each.name] = await ready(taken, on_progress=on_progress)
    if asked.workloads:
        async with AsyncExitStack() as stack:
            talk = await stack.enter_async_context(talking(asked.wire, asked.model))
            seats = []
            for each in listed:
                found = environments[each.name]
                seat = Seat(each, found.packages, answer_seconds=asked.answer_seconds, failure=found.failure)
                seats.append(await stack.enter_async_context(seat))
            results.entries += [seat.entry() for seat in seats]
            try:
                workloads = [WORKLOADS[name] for name in asked.workloads]
                await compare(results, workloads, seats, talk, asked.pace, on_progress, saved)
            finally:
                results.entries[:] = [seat.entry() for seat in seats]
                results.sandbox = "; ".join(dict.fromkeys(seat.sandbox for seat in seats if seat.sandbox))
    if asked.measures:

        def found_rows(rows: list[Row]) -> None:
            results.rows += rows
            machine.note(results.yardstick.seconds)
            saved()

        machine.note(results.yardstick.seconds)
        packages = {name: each.packages for name, each in environments.items()}
        sandbox = await measures.run(
            asked.sizes, asked.measures, on_progress, found_rows, calls=asked.calls, packages=packages
        )  # fmt: skip
        results.sandbox = results.sandbox or sandbox
    results.load_after = machine.load()
    saved()
