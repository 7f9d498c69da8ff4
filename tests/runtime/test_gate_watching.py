"""Watchers are told the end of every run and of every call that began: once, and when the record is final."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from callgate import Allow, Deny, Limits, Retry, Runtime, ToolError, tool
from callgate.runtime.gate.records import CallRecord
from callgate.runtime.gate.watching import RunStart
from runtime.conftest import opened

pytestmark = pytest.mark.anyio


class Ends:
    """Counts the ends of runs and calls; it is the watcher of a runtime, of its runs, and of their calls."""

    essential = False

    def __init__(self, record: CallRecord | None = None) -> None:
        self.record = record
        self.below: list[Ends] = []
        self.ends = self.made = 0
        self.final: tuple[Any, ...] = ()

    def run(self, start: RunStart) -> Ends:
        return self._one(None)

    def call(self, record: CallRecord) -> Ends:
        return self._one(record)

    def _one(self, record: CallRecord | None) -> Ends:
        self.below.append(Ends(record))
        return self.below[-1]

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """No-op."""

    def calling(self, tool: Any, arguments: Any) -> None:
        self.made += 1

    def ended(self, first: Any, second: Any) -> None:
        self.ends += 1
        self.final = self.of_record()

    def of_record(self) -> tuple[Any, ...]:
        record = self.record
        return () if record is None else (record.status, record.error, record.duration_seconds, record.attempts)


tries = 0


@tool(read_only=True)
async def get(city: str = "x") -> str:
    await anyio.sleep(0.002)
    return city


@tool(read_only=True, cache_seconds=60)
async def kept(city: str = "x") -> str:
    await anyio.sleep(0.02)
    return city


@tool(read_only=True, retry=Retry(attempts=3, backoff_seconds=0))
async def flaky() -> str:
    global tries
    tries += 1
    if tries % 3:
        raise ToolError("again", retryable=True)
    return "ok"


@tool(fallback="get")
async def fails(city: str = "x") -> str:
    raise ToolError("no")


@tool
async def hangs() -> None:
    await anyio.sleep_forever()


@tool(requires_approval=True)
async def pay(euros: int) -> str:
    return f"paid {euros}"


async def approve(request: Any) -> Any:
    euros = request.arguments["euros"]
    return Allow() if euros < 10 else Allow({"euros": "?"}) if euros < 100 else Deny("no")


MANY = "import asyncio\nawait asyncio.gather(*[get(city=str(n)) for n in range(9)], hangs())"
PROGRAMS = {
    "two calls": "a = await get(city='a')\nb = await get(city='b')\n[a, b]",
    "a call that began early and is not used": "a = await get(city='a')\n1 / 0\nb = await get(city='b')",
    "an unknown tool": "await tool_call('nothing', a=1)",
    "wrong arguments": "await get(city=1)",
    "retried, then a fallback": "await flaky()\nawait fails()",
    "cached": "await kept()\nawait kept()",
    "approved": "await pay(euros=5)",
    "changed badly": "await pay(euros=50)",
    "denied": "await pay(euros=500)",
    "too many calls": "for n in range(9):\n    await get(city=str(n))",
    "too many calls at once": MANY,
    "it takes too long": "await get()\nawait hangs()",
    "it is not valid": "x = (",
    "given up before they left": "import asyncio\nt = asyncio.ensure_future(get())\nt.cancel()\nawait get()",
    "killed": "import asyncio, os\nasyncio.ensure_future(hangs())\nawait asyncio.sleep(0.05)\nos.kill(os.getpid(), 9)",
}
LIMITS = Limits(wall_seconds=0.5, max_tool_calls=4, max_concurrent_calls=3)


@pytest.fixture(scope="module")
async def entered(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(get, kept, flaky, fails, hangs, pay, approve=approve, pool_size=1, limits=LIMITS) as runtime:
        yield runtime


@pytest.fixture
def ends(entered: Runtime) -> Iterator[tuple[Runtime, Ends]]:
    watcher = Ends()
    entered.gate.watchers = (watcher,)
    yield entered, watcher
    runs = watcher.below
    assert runs
    assert [run.ends for run in runs] == [1] * len(runs)
    for call in (call for run in runs for call in run.below):
        assert call.ends == 1
        assert call.final == call.of_record()
        assert call.final[0] != "pending"
        assert call.made == (call.final[-1] > 0)


@pytest.mark.parametrize("path", ["sandbox", "auto"])
@pytest.mark.parametrize("name", PROGRAMS)
async def test_of_a_program(ends: tuple[Runtime, Ends], name: str, path: Any) -> None:
    runtime, watcher = ends
    result = await runtime.execute_code(PROGRAMS[name], path=path, check=name != "wrong arguments")
    records = [call.record for call in watcher.below[0].below]
    assert sorted(id(each) for each in records) == sorted(id(each) for each in [*result.calls, *result.speculative])


@pytest.mark.parametrize("path", ["sandbox", "auto"])
async def test_of_a_program_that_is_cancelled_or_whose_stream_is_left(ends: tuple[Runtime, Ends], path: Any) -> None:
    runtime, watcher = ends
    with anyio.move_on_after(0.2):
        await runtime.execute_code(MANY, path=path, limits=LIMITS.replace(max_tool_calls=20))
    async with runtime.stream_code("await get()\nawait hangs()", path=path) as stream:
        async for _ in stream:
            break
    assert len(watcher.below) == 2
    assert all(run.below for run in watcher.below)


async def test_of_a_session(ends: tuple[Runtime, Ends]) -> None:
    runtime, watcher = ends
    async with runtime.session() as session:
        await session.execute_code("await get()")
        with anyio.move_on_after(0.2):
            await session.execute_code("await hangs()")
    assert [len(run.below) for run in watcher.below] == [1, 1]


async def test_of_a_call_of_its_own(ends: tuple[Runtime, Ends]) -> None:
    runtime, watcher = ends
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get", {}), ("nothing", {}), ("get", {"citi": 1}), ("flaky", {}), ("fails", {}), ("kept", {}), ("kept", {}),
        *(("pay", {"euros": euros}) for euros in (5, 50, 500)), ("hangs", {}),
    ]  # fmt: skip
    for name, arguments in calls:
        await runtime.handle(name, arguments)
    with anyio.move_on_after(0.05):
        await runtime.handle("hangs", {})
    assert len(watcher.below) == len(calls) + 1


async def test_of_calls_that_share_one_result_and_whose_first_is_cancelled(ends: tuple[Runtime, Ends]) -> None:
    runtime, watcher = ends

    async def call(seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await runtime.handle("kept", {"city": "shared"})

    async with anyio.create_task_group() as tasks:
        for seconds in (0.005, 5, 5):
            tasks.start_soon(call, seconds)
    assert sorted(run.below[0].final[0] for run in watcher.below) == ["cancelled", "succeeded", "succeeded"]


async def test_of_a_plan(ends: tuple[Runtime, Ends]) -> None:
    runtime, watcher = ends
    every = {"id": "b", "tool": "get", "for_each": list("12345"), "arguments": {"city": "$item"}}
    for steps in ([{"id": "a", "tool": "fails"}], [every], [{"id": "h", "tool": "hangs"}], [{"id": "n", "tool": "no"}]):
        await runtime.execute_tool_plan({"steps": steps})
    with anyio.move_on_after(0.05):
        await runtime.execute_tool_plan({"steps": [{"id": "h", "tool": "hangs"}]})
    assert len(watcher.below) == 5


@pytest.mark.parametrize("ending", ["whole", "refused", "broken", "cancelled"])
async def test_of_a_streamed_plan(ends: tuple[Runtime, Ends], ending: str) -> None:
    runtime, watcher = ends

    async def chunks() -> AsyncIterator[str]:
        yield '{"steps": [{"id": "a", "tool": "get"}, '
        await anyio.sleep(0.05 if ending != "cancelled" else 10)
        if ending == "broken":
            raise ValueError("the connection is gone")
        yield f'{{"id": "b", "tool": "{"no" if ending == "refused" else "get"}", "arguments": {{"city": "$ref:a"}}}}]}}'

    with anyio.move_on_after(0.3):
        try:
            await runtime.stream_plan(chunks())
        except ValueError:
            assert ending == "broken"
    assert watcher.below[0].below
