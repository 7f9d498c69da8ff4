"""Every heading of the troubleshooting page is an error text, and each is reproduced here."""

from __future__ import annotations

import os
import re
import shutil
import socket as sockets
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import (
    Agent,
    Budget,
    CallgateError,
    CodeResult,
    ConfigurationError,
    DockerBackend,
    Limits,
    Registry,
    Runtime,
    SandboxBusy,
    SyncRuntime,
    tool,
)
from callgate.agent import OpenAIModel, PlannerSettings, RecordingModel, ReplayModel, ScriptedModel, ToolPlanner
from callgate.agent.models.model import Request
from callgate.sandbox.docker import image
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.packages import LOCK, Packages
from callgate.sandbox.unsafe import UnsandboxedWarning
from cli.command import Command
from sandbox.docker.images import have_engine_and_image

ROOT = Path(__file__).parents[2]
HEADINGS = re.findall(r"^### `(.*)`$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)

Reproduction = Callable[[Path], Awaitable[str | None]]
REPRODUCED: dict[str, Reproduction] = {}
BY_ENGINE: set[str] = set()


def reproduces(*beginnings: str, by_engine: bool = False) -> Callable[[Reproduction], Reproduction]:
    """Mark what reproduces the headings that begin so, maybe with an engine."""

    def register(reproduction: Reproduction) -> Reproduction:
        for beginning in beginnings:
            (heading,) = [each for each in HEADINGS if each.startswith(beginning)]
            REPRODUCED[heading] = reproduction
            if by_engine:
                BY_ENGINE.add(heading)
        return reproduction

    return register


@tool
async def get_weather(city: str) -> str:
    """Weather.

    Args:
        city: its name.
    """
    raise ValueError(city)


@tool(timeout_seconds=0.05)
async def slow() -> None:
    """Wait for ever."""
    await anyio.sleep_forever()


@tool(requires_approval=True)
async def wipe() -> None:
    """Delete everything."""


async def failure(code: str, limits: Limits | None = None, **inputs: Any) -> str:
    """What a program's failure says, in all."""
    async with Runtime([get_weather, slow, wipe], pool_size=0) as runtime:
        result = await runtime.execute_code(code, limits=limits, inputs=inputs)
    return told(result)


def told(result: CodeResult) -> str:
    assert result.error is not None
    return f"{result.for_model()}\n{result.error.kind}: {result.error.message}"


PROGRAMS: dict[str, tuple[str, Limits | None, dict[str, Any]]] = {
    "limit reached: wall_seconds": ("while True: pass", Limits(wall_seconds=1), {}),
    "limit reached: memory_bytes": ("bytearray(10**10)", Limits(memory_bytes=64 << 20), {}),
    "limit reached: max_log_bytes": ("print('x' * 1000)", Limits(max_log_bytes=100), {}),
    "PermissionError": ("import os\nos.kill(1, 0)", None, {}),
    "programs have no network": ("import socket\nsocket.gethostbyname('example.com')", None, {}),
    "'totl': the result has no such key": ("row['totl']", None, {"row": {"total": 1}}),
    "is the dict's method": ("[each for each in page.items]", None, {"page": {"items": []}}),
    "is a plain def": ("def fetch(city):\n    return get_weather(city)\nawait fetch('Oslo')", None, {}),
    "ModuleNotFoundError": ("import requests", None, {}),
    "get_weather(...) is never awaited": ("get_weather('Oslo')", None, {}),
    "the program ended its own process": ("import os\nos._exit(3)", None, {}),
    "inputs must be JSON values": ("cities", None, {"cities": {"Oslo"}}),
    "tool 'get_weather' failed": ("await get_weather('Oslo')", None, {}),
    "tool 'slow' did not answer": ("await slow()", None, {}),
    "tool 'wipe' needs approval": ("await wipe()", None, {}),
}
"""What a heading says after this program, with these limits and inputs."""


def running(code: str, limits: Limits | None, inputs: dict[str, Any]) -> Reproduction:
    async def run(_: Path) -> str:
        return await failure(code, limits, **inputs)

    return run


for beginning, program in PROGRAMS.items():
    reproduces(beginning)(running(*program))


@reproduces("callgate needs Python 3.11")
async def old_python(folder: Path) -> str:
    return make(folder, "exit 1")


@reproduces("this Python cannot make virtual environments")
async def python_without_venv(folder: Path) -> str:
    return make(folder, 'case "$2" in *version_info*) exit 0;; *) exit 1;; esac')


def make(folder: Path, script: str) -> str:
    """`make demo` in a folder of its own, with a Python that answers as `script` does."""
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "demo", f"PYTHON={python}"], cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode != 0
    return done.stdout


@reproduces("the jail does not work on this machine")
async def no_namespaces(folder: Path) -> str:
    done = Command(folder, dict(os.environ)).without_namespaces("run", "--tier", "1", "-c", "1")
    assert done.status == 3
    return done.err


async def entered(**options: Any) -> None:
    """Enter a runtime that cannot be made, or cannot start."""
    async with Runtime(**options):
        pass


@reproduces("there is no sandbox 'gvisor'")
async def unknown_sandbox(_: Path) -> None:
    await entered(sandbox="gvisor")


@reproduces("no Docker engine listens")
async def no_socket(_: Path) -> None:
    await entered(sandbox=DockerBackend(docker_host="unix:///nowhere/docker.sock"))


@reproduces("the Docker engine at tcp://127.0.0.1:1 is not running")
async def no_engine(_: Path) -> None:
    await entered(sandbox=DockerBackend(docker_host="tcp://127.0.0.1:1"))


@reproduces("has no image 'callgate-nowhere'", by_engine=True)
async def wrong_image(_: Path) -> None:
    await have_engine_and_image()
    await entered(sandbox=DockerBackend(image="callgate-nowhere"))


@reproduces("has no runtime 'gvisor'", by_engine=True)
async def wrong_runtime(_: Path) -> None:
    await have_engine_and_image()
    await entered(sandbox=DockerBackend(runtime="gvisor"))


@reproduces("the base image callgate-nowhere", by_engine=True)
async def no_base(_: Path) -> None:
    await have_engine_and_image()
    engine = await Engine.connect()
    try:
        await image.build(engine, base="callgate-nowhere", tag="callgate-nowhere")
    finally:
        await engine.close()


@reproduces("is for Python 3.1, and programs run on Python")
async def packages_of_another_python(folder: Path) -> None:
    Path(folder, LOCK).write_text(Packages(folder="", python="3.1", requested=("numpy",)).lock())  # noqa: ASYNC240 (a small file)
    await entered(sandbox="jail", packages=str(folder))


@reproduces("the container went away in the middle of the run", by_engine=True)
async def removed_container(_: Path) -> str:
    await have_engine_and_image()
    backend = DockerBackend()

    @tool
    async def remove() -> None:
        """Removes the container that calls this, as an operator would."""
        (container,) = backend.containers
        await anyio.run_process(["docker", "rm", "-f", container])

    async with Runtime([remove], sandbox=backend, pool_size=0) as runtime:
        return told(await runtime.execute_code("await remove()", path="sandbox"))


@reproduces("UnsandboxedWarning")
async def unsafe(_: Path) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnsandboxedWarning)
        async with Runtime(sandbox="unsafe", pool_size=0):
            pass
    (warning,) = caught
    return f"{warning.category.__name__}: {warning.message}"


@reproduces("1 programs are running")
async def busy(_: Path) -> None:
    async with Runtime(max_guests=1, queue_seconds=0.1) as runtime, runtime.session():
        await runtime.execute_code("1", path="sandbox")


@reproduces("the one guest would wait for this program")
async def waits_for_each_other(_: Path) -> None:
    busy: list[SandboxBusy] = []

    @tool
    async def count() -> None:
        """Counts, in a program."""
        try:
            await runtime.execute_code("1", path="sandbox")
        except SandboxBusy as error:
            busy.append(error)

    async with Runtime([count], max_guests=1, pool_size=0) as runtime:
        await runtime.execute_code("await count()", path="sandbox")
    raise busy[0]


@reproduces("enter the runtime first")
async def not_entered(_: Path) -> None:
    await Runtime().execute_code("1")


@reproduces("this would wait for itself")
async def waiting_for_itself(_: Path) -> None:
    told: list[str] = []

    def listener(event: object) -> None:
        try:
            runtime.execute_code("1")
        except CallgateError as error:
            told.append(str(error))

    with SyncRuntime(sandbox=None) as runtime:
        runtime.execute_code("print(1)", on_event=listener)
    raise ConfigurationError(told[0])


@reproduces("this runtime was opened before this process was forked")
async def forked(_: Path) -> str:
    program = (
        "import os\nfrom callgate import SyncRuntime\n"
        "with SyncRuntime(sandbox=None) as runtime:\n"
        "    child = os.fork()\n"
        "    if child == 0: runtime.execute_code('1')\n"
        "    else: os.waitpid(child, 0)\n"
    )
    return (await anyio.run_process([sys.executable, "-c", program], check=False)).stderr.decode()


@reproduces("the runtime is open in this event loop")
async def blocking_its_own_loop(_: Path) -> None:
    async with Runtime(sandbox=None) as runtime:
        Agent(ScriptedModel(["yes"]), runtime).run_sync("Is it?")


@reproduces("this session is over")
async def session_over(_: Path) -> None:
    async with Runtime(limits=Limits(wall_seconds=1)) as runtime, runtime.session() as session:
        await session.execute_code("while True: pass")
        await session.execute_code("1")


@reproduces("this runtime was made with sandbox=None")
async def no_graph(_: Path) -> str:
    async with Runtime(sandbox=None) as runtime:
        return told(await runtime.execute_code("while True: pass"))


@reproduces("the call of tool 'wipe' was denied")
async def no_terminal(folder: Path) -> str:
    (folder / "tools.py").write_text(
        'from callgate import tool\n\n@tool(requires_approval=True)\ndef wipe() -> None:\n    """Delete."""\n'
    )
    return Command(folder, dict(os.environ))("run", "--tools", "tools.py", "-c", "await wipe()").err


@reproduces("the MCP server 'files' is still starting", "the MCP server 'files' has failed")
async def servers_that_are_not_up(_: Path) -> str:
    pytest.importorskip("mcp")
    from callgate.mcp import McpServers

    silent = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
    said = []
    for files, seconds in ((silent, 0), ({"command": "no-such-command"}, 20)):
        servers = McpServers.read({"mcpServers": {"files": files}}, ready_seconds=seconds)
        async with Runtime([get_weather], sources=[servers], pool_size=0) as runtime:
            said += [finding.hint for finding in runtime.check("await files.read()")]
    return "\n".join(said)


@reproduces("there are two tools called")
async def same_name(_: Path) -> None:
    Registry([get_weather, wipe.named("get_weather")])


@reproduces("a tool cannot be called 'print'")
async def reserved_name(_: Path) -> None:
    Registry([wipe.named("print")])


@reproduces("there is no key for OpenAI")
async def no_key(folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    done = Command(folder, environment)("agent", "do", "--model", "gemini-3")
    assert done.status == 2
    return done.err


@reproduces("no connection to the model")
async def nobody_listens(_: Path) -> str:
    with sockets.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        place = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        model = OpenAIModel("qwen3", base_url=place, max_retries=0)
        async with Runtime(sandbox=None) as runtime:
            result = await Agent(model, runtime).run("do")
        await model.aclose()
    assert place in result.reason
    return result.reason


@reproduces("the recording has no reply")
async def another_mode(folder: Path) -> str:
    async with Runtime([get_weather], sandbox=None) as runtime:
        await Agent(RecordingModel(ScriptedModel(["done"]), folder / "r"), runtime, mode="direct").run("do")
        return (await Agent(ReplayModel(folder / "r"), runtime, mode="plan").run("do")).reason


@reproduces("a budget of cost needs a price")
async def no_price(_: Path) -> None:
    async with Runtime(sandbox=None) as runtime:
        Agent(ScriptedModel([], name="qwen3"), runtime, budget=Budget(cost=1))


@reproduces("it has to have a method request")
async def a_planner_of_plans(_: Path) -> None:
    async with Runtime(sandbox=None) as runtime:
        model = ScriptedModel([])
        Agent(model, runtime, planner=ToolPlanner(runtime, model))  # type: ignore[arg-type]


@reproduces("planning took longer")
async def slow_planning(_: Path) -> str:
    async def never(request: Request) -> str:
        await anyio.sleep_forever()
        return ""

    async with Runtime([get_weather], sandbox=None) as runtime:
        slowly = ToolPlanner(runtime, ScriptedModel([never]), settings=PlannerSettings(planning_seconds=0.1))
        plan = await slowly.plan("weather in Oslo")
    return plan.notes[0].replace("0.1 s", f"{PlannerSettings().planning_seconds:g} s")


@pytest.mark.parametrize(
    "heading", [pytest.param(each, marks=[pytest.mark.slow] if each in BY_ENGINE else []) for each in HEADINGS]
)
def test_a_heading_is_the_text_of_an_error(heading: str, tmp_path: Path) -> None:
    async def said() -> str | None:
        try:
            return await REPRODUCED[heading](tmp_path)
        except CallgateError as error:
            return str(error)

    assert heading in (anyio.run(said) or "")


def test_the_page_has_headings() -> None:
    assert len(HEADINGS) == len(set(HEADINGS)) > 15
