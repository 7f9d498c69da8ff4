"""All single things, one after the other: `MEASURES`, and `run`. Knows order, not figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from callgate import CallgateError, SandboxUnavailable
from callgate_bench.contest.process import PeerFailed, PeerProcess, plain
from callgate_bench.figures import Row
from callgate_bench.singles import plans, programs
from callgate_bench.singles.bench import CALLS, Bench, BenchFailed, NotMeasured, Sizes
from callgate_bench.singles.durable import durable
from callgate_bench.singles.sandboxes import sandboxes
from callgate_bench.singles.search import search
from callgate_bench.singles.written import written

__all__ = ["MEASURES", "run"]

MEASURES: dict[str, Callable[[Bench], Awaitable[list[Row]]]] = {
    "warm": partial(programs.in_turns, "warm"),
    "throughput": programs.throughput,
    "memory": programs.memory,
    "cold": programs.cold,
    "call": partial(programs.in_turns, "call"),
    "gather": partial(programs.in_turns, "gather"),
    "many": programs.many,
    "fast": partial(programs.in_turns, "fast"),
    "slow": partial(programs.in_turns, "slow"),
    "written": written,
    "plan": plans.plan,
    "reference": plans.reference,
    "makespan": plans.makespan,
    "docker": programs.docker,
    "sandboxes": sandboxes,
    "loop": programs.loop,
    "stall": plans.stall,
    "durable": durable,
    "search": search,
}
"""By the names that `--only` takes, in the order of the table. Each takes a `Bench` and gives rows."""


async def run(
    sizes: Sizes,
    only: Collection[str],
    on_progress: Callable[[str], None],
    found: Callable[[list[Row]], None],
    *,
    calls: Path = CALLS,
    packages: Mapping[str, str] | None = None,
) -> str:
    """Measure; returns what confined callgate's programs.

    Args:
        sizes: how often each thing.
        only: names of `MEASURES`.
        on_progress: called with the name of each measurement before it starts.
        found: called with the rows of each measurement when it is done.
        calls: the folder beside which the data of `search` is; where it is not there, rows say so.
        packages: folders of peers' packages, by the names of `contestants.listed.PEERS`; the harness itself may have
            those that are missing.
    """

    def peer(name: str, module: str) -> PeerProcess:
        folder = (packages or {}).get(name, "")
        return PeerProcess(f"callgate_bench.contestants.{module}", packages=folder, answer_seconds=60)

    async with (
        peer("monty", "monty") as monty,
        peer("langgraph", "langgraph_graph") as langgraph,
        peer("dbos", "dbos_workflow") as dbos,
    ):
        for each in (monty, langgraph, dbos):
            await each.begin()
        bench = Bench(sizes, monty, langgraph, dbos, calls)
        for name in only:
            on_progress(name)
            try:
                rows = await MEASURES[name](bench)
            except Exception as error:  # whatever it is: the others go on
                told_of = "not measured" if isinstance(error, NotMeasured | SandboxUnavailable) else "failed"
                rows = [Row(key=name, measure=name, measured=f"{told_of}: {_why(error)}", verdict="open")]
            found(rows)
        return "; ".join(bench.sandboxes)


def _why(error: Exception) -> str:
    """For the table; of groups, what is in them."""
    if isinstance(error, ExceptionGroup):
        return plain("; ".join(map(_why, error.exceptions)), 2000)
    ours = isinstance(error, (CallgateError, BenchFailed, NotMeasured, PeerFailed))
    return plain(str(error) if ours else f"{type(error).__name__}: {error}", 2000)
