"""Finds out whether a program does the same again: runs it, and once more with the recorded events. Shows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from callgate.errors import ReplayDiverged
from callgate.protocol.run import Called, Event, Withdrawn, encode
from callgate.runtime.guest_reader import Job
from callgate.runtime.result import CodeResult
from callgate.runtime.run import CodeRun
from callgate.sandbox.backend import Guest

from .comparison import Difference, MadeCall, Ran, decoded, digest, first_difference
from .environment import environment
from .history import History, ReplayEvent
from .run import Consumed, ReplayRun, replayable

if TYPE_CHECKING:
    from callgate.runtime.runtime import Runtime

__all__ = ["ReplayCheck", "padded", "replay_check"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCheck:
    """What came of a program that ran twice."""

    result: CodeResult
    """Of the first run. Its findings say why a program did not run at all."""
    difference: Difference | None = None
    """The first thing that was not the same; None if everything was."""
    again: str | None = None
    """What was compared, in words; None if the program did not run."""
    environment: dict[str, str] = field(default_factory=dict)
    """What the program ran with: versions and the processor."""

    def to_dict(self) -> dict[str, Any]:
        """Everything but `result`, as JSON values."""
        difference = None if self.difference is None else asdict(self.difference)
        return {"difference": difference, "again": self.again, "environment": self.environment}


class _Noted(ReplayRun):
    """Keeps the program's calls by their numbers."""

    def __init__(self, run: CodeRun, guest: Guest, history: History, consumed: Consumed | None = None) -> None:
        super().__init__(run, guest, history, consumed)
        self.made = {
            each.number: MadeCall(each.tool, decoded(each.arguments)) for each in history.events if each.number
        }

    def _events_in(self, data: bytes) -> Iterator[Event]:
        for event in super()._events_in(data):
            if isinstance(event, (Called, Withdrawn)):
                number = event.id if isinstance(event, Called) else event.number
                self.made[int(number or 0)] = MadeCall(event.method, event.arguments, event.line)
            yield event

    @property
    def calls(self) -> list[MadeCall]:
        """The calls in the order in which the program made them."""
        return [self.made[number] for number in sorted(self.made)]


class _Again(_Noted):
    """Has nothing but its history: it makes no call. Its program finds its objects at other addresses."""

    def _execute(self) -> bytes:
        run, replay = self._run, padded(self._history.member, Random())
        answers = run.given is not None
        return self._wire.execute(run.code, run.offer.wire, run.inputs, answers=answers, replay=replay)

    async def next_event(self, until: float | None) -> ReplayEvent:
        raise ReplayDiverged(None, "the end of the program", "a program that waits for one more event")

    async def _serve(self, call: Job) -> None:
        await self._record_cancelled([call])


def padded(member: str, chance: Random) -> str:
    """The member ``replay`` with values that no guest reads. Two guests of one zygote have objects at the same
    addresses more often than not; these values are in the way."""
    values = [["x" * chance.randrange(600), dict.fromkeys(map(str, range(chance.randrange(9))))] for _ in range(50)]
    return f'{member[:-1]},"padding":{encode(values)}}}'


async def replay_check(runtime: Runtime, code: str, **options: Any) -> ReplayCheck:
    """Run a program, then once more with the answers that its calls had, in the order in which they came.

    The second run calls no tool.

    Args:
        runtime: has the tools and the sandbox.
        code: the program.
        options: as `replayable` takes them; `on_event` hears the first run alone.
    """
    runs: list[_Noted] = []

    def drive(kind: type[_Noted]) -> Any:
        def driven(*arguments: Any) -> _Noted:
            runs.append(kind(*arguments))
            return runs[-1]

        return driven

    result, history = await replayable(runtime, code, driven=drive(_Noted), **options)
    if not runs:
        return ReplayCheck(result=result)
    again, _ = await replayable(runtime, code, history=history, driven=drive(_Again), **{**options, "on_event": None})
    first, second = (Ran(each, run.calls) for each, run in zip((result, again), runs, strict=True))
    failure = runs[1].failure
    return ReplayCheck(
        result=result,
        difference=first_difference(first, second, failure if isinstance(failure, ReplayDiverged) else None),
        again=f"{_counted(len(first.calls), 'call')} with arguments, {_counted(len(history.events), 'event')}, "
        f"{_counted(len(result.logs), 'character')} printed (SHA-256 {digest(result.logs)}), and the "
        + ("value" if result.error is None else f"error, {result.error.kind}"),
        environment=environment(runtime.backend),
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
