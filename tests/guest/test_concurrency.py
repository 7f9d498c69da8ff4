"""Calls at the same time: gather, tasks, groups, threads, loops within loops. Nothing here waits for a clock."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from guest.conftest import Run
from guest.driver import GuestProcess, Ran, reply_of

# `meet(n)` is answered when n calls of it are waiting: a program that makes them one after the other would never end
PROGRAMS: dict[str, tuple[str, Any]] = {
    "gather": ("await asyncio.gather(meet(3), meet(3), meet(3))", [3, 3, 3]),
    "gather of a generator expression": ("await asyncio.gather(*(meet(3) for _ in range(3)))", [3, 3, 3]),
    "gather of a comprehension": ("await asyncio.gather(*[meet(3) for _ in range(3)])", [3, 3, 3]),
    "gather of map": ("await asyncio.gather(*map(meet, [3, 3, 3]))", [3, 3, 3]),
    "gather keeps the order": ("[w.city for w in await asyncio.gather(*(get_weather(c) for c in "
                               "'abc'))]", ["a", "b", "c"]),
    "calls start when they are written": ("a, b = meet(2), meet(2)\n[await a, await b]", [2, 2]),
    "a dict of calls": ("d = {k: meet(2) for k in 'ab'}\n{k: await v for k, v in d.items()}", {"a": 2, "b": 2}),
    "create_task": ("t = asyncio.create_task(meet(2))\n[await meet(2), await t]", [2, 2]),
    "ensure_future": ("t = asyncio.ensure_future(meet(2))\n[await meet(2), await t]", [2, 2]),
    "a task group": (
        "async with asyncio.TaskGroup() as g:\n    a = g.create_task(meet(2))\n    b = g.create_task(meet(2))\n"
        "[a.result(), b.result()]", [2, 2]),
    "as_completed": ("sorted([await c for c in asyncio.as_completed([echo(2), echo(1)])])", [1, 2]),
    "wait": ("done, _ = await asyncio.wait([asyncio.create_task(echo(i)) for i in range(3)])\n"
             "sorted(t.result() for t in done)", [0, 1, 2]),
    "wait_for": ("await asyncio.wait_for(echo(1), 60)", 1),
    "timeout": ("async with asyncio.timeout(60):\n    x = await echo(1)\nx", 1),
    "shield": ("await asyncio.shield(echo(1))", 1),
    "one call awaited by two": ("c = meet(2)\n"
                                "await asyncio.gather(asyncio.wait_for(c, 60), meet(2), asyncio.wait_for(c, 60))",
                                [2, 2, 2]),
    "return_exceptions": (
        "r = await asyncio.gather(fail('a'), echo(1), return_exceptions=True)\n[type(r[0]).__name__, str(r[0]), r[1]]",
        ["ToolError", "a", 1]),
    "a semaphore": (
        "s = asyncio.Semaphore(2)\nasync def f(i):\n    async with s:\n        return await echo(i)\n"
        "await asyncio.gather(*(f(i) for i in range(5)))", [0, 1, 2, 3, 4]),
    "a queue": (
        "q = asyncio.Queue()\nasync def producer():\n    for i in range(3):\n        await q.put(await echo(i))\n"
        "t = asyncio.create_task(producer())\nr = [await q.get() for _ in range(3)]\nawait t\nr", [0, 1, 2]),
    "an async generator": (
        "async def g():\n    for i in range(3):\n        yield await echo(i)\n[x async for x in g()]", [0, 1, 2]),
    "an async context manager": (
        "import contextlib\n@contextlib.asynccontextmanager\nasync def c():\n    yield await echo(1)\n"
        "async with c() as x:\n    r = x\nr", 1),
    "a class with __aenter__": (
        "class C:\n    async def __aenter__(self):\n        return await echo(1)\n"
        "    async def __aexit__(self, *e):\n        await echo(2)\nasync with C() as x:\n    r = x\nr", 1),
    "asyncio.run of a main": ("async def main():\n    return sum(await asyncio.gather(meet(2), meet(2)))\n"
                              "asyncio.run(main())", 4),
    "asyncio.run of a call": ("asyncio.run(echo(1))", 1),
    "asyncio.run twice": ("async def f():\n    return await echo(1)\nasyncio.run(f()) + asyncio.run(f())", 2),
    "asyncio.run in async code": ("async def f():\n    return await echo(1)\n[asyncio.run(f()), await f()]", [1, 1]),
    "asyncio.run in a plain helper of async code": (
        "async def f():\n    return await echo(1)\ndef g():\n    return asyncio.run(f())\n[g(), await f()]", [1, 1]),
    "asyncio.Runner": ("with asyncio.Runner() as r:\n    x = r.run(echo(1))\nx", 1),
    "a coroutine begun by hand": (
        "class Begun:\n    def __init__(self, c):\n        self.c, self.y = c.__await__(), None\n"
        "        self.y = self.c.send(None)\n    def __await__(self):\n        while True:\n            yield self.y\n"
        "            try:\n                self.y = self.c.send(None)\n            except StopIteration as e:\n"
        "                return e.value\nasync def f():\n    return await meet(2)\n"
        "async def main():\n    a, b = Begun(f()), Begun(f())\n    return [await a, await b]\nawait main()", [2, 2]),
    "a call in a loop that was told to stop": (
        "l = asyncio.new_event_loop()\nasync def f():\n    l.stop()\n    return await meet(2)\nt = l.create_task(f())\n"
        "l.run_forever()\nx = t.done()\nthreading.Thread(target=meet, args=[2]).start()\n"
        "y = l.run_until_complete(t)\nl.close()\n[x, y]", [False, 2]),
    "a loop of its own": ("l = asyncio.new_event_loop()\nx = l.run_until_complete(echo(1))\nl.close()\nx", 1),
    "a plain helper in async code blocks": (
        "def helper(x):\n    return echo(x) + 1\nasync def f():\n    return helper(1)\nawait f()", 2),
    "a plain helper while others are in flight": (
        "def helper():\n    return echo(1)\nc = meet(2)\nx = helper()\n"
        "[x, *await asyncio.gather(c, meet(2))]", [1, 2, 2]),
    "threads": (
        "r = []\nts = [threading.Thread(target=lambda: r.append(meet(3))) for _ in range(3)]\n"
        "[t.start() for t in ts]\n[t.join() for t in ts]\nr", [3, 3, 3]),
    "a pool": ("with ThreadPoolExecutor(4) as e:\n    r = list(e.map(meet, [4] * 4))\nr", [4, 4, 4, 4]),
    "a pool and submit": (
        "with ThreadPoolExecutor() as e:\n    fs = [e.submit(get_weather, c) for c in 'ab']\n"
        "[f.result()['city'] for f in fs]", ["a", "b"]),
    "to_thread": ("await asyncio.gather(*(asyncio.to_thread(meet, 3) for _ in range(3)))", [3, 3, 3]),
    "to_thread with a plain function": ("def f(x):\n    return echo(x) * 2\nawait asyncio.to_thread(f, 4)", 8),
    "run_in_executor": ("await asyncio.get_running_loop().run_in_executor(None, echo, 5)", 5),
    "a thread calls while a call waits alone": (
        "import time\nt = threading.Thread(target=lambda: (time.sleep(0.05), meet(2)))\nt.start()\nx = await meet(2)\n"
        "t.join()\nx", 2),
    "a thread wakes the loop while a call waits alone": (
        "import time\nloop = asyncio.get_running_loop()\nasync def other():\n    return await meet(2)\n"
        "def late():\n    time.sleep(0.05)\n    return asyncio.run_coroutine_threadsafe(other(), loop).result()\n"
        "with ThreadPoolExecutor(1) as e:\n    f = e.submit(late)\n    x = await meet(2)\n"
        "    y = await asyncio.wrap_future(f)\n[x, y]", [2, 2]),
    "a task that cancels itself before its call": (
        "t = asyncio.current_task()\nt.cancel()\ntry:\n    await echo(1)\n    r = 'went on'\n"
        "except asyncio.CancelledError:\n    r = 'cancelled'\n    t.uncancel()\n[r, await echo(2)]", ["cancelled", 2]),
    "threads and tasks meet": (
        "await asyncio.gather(meet(4), asyncio.to_thread(meet, 4), meet(4), asyncio.to_thread(meet, 4))", [4, 4, 4, 4]),
    "a thread with a loop": (
        "r = []\nt = threading.Thread(target=lambda: r.append(asyncio.run(main())))\n"
        "async def main():\n    return await asyncio.gather(meet(2), meet(2))\nt.start()\nt.join()\nr", [[2, 2]]),
    "three loops at once": (
        "async def main():\n    return await meet(3)\ndef run():\n    return asyncio.run(main())\n"
        "await asyncio.gather(asyncio.to_thread(run), asyncio.to_thread(run), meet(3))", [3, 3, 3]),
    "one thread's long call does not hold up another's": (
        # the first thread reads for both: `first` comes back only after the second thread has made its second call
        "def first():\n    return meet(2)\ndef second():\n    echo(1)\n    echo(2)\n    return meet(2)\n"
        "ts = [asyncio.to_thread(first), asyncio.to_thread(second)]\nawait asyncio.gather(*ts)", [2, 2]),
    "the main thread blocks for a call that a thread's answers": (
        "def late():\n    echo(1)\n    return meet(2)\nt = threading.Thread(target=late)\nt.start()\n"
        "def block():\n    return meet(2)\nblock()", 2),
    "contextvars": (
        "import contextvars\nv = contextvars.ContextVar('v')\nasync def f(i):\n    v.set(i)\n    await echo(i)\n"
        "    return v.get()\nawait asyncio.gather(f(1), f(2))", [1, 2]),
    "a cancelled task": (
        "t = asyncio.create_task(hang())\nawait asyncio.sleep(0)\nt.cancel()\ntry:\n    await t\n"
        "except asyncio.CancelledError:\n    r = 'cancelled'\nr", "cancelled"),
}  # fmt: skip
PRELUDE = "import asyncio, threading\nfrom concurrent.futures import ThreadPoolExecutor\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_at_the_same_time(name: str, run: Run) -> None:
    code, expected = PROGRAMS[name]
    ran = run(PRELUDE + code)
    assert ran.error is None, ran.error
    assert ran.value == expected
    assert ran.value_repr is None


def test_a_call_that_is_given_up_is_cancelled_on_the_host(run: Run) -> None:
    ran = run(
        "import asyncio\ntry:\n    await asyncio.wait_for(hang(), 0.01)\nexcept TimeoutError:\n    r = 'late'\n"
        "[r, await echo(1)]"
    )
    assert ran.value == ["late", 1]
    assert ran.cancelled == [next(each["id"] for each in ran.messages if each.get("method") == "hang")]


def test_a_call_given_up_by_one_of_two_goes_on_for_the_other(run: Run) -> None:
    ran = run(
        "import asyncio\nc = meet(2)\nasync def both():\n    return await c\n"
        "a, b = asyncio.create_task(both()), asyncio.create_task(both())\nawait asyncio.sleep(0)\na.cancel()\n"
        "await asyncio.sleep(0)\n[await meet(2), await b]"
    )
    assert ran.value == [2, 2]
    assert ran.cancelled == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in Python 3.12")
@pytest.mark.parametrize(
    "begin", ["eager(loop, f())", "asyncio.Task(f(), loop=loop, eager_start=True)", "asyncio.create_task(f())"]
)
def test_eager_tasks_overlap(run: Run, begin: str) -> None:
    ran = run(
        "import asyncio\nloop, eager = asyncio.get_running_loop(), asyncio.eager_task_factory\n"
        f"{'loop.set_task_factory(eager)' if 'create' in begin else ''}\nasync def f():\n    return await meet(2)\n"
        f"a = {begin}\nb = {begin}\n[await a, await b]"
    )
    assert ran.value == [2, 2]


def test_loops_made_in_threads_leave_the_logger_of_asyncio_alone(guest: GuestProcess) -> None:
    ran = guest.run(
        "import asyncio, logging, threading\ndef work():\n    for _ in range(300):\n"
        "        asyncio.new_event_loop().close()\nthreads = [threading.Thread(target=work) for _ in range(4)]\n"
        "for t in threads: t.start()\nfor t in threads: t.join()\nlogging.getLogger('asyncio').disabled"
    )
    assert ran.value is False


def test_asyncio_in_debug_mode_does_not_take_a_call_for_slow_code(guest: GuestProcess) -> None:
    def slow(name: str, params: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.2)
        return reply_of(name, params)

    ran = guest.run(
        "import asyncio\nasync def f():\n    return await echo(1)\nasyncio.run(f(), debug=True)", reply=slow
    )
    assert ran.value == 1
    assert ran.logs == ""


def test_a_reply_that_comes_after_the_call_was_given_up_is_dropped(guest: GuestProcess) -> None:
    def late(message: dict[str, Any]) -> bool:
        if message.get("method") == "cancel":
            guest.write({"result": "late", "id": message["params"]["id"]})
        return False

    ran = guest.run(
        "import asyncio\ntry:\n    await asyncio.wait_for(hang(), 0.01)\nexcept TimeoutError: pass\nawait echo(1)",
        on_message=late,
    )
    assert ran.value == 1


def test_a_failing_call_in_a_task_group_cancels_the_others(run: Run) -> None:
    ran = run(
        "import asyncio\nasync with asyncio.TaskGroup() as g:\n    g.create_task(hang())\n"
        "    g.create_task(fail('broken'))"
    )
    assert ran.kind == "ExceptionGroup"
    assert "ToolError: broken" in ran.traceback
    assert len(ran.cancelled) == 1


def test_except_star_catches_it(run: Run) -> None:
    ran = run(
        "import asyncio\ntry:\n    async with asyncio.TaskGroup() as g:\n        g.create_task(fail('broken'))\n"
        "except* ToolError as e:\n    r = [str(x) for x in e.exceptions]\nr"
    )
    assert ran.value == ["broken"]


def test_tasks_that_wait_for_a_timer_at_the_end_are_cancelled_and_generators_closed(run: Run) -> None:
    ran = run(
        "import asyncio\nasync def left():\n    try:\n        await asyncio.sleep(1000)\n"
        "    finally:\n        print('task ends')\n"
        "async def g():\n    try:\n        yield 1\n        yield 2\n    finally:\n        print('generator ends')\n"
        "t = asyncio.create_task(left())\nawait asyncio.sleep(0)\nkept = g()\nawait kept.__anext__()\n"
        "async for x in g():\n    break\nprint('end')\nx"
    )
    assert ran.value == 1
    assert ran.logs.startswith("end\n")
    assert sorted(ran.logs.split("\n")) == ["", "end", "generator ends", "generator ends", "task ends"]


@pytest.mark.parametrize(("end", "kind"), [("", None), ("1 / 0", "ZeroDivisionError")])
def test_a_thread_that_calls_nothing_is_waited_for(run: Run, end: str, kind: str | None) -> None:
    late = "import threading, time\ndef late():\n    time.sleep(0.3)\n    print('late')\n"
    ran = run(f"{late}threading.Thread(target=late).start()\n{end}")
    assert ran.logs == "late\n"
    assert (ran.error and ran.error["kind"]) == kind


def test_threads_left_at_the_end_are_waited_for(run: Run) -> None:
    ran = run("import threading\nt = threading.Thread(target=lambda: print('said', echo(1)))\nt.start()")
    assert ran.logs == "said 1\n"


def test_daemon_threads_are_not(guest: GuestProcess) -> None:
    assert guest.run("import threading\nt = threading.Thread(target=hang, daemon=True)\nt.start()\n3").value == 3


def test_an_exit_in_a_thread_ends_the_thread_only(run: Run) -> None:
    ran = run("import threading, sys\nt = threading.Thread(target=sys.exit, args=(3,))\nt.start()\nt.join()\n'on'")
    assert (ran.value, ran.logs) == ("on", "")


def test_an_exit_in_a_task_ends_the_program(run: Run) -> None:
    ran = run("import asyncio, sys\nasync def f():\n    sys.exit(4)\nawait asyncio.gather(f(), hang())")
    assert (ran.kind, ran.message) == ("SystemExit", "4")
    assert run("await echo(5)").value == 5


def test_an_error_in_a_thread_is_printed(run: Run) -> None:
    ran = run("import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t1')\nt.start()\nt.join()")
    assert ran.error is None
    assert ran.logs.startswith("Exception in thread t1:\nTraceback (most recent call last):\n")
    assert ran.logs.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("gathered", [True, False])
def test_very_many_calls(gathered: bool, run: Run) -> None:
    each = "await asyncio.gather(*(echo(i) for i in range(20_000)))"
    ran = run(f"import asyncio\nlen(set({each if gathered else '[await echo(i) for i in range(20_000)]'}))")
    assert ran.value == 20_000


def test_a_host_that_does_not_read_while_it_sends_big_replies_stops_nobody(guest: GuestProcess) -> None:
    """The guest writes more than a pipe holds while the host is writing more than a pipe holds."""
    held: list[dict[str, Any]] = []

    def hold(message: dict[str, Any]) -> bool:
        if message.get("method") == "big":
            held.append(message)
            if len(held) == 20:  # all at once, and nothing is read meanwhile
                guest.write(*({**reply_of("big", each["params"]), "id": each["id"]} for each in held))
            return True
        return False

    ran: Ran = guest.run(
        "import asyncio\ncalls = [big(200_000) for _ in range(20)]\n"
        "await asyncio.sleep(0)\n"
        "more = [echo('y' * 200_000) for _ in range(20)]\n"
        "[sum(len(x) for x in await asyncio.gather(*c)) for c in (calls, more)]",
        on_message=hold,
    )
    assert ran.value == [4_000_000, 4_000_000]


def test_the_same_from_threads(guest: GuestProcess) -> None:
    ran = guest.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def f(i):\n    return len(echo('y' * 300_000)) + len(big(300_000))\n"
        "with ThreadPoolExecutor(8) as e:\n    r = sum(e.map(f, range(40)))\nr"
    )
    assert ran.value == 40 * 600_000


def test_a_cancel_from_the_host_cancels_the_program(guest: GuestProcess) -> None:
    def cancel(message: dict[str, Any]) -> bool:
        if message.get("method") == "hang":
            guest.write({"method": "cancel", "params": {}})
        return False

    ran = guest.run("try:\n    await hang()\nfinally:\n    print('ends')", on_message=cancel)
    assert (ran.kind, ran.logs) == ("CancelledError", "ends\n")
    assert guest.run("1").value == 1


def test_a_signal_handler_may_call_and_print_in_the_middle_of_a_write(guest: GuestProcess) -> None:
    ran = guest.run(
        "import signal\nhits = []\ndef handler(*_):\n    hits.append(1)\n    print('tick')\n"
        "signal.signal(signal.SIGALRM, handler)\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
        "for i in range(2000):\n    assert (await echo('z' * 5000)) == 'z' * 5000\n"
        "while len(hits) < 5: pass\nsignal.setitimer(signal.ITIMER_REAL, 0)\nlen(hits) >= 5"
    )
    assert ran.error is None, ran.error
    assert ran.value is True
    assert ran.logs.count("tick") == ran.logs.count("\n") >= 5
    assert set(ran.logs) == set("tick\n")
