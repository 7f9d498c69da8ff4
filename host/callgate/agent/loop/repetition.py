"""A guard against repetition without progress: the same failing call, the same call for the same result, turns that
bring nothing new. Pure: no clock, no I/O. The same calls give the same verdicts.

1. *Progress* is a call that succeeds with a result that the same call did not give before. A tool that is asked again
   and again may be a poll: as long as its results change, it is progress.
2. What has been tried in vain may be tried again after progress: something else may have made it possible. So only
   repetitions without progress in between are counted.
3. A model may wait, with pauses: where a call that succeeded took 5 seconds or more since the same
   call ended the last time (itself, or another one that waits), a repetition counts a quarter.
4. A verdict is worded for the model. First a warning goes with the answer, then the call is not made, then the task
   ends.
5. The guard keeps digests of a bounded number of calls and results, so it cannot grow.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Literal

from callgate.agent.models.model import ToolCall
from callgate.artifacts import HANDLE

__all__ = ["GO_ON", "Action", "Repetition", "Verdict"]

Action = Literal["go on", "warn", "refuse", "stop"]
"""Make the call; make it, and add the words to its answer; answer with the words instead of a call; end the task."""

FAILURES_WARNED = 3
"""In a row of the same call. The first may be chance and the second a retry; a model that makes it a third time has not
read the error."""
REPEATS_WARNED = 4
"""Times that a call gave what it gave before. More patient than with failures: it may wait for something."""
REPEATS_REFUSED = 8
"""After so many a poll without a pause waits for something that will not come within this conversation."""
SAME_IN_TURN = 8
"""The same call in one turn: more than that are refused, before anything is known of their results."""
REFUSALS_STOPPED = 3
"""Calls refused without progress in between. A model that ignored two refusals will ignore the next."""
IDLE_WARNED, IDLE_STOPPED = 6, 12
"""Turns in which no call was new and no result was. They catch circles that are too long for the counts of one call:
twelve turns are two rounds of six calls, or one of twelve."""
BARREN_WARNED, BARREN_STOPPED = 5, 10
"""Turns in which calls were made and none succeeded, however different they were."""
PAUSE_SECONDS = 5.0
"""A call that takes so long may have been a pause. Few tools are as slow, and a model that waits for something waits
longer."""
PAUSES = 4
"""Repetitions after a pause that count as one: at 30 seconds each, a call may give the same result for a quarter of an
hour."""
MOST_CALLS = 1000
"""Different calls that are remembered; the one made longest ago is forgotten first. A budget of 40 turns with 25 calls
each."""
MOST_RESULTS = 8
"""Different results of a call that are remembered: one that comes back among them is not progress."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The guard's decision about a call or a turn.

    Attributes:
        action: see `Action`.
        words: for the model, one sentence or two; empty for ``go on``.
        fault: the kind of repetition, by its name in the transcript.
    """

    action: Action
    words: str = ""
    fault: Literal["same_call", "loop"] = "loop"


GO_ON = Verdict("go on")


@dataclass(slots=True)
class _Tried:
    """The history of a call: of its name with its arguments."""

    ok: bool = True
    """How it last ended."""
    times: int = 0
    """In a row that it failed, or gave a result that it gave before, without progress in between."""
    weight: float = 0.0
    """Of these, those after a pause count a part each."""
    pauses: int = 0
    """There had been when it last ended."""
    at: int = -1
    """How much progress there was when it last ended."""
    in_turn: int = 0
    results: deque[bytes] = field(default_factory=lambda: deque(maxlen=MOST_RESULTS))


class Repetition:
    """The guard of one task. A call begins (`began`), or is not made (`not_made`); it ends (`ended`); and when all of a
    turn's have, so does the turn (`end_turn`)."""

    def __init__(self) -> None:
        self._tried: OrderedDict[bytes, _Tried] = OrderedDict()
        self._progress = 0
        self._refusals = 0
        self._idle = 0.0
        self._idle_turns = 0
        self._barren = 0
        self._pauses = 0
        self._paused = 0
        self._calls = 0
        self._new = False
        self._succeeded = False
        self._warned = False

    def verdict(self, call: ToolCall) -> Verdict:
        """Whether a call is to be made: ``go on``, ``refuse`` or ``stop``."""
        tried = self._tried.get(_key(call))
        if tried is None:
            return GO_ON
        why = ""
        if tried.at == self._progress and not tried.ok and tried.weight >= FAILURES_WARNED:
            why = (
                f"with the same arguments it has failed {tried.times} times, and nothing has changed since. Change the "
                "arguments, use another tool, or answer with what you have."
            )
        elif tried.at == self._progress and tried.ok and tried.weight >= REPEATS_REFUSED:
            why = (
                f"it gave you the same result {tried.times + 1} times. That result stands above. Go on with it, or "
                "answer with what you have."
            )
        elif tried.in_turn >= SAME_IN_TURN:
            why = f"you made the same call {SAME_IN_TURN} times in this turn. One result is enough."
        if not why:
            return GO_ON
        stops = self._refusals + 1 >= REFUSALS_STOPPED
        words = f"this call of {call.name[:60]!r} was not made: {why}"
        return Verdict("stop" if stops else "refuse", words, "loop" if tried.ok else "same_call")

    def began(self, call: ToolCall) -> None:
        """Take note that a call is made."""
        self._calls += 1
        key = _key(call)
        if key not in self._tried:
            self._tried[key] = _Tried()
            self._new = True
            if len(self._tried) > MOST_CALLS:
                self._tried.popitem(last=False)
        self._tried.move_to_end(key)
        self._tried[key].in_turn += 1

    def not_made(self, call: ToolCall) -> None:
        """Take note that a call was answered without being made."""
        self._calls += 1
        if self.verdict(call) is not GO_ON:
            self._refusals += 1
            self._warned = True

    def ended(self, call: ToolCall, ok: bool, text: str, seconds: float = 0.0) -> Verdict:
        """Take note of the end of a call that was made: ``go on`` or ``warn``.

        Args:
            call: which.
            ok: whether it succeeded.
            text: its answer to the model.
            seconds: that it took.
        """
        tried = self._tried.setdefault(_key(call), _Tried())
        if ok and seconds >= PAUSE_SECONDS:
            self._pauses += 1
            self._paused = 2  # this turn and the next, which looks at what it waited for
        weight = 1.0 if tried.pauses == self._pauses else 1 / PAUSES
        result = _digest(text)
        is_new = ok and result not in tried.results
        if is_new:
            tried.results.append(result)
            self._progress += 1
            self._refusals = 0
            self._new = True
        if is_new or tried.at != self._progress or tried.ok != ok:
            tried.times, tried.weight = 0, 0.0
        if not is_new:
            tried.times += 1
            tried.weight += weight
        tried.ok, tried.at, tried.pauses = ok, self._progress, self._pauses
        self._succeeded = self._succeeded or ok
        if tried.weight < (REPEATS_WARNED if ok else FAILURES_WARNED):
            return GO_ON
        self._warned = True
        name = repr(call.name[:60])
        if ok:
            return Verdict(
                "warn",
                f"This call of {name} has given the same result {tried.times + 1} times. Go on with it, or answer with "
                "what you have.",
            )
        return Verdict(
            "warn",
            f"This call of {name} has failed {tried.times} times with the same arguments. Making it again will not "
            "help: change the arguments, use another tool, or answer with what you have.",
            "same_call",
        )

    def end_turn(self) -> Verdict:
        """Take note that all calls of a turn have ended: ``go on``, ``warn`` or ``stop``.

        A turn without calls does not count. A turn with a warned or refused call gets no second warning.
        """
        if not self._calls:
            return GO_ON
        self._idle = 0.0 if self._new else self._idle + (1 / PAUSES if self._paused else 1.0)
        self._idle_turns = 0 if self._new else self._idle_turns + 1
        self._barren = 0 if self._succeeded else self._barren + 1
        warned = self._warned
        for tried in self._tried.values():
            tried.in_turn = 0
        self._calls, self._paused = 0, max(self._paused - 1, 0)
        self._new = self._succeeded = self._warned = False
        if self._idle >= IDLE_STOPPED:
            return Verdict("stop", f"nothing new was asked or learned in {self._idle_turns} turns")
        if self._barren >= BARREN_STOPPED:
            return Verdict("stop", f"no call has succeeded in {self._barren} turns")
        if self._idle >= IDLE_WARNED and not warned:
            return Verdict(
                "warn",
                f"Your last {self._idle_turns} turns repeated earlier calls and brought nothing new. Do something "
                "else, or answer with what you have.",
            )
        if self._barren >= BARREN_WARNED and not warned:
            return Verdict(
                "warn",
                f"No call has succeeded in your last {self._barren} turns. If there is no other way, say what you "
                "could not do, and answer with what you have.",
            )
        return GO_ON


def _key(call: ToolCall) -> bytes:
    """A digest of the call's name and arguments, in whatever order the arguments were written."""
    if call.fault:
        return _digest(f"{call.name}\n{call.written}")
    return _digest(f"{call.name}\n{json.dumps(call.arguments, sort_keys=True, default=str)}")


def _digest(text: str) -> bytes:
    text = HANDLE.sub("art_", text)  # the handles of artifacts are others each time
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
