"""One trial: a program's run in a chain of processes that are killed, held against a run that nobody killed.

Numbers and seeds decide which processes are killed where; the rest is up to the machine.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing.util
import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio

from durable.kill import warm
from durable.kill.judging import Told, faults
from durable.kill.lives import MOST_LIVES, Kill, Lives, adopt_orphans
from durable.kill.programs import PROGRAMS
from durable.kill.world import entries

__all__ = ["Expected", "Setting", "Trial", "begin", "trial_now", "undisturbed", "undisturbed_now"]

AT_A_TIME = 0.3
"""Share of the kills at a time; the others are at points."""
ANOTHER = 0.6
"""Chance that one more process is killed."""
MOST = 6
"""Processes of one run that are killed."""
LEAVES = ("", "", "soft", "hard")
"""See `Lives.leaves`."""
LOOPS = ("asyncio", "asyncio", "trio")
BRIEF = ("1", "1", "1", "")
"""Whether a process has the zygote for few guests, which starts in half the time: see `launching.launched_ahead`."""
ON_DISK = 4
"""One trial of so many has its files on the disk, where they are synced slowly: there is more time between two points.
The others have theirs in memory. A kill loses neither; a power failure concerns the disk."""


@dataclass(frozen=True)
class Expected:
    """A run that nobody killed."""

    told: Told
    points: int
    seconds: float


@dataclass(frozen=True)
class Setting:
    """What all trials of a campaign have in common.

    Attributes:
        seed: of the campaign.
        breaks: see `broken`.
        power: whether each kill is a power failure as well.
        disk: folder for the files of trials, on a disk.
        memory: folder for the files of the other trials, in memory; the same one where the system has none.
        shared: folder of the runs that nobody killed, which several campaigns may share; None to make each anew.
        shows: whether trials say everything.
    """

    seed: int = 1
    breaks: str = ""
    power: bool = False
    disk: str | None = None
    memory: str | None = None
    shared: str | None = None
    shows: bool = False


@dataclass(frozen=True)
class Trial:
    """What came of a trial."""

    number: int
    program: str
    faults: list[str]
    counts: Counter[str]
    shown: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Processes that were killed."""
        return self.counts["killed at a point"] + self.counts["killed at a time"]


async def undisturbed(setting: Setting, name: str) -> Expected:
    """A run of a program that nobody kills; or the one that was made before, with the same `Setting.shared`.

    Raises:
        SystemExit: the program does not end well even so.
    """
    shared = None if setting.shared is None else Path(setting.shared) / f"{name}.json"
    if shared is not None:
        with contextlib.suppress(FileNotFoundError):
            said = json.loads(shared.read_text())
            return Expected(Told.from_json(said["told"]), said["points"], said["seconds"])
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=setting.memory) as folder:
        lives = Lives(Path(folder), name)
        await lives.run([])
        if lives.told is None or lives.faults or lives.told.ok is not PROGRAMS[name].ends_well:
            raise SystemExit(f"{name} does not run even without kills: {lives.told} {lives.faults}")
        if found := faults(lives.told, lives.told, entries(lives.folder), ()):
            raise SystemExit(f"{name}: the rules do not hold even without kills: {found}")
    if shared is not None:
        shared.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=shared.parent, delete=False) as file:
            json.dump({"told": asdict(lives.told), "points": lives.points, "seconds": lives.seconds}, file)
        os.replace(file.name, shared)
    return Expected(lives.told, lives.points, lives.seconds)


async def trial(setting: Setting, number: int, name: str, expected: Expected) -> Trial:
    """Run a program through some kills.

    Args:
        setting: of the campaign.
        number: of the trial.
        name: of the program.
        expected: its run that nobody killed.
    """
    chance = random.Random(f"{setting.seed} {number}")
    kills = list(_kills(chance, expected))
    leaves = chance.choice(LEAVES)
    loops = [{"KILL_LOOP": chance.choice(LOOPS)} for _ in range(len(kills) + 1)] if not setting.breaks else []
    brief = random.Random(f"{setting.seed} {number} zygotes")
    around = [{**loop, "KILL_BRIEF": brief.choice(BRIEF)} for loop in [*loops, *[{}] * (MOST_LIVES - len(loops))]]
    power = setting.power or setting.breaks == "unsynced"
    place = setting.disk if power or number % ON_DISK == 0 else setting.memory
    with tempfile.TemporaryDirectory(prefix=f"{number}-", dir=place) as folder:
        lives = Lives(Path(folder), name, "hard" if power else leaves, setting.breaks, power)
        await lives.run(kills, around)
        ledger = entries(lives.folder)
        found = [*lives.faults]
        if lives.told is not None:
            found += faults(lives.told, expected.told, ledger, lives.kept)
        lives.counts["trials"] += 1
        lives.counts["faults"] += len(found)
        lives.counts["made again under its key"] += len({(each.key, each.process) for each in ledger}) - len(
            {each.key for each in ledger}
        )
        said = [name, kills, loops, repr(leaves), dict(lives.counts), *ledger, lives.told] if setting.shows else []
    return Trial(number, name, found, lives.counts, list(map(str, said)))


def _kills(chance: random.Random, expected: Expected) -> Iterator[Kill]:
    """Kills of the processes of one run, each in what the kills before it have left of the run."""
    left = 1.0
    for number in range(MOST):
        if number and chance.random() > ANOTHER:
            return
        part = chance.random() ** (1 + number) * left  # a process that goes on has less to do
        if chance.random() < AT_A_TIME:
            yield Kill(seconds=part * expected.seconds)
        else:
            yield Kill(point=1 + int(part * expected.points))
        left -= part


# for processes of a pool


def begin() -> None:
    """Prepare this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign hears it, and prints what there is until then
    adopt_orphans()
    multiprocessing.util.Finalize(None, warm.close, exitpriority=1)


def undisturbed_now(setting: Setting, name: str) -> Expected:
    """See `undisturbed`."""
    return anyio.run(undisturbed, setting, name)


def trial_now(setting: Setting, number: int, name: str, expected: Expected) -> Trial:
    """See `trial`."""
    return anyio.run(trial, setting, number, name, expected)
