"""How patiently a call is made: its timeout and its retry, from what the call, the tool and the run say.

*Timeout*: the call's own, or the tool's, or the run's default; none means that only the wall limit of the run holds. A
plan's runs are opened with a default of 30 s, code's with none. In a plan the default adapts to the tool's history: see
`adaptive_timeout_seconds`. *Retry*: what the tool was given; in a plan, three attempts for read-only and idempotent
tools that were given nothing.

Decides; waits for nothing and calls nothing.
"""

from __future__ import annotations

from callgate.tools import Caller, Retry, Tool
from callgate.tools.statistics import Statistics, adaptive_timeout_seconds

__all__ = ["PLAN_RETRY", "retry_for", "timeout_for"]

PLAN_RETRY = Retry()
"""What a plan gives read-only and idempotent tools that bring no `retry`: three attempts, 1 s and 2 s apart."""
STATISTICS_LAG = 128
"""So many attempts, of the 256 it rests on, a timeout may be behind: a p95 for every call would cost more than the
call. An attempt that timed out is seen at once."""


def timeout_for(
    tool: Tool, asked: float | None, default_seconds: float | None, caller: Caller, statistics: Statistics
) -> float | None:
    """Seconds that one attempt may take; None for no timeout.

    Args:
        tool: what is called.
        asked: the call's own timeout, in seconds.
        default_seconds: the run's.
        caller: a plan's default adapts; others hold as they are.
        statistics: how the tool's calls went.
    """
    given = asked or tool.timeout_seconds
    if given is not None or default_seconds is None or caller != "plan":
        return given or default_seconds
    return adaptive_timeout_seconds(statistics.of(tool.name, lag=STATISTICS_LAG), default_seconds, tool.repeatable)


def retry_for(tool: Tool, asked: Retry | None, caller: Caller) -> Retry | None:
    """How often the call is tried; None for once.

    Args:
        tool: what is called.
        asked: the call's own; heeded where repeating can do no harm, or where the operator set a `retry`.
        caller: a plan retries tools that were given nothing.
    """
    if asked is not None and (tool.repeatable or tool.retry is not None):
        return asked
    if tool.retry is None and caller == "plan" and tool.repeatable:
        return PLAN_RETRY
    return tool.retry
