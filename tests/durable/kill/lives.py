"""Lives of one run: starts processes that carry it on, ends them, and plays the people that the run waits for.

Between two lives the run's database may be cut to what a power failure would leave (`power`). After each life, whatever
the dead process started has to be gone, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc

from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import StoredCall
from callgate.sandbox.staging import remove_abandoned
from durable.kill import power, warm
from durable.kill.judging import Kept, Told
from durable.kill.people import people
from durable.kill.workload import WAITS
from durable.kill.world import entries

__all__ = ["Kill", "Lives", "adopt_orphans", "orphans"]

LIFE_SECONDS = 90.0
"""A process that takes longer hangs."""
BROKEN_SECONDS = 25.0
"""The same for a journal that is broken on purpose: of these, many hang."""
GONE_SECONDS = 5.0
"""So long what a killed process started may take to end."""
MOST_LIVES = 40
_PR_SET_CHILD_SUBREAPER = 36
_started: set[int] = set()
"""Process ids of the lives."""


@dataclass(frozen=True)
class Kill:
    """A moment at which a process is killed: at one of its points, or so long after it has opened its runtime."""

    point: int = 0
    seconds: float | None = None
    signal: int = signal.SIGKILL
    """By which it is killed."""


@dataclass
class Lives:
    """One run of a program, from its first process to its end.

    Args:
        folder: of the database, the ledger and everything else.
        program: its name.
        leaves: whether a process ends when its run waits: ``""`` (it waits on), ``soft`` or ``hard``.
        breaks: see `broken`.
        fails_power: whether each kill is a power failure as well.
        python: the interpreter of the next process.
        accepted: exit codes with which a process may end as if it had been killed.

    Attributes:
        faults: what was wrong, so far.
        told: what the run says, once it has ended.
        kept: what was kept at each kill.
        counts: of what happened.
        seconds: that the last process took, from the opening of its runtime.
        points: that the last process passed.
    """

    folder: Path
    program: str
    leaves: str = ""
    breaks: str = ""
    fails_power: bool = False
    python: str = sys.executable
    accepted: Sequence[int] = ()
    faults: list[str] = field(default_factory=list)
    told: Told | None = None
    kept: list[Kept] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    points: int = 0

    async def run(self, kills: Sequence[Kill], environments: Sequence[Mapping[str, str]] = ()) -> None:
        """Carry the run on to its end.

        Args:
            kills: one for each process; those that come after them are not killed.
            environments: of the processes, beside that of this one; those that come after them have nothing beside it.
        """
        left, around = list(kills), list(environments)
        for _ in range(MOST_LIVES):
            code = await self.life(left.pop(0) if left else Kill(), around.pop(0) if around else None)
            if self.faults or self.told is not None:
                break
            if code == WAITS:
                await self._ask_people()
        else:
            self.faults.append(f"after {MOST_LIVES} processes it has not ended")
        self.faults += [f"this is left: {name}" for name in self._left()]

    async def life(self, kill: Kill, environment: Mapping[str, str] | None = None) -> int:
        """One process; returns its exit code."""
        process = self.start(kill, environment)
        before = power.sizes(self.folder)
        code = None
        seconds = BROKEN_SECONDS if self.breaks else LIFE_SECONDS
        try:
            with anyio.move_on_after(seconds):
                if self.leaves:
                    code = await self._wait(process, kill)
                else:
                    code = await self._wait_with_people(process, kill)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        error = (self.folder / "stderr").read_text(errors="replace")
        if code is None:
            self.faults.append(f"a process did not end in {seconds:.0f} s: {error[-2000:]}")
        elif code == -signal.SIGKILL or code in self.accepted:
            self.counts["killed at a point" if kill.point else "killed at a time"] += 1
            if self.fails_power:
                power.fail(self.folder, before)
            self.kept.append(await self._kept())
        elif code == 0:
            self.read()
        elif code != WAITS:
            self.faults.append(f"a process ended with {code}: {error[-3000:]}")
        if running := await orphans(GONE_SECONDS):
            self.faults.append(f"processes are left: {running}")
        return 1 if code is None else code

    def read(self) -> None:
        """Read what a process said at the end of the run."""
        said = json.loads((self.folder / "told.json").read_text())
        self.points = said["points"]
        self.told = Told.from_json(said)

    def start(self, kill: Kill, environment: Mapping[str, str] | None = None) -> warm.Life:
        """Start a process that carries the run on."""
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        given = {
            **os.environ,
            "KILL_FOLDER": str(self.folder),
            "KILL_AT": str(kill.point),
            "KILL_SIGNAL": str(int(kill.signal)),
            "KILL_LEAVE": self.leaves,
            "KILL_BREAK": self.breaks,
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYDANTIC_DISABLE_PLUGINS": "__all__",  # of other packages: half a second for each process
            **(power.recorded(self.folder) if self.fails_power else {}),
            **(environment or {}),
        }
        for name in ("stdout", "stderr"):
            (self.folder / name).touch()
        os.truncate(self.folder / "stdout", 0)
        process = warm.start(self.python, self.folder, self.program, given)
        _started.add(process.pid)
        return process

    async def _wait(self, process: warm.Life, kill: Kill) -> int:
        opened: float | None = None
        while (code := process.poll()) is None:
            if opened is None and (self.folder / "stdout").stat().st_size:
                opened = time.monotonic()
            if kill.seconds is not None and opened is not None and time.monotonic() - opened >= kill.seconds:
                process.send_signal(kill.signal)
                kill = Kill()
            await anyio.sleep(0.002)
        self.seconds = 0.0 if opened is None else time.monotonic() - opened
        return code

    async def _wait_with_people(self, process: warm.Life, kill: Kill) -> int:
        while not (self.folder / "stdout").stat().st_size and process.poll() is None:  # noqa: ASYNC110
            await anyio.sleep(0.002)
        if (code := process.poll()) is not None:
            return code
        code = 0
        async with people(self.folder, self.counts) as those, anyio.create_task_group() as tasks:

            async def wait() -> None:
                nonlocal code
                code = await self._wait(process, kill)
                tasks.cancel_scope.cancel()

            tasks.start_soon(wait)
            while True:
                await those.decide()
                await anyio.sleep(0.05)
        return code

    async def _ask_people(self) -> None:
        async with people(self.folder, self.counts) as those:
            if not await those.decide() and (reasons := await those.reasons()):
                self.faults.append(f"the run waits, and nobody knows for whom: {reasons}")

    async def _kept(self) -> Kept:
        """What a database with these files has: of a copy, since whoever opens a database changes its files."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for file in self.folder.glob("runs.db*"):
            shutil.copy(file, copy)
        calls: list[StoredCall] = []
        if (copy / "runs.db").exists() and (copy / "runs.db").stat().st_size:
            store = SqliteStore(copy / "runs.db")
            async with store.opened():
                for run in await store.list():
                    calls += (await store.load(run.id)).calls
        keys = {call.idempotency_key for call in calls if call.status in ("done", "failed")}
        shutil.rmtree(copy)
        return Kept(len(entries(self.folder)), keys)

    def _left(self) -> list[str]:
        """What is left in the folder, but for what the next start of callgate removes a minute after a kill."""
        temporary, tempfile.tempdir = tempfile.tempdir, str(self.folder / "tmp")
        try:
            for path in (self.folder / "tmp").iterdir():
                os.utime(path, (0, 0))
            remove_abandoned()
        finally:
            tempfile.tempdir = temporary
        mine = {"ledger.jsonl", "stdout", "stderr", "told.json", "runs.db", "tmp", "synced"}
        return [str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.name not in mine]


def adopt_orphans(on: bool = True) -> None:
    """Make what killed processes leave children of this process, so that `orphans` sees them. Those that it has are
    of other tests."""
    _started.update(_children())
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


async def orphans(seconds: float) -> list[str]:
    """Command lines of the processes that killed ones have left, and that are still there after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        running = _adopted()
        if not running or time.monotonic() > end:
            return running
        await anyio.sleep(0.005)


def _children() -> set[int]:
    """Children of this process."""
    children: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended meanwhile
            children.update(map(int, (task / "children").read_text().split()))
    return children


def _adopted() -> list[str]:
    """Children of this process that it did not start."""
    found: list[str] = []
    for child in _children() - _started - warm.pids():
        with contextlib.suppress(FileNotFoundError, ChildProcessError):
            if not os.waitpid(child, os.WNOHANG)[0]:
                found.append(Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")[:200] or f"process {child}")
    return found
