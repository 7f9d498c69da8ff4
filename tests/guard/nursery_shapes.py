"""Shapes of programs that leave calls un-awaited, fail, leave or cancel, and what each of them comes to: every time the
same. Used by `test_a_program_is_a_nursery`; run by itself it is a campaign:

    PYTHONPATH=tests python -m guard.nursery_shapes 1000
"""

from __future__ import annotations

import asyncio
import collections
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from callgate import CodeResult, Limits, Runtime, Tool, ToolError, tool

LIMITS = Limits(wall_seconds=20, max_concurrent_calls=4)
ASYNC = "import asyncio\n"


class Effects:
    """What the tools of one run have done to the world."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.ends = threading.Event()
        """Lets the sync tools end that wait for it."""

    @property
    def tools(self) -> list[Tool]:
        """The tools of that world."""
        done, ends = self.done, self.ends

        @tool
        async def send(to: str) -> str:
            """Send a mail."""
            await asyncio.sleep(0.001)
            done.append(to)
            return to

        @tool
        def post(to: str) -> str:
            """Send a letter, from a thread."""
            done.append(to)
            return to

        @tool
        def carry(to: str) -> str:
            """Carry something from a thread, slowly."""
            done.append(to)
            ends.wait(30)
            return to

        @tool
        async def stay(to: str) -> str:
            """Begin, and never end."""
            done.append(to)
            await asyncio.sleep(3600)
            return to

        @tool
        async def fail(to: str) -> str:
            """Fail."""
            await asyncio.sleep(0.001)
            raise ToolError(f"no such address: {to}")

        @tool(read_only=True)
        async def look(to: str) -> str:
            """Look something up."""
            await asyncio.sleep(0.001)
            return to

        @tool(read_only=True)
        async def stare(to: str) -> str:
            """Look, and never end."""
            await asyncio.sleep(3600)
            return to

        return [send, post, carry, stay, fail, look, stare]


Called = tuple[str, str, str]
"""A call's tool, argument and state."""


@dataclass(frozen=True)
class Shape:
    """A program, and what it comes to."""

    code: str
    effects: str
    """The arguments of the calls that had effects, a letter each, in any order."""
    calls: tuple[str, ...]
    """``tool argument state``, in the order of the record."""
    ok: bool = True
    value: Any = None
    error: str = ""
    """``kind message``, as far as that."""
    line: int | None = None
    notes: tuple[str, ...] = ()
    path: str = "auto"
    limits: Limits = field(default=LIMITS)


def sent(letters: str, state: str = "succeeded", name: str = "send") -> tuple[str, ...]:
    """Calls of one tool."""
    return tuple(f"{name} {letter} {state}" for letter in letters)


THREE = ("3 calls were never awaited; their results were dropped",)
ONE = ("1 call was never awaited; its result was dropped",)
ABORT = "async def bad():\n    raise ValueError('bad')\nasync with asyncio.TaskGroup() as g:\n"

SHAPES: dict[str, Shape] = {
    # never awaited
    "a list": Shape("done = [send(to) for to in 'abc']\nprint(len(done))", "abc", sent("abc"), notes=THREE),
    "a list in async code": Shape("await look('x')\n[send(to) for to in 'abc']\nlen('four')", "abc",
                                  ("look x succeeded", *sent("abc")), value=4, notes=THREE),
    "a dict": Shape("done = {to: send(to) for to in 'abc'}", "abc", sent("abc"), notes=THREE),
    "append": Shape("done = []\nfor to in 'abc':\n    done.append(send(to))\nlen(done)", "abc", sent("abc"), value=3,
                    notes=THREE),
    "a lambda": Shape("f = lambda to: send(to)\nx = [f(to) for to in 'abc']", "abc", sent("abc"), notes=THREE),
    "map": Shape("x = list(map(lambda to: post(to), 'abc'))", "abc", sent("abc", name="post"), notes=THREE),
    "an argument": Shape("def keep(call):\n    return 7\nkeep(send('a'))", "a", sent("a"), value=7, notes=ONE),
    "a return": Shape("x = send('a')\nreturn 5", "a", sent("a"), value=5, notes=ONE),
    "sys.exit": Shape("import sys\nx = [send(to) for to in 'abc']\nsys.exit()", "abc", sent("abc"), notes=THREE),
    "more than may run at once": Shape("x = [send(to) for to in 'abcdefghij']\n1", "abcdefghij", sent("abcdefghij"),
                                       value=1, notes=("10 calls were never awaited; their results were dropped",)),
    # tasks
    "create_task": Shape(ASYNC + "asyncio.create_task(send('a'))\n1", "a", sent("a"), value=1),
    "create_task in async code": Shape(ASYNC + "await look('x')\nasyncio.create_task(send('a'))\n1", "a",
                                       ("look x succeeded", *sent("a")), value=1),
    "gather": Shape(ASYNC + "x = asyncio.gather(send('a'), send('b'))\n2", "ab", sent("ab"), value=2),
    "ensure_future": Shape(ASYNC + "asyncio.ensure_future(send('a'))\n1", "a", sent("a"), value=1),
    "a task that goes on": Shape(ASYNC + "async def f():\n    for to in 'abc':\n        await send(to)\n"
                                 "asyncio.create_task(f())\n3", "abc", sent("abc"), value=3),
    "asyncio.run": Shape(ASYNC + "async def main():\n    for to in 'abc':\n        asyncio.create_task(send(to))\n"
                         "    return 4\nasyncio.run(main())", "abc", sent("abc"), value=4),
    "a timer": Shape(ASYNC + "x = asyncio.create_task(asyncio.sleep(3600))\n1", "", (), value=1,
                     notes=("1 task was still waiting when the program ended; it was cancelled",)),
    # failures that nobody looked at
    "calls that failed": Shape("x = [send('a'),\n  fail('b'),\n  fail('c')]", "a",
                               ("send a succeeded", "fail b failed", "fail c failed"), False,
                               error="ToolError no such address: b", line=2),
    "a task that failed": Shape(ASYNC + "async def f():\n    await fail('a')\nt = asyncio.create_task(f())\n1", "",
                                ("fail a failed",), False, error="ToolError no such address: a", line=3),
    "a gather that failed": Shape(ASYNC + "x = asyncio.gather(send('a'),\n  fail('b'))\n1", "a",
                                  ("send a succeeded", "fail b failed"), False,
                                  error="ToolError no such address: b", line=3),
    # a program that fails
    "raise": Shape("x = [send(to) for to in 'abcdef']\ny = look('y')\nraise ValueError('no')", "abcdef",
                   (*sent("abcdef"), "look y cancelled"), False, error="ValueError no", line=3),
    "raise in async code": Shape("await look('x')\nx = [post(to) for to in 'ab']\ny = stare('y')\n1 / 0", "ab",
                                 ("look x succeeded", *sent("ab", name="post"), "stare y cancelled"), False,
                                 error="ZeroDivisionError division by zero", line=4),
    "raise as a graph": Shape("x = send('a')\ny = send('b')\nz = stare('z')\nn = 1 // 0\nawait x\nawait y\nawait z",
                              "ab", (*sent("ab"), "stare z cancelled"), False, error="ZeroDivisionError", line=4,
                              path="plan"),
    "sys.exit(3)": Shape("import sys\nx = [send(to) for to in 'abc']\nsys.exit(3)", "abc", sent("abc"), False,
                         error="SystemExit 3", line=3),
    "a failing call in a gather": Shape(ASYNC + "await asyncio.gather(fail('a'), send('b'), stare('c'))", "b",
                                        ("fail a failed", "send b succeeded", "stare c cancelled"), False,
                                        error="ToolError no such address: a", line=2, path="sandbox"),
    "a task does not go on": Shape(ASYNC + "async def f():\n    await stare('a')\n    await send('b')\n"
                                   "t = asyncio.create_task(f())\nawait look('c')\nraise ValueError('no')", "",
                                   ("look c succeeded", "stare a cancelled"), False, error="ValueError no", line=7),
    # a program that cancels
    "wait_for": Shape(ASYNC + "try:\n    await asyncio.wait_for(stay('a'), 0.02)\nexcept TimeoutError:\n    print(1)",
                      "a", ("stay a unknown_outcome",)),
    "wait_for a read": Shape(ASYNC + "try:\n    await asyncio.wait_for(stare('a'), 0.02)\nexcept TimeoutError:\n    1",
                             "", ("stare a cancelled",)),
    "wait_for a thread": Shape(ASYNC + "try:\n    await asyncio.wait_for(carry('a'), 0.05)\nexcept TimeoutError:\n"
                               "    1", "a", ("carry a unknown_outcome",)),
    "timeout": Shape(ASYNC + "try:\n    async with asyncio.timeout(0.02):\n        await stay('a')\n"
                     "except TimeoutError:\n    print(1)", "a", ("stay a unknown_outcome",)),
    "timeout at once": Shape(ASYNC + "try:\n    async with asyncio.timeout(0):\n        await send('a')\n"
                             "except TimeoutError:\n    print(1)", "", ("send a cancelled",)),
    "task.cancel at once": Shape(ASYNC + "t = asyncio.create_task(post('a'))\nt.cancel()\nawait look('b')", "",
                                 ("post a cancelled", "look b succeeded"), value="b"),
    "task.cancel": Shape(ASYNC + "t = asyncio.create_task(stay('a'))\nawait look('b')\nt.cancel()\nawait look('c')",
                         "a", ("stay a unknown_outcome", "look b succeeded", "look c succeeded"), value="c"),
    "a TaskGroup that aborts": Shape(ASYNC + ABORT + "    g.create_task(send('a'))\n    g.create_task(post('b'))\n"
                                     "    g.create_task(bad())", "", ("send a cancelled", "post b cancelled"), False,
                                     error="ExceptionGroup"),
    "a TaskGroup with a failing call": Shape(
        ASYNC + "async with asyncio.TaskGroup() as g:\n    g.create_task(stay('a'))\n    g.create_task(stare('b'))\n"
        "    g.create_task(fail('c'))", "a", ("stay a unknown_outcome", "stare b cancelled", "fail c failed"), False,
        error="ExceptionGroup"),
    # limits
    "a call that never ends": Shape("x = stay('a')\n7", "a", ("stay a unknown_outcome",), False, value=7,
                                    error="LimitReached limit reached: wall_seconds is 0.3",
                                    limits=LIMITS.replace(wall_seconds=0.3)),
    "too many calls": Shape("x = [stay('a'), stay('b'), stare('c'), stay('d')]", "ab",
                            ("stay a unknown_outcome", "stay b unknown_outcome", "stare c cancelled"), False,
                            error="LimitReached limit reached: max_tool_calls is 3",
                            limits=LIMITS.replace(max_tool_calls=3)),
    "not begun at the limit": Shape("x = [stay('a'), stay('b'), stay('c')]", "ab",
                                    ("stay a unknown_outcome", "stay b unknown_outcome", "stay c cancelled"), False,
                                    error="LimitReached limit reached: wall_seconds is 0.3",
                                    limits=LIMITS.replace(wall_seconds=0.3, max_concurrent_calls=2)),
    # where each call blocks
    "a plain function": Shape("def f(to):\n    return send(to)\n[f(to) for to in 'abc']", "abc", sent("abc"),
                              value=["a", "b", "c"]),
    "threads": Shape("import threading\nfor to in 'abc':\n    t = threading.Thread(target=post, args=(to,))\n"
                     "    t.start()\n    t.join()", "abc", sent("abc", name="post")),
    "to_thread": Shape(ASYNC + "t = asyncio.create_task(asyncio.to_thread(post, 'a'))\n1", "a", sent("a", name="post"),
                       value=1),
    "a pool": Shape("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n"
                    "for to in 'abc':\n    f = pool.submit(post, to)", "abc", sent("abc", name="post")),
    "a pool that was shut down": Shape("from concurrent.futures import ThreadPoolExecutor\n"
                                       "pool = ThreadPoolExecutor(1)\nf = [pool.submit(post, to) for to in 'abc']\n"
                                       "pool.shutdown(wait=False)", "abc",
                                       sent("abc", name="post")),
    "a thread that is left": Shape("import threading\nthreading.Thread(target=post, args=('a',)).start()", "a",
                                   sent("a", name="post")),
}  # fmt: skip


def told(result: CodeResult, effects: Effects) -> tuple[Any, ...]:
    """What has to be the same every time."""
    error = result.error and (result.error.kind, result.error.message.partition(", used")[0], result.error.line)
    calls = tuple(f"{call.tool} {call.arguments['to']} {call.status}" for call in result.calls)
    return result.ok, repr(result.value), error, "".join(sorted(effects.done)), calls, tuple(result.notes)


async def run(shape: Shape, runtime: Runtime, effects: Effects) -> tuple[CodeResult, tuple[Any, ...]]:
    """Run a shape once, in a world of its own, and wait until its threads have begun what they do."""
    effects.done.clear()
    effects.ends.clear()
    path: Any = shape.path
    result = await runtime.execute_code(shape.code, limits=shape.limits, check=False, path=path)
    effects.ends.set()
    return result, told(result, effects)


async def campaign(times: int, names: list[str]) -> int:
    """Run each shape so many times; says how many different outcomes each had, and returns how many had several."""
    effects, several = Effects(), 0
    async with Runtime(effects.tools) as runtime:
        for name in names or SHAPES:
            began = time.perf_counter()
            outcomes = collections.Counter([(await run(SHAPES[name], runtime, effects))[1] for _ in range(times)])
            several += len(outcomes) > 1
            print(f"{name}: {len(outcomes)} of {times} ({time.perf_counter() - began:.1f} s)", flush=True)
            for outcome, count in outcomes.most_common(3) if len(outcomes) > 1 else ():
                print(f"    {count} x {outcome}")
    return several


if __name__ == "__main__":
    sys.exit(min(asyncio.run(campaign(int(sys.argv[1]), sys.argv[2:])), 1))
