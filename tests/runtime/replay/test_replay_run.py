"""Programs on a guest that replays, from the host's side: what they receive is recorded first, and then it is given."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import anyio
import pytest

from callgate import Limits, Runtime, ToolError, tool
from callgate.runtime.replay.history import History, ReplayEvent
from callgate.runtime.replay.run import replayable
from runtime.conftest import opened
from runtime.test_hostile_guests import WIRE

pytestmark = pytest.mark.anyio
CALLED: list[Any] = []
"""Arguments of the calls that tools have served."""


@tool
async def take(value: Any, seconds: float = 0.0) -> Any:
    """Return the value after a while."""
    CALLED.append(value)
    await anyio.sleep(seconds)
    if value == "fail":
        raise ToolError("no", data={"why": "no"}, retryable=True)
    return value


MIXED = """
import asyncio, random, time
print("begins")
out = []
async def one(n):
    await asyncio.sleep(random.random() / 200)
    try:
        out.append(await take("fail" if n == 2 else n, seconds=random.random() / 200))
    except ToolError as error:
        out.append([str(error), error.data, error.retryable])
    print("took", n, time.time())
async with asyncio.TaskGroup() as group:
    for n in range(6):
        group.create_task(one(n))
try:
    async with asyncio.timeout(0.005):
        await take("slow", seconds=30)
except TimeoutError:
    out.append("late")
[out, time.time()]
"""


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    CALLED.clear()


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> Any:
    async with opened(take, pool_size=2) as entered:
        yield entered


async def test_a_history_gives_the_same_run_and_calls_nothing(runtime: Runtime) -> None:
    result, history = await replayable(runtime, MIXED)
    assert result.ok, result.error
    assert result.value[0][-1] == "late"
    assert ["no", {"why": "no"}, True] in result.value[0]
    CALLED.clear()
    again, same = await replayable(runtime, MIXED, history=history)
    assert (again.value, again.logs, again.error, same) == (result.value, result.logs, None, history)
    assert [value for value in CALLED if value != "slow"] == []


async def test_a_run_goes_on_wherever_its_history_was_cut(runtime: Runtime) -> None:
    _, history = await replayable(runtime, MIXED)
    for cut in range(0, len(history.events), 3):
        CALLED.clear()
        again, longer = await replayable(runtime, MIXED, history=history.cut(cut))
        assert again.ok, again.error
        assert longer.events[:cut] == history.events[:cut]
        answered = [event.arguments for event in history.cut(cut).events if event.number is not None]
        assert not [value for value in CALLED if f'"value":{value},' in "".join(answered)]
        assert again.logs.startswith("begins\n")
        assert [event.time for event in longer.events] == sorted(event.time for event in longer.events)


async def test_an_event_is_recorded_before_the_program_has_it(runtime: Runtime) -> None:
    seen: list[Any] = []

    async def consumed(number: int, event: ReplayEvent) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append((number, event.tool, event.outcome))

    def heard(event: Any) -> None:
        if type(event).__name__ == "Printed":
            seen.append(event.text)

    code = "for n in range(3):\n    print(await take(n))"
    result, history = await replayable(runtime, code, consumed=consumed, on_event=heard)
    assert result.ok, result.error
    assert seen == [(1, "take", "0"), "0\n", (2, "take", "1"), "1\n", (3, "take", "2"), "2\n"]
    assert [event.number for event in history.events] == [1, 2, 3]
    assert [event.arguments for event in history.events] == ['{"value":0}', '{"value":1}', '{"value":2}']


async def test_what_was_printed_before_is_in_the_logs_and_nobody_hears_it_again(runtime: Runtime) -> None:
    code = "for n in range(3):\n    print(await take(n))"
    _, history = await replayable(runtime, code)
    heard: list[str] = []
    result, _ = await replayable(runtime, code, history=history.cut(1), on_event=lambda e: heard.append(str(e)))
    assert result.logs == "0\n1\n2\n"
    assert [each for each in heard if "Printed" in each] == ["Printed(text='1\\n')", "Printed(text='2\\n')"]


async def test_a_program_that_does_something_else_ends_and_calls_nothing(runtime: Runtime) -> None:
    _, history = await replayable(runtime, "await take(1)\nawait take(2)")
    CALLED.clear()
    result, same = await replayable(runtime, "x = 3\nawait take(x)", history=history)
    assert result.error is not None
    assert (result.error.kind, CALLED, same) == ("ReplayDiverged", [], history)
    assert result.error.message == (
        "the program does not do again what it did: in line 2, the recorded run had the answer to call 1, "
        'take({"value":1}), and this run has call 1, take({"value":3}). Nothing was called. Start it as a new run; '
        "`callgate run --replay-check` finds what differs"
    )


async def test_a_programs_own_error_of_that_name_is_not_the_hosts(runtime: Runtime) -> None:
    result, _ = await replayable(runtime, "class ReplayDiverged(Exception): pass\nraise ReplayDiverged('x')")
    assert result.error is not None
    assert result.error.kind == "program.ReplayDiverged"


async def test_randomness_and_the_start_are_those_of_the_history(runtime: Runtime) -> None:
    code = "import random, time\n[random.random(), time.time()]"
    first, _ = await replayable(runtime, code, history=History(seed=bytes(32), start=5.0))
    second, _ = await replayable(runtime, code, history=History(seed=bytes(32), start=5.0))
    other, _ = await replayable(runtime, code)
    assert first.value == second.value
    assert first.value[1] == 5.0
    assert other.value[0] != first.value[0]


async def test_time_goes_on_from_the_last_event_even_if_the_machines_clock_went_back(runtime: Runtime) -> None:
    code = "import time\nawait take(1)\nawait take(2)\ntime.time()"
    _, history = await replayable(runtime, code)
    late = replace(history.events[0], time=history.events[0].time + 1e6)
    result, longer = await replayable(runtime, code, history=replace(history, events=(late,)))
    assert 0 <= result.value - late.time < 60
    assert longer.events[1].time >= late.time


async def test_threads_are_refused_before_the_program_runs_and_by_the_kernel(runtime: Runtime) -> None:
    code = "import threading\nthreading.Thread(target=print).start()"
    found, _ = await replayable(runtime, code)
    assert found.error is not None
    assert found.error.kind == "CheckFailed"
    by_kernel = (
        "import ctypes\nc = ctypes.CDLL(None)\nc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, c.getpid, None)"
    )
    result, _ = await replayable(runtime, by_kernel)
    assert (result.error, result.value) == (None, 11)  # EAGAIN


async def test_calls_of_a_history_count_for_max_tool_calls(runtime: Runtime) -> None:
    code = "for n in range(4):\n    await take(n)"
    _, history = await replayable(runtime, code)
    result, _ = await replayable(runtime, code, history=history.cut(2), limits=Limits(max_tool_calls=3))
    assert result.error is not None
    assert result.error.limit == "max_tool_calls"


async def test_timers_are_bounded_like_calls(runtime: Runtime) -> None:
    code = "import asyncio\nwhile True:\n    await asyncio.sleep(0.00001)"
    result, history = await replayable(runtime, code, limits=Limits(max_tool_calls=50, wall_seconds=30))
    assert result.error is not None
    assert result.error.limit == "max_tool_calls"
    assert len(history.events) == 50


async def test_a_call_that_never_ends_is_ended_by_the_time_limit(runtime: Runtime) -> None:
    result, history = await replayable(runtime, "await take(1, seconds=1000)", limits=Limits(wall_seconds=0.5))
    assert result.error is not None
    assert (result.error.limit, history.events) == ("wall_seconds", ())


HOSTILE = {
    "two waits at once": (
        """send('{"jsonrpc":"2.0","method":"$wait","params":{"until":null}}\\n' * 2)""",
        "the guest waits for a second event before the first one has come",
    ),
    "a time that is none": (
        """send('{"jsonrpc":"2.0","method":"$wait","params":{"until":NaN}}\\n')""",
        "",
    ),
    "an infinite time": (
        """send('{"jsonrpc":"2.0","method":"$wait","params":{"until":1e999}}\\n')""",
        "the number 1e999 is too large",
    ),
    "a wait that wants an answer": (
        """send('{"jsonrpc":"2.0","method":"$wait","params":{"until":null},"id":1}\\n')""",
        "",
    ),
    "numbers that go back": (
        """for n in (5, 4): send('{"jsonrpc":"2.0","method":"take","params":{"value":1},"id":%d}\\n' % n)""",
        "a guest that replays numbers its calls 1, 2, 3, ...",
    ),
    "a number that is text": (
        """send('{"jsonrpc":"2.0","method":"take","params":{"value":1},"id":"x"}\\n')""",
        "a guest that replays numbers its calls 1, 2, 3, ...",
    ),
    "a batch": ("batch([1, 2], 'take')", "a guest that replays makes plain calls only"),
    "a withdrawn call without a number": (
        """send('{"jsonrpc":"2.0","method":"rpc.withdrawn","params":{"tool":"take","arguments":{}}}\\n')""",
        "a guest that replays numbers its calls 1, 2, 3, ...",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_guest_that_breaks_the_protocol_ends(runtime: Runtime, name: str) -> None:
    code, words = HOSTILE[name]
    limits = Limits(wall_seconds=10)
    result, _ = await replayable(runtime, f"{WIRE}\n{code}\nawait take('x')", check=False, limits=limits)
    assert result.error is not None
    assert result.error.kind == "ProtocolError"
    assert words in result.error.message


async def test_a_wait_in_an_ordinary_run_is_no_wait(runtime: Runtime) -> None:
    code = f"""{WIRE}\nsend('{{"jsonrpc":"2.0","method":"$wait","params":{{"until":null}}}}\\n')\nawait take(1)"""
    result = await runtime.execute_code(code, check=False, path="sandbox")
    assert (result.error, result.value) == (None, 1)


@tool(read_only=True)
async def large(n: int) -> str:
    """A million letters."""
    return "x" * 1_000_000


@pytest.mark.slow
async def test_large_outcomes_wait_until_the_program_asks_for_them(anyio_backend: str) -> None:
    code = "import asyncio\nsum(map(len, await asyncio.gather(*[large(n) for n in range(60)])))"
    async with opened(large, pool_size=1) as runtime:
        result, history = await replayable(runtime, code)
        assert (result.error, result.value) == (None, 60_000_000)
        again, _ = await replayable(runtime, code, history=history)
        assert (again.error, again.value) == (None, 60_000_000)
        other, _ = await replayable(runtime, "await large(1)", history=history)
        assert other.error is not None
        assert other.error.kind == "ReplayDiverged"


@pytest.mark.slow
async def test_a_program_that_writes_more_calls_than_can_wait_does_not_hang(anyio_backend: str) -> None:
    code = "import asyncio\nawait asyncio.gather(*[large(n) for n in range(50)], *[large(n) for n in range(80_000)])"
    async with opened(large, pool_size=1, limits=Limits(memory_bytes=1 << 30)) as runtime:
        result, _ = await replayable(runtime, code)
    assert result.error is not None
    assert "make fewer calls at a time, for instance with asyncio.Semaphore" in result.error.message


@tool(read_only=True)
async def quick() -> int:
    """Return at once."""
    return 1


@pytest.mark.slow
async def test_cancelling_thousands_of_calls_that_have_their_outcomes_takes_no_time(anyio_backend: str) -> None:
    count = 20_000
    code = f"""{WIRE}
import ctypes
for n in range(1, {count + 1}):
    send('{{"jsonrpc":"2.0","method":"quick","params":{{}},"id":%d}}\\n' % n)
ctypes.CDLL(None).usleep(3_000_000)  # by then, all of them have their outcomes
for n in range({count}, 0, -1):
    send('{{"jsonrpc":"2.0","method":"cancel","params":{{"id":%d}}}}\\n' % n)
"""
    async with opened(quick, pool_size=1) as runtime:
        began = time.process_time()
        result, _ = await replayable(runtime, code, check=False)
    assert result.error is None
    assert time.process_time() - began < 5
