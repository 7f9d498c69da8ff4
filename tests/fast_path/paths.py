"""A program on both paths: runs it on each, in a world of its own, and says in what the two results differ.

Three things are compared loosely: which of several failed calls that were going on at the same time ends the program,
and addresses in texts (`<... at 0x7f...>`), because in the sandbox itself they differ from run to run; and frames of a
traceback through a comprehension or a lambda, which differ between versions of Python.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import re
import traceback
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.from_thread
import pytest

from callgate import CodeResult, Compilation, Limits, RunError, Runtime, SandboxUnavailable
from fast_path.catalogue import TOOLS, WORLD, WRITERS, World, approve
from fast_path.programs import Program

__all__ = ["Outcome", "Paths", "differences", "open_paths"]

_MORE_RUNS = 30
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}|(?<=, used )\d+|(?<=\bTask-)\d+")
_FRAME = re.compile(r"^  File .*$", re.MULTILINE)
_INNER = re.compile(r"^  File .*, in <(listcomp|dictcomp|setcomp|genexpr|lambda)>$", re.MULTILINE)


@dataclass
class Outcome:
    """What a program came to on one path."""

    result: CodeResult
    world: World


class Paths:
    """A runtime for each path, and the event loop that they live in."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal, plan: Runtime, sandbox: Runtime) -> None:
        self._portal = portal
        self._runtimes = {"auto": plan, "written": plan, "sandbox": sandbox}

    def run(self, program: Program, *paths: str, of: str = "") -> list[Outcome]:
        """Run a program on these paths, at the same time; with `of`, by the runtime of that path."""
        return self._portal.call(self._run_all, program, paths, of)

    def is_graph(self, program: Program) -> bool:
        """Whether the fast path takes it."""
        return self._compile(program).ok

    def reason(self, program: Program) -> str:
        """Why it does not, in a few words."""
        reason = self._compile(program).reasons[0]
        return f"{reason.construct}: {reason.message}"

    def _compile(self, program: Program) -> Compilation:
        return self._portal.call(lambda: self._runtimes["auto"].compile(program.source, inputs=program.inputs))

    def compare(self, program: Program, path: str = "auto") -> tuple[Outcome, Outcome, list[str]]:
        """The outcomes on a path and in the sandbox, and in what they differ. The path ``"written"`` is ``"auto"`` for
        a program that comes in pieces.

        What the sandbox itself tells differently from time to time (whether a call that nobody awaits still left) or
        from guest to guest (the order of a set) is no difference: then the fast path has to tell one of these things.
        """
        fast, sandbox = self.run(program, path, "sandbox")
        found = differences(fast, sandbox)
        for number in range(_MORE_RUNS if found else 0):
            (again,) = self.run(program, "sandbox", of="auto" if number % 2 else "sandbox")
            if not differences(fast, again):
                return fast, again, []
        return fast, sandbox, found

    async def _run_all(self, program: Program, paths: tuple[str, ...], of: str) -> list[Outcome]:
        outcomes: list[Outcome | None] = [None] * len(paths)

        async def run(place: int) -> None:
            outcomes[place] = await self._run(program, paths[place], self._runtimes[of or paths[place]])

        async with anyio.create_task_group() as tasks:
            for place in range(len(paths)):
                tasks.start_soon(run, place)
        return [outcome for outcome in outcomes if outcome is not None]

    async def _run(self, program: Program, path: Any, runtime: Runtime) -> Outcome:
        world = World()
        WORLD.set(world)
        try:
            if path == "written":
                async with runtime.stream_code(_pieces(program.source), inputs=program.inputs) as stream:
                    async for _ in stream:
                        pass
                assert stream.result is not None
                result = stream.result
            else:
                result = await runtime.execute_code(program.source, inputs=program.inputs, path=path)
        except Exception as crash:  # nothing that a program does may bring the host there
            text = "".join(traceback.format_exception(crash))
            result = CodeResult(ok=False, error=RunError(f"crash of the {path} path", text))
        return Outcome(result, world)


async def _pieces(source: str) -> AsyncIterator[str]:
    """A program in pieces, as long and as slow as chance will have it, the same each time."""
    drawn = random.Random(source)
    longest = drawn.choice((3, 20, 80, 400))
    at = 0
    while at < len(source):
        size = drawn.randint(1, longest)
        yield source[at : at + size]
        at += size
        if drawn.random() < 0.3:
            await anyio.sleep(drawn.choice((0, 0.001, 0.003)))


@contextlib.contextmanager
def open_paths() -> Iterator[Paths]:
    """The event loop and the runtimes. A sandbox that is missing is a skip, in CI a failure."""
    logger = logging.getLogger("callgate")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # `crash` is reported there
    try:
        with contextlib.ExitStack() as stack:
            portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
            limits = Limits(wall_seconds=20, cpu_seconds=2, max_tool_calls=2000)
            runtimes = [Runtime(TOOLS, approve=approve, limits=limits, pool_size=size) for size in (1, 4)]
            try:
                for runtime in runtimes:
                    stack.enter_context(portal.wrap_async_context_manager(runtime))
            except SandboxUnavailable as reason:
                if os.environ.get("CI") == "true":
                    pytest.fail(f"the sandbox has to work in CI: {reason}")
                pytest.skip(str(reason))
            yield Paths(portal, *runtimes)
    finally:
        logger.setLevel(level)


def differences(first: Outcome, second: Outcome) -> list[str]:
    """What the two came to differently, a line for each thing; empty when they are equal."""
    one, two = _told(first), _told(second)
    if any(outcome.result.error and _INNER.search(outcome.result.error.traceback) for outcome in (first, second)):
        del one["frames"]
    if _depends_on_time(first) or _depends_on_time(second):
        for told in (one, two):
            if told["error kind"] == "ToolError":
                for part in ("error message", "error line", "error tool", "frames", "last line"):
                    told.pop(part, None)
    both = [f"{part}: {one[part]!s} != {two[part]!s}" for part in one if part in two and one[part] != two[part]]
    for outcome in (first, second):
        early = {record.tool for record in outcome.result.speculative}
        if early & WRITERS:
            both.append(f"called early, but not read-only: {early & WRITERS}")
        if early and outcome.result.ok and outcome.result.path == "plan":
            both.append(f"called for nothing: {early}")
    return both


def _told(outcome: Outcome) -> dict[str, Any]:
    result = outcome.result
    instead = {call.fallback_call for call in result.calls}  # made by the host, if the call was not given up before
    own = [call for call in result.calls if call.id not in instead]
    calls = [f"{call.tool} {_canonical(call.arguments)}" for call in own]
    places = [f"{call} {record.line}" for call, record in zip(calls, own, strict=True)]
    ends = [f"{call.status} {call.fallback} {call.changed_arguments} {call.error} {call.result}" for call in own]
    told: dict[str, Any] = {
        "ok": result.ok,
        "value": json.dumps(result.value),
        "value_repr": _ADDRESS.sub("0x", repr(result.value_repr)),
        "logs": _ADDRESS.sub("0x", repr(result.logs)),
        "truncated": result.truncated,
        "calls": sorted(calls),
        "lines of calls": sorted(places),
        "source and inputs": (result.source, result.inputs),
        "lines of prints": [(mark.line, mark.offset) for mark in result.prints],
        "calls that change something": [call for call in calls if call.split(" ", 1)[0] in WRITERS],
        "error kind": result.error and result.error.kind,
        "error message": result.error and _ADDRESS.sub("0x", result.error.message),
        "error line": result.error and result.error.line,
        "error tool": result.error and result.error.tool,
        "frames": result.error and _FRAME.findall(result.error.traceback),
        "last line": result.error and _ADDRESS.sub("0x", result.error.traceback.rstrip().rpartition("\n")[2]),
    }
    both = list(zip(calls, ends, strict=True))
    told["effects"] = [(call, end) for call, end in both if call.split(" ", 1)[0] in WRITERS]
    if not any(end.startswith("cancelled") for end in ends):  # a read that was given up may have ended before
        told["ends of calls"] = sorted(map(" ".join, both))
    if result.error is None or result.error.limit is None:  # a limit cuts off what is going on
        told["world"] = repr(outcome.world)
    return told


def _canonical(arguments: Any) -> str:
    """JSON text; the order of the arguments means nothing, that of keys within them is there for the tool to see."""
    return json.dumps(dict(sorted(arguments.items())) if isinstance(arguments, dict) else arguments)


def _depends_on_time(outcome: Outcome) -> bool:
    return sum(call.status not in ("succeeded", "cancelled", "unknown_outcome") for call in outcome.result.calls) > 1
