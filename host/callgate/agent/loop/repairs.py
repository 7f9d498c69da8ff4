"""Programs of a task that failed after calls with effects. The programs of later turns do not repeat these calls.

1. A program gets the outcomes of the failed programs of earlier turns: see ``after`` of `Runtime.execute_code`. The
   programs of one turn get nothing of each other, since the model wrote them at the same time.
2. An outcome waits until a program makes its call again. A program that ended well leaves no calls of its own.
3. The model reads after a failure that these calls are not made again. Outcomes are not in the transcript: where a task
   goes on from it, the model reads that they are lost, and a program that it wrote before is not run.
"""

from __future__ import annotations

from dataclasses import replace

from callgate.agent.events import CallEnded
from callgate.runtime import CodeResult

from .event_log import EventLog

__all__ = ["KEPT", "LOST", "Repairs", "answer_lost"]

KEPT = (
    "\nCalls that succeeded are kept. If the corrected program makes them in the same way (same tool, same arguments), "
    "it gets their results, and they are not made again."
)
LOST = (
    "The task was interrupted, and the results of earlier failed programs are lost: from now on, a program that makes "
    "one of their calls makes it again."
)


class Repairs:
    """The failed programs of one run of a task."""

    def __init__(self) -> None:
        self.after: tuple[CodeResult, ...] = ()
        """Results with outcomes that the next programs may reuse."""

    def ended(self, result: CodeResult, after: tuple[CodeResult, ...]) -> bool:
        """Take note of a program's end. Returns whether its calls with effects are kept for a corrected program.

        Args:
            result: of the program.
            after: the results whose outcomes it could reuse. What it has left of them is in `result`.
        """
        self.after = tuple(each for each in self.after if not any(each is one for one in after))
        has_effects = result.for_repair.has_effects
        if has_effects:
            self.after += (replace(result, calls=[]) if result.ok else result,)
        return has_effects and not result.ok


def answer_lost(log: EventLog) -> None:
    """Answer the programs that were not run before an interruption, and that may rely on outcomes which are lost."""
    state = log.state
    for call in state.unanswered if state.lost else ():
        if call.name == "execute_code" and not call.fault:
            log.add(
                CallEnded(
                    turn=state.turns, id=call.id, name=call.name, ok=False, seconds=0.0, tool_calls=0,
                    text=f"Error: this program was not run. {LOST} Write it again without the calls that were made.",
                )
            )  # fmt: skip
