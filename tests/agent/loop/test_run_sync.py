"""`Agent.run_sync`: a task solved without ``await``, wherever the runtime is open, or nowhere yet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import assert_type

import pytest
import trio

from callgate import Agent, AgentResult, ConfigurationError, Registry, Runtime, SyncRuntime, tool
from callgate.agent import Calls, OpenAIModel, ScriptedModel
from callgate.runtime.sync import elsewhere
from callgate_bench.model.stand_in import OpenAIChat, Script, serving
from callgate_bench.model.stand_in.server import KEY

SECONDS = 30
WHERE: list[str] = []


@tool
async def stock(item: str) -> int:
    """How many there are."""
    WHERE.append(threading.current_thread().name)
    return len(item)


def agent(runtime: Runtime | SyncRuntime) -> Agent:
    return Agent(ScriptedModel([Calls(("stock", {"item": "lamp"})), "four"]), runtime)


class Opened:
    """Notes, as a source of tools, how often the runtime is open."""

    def __init__(self) -> None:
        self.now = self.ever = 0

    @asynccontextmanager
    async def serving(self, registry: Registry) -> AsyncIterator[None]:
        self.now, self.ever = self.now + 1, self.ever + 1
        yield
        self.now -= 1


def test_a_closed_runtime_is_open_for_as_long_as_the_task_takes() -> None:
    opened = Opened()
    runtime = Runtime([stock], sandbox=None, sources=[opened])
    for times in (1, 2):
        assert agent(runtime).run_sync("How many?").answer == "four"
        assert (opened.now, opened.ever, runtime.open_in) == (0, times, None)


def test_two_threads_share_one_opening() -> None:
    opened, together = Opened(), threading.Barrier(2)

    @tool
    def meet() -> int:
        """Wait for the other one."""
        return together.wait(SECONDS)

    runtime = Runtime([meet], sandbox=None, sources=[opened])
    agents = [Agent(ScriptedModel([Calls(("meet", {})), "met"]), runtime) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        assert [each.answer for each in threads.map(lambda each: each.run_sync("Meet"), agents)] == ["met"] * 2
    assert (opened.now, opened.ever) == (0, 1)


def test_within_a_sync_runtime_it_runs_in_its_thread() -> None:
    with SyncRuntime([stock], sandbox=None) as runtime:
        WHERE.clear()
        result = agent(runtime).run_sync("How many?")
        assert_type(result, AgentResult)
        assert result.answer == "four"
        assert_type(agent(runtime).runtime, Runtime)
        assert agent(runtime).runtime is runtime.runtime
        assert agent(runtime).resume_sync(result).answer == "four"
        assert WHERE == ["callgate"]
        assert runtime.execute_code("await stock('lamp')").value == 4, "it stays open"


def test_inside_a_running_event_loop_it_runs_in_a_thread_of_its_own() -> None:
    async def cell() -> str:
        return agent(Runtime([stock], sandbox=None)).run_sync("How many?").answer

    assert asyncio.run(cell()) == "four"
    assert trio.run(cell) == "four"


def test_a_runtime_that_is_open_in_this_event_loop_is_told_in_words() -> None:
    async def main() -> None:
        async with Runtime([stock], sandbox=None) as runtime:
            with pytest.raises(ConfigurationError, match=r"which the call would block: await agent.run\(...\)"):
                agent(runtime).run_sync("How many?")
            with pytest.raises(ConfigurationError, match=r"await agent.resume\(...\)"):
                agent(runtime).resume_sync("nowhere.jsonl")
            in_thread = await asyncio.to_thread(agent(runtime).run_sync, "How many?")
            assert in_thread.answer == "four", "another thread may wait for this loop"

    asyncio.run(main())


def test_a_runtime_that_is_open_under_trio_is_told_in_words() -> None:
    async def main() -> None:
        async with Runtime([stock], sandbox=None) as runtime:
            with pytest.raises(ConfigurationError, match="this runtime was entered in another event loop"):
                await trio.to_thread.run_sync(agent(runtime).run_sync, "How many?")

    trio.run(main)


def test_a_mistake_of_the_operator_is_raised() -> None:
    with pytest.raises(ConfigurationError, match="the task is what the model is to do"):
        agent(Runtime([stock], sandbox=None)).run_sync(" ")


def test_the_connections_of_a_model_live_from_task_to_task() -> None:
    with serving(OpenAIChat(Script(*(lambda turn: f"answer {turn.user}" for _ in range(3))))) as url:
        model = OpenAIModel("m", base_url=f"{url}/v1", api_key=KEY)
        runtime = Runtime([stock], sandbox=None)
        for number in range(3):
            result = Agent(model, runtime).run_sync(str(number))
            assert result.ok, result
        elsewhere._shared_thread().wait(model.aclose)  # where its connections are
