"""From code to result: a fresh guest, one small program."""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread

from callgate.bench.peers.process import PeerFailed
from callgate.bench.rows import Row, against
from callgate.bench.singles.context import Bench, calm, execute, opened

__all__ = ["cold", "warm"]

# what `callgate_guest.zygote` imports ahead, less what these import themselves
_READY = (
    "asyncio", "calendar", "csv", "dataclasses", "decimal", "difflib", "fractions", "hashlib", "json", "pathlib",
    "statistics", "tempfile", "traceback", "uuid", "zoneinfo",
)  # fmt: skip
_PROGRAMS = {"1 + 1": "1 + 1", "one awaited call": "await tick(n=1)"}


async def warm(bench: Bench) -> list[Row]:
    """A guest from a full pool against a checkout of Monty's pool. Both rest between runs, so that pools can refill."""
    rows = []
    async with opened() as runtime:
        for name, code in _PROGRAMS.items():
            ours: list[float] = []
            theirs: list[float] = []
            failed = ""
            for _ in range(bench.sizes.runs):
                await calm(runtime)
                ours.append((await execute(runtime, code))[0])
                if not failed:
                    await calm(runtime)
                    try:
                        theirs += (await bench.monty.ask("run", code=code))["seconds"]
                    except PeerFailed as error:
                        failed = str(error)
            rows.append(
                against(
                    "warm", f"fresh jailed CPython, code to result, pool warm: {name}", ours, peer=bench.monty.name,
                    theirs=theirs, most=1.0, failed=failed, note="Monty: a subset of Python, no kernel boundary",
                )
            )  # fmt: skip
    return rows


async def cold(bench: Bench) -> list[Row]:
    """A guest opened for the run against bubblewrap starting Python: bare, and with what a guest has imported."""
    peers: dict[str, Sequence[str]] = {"": (), " that has imported what a guest has": _READY}
    rows = []
    async with opened(pool_size=0) as runtime:
        await execute(runtime, "1 + 1")
        for kind, modules in peers.items():
            ours: list[float] = []
            theirs: list[float] = []
            failed = ""
            for _ in range(bench.sizes.cold_runs):
                ours.append((await execute(runtime, "1 + 1"))[0])
                if not failed:
                    try:
                        theirs.append(await anyio.to_thread.run_sync(bench.bubblewrap.run, modules))
                    except PeerFailed as error:
                        failed = str(error)
            rows.append(
                against(
                    "cold", f"the same without a pool: 1 + 1, beside Python{kind or ', bare'}", ours,
                    peer=bench.bubblewrap.name + kind, theirs=theirs, most=0.06, failed=failed,
                )
            )  # fmt: skip
    return rows
