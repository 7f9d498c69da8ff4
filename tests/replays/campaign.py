"""Checks many programs, in one process. Prints nothing.

A run that does not end in `recording.RUN_SECONDS` is a fault of its program; `workers` sees to processes that hang.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import anyio
import anyio.from_thread
import anyio.to_thread

from fast_path.reduction import reduced
from replays.programs import Program
from replays.recording import Checked, Recorder, drawn, open_recorder
from replays.workers import Done, Tell

__all__ = ["checked", "share"]

SMALLER_SECONDS = 300.0
"""So long a program is made smaller, at most."""
_AT_ONCE = 3
"""Programs at the same time."""


def share(
    seed: int, themes: Sequence[str], keep: bool, numbers: Sequence[int], tell: Tell, done: Done[Checked]
) -> None:
    """Check the programs with these numbers, with new sandboxes; one with a fault is made smaller, unless `keep`."""

    async def work() -> None:
        async with open_recorder(tell) as recorder:
            faulty: list[Checked] = []

            def take(each: Checked) -> None:
                if keep or not each.faults:
                    done(each.number, each)
                else:
                    faulty.append(each)

            await checked(recorder, seed, themes, numbers, take)
            for each in faulty:
                done(each.number, await _smaller(recorder, each))

    anyio.run(work)


async def checked(
    recorder: Recorder,
    seed: int,
    themes: Sequence[str],
    numbers: Sequence[int],
    take: Callable[[Checked], None] = lambda _: None,
) -> list[Checked]:
    """Check the programs with these numbers; `take` receives each at once."""
    found: list[Checked] = []
    waiting = list(reversed(numbers))

    async def work() -> None:
        while waiting:
            number = waiting.pop()
            found.append(await recorder.check(drawn(seed, number, themes), number))
            take(found[-1])

    async with anyio.create_task_group() as tasks:
        for _ in range(_AT_ONCE):
            tasks.start_soon(work)
    return found


async def _smaller(recorder: Recorder, faulty: Checked) -> Checked:
    """The smallest program found with a fault, in `SMALLER_SECONDS`."""
    smallest = faulty
    end = time.monotonic() + SMALLER_SECONDS

    def shows(source: str) -> bool:
        nonlocal smallest
        if time.monotonic() > end:
            return False
        again = anyio.from_thread.run(recorder.check, Program(source, faulty.program.inputs), faulty.number)
        if again.faults:
            smallest = again
        return bool(again.faults)

    if not await anyio.to_thread.run_sync(shows, faulty.program.source):
        faulty.faults.append("(not every time)")
        return faulty
    await anyio.to_thread.run_sync(reduced, faulty.program.source, shows)
    return smallest
