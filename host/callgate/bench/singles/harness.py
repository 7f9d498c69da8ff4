"""All single things: the measurements one after the other, some again under trio. Knows order, not figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import anyio

from callgate import event_loop
from callgate.bench.peers.process import Bubblewrap, MontyPeer, PeerFailed, plain
from callgate.bench.rows import Row
from callgate.bench.singles.context import CALLS, Bench, BenchFailed, Sizes, opened
from callgate.bench.singles.measures import MEASURES, ON_TRIO
from callgate.errors import CallgateError

__all__ = ["Measured", "run"]

_REASON_CHARACTERS = 2000


@dataclass(slots=True)
class Measured:
    """What was measured.

    Attributes:
        rows: of the table.
        sandbox: what confined callgate's programs.
    """

    rows: list[Row] = field(default_factory=list)
    sandbox: str = ""


def run(
    sizes: Sizes,
    only: Collection[str],
    told: Callable[[str], None],
    *,
    calls: Path = CALLS,
    found: Callable[[list[Row]], None] = lambda rows: None,
    interpreters: Mapping[str, str] | None = None,
) -> Measured:
    """Measure.

    Args:
        sizes: how often each thing.
        only: names of `MEASURES`; empty for all, with some repeated under trio.
        told: called with the name of each measurement before it starts.
        calls: a folder with requests and the calls that answer them; where it is not there, rows say so.
        found: called with the rows of each measurement when it is done.
        interpreters: of environments that have peers, by the names of `contestants.listed.PEERS`.
    """
    measured = Measured()

    def keep(rows: list[Row]) -> None:
        measured.rows += rows
        found(rows)

    pythons = interpreters or {}
    event_loop.run(_measure, measured, sizes, only or tuple(MEASURES), told, calls, pythons, keep)
    again = [name for name in ON_TRIO if name in only or not only]
    if again and find_spec("trio"):

        def again_told(name: str) -> None:
            told(f"{name} under trio")

        def keep_again(rows: list[Row]) -> None:
            keep([_for_information(row) for row in rows])

        anyio.run(_measure, Measured(), sizes, again, again_told, calls, pythons, keep_again, backend="trio")
    return measured


def _for_information(row: Row) -> Row:
    changes = {"measure": f"{row.measure} (host on trio)", "target": "", "verdict": "for information"}
    return Row(**{**row.to_dict(), **changes})


def _told(error: Exception) -> str:
    """For the table; of groups, what is in them."""
    if isinstance(error, ExceptionGroup):
        return plain("; ".join(map(_told, error.exceptions)), _REASON_CHARACTERS)
    ours = isinstance(error, (CallgateError, BenchFailed, PeerFailed))
    return plain(str(error) if ours else f"{type(error).__name__}: {error}", _REASON_CHARACTERS)


async def _measure(
    measured: Measured,
    sizes: Sizes,
    names: Collection[str],
    told: Callable[[str], None],
    calls: Path,
    interpreters: Mapping[str, str],
    keep: Callable[[list[Row]], None],
) -> None:
    try:
        async with opened(pool_size=0) as runtime:
            measured.sandbox = runtime.backend.description
    except Exception as error:
        measured.sandbox = f"none: {_told(error)}"
    async with MontyPeer(python=interpreters.get("monty", "")) as monty:
        bench = Bench(sizes, monty, Bubblewrap(), calls, interpreters)
        for name in names:
            told(name)
            try:
                rows = await MEASURES[name](bench)
            except Exception as error:  # whatever it is: the others go on
                rows = [Row(key=name, measure=name, measured=f"failed: {_told(error)}", verdict="open")]
            keep(rows)
        measured.sandbox = "; ".join((measured.sandbox, *bench.sandboxes))
