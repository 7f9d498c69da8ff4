"""A loop that only computes: what the sandbox costs a program that asks nothing of the host."""

from __future__ import annotations

import statistics

from callgate.bench.figures import Figure, ratio, seconds
from callgate.bench.peers.process import PeerFailed
from callgate.bench.rows import Row, against
from callgate.bench.singles.context import Bench, calm, execute, opened

__all__ = ["loop"]

_MOST = 1.05  # "1.0 × CPython", within what two runs of the same interpreter differ by


def _program(length: int) -> str:
    return (
        "def work(n):\n    total = 0\n    for i in range(n):\n        total += i * i % 7\n    return total\n"
        f"work({length})\n"
    )


def _timed(code: str) -> str:
    return f"import time\nstarted = time.process_time()\n{code}took = time.process_time() - started\ntook"


async def loop(bench: Bench) -> list[Row]:
    """The same program in the guest, in this interpreter, and in the peer, in turns."""
    code = _program(bench.sizes.loop_length)
    ours: list[float] = []
    guest: list[float] = []
    plain: list[float] = []
    theirs: list[float] = []
    failed = ""
    async with opened() as runtime:
        for _ in range(bench.sizes.loops):
            await calm(runtime)
            ours.append((await execute(runtime, code))[0])
            guest.append((await execute(runtime, _timed(code)))[1].value)
            namespace: dict[str, float] = {}
            exec(compile(_timed(code), "loop", "exec"), namespace)
            plain.append(namespace["took"])
            if not failed:
                try:
                    theirs += (await bench.monty.ask("run", code=code))["seconds"]
                except PeerFailed as error:
                    failed = str(error)
    row = against(
        "loop", "a CPU-bound loop in the guest", ours, peer=bench.monty.name, theirs=theirs, failed=failed,
        note="against CPython: processor time of the loop itself; against Monty: code to result",
    )  # fmt: skip
    share = ratio(guest, plain)
    numbers = {**row.numbers, "plain_p50": statistics.median(plain), "ratio_to_plain": share}
    changes = {
        "measured": f"{share:.2f} × plain CPython ({seconds(Figure.of(plain).p50)}); code to result {row.measured}",
        "target": f"1.0 × plain CPython (up to {_MOST:g}: noise)",
        "verdict": "met" if share <= _MOST else "missed",
        "numbers": numbers,
    }
    return [Row(**{**row.to_dict(), **changes})]
