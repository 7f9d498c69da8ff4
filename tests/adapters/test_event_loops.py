"""Promise: agents of the frameworks work wherever they run: `run_sync`, `invoke`, threads, a runtime nobody entered.

The runtime is entered once for all runs that need it at the same time, and left after the last; one that its owner
entered is used in the owner's event loop and stays open.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from agents.items import ToolCallOutputItem
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from adapters.frameworks import run_agent
from callgate import ConfigurationError, Registry, Runtime
from callgate.adapters.langchain import langchain_tools
from callgate.adapters.openai_agents import openai_agents_tools
from callgate.adapters.pydantic_ai import CallgateToolset
from callgate.runtime.opening import Opening
from callgate_bench.model.stand_in import Call, OpenAIResponses, Script, serving
from callgate_bench.model.stand_in.server import KEY

SECONDS = 60
PROGRAM = "import sys\nsum([await where() for _ in range(3)]) and 'done'"


class Watched:
    """A runtime whose sandbox is real, and that notes when it is entered and left, and in which loops its tools run."""

    def __init__(self, *, fails: int = 0) -> None:
        self.fails = fails
        self.entered = 0
        self.left = 0
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.arrived = 0
        self.expected = 1
        self.first = asyncio.Event()
        self.together = asyncio.Event()
        self.runtime: Runtime = Runtime([self.where, self.meet], sources=[self], pool_size=1, path="sandbox")

    @contextlib.asynccontextmanager
    async def serving(self, registry: Registry) -> AsyncIterator[None]:
        """As a source of tools, it is told of each entering and leaving."""
        if self.fails:
            self.fails -= 1
            raise ConfigurationError("the source is not ready")
        self.entered += 1
        yield
        self.left += 1

    async def where(self) -> int:
        """Note the event loop."""
        self.loops.append(asyncio.get_running_loop())
        return 1

    async def meet(self) -> int:
        """Wait until as many calls as are expected are here."""
        self.loops.append(asyncio.get_running_loop())
        self.arrived += 1
        self.first.set()
        if self.arrived >= self.expected:
            self.together.set()
        await asyncio.wait_for(self.together.wait(), SECONDS)
        return self.arrived

    def agent(self, code: str = PROGRAM, *, toolsets: list[Any] | None = None) -> Agent[None, str]:
        """One whose model runs a program by `execute_code`, once per run, and answers with what came of it."""

        def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            last = messages[-1]
            assert isinstance(last, ModelRequest)
            told = [part.content for part in last.parts if isinstance(part, ToolReturnPart)]
            if told:
                return ModelResponse(parts=[TextPart(str(told[0]))])
            name = next(tool.name for tool in info.function_tools if tool.name.endswith("execute_code"))
            return ModelResponse(parts=[ToolCallPart(name, {"code": code})])

        given = [CallgateToolset[None](self.runtime)] if toolsets is None else toolsets
        return Agent(FunctionModel(play), toolsets=given)

    def counted(self) -> tuple[int, int, bool]:
        """How often it was entered and left, and whether it is open."""
        return self.entered, self.left, self.runtime.open_in is not None


@pytest.fixture(autouse=True)
def event_loop_of_the_thread() -> Iterator[None]:
    """`run_sync` takes the thread's event loop, and leaves it open for the next one."""
    with closing_its_loop():
        yield


@contextlib.contextmanager
def closing_its_loop() -> Iterator[None]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def run_sync(agent: Agent[None, str]) -> str:
    """In any thread."""
    with closing_its_loop():
        return agent.run_sync("go").output


def test_a_conversation_goes_on_from_run_to_run() -> None:
    watched = Watched()
    agent = watched.agent(toolsets=[CallgateToolset(watched.runtime.conversation())])
    assert [agent.run_sync("go").output for _ in range(2)] == ["Value: done"] * 2
    assert watched.counted() == (2, 2, False)


async def run(agent: Agent[None, str]) -> str:
    async with asyncio.timeout(SECONDS):
        return (await agent.run("go")).output


def test_a_runtime_that_is_entered_is_neither_entered_twice_nor_left() -> None:
    watched = Watched()

    async def main() -> None:
        async with watched.runtime as runtime:
            assert [await run(watched.agent()) for _ in range(2)] == ["Value: done"] * 2
            assert watched.counted() == (1, 0, True)
            assert (await runtime.execute_code("1 + 1")).value == 2

    asyncio.run(main())
    assert watched.counted() == (1, 1, False)


def test_runs_at_the_same_time_share_one_entering() -> None:
    watched = Watched()
    watched.expected = 3
    agent = watched.agent("await meet()")

    async def main() -> None:
        assert await asyncio.gather(*(run(agent) for _ in range(3))) == ["Value: 3"] * 3

    asyncio.run(main())
    assert watched.counted() == (1, 1, False)


def test_a_run_that_begins_while_another_ends_has_an_open_runtime() -> None:
    watched = Watched()
    agent = watched.agent("await where()")

    async def main() -> None:
        async def again() -> None:
            for _ in range(5):
                assert await run(agent) == "Value: 1"

        await asyncio.gather(again(), again())

    asyncio.run(main())
    assert watched.entered == watched.left
    assert watched.runtime.open_in is None


def test_two_toolsets_of_one_runtime_share_it() -> None:
    watched = Watched()
    toolsets = [CallgateToolset[None](watched.runtime).prefixed(name) for name in ("one", "two")]
    assert watched.agent(toolsets=toolsets).run_sync("go").output == "Value: done"
    assert watched.counted() == (1, 1, False)


def test_an_agent_that_is_entered_keeps_it_open_between_runs() -> None:
    watched = Watched()
    agent = watched.agent()

    async def main() -> None:
        async with agent:
            assert [await run(agent) for _ in range(2)] == ["Value: done"] * 2
            assert watched.counted() == (1, 0, True)

    asyncio.run(main())
    assert watched.counted() == (1, 1, False)


def test_what_fails_on_entering_is_raised_and_the_next_run_tries_again() -> None:
    watched = Watched(fails=1)
    agent = watched.agent()
    with pytest.raises(ConfigurationError, match="the source is not ready"):
        agent.run_sync("go")
    assert watched.counted() == (0, 0, False)
    assert agent.run_sync("go").output == "Value: done"
    assert watched.counted() == (1, 1, False)


def test_of_runs_that_enter_together_only_those_that_entered_in_vain_fail() -> None:
    watched = Watched(fails=1)
    agent = watched.agent()

    async def main() -> list[str | BaseException]:
        return list(await asyncio.gather(run(agent), run(agent), return_exceptions=True))

    ended = asyncio.run(main())
    assert [type(each) for each in ended].count(ConfigurationError) == 1
    assert "Value: done" in ended
    assert watched.counted() == (1, 1, False)


def test_a_cancelled_run_leaves_the_runtime() -> None:
    watched = Watched()
    watched.expected = 2
    agent = watched.agent("await meet()")

    async def main() -> None:
        running = asyncio.create_task(run(agent))
        async with asyncio.timeout(SECONDS):
            await watched.first.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(main())
    assert watched.counted() == (1, 1, False)


def in_an_owners_loop(watched: Watched, work: Callable[[], Any]) -> tuple[Any, asyncio.AbstractEventLoop]:
    """What `work` gives in another thread, while the runtime is entered in this one's loop; and that loop."""

    async def main() -> tuple[Any, asyncio.AbstractEventLoop]:
        async with watched.runtime, asyncio.timeout(SECONDS):
            done = await asyncio.to_thread(work)
            assert watched.counted() == (1, 0, True)
            return done, asyncio.get_running_loop()

    return asyncio.run(main())


def test_run_sync_in_two_threads_shares_one_entering() -> None:
    watched = Watched()
    watched.expected = 2
    agents = [watched.agent("await meet()") for _ in range(2)]
    begin = threading.Barrier(2)

    def work(agent: Agent[None, str]) -> str:
        begin.wait(SECONDS)
        return asyncio.run(run(agent))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(work, agents)) == ["Value: 2"] * 2
    assert watched.counted() == (1, 1, False)
    assert len(set(watched.loops)) == 1, "both calls were made where the runtime was entered"


@pytest.mark.parametrize("cancelled", [False, True])
def test_the_loop_that_entered_waits_for_those_of_other_loops_or_leaves_at_once(cancelled: bool) -> None:
    runtime = Runtime([], sandbox=None)
    opening = Opening()
    held, enough = threading.Event(), threading.Event()

    async def other() -> None:
        assert await opening.take(runtime)
        held.set()
        await asyncio.to_thread(enough.wait, SECONDS)
        await opening.give_back(runtime)

    async def main() -> None:
        assert await opening.take(runtime)
        with ThreadPoolExecutor(1) as threads:
            guest = threads.submit(asyncio.run, other())
            try:
                await asyncio.to_thread(held.wait, SECONDS)
                leaving = asyncio.create_task(opening.give_back(runtime))
                await asyncio.sleep(0.05)
                assert not leaving.done()
                assert runtime.open_in is not None
                if cancelled:
                    leaving.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await leaving
                    assert runtime.open_in is None
            finally:
                enough.set()
            await asyncio.gather(leaving, asyncio.wrap_future(guest), return_exceptions=cancelled)
        assert runtime.open_in is None

    asyncio.run(main())


def test_an_owners_loop_that_ends_under_a_call_is_an_error_that_says_so() -> None:
    watched = Watched()
    watched.expected = 2
    agent = watched.agent("await meet()")
    ended: list[BaseException] = []

    def work() -> None:
        try:
            run_sync(agent)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=work)

    async def main() -> None:
        await watched.runtime.__aenter__()
        thread.start()
        await asyncio.wait_for(watched.first.wait(), SECONDS)

    asyncio.run(main())
    thread.join(SECONDS)
    (error,) = ended
    assert isinstance(error, ConfigurationError)
    assert "the event loop in which this runtime was open ended" in str(error)


def openai_run(tools: list[Any]) -> str:
    """An agent of the OpenAI Agents SDK, run by `Runner.run_sync`; what came of its one program."""
    with serving(
        OpenAIResponses(Script(lambda turn: Call("execute_code", {"code": PROGRAM}), lambda turn: "so"))
    ) as url:
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)

        async def whole() -> Any:
            async with client:
                return await run_agent(client, tools)

        result = asyncio.run(whole())
    (output,) = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    return str(output)


def langchain_run(watched: Watched) -> str:
    """What LangChain's `invoke` of a program gives."""
    (tool,) = [each for each in langchain_tools(watched.runtime) if each.name == "execute_code"]
    return str(tool.invoke({"code": PROGRAM}))


WITHOUT_AWAIT: dict[str, Callable[[Watched], str]] = {
    "pydantic-ai": lambda watched: run_sync(watched.agent()),
    "langchain": langchain_run,
    "openai-agents": lambda watched: openai_run(openai_agents_tools(watched.runtime)),
}
"""How a program is run with each framework by whoever does not await."""


@pytest.mark.parametrize("way", WITHOUT_AWAIT)
def test_a_runtime_that_nobody_entered_is_entered_again_and_again(way: str) -> None:
    watched = Watched()
    assert [WITHOUT_AWAIT[way](watched) for _ in range(2)] == ["Value: done"] * 2
    assert watched.counted() == (2, 2, False)


@pytest.mark.parametrize("way", WITHOUT_AWAIT)
def test_in_another_thread_the_calls_are_made_in_the_owners_loop(way: str) -> None:
    watched = Watched()
    answer, owners = in_an_owners_loop(watched, lambda: WITHOUT_AWAIT[way](watched))
    assert answer == "Value: done"
    assert set(watched.loops) == {owners}


def test_one_set_of_tools_serves_several_event_loops() -> None:
    watched = Watched()
    (tool,) = [each for each in langchain_tools(watched.runtime) if each.name == "execute_code"]
    agent = watched.agent()
    assert [agent.run_sync("go").output for _ in range(2)] == ["Value: done"] * 2
    assert [tool.invoke({"code": PROGRAM}) for _ in range(2)] == ["Value: done"] * 2
    assert asyncio.run(tool.ainvoke({"code": PROGRAM})) == "Value: done", "another event loop"
    assert asyncio.run(run(agent)) == "Value: done", "and one more"
    assert watched.counted() == (6, 6, False)
