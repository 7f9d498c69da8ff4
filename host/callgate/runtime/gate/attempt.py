"""One attempt: the arguments on their way to the tool, one call of its function, and what it returns, encoded; and how
patiently a call is made. Large arguments and results leave others their turn.

1. What a tool means to say, it says with a `ToolError`; that passes. Everything else it raises is the host's own
   business: it is logged, and the caller learns only that there was an internal error.
2. A cancellation is real when somebody did cancel: an enclosing anyio scope is cancelled, or asyncio has a request to
   cancel this very task on its books. A `CancelledError` that a tool raises of itself, or catches from a task of its
   own, is a failure like any other.
3. *Timeout*: the call's own, or the tool's, or the run's default; none means that only the wall limit of the run holds.
   A plan's runs are opened with a default of 30 s, code's with none. In a plan the default adapts to the tool's
   history: see `adaptive_timeout_seconds`.
4. *Retry*: what the tool was given; in a plan, three attempts for read-only and idempotent tools that were given
   nothing.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import logging
import math
from collections.abc import Mapping
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from callgate.errors import InvalidArguments, ToolError
from callgate.tools import Caller, Retry, Tool
from callgate.tools.decoding import decoding
from callgate.tools.encoding import NotJson, canonical_json, compact_json, encoding
from callgate.tools.faults import described
from callgate.tools.statistics import Statistics, adaptive_timeout_seconds
from callgate.tools.turns import LARGE_BYTES, Work

from .calls import CallUnderWay, weight
from .threads import Threads

__all__ = [
    "PLAN_RETRY",
    "ToolCrashed",
    "as_dict",
    "call_once",
    "copied",
    "copy_of",
    "in_turns",
    "key_of",
    "propagates",
    "retry_for",
    "timeout_for",
    "validated",
    "validated_by",
]

T = TypeVar("T")

logger = logging.getLogger("callgate")

MAX_ERROR_CHARACTERS = 64 * 1024
"""A longer message of a tool's own error is cut in the middle, and says so."""
MAX_ERROR_DATA_CHARACTERS = 1024 * 1024
"""Longer data of a tool's own error is dropped, and the log says so."""
PLAN_RETRY = Retry()
"""What a plan gives read-only and idempotent tools that bring no `retry`: three attempts, 1 s and 2 s apart."""
STATISTICS_LAG = 128
"""So many attempts, of the 256 it rests on, a timeout may be behind: a p95 for every call would cost more than the
call. An attempt that timed out is seen at once."""


class ToolCrashed(ToolError):
    """The tool raised something that it did not mean to say; the details are in the host's log."""

    default_code = -32603


def validated_by(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the tool is called with, at once. Raises `ToolError`; of any other exception only that there was one."""
    try:
        return tool.validate(arguments)
    except ToolError:
        raise
    except Exception as error:  # a validator of the operator's own
        raise _crashed(tool, error) from None


async def validated(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the tool is called with. Raises what `validated_by` raises."""
    if not _large(arguments):
        return validated_by(tool, arguments)
    try:
        return await in_turns(tool.validating(arguments))
    except ToolError:
        raise
    except Exception as error:
        raise _crashed(tool, error) from None


async def key_of(call: CallUnderWay) -> str:
    """The cache key of a call: equal for equal arguments, whatever the order of their keys."""
    if _large(call.given):
        text = hashlib.blake2b((await in_turns(encoding(call.given, sort_keys=True))).encode()).hexdigest()
    else:
        text = canonical_json(call.given)
    return f"{call.tool.name}\n{text}"


async def copy_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """A copy through JSON, which shares nothing with `arguments`."""
    if _large(arguments):
        made: dict[str, Any] = await in_turns(decoding(await in_turns(encoding(arguments))))
    else:  # at once: a call that needs no approval must not overtake it
        made = json.loads(compact_json(arguments))
    return made


def as_dict(tool: Tool, arguments: Any) -> dict[str, Any]:
    """The arguments as a dict. Raises `InvalidArguments` for what is not an object."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    raise InvalidArguments(
        f"tool {tool.name!r}: the arguments must be an object, got {described(arguments)}", tool=tool.name
    )


def _large(arguments: dict[str, Any]) -> bool:
    return weight(arguments, LARGE_BYTES) > LARGE_BYTES


async def call_once(tool: Tool, arguments: dict[str, Any], threads: Threads | None) -> str:
    """Call the function and encode its result.

    Args:
        tool: the tool.
        arguments: what `Tool.validate` returned; the function may change them.
        threads: where a sync function runs.

    Raises:
        ToolError: the tool failed, broke its contract, or there are too many threads left behind.
        BaseException: the call was cancelled, or the host is being interrupted.
    """
    try:
        result = await (tool.invoke(arguments) if threads is None else threads.run(tool, arguments))
        if weight(result, LARGE_BYTES) > LARGE_BYTES:
            return await in_turns(tool.encoding(result))
        return tool.encode(result)
    except ToolError as error:
        _make_presentable(tool, error)
        raise
    except BaseException as error:
        if await propagates(error):
            raise
        raise _crashed(tool, error) from None


async def in_turns(work: Work[T]) -> T:
    """The result of long work, with turns for others. Raises what the work raises."""
    while True:
        await anyio.lowlevel.checkpoint()
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            break
    await anyio.lowlevel.checkpoint()
    return result


def _crashed(tool: Tool, error: BaseException) -> ToolCrashed:
    """What the caller is told about an exception that is not its business; the log is told everything."""
    logger.error("tool %r failed", tool.name, exc_info=error)
    return ToolCrashed(f"tool {tool.name!r} failed: an internal error; details are in the host's log", tool=tool.name)


def copied(error: ToolError) -> ToolError:
    """An exception of one's own: one instance raised in many tasks would gather all their tracebacks."""
    try:
        return copy.copy(error)
    except Exception:  # a subclass with a constructor of its own
        return ToolError(error.message, code=error.code, data=error.data, retryable=error.retryable, tool=error.tool)


async def propagates(error: BaseException) -> bool:
    """Whether the exception must go on up: an interrupt, or a cancellation that somebody asked for."""
    if isinstance(error, Exception):
        return False
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return True
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        if error.subgroup(KeyboardInterrupt):
            return True
        if error.subgroup(cancelled) and _cancellation_in_force():
            # The rest of the group is the tool's own trouble; the cancellation is raised afresh without it.
            logger.error("a tool failed while it was cancelled", exc_info=error)
            await anyio.lowlevel.checkpoint_if_cancelled()
            raise asyncio.CancelledError from None
        return False
    return isinstance(error, cancelled) and _cancellation_in_force()


def _cancellation_in_force() -> bool:
    if anyio.current_effective_deadline() == -math.inf:
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:  # not asyncio
        return False
    return task is not None and task.cancelling() > 0


def _make_presentable(tool: Tool, error: ToolError) -> None:
    """A tool's own error, as it may go out: with the tool's name, a code that is a number, and data that is JSON."""
    for name, default in (
        ("message", str(error)),
        ("code", None),
        ("data", None),
        ("retryable", False),
        ("tool", None),
    ):
        if not hasattr(error, name):  # a subclass that did not call its base
            setattr(error, name, default)
    error.tool = error.tool or tool.name
    error.retryable = bool(error.retryable)
    message = str(error.message).encode(errors="replace").decode()
    if len(message) > MAX_ERROR_CHARACTERS:
        half = MAX_ERROR_CHARACTERS // 2
        cut = len(message) - 2 * half
        message = f"{message[:half]} ... {cut} characters cut ... {message[-half:]}"
    if message != error.message:
        error.message = message
        error.args = (message,)
    if type(error.code) is not int:
        if error.code is not None:
            logger.error("tool %r raised a ToolError whose code is %r, not a whole number", tool.name, error.code)
        error.code = type(error).default_code
    if error.data is None:
        return
    try:
        text = compact_json(error.data)
        error.data = json.loads(text)
        too_long = len(text) > MAX_ERROR_DATA_CHARACTERS
        fault = f"it is longer than {MAX_ERROR_DATA_CHARACTERS} characters" if too_long else ""
    except NotJson as not_json:
        fault = str(not_json)
    if fault:
        logger.error("tool %r raised a ToolError whose data is dropped: %s", tool.name, fault)
        error.data = None


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
