"""Processes that check programs, and what is done about one that hangs. Knows no program.

1. A process takes a share of the numbers at a time. Again and again it says which number it is at, and what it does.
2. A process that says nothing for `quiet_seconds` hangs. It prints the stacks of its threads and is killed. The numbers
   that it was at are told as hung, once; another process takes what else is left of its share.
3. A process that ends by itself is told like one that hangs.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

__all__ = ["Done", "Hung", "Tell", "Work", "results"]

T = TypeVar("T")

Tell = Callable[[int, str], None]
"""Receives the number that a process is at, and what it does there."""
Done = Callable[[int, T], None]
"""Receives a number that is done, and its result."""
Work = Callable[[Sequence[int], Tell, Done[T]], None]
"""Does a share, in a process: a function of a module."""

_STACKS_SECONDS = 0.5
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Hung:
    """A process that said nothing any more.

    Attributes:
        at: the numbers that it was at, and what it did there.
        why: a sentence.
    """

    at: dict[int, str]
    why: str


class _Worker(Generic[T]):
    """One process, and what it was given."""

    def __init__(self, work: Work[T]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process: BaseProcess = spawn.Process(target=_serve, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()
        self.left: list[int] = []
        self.at: dict[int, str] = {}
        self.heard = time.monotonic()

    def give(self, share: Sequence[int]) -> None:
        self.left, self.heard = list(share), time.monotonic()
        self.pipe.send(self.left)

    def end(self, *, hangs: bool = False) -> None:
        """End the process; one that hangs prints its stacks before."""
        if hangs and self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGUSR1)
            self.process.join(_STACKS_SECONDS)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def results(work: Work[T], shares: Sequence[Sequence[int]], processes: int, quiet_seconds: float) -> Iterator[T | Hung]:
    """Results of all numbers, as they come, and `Hung` for each process that hangs.

    Args:
        work: does a share.
        shares: of the numbers.
        processes: at the same time.
        quiet_seconds: after which a process hangs.
    """
    waiting = list(reversed(shares))
    workers: list[_Worker[T]] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < processes:
                workers.append(_Worker(work))
                workers[-1].give(waiting.pop())
            wait([worker.pipe for worker in workers], _POLL_SECONDS)
            for worker in list(workers):
                why = ""
                try:
                    while worker.pipe.poll():
                        kind, number, said = worker.pipe.recv()
                        worker.heard = time.monotonic()
                        if kind == "at":
                            worker.at[number] = said
                        elif kind == "done":
                            worker.at.pop(number, None)
                            worker.left.remove(number)
                            yield said
                        elif waiting:
                            worker.give(waiting.pop())
                        else:
                            workers.remove(worker)
                            worker.end()
                            break
                except (EOFError, ConnectionResetError):
                    worker.process.join()
                    why = f"its process ended with {worker.process.exitcode}"
                if not why and worker in workers and time.monotonic() - worker.heard > quiet_seconds:
                    why = f"its process did nothing for {quiet_seconds:.0f} s"
                if why:
                    workers.remove(worker)
                    worker.end(hangs=True)
                    if left := [number for number in worker.left if number not in worker.at]:
                        waiting.append(left)
                    yield Hung(worker.at, why)
    finally:
        for worker in workers:
            worker.end()


def _serve(pipe: Connection, work: Work[T]) -> None:
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it hears it, and ends it
    while True:
        work(
            pipe.recv(),
            lambda number, what: pipe.send(("at", number, what)),
            lambda number, result: pipe.send(("done", number, result)),
        )
        pipe.send(("free", 0, None))
