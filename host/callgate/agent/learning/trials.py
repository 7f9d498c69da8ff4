"""The trials of an experiment, and how they are kept in an SQLite file. `runtime.statistics_file` has the rules.

A trial is what came of one query in one arm; a query has one, the first, however often it is asked. Of the query a hash
is kept, no word. Of all experiments in a file the newest 100,000 trials are kept.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from callgate.runtime.statistics_file import KeptFile

__all__ = ["ARMS", "Arm", "Trial", "Trials", "TrialsFile"]

Arm = Literal["control", "treatment"]
ARMS: Mapping[str, Arm] = {"control": "control", "treatment": "treatment"}

MAX_ROWS = 100_000
MAX_NAME_CHARACTERS = 128
"""Of an experiment."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a query in an arm.

    Attributes:
        unit: the query's hash.
        arm: which.
        success: whether it did.
        seconds: how long it took; None where that is not known.
    """

    unit: str
    arm: Arm
    success: bool
    seconds: float | None = None


class Trials:
    """Trials in the order in which they came, until both arms have as many as are needed.

    All until then count, of the larger arm, too: cut to the first ones it would be older than the other, and what
    changes with time would look like a difference of the arms.

    Args:
        needed: in each arm. Later ones are not taken, so that a result that is there stays as it is.
    """

    def __init__(self, needed: int) -> None:
        self.ignored: Counter[str] = Counter()
        """Why trials were not taken, and how many: ``repeated``, ``surplus``."""
        self._needed = needed
        self._trials: list[Trial] = []
        self._by_unit: dict[Arm, dict[str, Trial]] = {"control": {}, "treatment": {}}
        self.on_note: Callable[[Trial], None] | None = None
        """Called with each trial that is taken; set by whoever keeps them."""

    def of(self, arm: Arm) -> Mapping[str, Trial]:
        """Those of an arm, by unit, in order."""
        return self._by_unit[arm]

    def take(self, trial: Trial) -> None:
        """Take a trial, unless its query has one in that arm, or there are enough."""
        if self._taken(trial) and self.on_note is not None:
            self.on_note(trial)

    def _taken(self, trial: Trial) -> bool:
        arm = self._by_unit[trial.arm]
        enough = min(map(len, self._by_unit.values())) >= self._needed or len(self._trials) >= MAX_ROWS
        why = "repeated" if trial.unit in arm else "surplus" if enough else ""
        if why:
            self.ignored[why] += 1
            return False
        arm[trial.unit] = trial
        self._trials.append(trial)
        return True

    def load(self, earlier: Sequence[Trial]) -> None:
        """Begin with trials of earlier times, the oldest first."""
        newer, self._trials = self._trials, []
        self._by_unit = {"control": {}, "treatment": {}}
        before = self.ignored.copy()
        for trial in (*earlier, *newer):
            self._taken(trial)
        self.ignored = before


class TrialsFile(KeptFile[Trial]):
    """A file that the trials of one experiment are read from and written to; see `KeptFile`.

    Args:
        path: of the file; that of the statistics will do, and several experiments may share one.
        trials: what is kept.
        experiment: whose.
    """

    table = "trials"
    columns: ClassVar = {
        "experiment": "TEXT NOT NULL", "unit": "TEXT NOT NULL", "arm": "TEXT NOT NULL", "success": "INTEGER NOT NULL",
        "seconds": "REAL",
    }  # fmt: skip
    unique = ("experiment", "unit", "arm")
    insert = "INSERT OR IGNORE"
    most = MAX_ROWS

    def __init__(self, path: str | os.PathLike[str], trials: Trials, experiment: str) -> None:
        super().__init__(path, trials)
        self._experiment = experiment

    def note_of(self, row: Any) -> Trial | None:
        """The trial in a row, where it is one of this experiment."""
        experiment, unit, arm, success, seconds = row
        return Trial(unit, ARMS[arm], success == 1, seconds) if experiment == self._experiment else None

    def row_of(self, note: Trial) -> Sequence[Any]:
        """With its experiment."""
        return self._experiment, note.unit, note.arm, int(note.success), note.seconds
