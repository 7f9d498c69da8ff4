"""A guard against going round in circles: the same failing call, the same call for the same result, turns that bring
nothing. Pure: it is told what happens, and says what to do; no clock, no I/O. The same notes give the same verdicts.

1. *Progress* is a call that succeeds with a result that the same call did not give before. A tool that is asked again
   and again may be a poll: as long as its results change, it is progress.
2. What has been tried in vain may be tried again after progress: something else may have made it possible. So only
   repetitions without progress in between are counted towards a refusal.
3. Waiting is no circle, as long as it is patient: where a call that succeeded took 5 seconds or more since the same
   call ended the last time (itself, or another one that waits), a repetition counts a quarter.
4. A verdict is worded for the model. First a warning goes with the answer, then the call is not made, then it ends.
5. Of calls and results it keeps digests, of so many calls: it cannot grow.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["GO_ON", "Action", "Repetition", "Verdict"]

Action = Literal["go on", "warn", "refuse", "stop"]
"""Answer as ever; answer, and add the words; do not make the call, and answer with the words; end the task."""

FAILURES_WARNED = 3
"""In a row of the same call. The first may be chance and the second a retry; who makes it a third time has not read the
error."""
FAILURES_WARNED_EVER = 6
"""Of the same call, with progress in between."""
REPEATS_WARNED = 4
"""Times that a call gave what it gave before. More patient than with failures: it may wait for something."""
REPEATS_REFUSED = 8
"""After so many a poll without a pause waits for something that will not come within this conversation."""
SAME_IN_TURN = 8
"""The same call in one turn: more than that are refused, before anything is known of their results."""
REFUSALS_STOPPED = 3
"""Calls refused without progress in between: a model that was told twice not to make a call does not listen."""
IDLE_WARNED, IDLE_STOPPED = 6, 12
"""Turns in which no call was new and no result was. They catch circles that are too long for the counts of one call:
twelve turns are two rounds of six calls, or one of twelve."""
BARREN_WARNED, BARREN_STOPPED = 5, 10
"""Turns in which calls were made and none succeeded, however different they were."""
PAUSE_SECONDS = 5.0
"""A call that takes so long may have been a pause. Few tools are as slow, and who waits for something waits longer."""
PAUSES = 4
"""Repetitions after a pause that count as one: at 30 seconds each, a call may give the same result for a quarter of an
hour."""
MOST_CALLS = 1000
"""Different calls that are remembered; the one made longest ago is forgotten first. A budget of 40 turns with 25 calls
each."""
MOST_RESULTS = 8
"""Different results of a call that are remembered: one that comes back among them is no progress."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do.

    Attributes:
        action: see `Action`.
        words: for the model, one sentence or two; empty for ``go on``.
        fault: what was found, as the transcript calls it; empty for ``go on``.
    """

    action: Action
    words: str = ""
    fault: Literal["", "same_call", "loop"] = ""


GO_ON = Verdict("go on")


@dataclass(slots=True)
class _Call:
    """What is known of a call: name and arguments."""

    failures: int = 0
    """In a row, without progress in between."""
    failures_weight: float = 0.0
    """Of these, those after a pause a part each."""
    failures_ever: int = 0
    repeats: int = 0
    """Of results that were there before, without progress in between."""
    repeats_weight: float = 0.0
    pauses: int = 0
    """There had been when it last ended."""
    at: int = -1
    """How much progress there was when it last ended."""
    in_turn: int = 0
    results: deque[bytes] = field(default_factory=lambda: deque(maxlen=MOST_RESULTS))


class Repetition:
    """The guard of one task. `before` each call, `note` when it has ended, `end_turn` when all of a turn's have."""

    def __init__(self) -> None:
        self._calls: OrderedDict[bytes, _Call] = OrderedDict()
        self._progress = 0
        self._refusals = 0
        self._idle = 0.0
        self._idle_turns = 0
        self._barren = 0
        self._pauses = 0
        self._paused = 0
        self._turn: list[_Call] = []
        self._new = False
        self._succeeded = False
        self._told = False

    def before(self, name: str, arguments: Mapping[str, Any] | str) -> Verdict:
        """Whether a call is to be made: ``go on``, ``refuse`` or ``stop``.

        Args:
            name: as the model wrote it.
            arguments: as it wrote them; their text where they are no JSON.
        """
        call = self._call(name, arguments)
        call.in_turn += 1
        self._turn.append(call)
        shown = _shown(name)
        if call.at == self._progress and call.failures_weight >= FAILURES_WARNED:
            return self._refused(
                "same_call",
                f"this call of {shown} was not made: with the same arguments it has failed {call.failures} times, and "
                "nothing has changed since. Change the arguments, use another tool, or answer with what you have.",
            )
        if call.at == self._progress and call.repeats_weight >= REPEATS_REFUSED:
            return self._refused(
                "loop",
                f"this call of {shown} was not made: it gave you the same result {call.repeats + 1} times. That result "
                "stands above. Go on with it, or answer with what you have.",
            )
        if call.in_turn > SAME_IN_TURN:
            return self._refused(
                "loop",
                f"this call of {shown} was not made: you made the same call {SAME_IN_TURN} times in this turn. One "
                "result is enough.",
            )
        return GO_ON

    def note(self, name: str, arguments: Mapping[str, Any] | str, ok: bool, text: str, seconds: float = 0.0) -> Verdict:
        """Take note of how a call that was made has ended: ``go on`` or ``warn``.

        Args:
            name: as for `before`, and so are
            arguments: these.
            ok: whether it succeeded.
            text: what the model is told of it.
            seconds: that it took.
        """
        call = self._call(name, arguments)
        since = call.at != self._progress
        if ok and seconds >= PAUSE_SECONDS:
            self._pauses += 1
            self._paused = 2  # this turn and the next, which looks at what it waited for
        weight = 1.0 if call.pauses == self._pauses else 1 / PAUSES
        call.pauses = self._pauses
        if not ok:
            call.failures = 1 if since else call.failures + 1
            call.failures_weight = 1.0 if since else call.failures_weight + weight
            call.failures_ever += 1
            call.at = self._progress
            if call.failures_weight >= FAILURES_WARNED or call.failures_ever >= FAILURES_WARNED_EVER:
                self._told = True
                return Verdict("warn", _failing(name, max(call.failures, call.failures_ever)), "same_call")
            return GO_ON
        self._succeeded = True
        call.failures = call.failures_ever = 0
        call.failures_weight = 0.0
        result = _digest(text)
        if result not in call.results:
            call.results.append(result)
            call.repeats = 0
            call.repeats_weight = 0.0
            self._progress += 1
            self._refusals = 0
            self._new = True
            call.at = self._progress
            return GO_ON
        call.repeats = 1 if since else call.repeats + 1
        call.repeats_weight = weight if since else call.repeats_weight + weight
        call.at = self._progress
        if call.repeats_weight >= REPEATS_WARNED:
            self._told = True
            return Verdict("warn", _repeating(name, call.repeats + 1), "loop")
        return GO_ON

    def end_turn(self) -> Verdict:
        """Take note that all calls of a turn have ended: ``go on``, ``warn`` or ``stop``.

        A turn without calls is none. Where one of its calls was warned of or refused, that is warning enough.
        """
        if not self._turn:
            return GO_ON
        self._idle = 0.0 if self._new else self._idle + (1 / PAUSES if self._paused else 1.0)
        self._barren = 0 if self._succeeded else self._barren + 1
        for call in self._turn:
            call.in_turn = 0
        self._turn.clear()
        told = self._told
        self._new = self._succeeded = self._told = False
        self._paused = max(self._paused - 1, 0)
        self._idle_turns = 0 if self._idle == 0 else self._idle_turns + 1
        if self._idle >= IDLE_STOPPED:
            return Verdict("stop", f"nothing new was asked or learned in {self._idle_turns} turns", "loop")
        if self._barren >= BARREN_STOPPED:
            return Verdict("stop", f"no call has succeeded in {self._barren} turns", "loop")
        if told:
            return GO_ON
        if self._idle >= IDLE_WARNED:
            return Verdict(
                "warn",
                f"Your last {self._idle_turns} turns repeated earlier calls and brought nothing new. Do something "
                "else, or answer with what you have.",
                "loop",
            )
        if self._barren >= BARREN_WARNED:
            return Verdict(
                "warn",
                f"No call has succeeded in your last {self._barren} turns. If there is no other way, say what you "
                "could not do, and answer with what you have.",
                "loop",
            )
        return GO_ON

    def _call(self, name: str, arguments: Mapping[str, Any] | str) -> _Call:
        key = _digest(f"{name}\n{_canonical(arguments)}")
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _Call()
            self._new = True
            if len(self._calls) > MOST_CALLS:
                self._calls.popitem(last=False)
        self._calls.move_to_end(key)
        return call

    def _refused(self, fault: Literal["same_call", "loop"], words: str) -> Verdict:
        self._refusals += 1
        self._told = True
        if self._refusals >= REFUSALS_STOPPED:
            return Verdict("stop", words, fault)
        return Verdict("refuse", words, fault)


def _failing(name: str, times: int) -> str:
    return (
        f"This call of {_shown(name)} has failed {times} times with the same arguments. Making it again will not help: "
        "change the arguments, use another tool, or answer with what you have."
    )


def _repeating(name: str, times: int) -> str:
    return (
        f"This call of {_shown(name)} has given the same result {times} times. Go on with it, or answer with what you "
        "have."
    )


def _shown(name: str) -> str:
    return repr(str(name)[:60])


def _canonical(arguments: Mapping[str, Any] | str) -> str:
    """The same text for the same arguments, in whatever order they were written."""
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments, sort_keys=True, default=str)
    except (TypeError, ValueError):  # keys of several kinds; a circle
        return str(sorted(map(str, arguments)))
    except RecursionError:
        return "nested too deeply"


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
