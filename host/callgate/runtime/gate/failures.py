"""How calls fail: which exceptions pass, which are hidden, and how a tool's own error goes out.

1. A tool reports its own failures with `ToolError`, which passes. Any other exception is the host's own business: it is
   logged, and the caller learns only that there was an internal error.
2. A cancellation is real if somebody cancelled: an enclosing anyio scope is cancelled, or asyncio has a request to
   cancel this task. A `CancelledError` that a tool raises itself, or gets from a task of its own, is a failure.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import math

import anyio
import anyio.lowlevel

from callgate.errors import ToolError
from callgate.tools import Tool
from callgate.tools.encoding import NotJson, compact_json

__all__ = ["ToolCrashed", "copied", "crashed", "make_presentable", "propagates"]

logger = logging.getLogger("callgate")

MAX_ERROR_CHARACTERS = 64 * 1024
"""A longer message of a tool's own error is cut in the middle, and says so."""
MAX_ERROR_DATA_CHARACTERS = 1024 * 1024
"""Longer data of a tool's own error is dropped, and the log says so."""


class ToolCrashed(ToolError):
    """The tool raised another exception than `ToolError`; the host's log has the details."""

    default_code = -32603


def crashed(tool: Tool, error: BaseException) -> ToolCrashed:
    """Log an exception of a tool, and build the error that hides it from the caller."""
    logger.error("tool %r failed", tool.name, exc_info=error)
    return ToolCrashed(f"tool {tool.name!r} failed: an internal error; details are in the host's log", tool=tool.name)


def copied(error: ToolError) -> ToolError:
    """Copy an error, since one instance raised in many tasks collects all their tracebacks."""
    try:
        return copy.copy(error)
    except Exception:  # a subclass with a constructor of its own
        return ToolError(error.message, code=error.code, data=error.data, retryable=error.retryable, tool=error.tool)


async def propagates(error: BaseException) -> bool:
    """Whether an exception must propagate: an interrupt, or a cancellation that somebody requested."""
    if isinstance(error, Exception):
        return False
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return True
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        if error.subgroup(KeyboardInterrupt):
            return True
        if error.subgroup(cancelled) and _cancellation_in_force():
            # the caller gets the cancellation without the tool's other errors
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


def make_presentable(tool: Tool, error: ToolError) -> None:
    """Give a tool's own error the tool's name, a whole number as code, JSON as data, and a bounded message."""
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
        end = message[-half:].partition(" ")[2] or message[-half:]  # whole words: half a secret is not recognised
        message = f"{message[:half]} ... {len(message) - half - len(end)} characters cut ... {end}"
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
