"""Checks many programs, in one process. Prints nothing."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.from_thread
import anyio.to_thread

from fast_path.reduction import reduced
from replays.programs import Program
from replays.recording import Checked, Recorder, drawn, open_recorder

__all__ = ["checked", "share"]

_AT_ONCE = 3
"""Programs at the same time."""


def share(seed: int, themes: Sequence[str], keep: bool, numbers: range) -> list[Checked]:
    """Check the programs with these numbers, with new sandboxes; one with a fault is made smaller, unless `keep`."""

    async def work() -> list[Checked]:
        async with open_recorder() as recorder:
            found = await checked(recorder, seed, themes, numbers)
            return [each if keep or not each.faults else await _smaller(recorder, each) for each in found]

    return anyio.run(work)


async def checked(recorder: Recorder, seed: int, themes: Sequence[str], numbers: range) -> list[Checked]:
    """Check the programs with these numbers."""
    found: list[Checked] = []
    waiting = list(reversed(numbers))

    async def work() -> None:
        while waiting:
            number = waiting.pop()
            found.append(await recorder.check(drawn(seed, number, themes), number))

    async with anyio.create_task_group() as tasks:
        for _ in range(_AT_ONCE):
            tasks.start_soon(work)
    return found


async def _smaller(recorder: Recorder, faulty: Checked) -> Checked:
    """The smallest program found with a fault."""
    smallest = faulty

    def shows(source: str) -> bool:
        nonlocal smallest
        again = anyio.from_thread.run(recorder.check, Program(source, faulty.program.inputs), faulty.number)
        if again.faults:
            smallest = again
        return bool(again.faults)

    if not await anyio.to_thread.run_sync(shows, faulty.program.source):
        faulty.faults.append("(not every time)")
        return faulty
    await anyio.to_thread.run_sync(reduced, faulty.program.source, shows)
    return smallest
