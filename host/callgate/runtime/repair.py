"""Programs that correct an earlier one: its successful calls are not made again. The rules stand in `gate.earlier`.
Here are the two ends: the new run gets the outcomes of the earlier calls, and its own result says what it reused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from callgate.errors import ConfigurationError, RunNotFound

from .result import CodeResult

if TYPE_CHECKING:
    from .gate.earlier import Outcome
    from .run import CodeRun

__all__ = ["MAX_AGE_SECONDS", "After", "FindRun", "completed", "reuse"]

MAX_AGE_SECONDS = 60.0
"""Default age of a read that is not made again."""
After = CodeResult | str | Sequence[CodeResult] | None
"""The program that is corrected: its result, or the id of its run. An agent may have several."""
FindRun = Callable[[str], Awaitable[CodeResult]]
"""Finds the result of a background run, once it has ended. Raises `RunNotFound`."""
_MOST_NAMED = 20


async def reuse(run: CodeRun, after: After, max_age_seconds: float, find: FindRun | None) -> None:
    """Let `run` take the outcomes of the calls of earlier programs.

    Raises:
        ConfigurationError: `after` is not the result of a program, or the age is not a number of seconds.
        RunNotFound: no run has this id.
    """
    age: Any = max_age_seconds
    if not isinstance(age, (int, float)) or not age >= 0:
        raise ConfigurationError(f"max_age_seconds is a number of seconds, 0 or more, not {max_age_seconds!r}")
    if isinstance(after, str):
        if find is None:
            raise RunNotFound(f"there is no run {after[:60]!r} here: pass the CodeResult itself, or the id of a run")
        after = await find(after)
    results: list[Any] = [*after] if isinstance(after, (list, tuple)) else [after]
    for each in results:
        if not isinstance(each, CodeResult):
            what = "that of a plan: a plan has no calls to reuse" if hasattr(each, "steps") else repr(each)[:100]
            raise ConfigurationError(f"after= is the result of a program (CodeResult) or the id of its run, not {what}")
    outcomes = await anyio.to_thread.run_sync(_outcomes, results)  # it hashes all arguments
    run.gate.reuse(outcomes, float(max_age_seconds))


def _outcomes(results: list[CodeResult]) -> list[Outcome]:
    """The outcomes of all calls, each once: programs that ran after the same one have its outcomes left."""
    found = (each for result in results for each in result.for_repair.outcomes(result.calls))
    return list({id(each.record): each for each in found}.values())


def completed(run: CodeRun, result: CodeResult, redactor: Callable[..., Any]) -> CodeResult:
    """The result, with what a correction of this program needs, and a note on the calls that were not made again.

    Args:
        run: has ended.
        result: of the run.
        redactor: see `CodeResult.redactor`.
    """
    kept = run.gate.for_repair(ok=result.ok)
    if run.gate.repair is None:
        return replace(result, for_repair=kept, redactor=redactor)
    reused = [record for record in result.calls if record.reused]
    usage = replace(result.usage, tool_calls=result.usage.tool_calls - sum(each.reused for each in run.gate.records))
    notes = [*result.notes, *_notes(reused)]
    return replace(result, for_repair=kept, redactor=redactor, usage=usage, notes=notes)


def _notes(reused: Sequence[Any]) -> list[str]:
    if not reused:
        return []
    counts = Counter(record.tool for record in reused)
    named = [tool if n == 1 else f"{tool} × {n}" for tool, n in counts.most_common(_MOST_NAMED)]
    more = len(counts) - len(named)
    names = ", ".join([*named, *([f"{more} more tools"] if more else [])])
    calls, was = ("1 call", "was") if len(reused) == 1 else (f"{len(reused)} calls", "were")
    return [f"{calls} of the earlier program {was} not made again: {names}"]
