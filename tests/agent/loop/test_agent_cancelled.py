"""A cancelled run: nothing is left under way, and its transcript goes on. What `on_event` does wrongly harms nobody."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Runtime, SandboxUnavailable, tool
from callgate.agent.events import AgentEvent, CallBegan
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.resume import OUTCOME_UNKNOWN
from callgate.agent.loop.transcript import read_transcript
from callgate.agent.models.anthropic_model import AnthropicModel
from callgate.agent.models.model import Model, ToolReplies
from callgate.agent.models.openai_model import OpenAIModel
from callgate.agent.models.scripted import Calls, ScriptedModel

pytestmark = pytest.mark.anyio


class World:
    """Tools that wait, and what became of them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.reached = anyio.Event()

    async def hang(self, what: str) -> None:
        self.log.append(f"{what} began")
        self.reached.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.log.append(f"{what} ended")

    def tools(self) -> list[Any]:
        @tool(read_only=True)
        async def look(at: str = "") -> str:
            """Look."""
            self.log.append(f"look {at}")
            return "seen"

        @tool
        async def send(to: str) -> str:
            """Send."""
            await self.hang(f"send {to}")
            raise AssertionError

        return [look, send]


async def cancelled_when(reached: Callable[[], Awaitable[Any]], run: Callable[[], Awaitable[Any]]) -> None:
    """Run, and cancel it as soon as that was reached. Fails where it does not end then."""
    over = anyio.Event()
    scope = anyio.CancelScope()

    async def work() -> None:
        with scope:
            await run()
            raise AssertionError("it was not cancelled")
        over.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await reached()
            scope.cancel()
            await over.wait()


async def until(fact: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not fact():  # noqa: ASYNC110 - another process has no event for it
            await anyio.sleep(0.01)


async def goes_on(file: Path, world: World, *turns: Any) -> tuple[ScriptedModel, list[str]]:
    assert read_transcript(file)
    model = ScriptedModel(turns)
    async with Runtime(world.tools(), sandbox=None) as runtime:
        result = await Agent(model, runtime, mode="direct").resume(file)
    assert (result.outcome, result.answer) == ("answered", "done")
    replies = [message for message in result.messages if isinstance(message, ToolReplies)]
    return model, [reply.text for reply in replies[-1].replies] if replies else []


# where it is cancelled


class SilentEndpoint:
    """Takes requests and never answers; knows when a client has left."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.left = threading.Event()


@pytest.fixture
def silent() -> Iterator[tuple[SilentEndpoint, str]]:
    endpoint = SilentEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            endpoint.asked.set()
            self.connection.settimeout(20)
            if not self.connection.recv(1):
                endpoint.left.set()
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield endpoint, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_in_a_request_it_is_closed(silent: tuple[SilentEndpoint, str], provider: str, tmp_path: Path) -> None:
    pytest.importorskip(provider, reason=f"{provider} is not installed")
    endpoint, url = silent
    model: Model = (
        OpenAIModel("m", base_url=f"{url}/v1", api_key="k")
        if provider == "openai"
        else AnthropicModel("m", base_url=url, api_key="k")
    )
    world = World()
    file = tmp_path / "t.jsonl"
    try:
        async with Runtime(world.tools(), sandbox=None) as runtime:
            agent = Agent(model, runtime, mode="direct", transcript=file, on_event=lambda _: None)
            await cancelled_when(lambda: until(endpoint.asked.is_set), lambda: agent.run("Do it"))
            await until(endpoint.left.is_set)
    finally:
        await model.aclose()
    assert read_transcript(file)[-1].event.__class__.__name__ == "ModelAsked"
    await goes_on(file, world, "done")


async def test_in_calls_all_of_them_end(tmp_path: Path) -> None:
    world = World()
    file = tmp_path / "t.jsonl"
    calls = Calls(*(("send", {"to": str(n)}) for n in range(3)), ("look", {"at": "1"}))
    async with Runtime(world.tools(), sandbox=None) as runtime:
        agent = Agent(ScriptedModel([calls]), runtime, mode="direct", transcript=file, max_parallel_tool_calls=2)
        await cancelled_when(lambda: until(lambda: len(world.log) == 2), lambda: agent.run("Do it"))
    assert sorted(world.log) == ["send 0 began", "send 0 ended", "send 1 began", "send 1 ended"]
    before = list(world.log)
    began = [line.event for line in read_transcript(file) if isinstance(line.event, CallBegan)]
    assert len(began) == 2

    async def resume() -> None:
        async with Runtime(world.tools(), sandbox=None) as runtime:
            await Agent(ScriptedModel([]), runtime, mode="direct").resume(file)

    # the third had not begun: it is made now, and cancelled too
    await cancelled_when(lambda: until(lambda: "look 1" in world.log and "send 2 began" in world.log), resume)
    assert sorted(world.log[len(before) :]) == ["look 1", "send 2 began", "send 2 ended"]
    _, texts = await goes_on(file, world, "done")
    assert texts == [OUTCOME_UNKNOWN, OUTCOME_UNKNOWN, OUTCOME_UNKNOWN, "seen"]


def guests() -> set[int]:
    """Processes below this one."""
    own = {os.getpid()}
    found: set[int] = set()
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(name)] = int(parent)
    while new := {pid for pid, parent in parents.items() if parent in own | found} - found:
        found |= new
    return found


async def test_in_a_program_no_guest_is_left(tmp_path: Path) -> None:
    world = World()
    file = tmp_path / "t.jsonl"
    code = "import math\nprint(await send(to=str(math.factorial(3))))"
    there: list[int] = []
    before = guests()
    try:
        async with Runtime(world.tools()) as runtime:
            model = ScriptedModel([Calls(("execute_code", {"code": code}))])
            agent = Agent(model, runtime, mode="code", transcript=file)

            async def reached() -> None:
                await world.reached.wait()
                there.extend(guests() - before)

            await cancelled_when(reached, lambda: agent.run("Do it"))
            assert world.log == ["send 6 began", "send 6 ended"]
    except SandboxUnavailable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(str(reason))
        pytest.skip(str(reason))
    assert there
    await until(lambda: guests() <= before)
    _, texts = await goes_on(file, world, "done")
    assert texts == [OUTCOME_UNKNOWN]
    assert len(world.log) == 2


async def test_in_a_plan_its_steps_end(tmp_path: Path) -> None:
    world = World()
    file = tmp_path / "t.jsonl"
    steps = [{"id": id, "tool": "send", "arguments": {"to": id}} for id in "ab"]
    async with Runtime(world.tools(), sandbox=None) as runtime:
        calls = Calls(("execute_tool_plan", {"steps": steps}))
        agent = Agent(ScriptedModel([calls]), runtime, mode="plan", transcript=file)
        await cancelled_when(lambda: until(lambda: len(world.log) == 2), lambda: agent.run("Do it"))
    assert sorted(world.log) == ["send a began", "send a ended", "send b began", "send b ended"]
    _, texts = await goes_on(file, world, "done")
    assert texts == [OUTCOME_UNKNOWN]


async def test_in_a_search_of_a_loader(tmp_path: Path) -> None:
    world = World()
    file = tmp_path / "t.jsonl"

    async def load(query: str) -> list[Any]:
        await world.hang(f"load {query}")
        return []

    async with Runtime(world.tools(), sandbox=None) as runtime:
        calls = Calls(("search_tools", {"query": "send"}))
        agent = Agent(ScriptedModel([calls]), runtime, mode="direct", transcript=file, loader=load)
        await cancelled_when(world.reached.wait, lambda: agent.run("Do it"))
    assert world.log == ["load send began", "load send ended"]
    await goes_on(file, world, "done")


async def test_at_each_event_the_transcript_can_be_gone_on_with(tmp_path: Path) -> None:
    """Cancelled by what listens, at the first event, at the second, and so on."""
    turns: list[Any] = [
        Calls(("look", {"at": "1"}), ("look", {"at": "2"}), ("search_tools", {"query": "look"})),
        "done",
    ]
    place = 0
    while True:
        place += 1
        world = World()
        file = tmp_path / f"{place}.jsonl"
        heard: list[AgentEvent] = []
        with anyio.CancelScope() as scope:

            def cancel(
                event: AgentEvent, heard: list[AgentEvent] = heard, last: int = place, scope: anyio.CancelScope = scope
            ) -> None:
                heard.append(event)
                if len(heard) == last:
                    scope.cancel()

            async with Runtime(world.tools(), sandbox=None) as runtime:
                await Agent(
                    ScriptedModel(turns), runtime, mode="direct", direct=["look"], transcript=file, on_event=cancel
                ).run("Do it")
        kinds = [json.loads(line)["kind"] for line in file.read_text().splitlines()]
        replied = kinds.count("model_replied")
        async with Runtime(world.tools(), sandbox=None) as runtime:
            agent = Agent(ScriptedModel(turns[replied:]), runtime, mode="direct", direct=["look"])
            result = await agent.resume(file)
        assert (result.outcome, result.turns) == ("answered", 2)
        assert {"look 1", "look 2"} <= set(world.log)
        if kinds[-1] == "finished":
            break
    assert place > 12


# who listens


async def test_a_listener_that_fails_or_is_slow_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    turns: list[Any] = [Calls(("look", {"at": "1"}), text="I look."), "done"]
    heard: list[AgentEvent] = []

    def fails(event: AgentEvent) -> None:
        heard.append(event)
        raise RuntimeError("the screen is gone")

    async with Runtime(world.tools(), sandbox=None) as runtime:
        alone = await Agent(ScriptedModel(turns), runtime, mode="direct").run("Do it")
        agent = Agent(ScriptedModel(turns), runtime, mode="direct", on_event=fails, transcript=tmp_path / "t.jsonl")
        result = await agent.run("Do it")
    assert (result.outcome, result.answer, result.messages) == ("answered", "done", alone.messages)
    assert caplog.text.count("the agent's on_event callback failed") == len(heard)
    assert [line.event for line in read_transcript(tmp_path / "t.jsonl")] == list(result.events)
