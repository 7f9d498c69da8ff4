"""Every heading of the troubleshooting page is an error text, and each is reproduced here."""

from __future__ import annotations

import datetime
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
    DockerBackend,
    Limits,
    Registry,
    Runtime,
    SandboxError,
    SandboxUnavailable,
    tool,
)
from callgate.agent import OpenAIModel, PlannerSettings, RecordingModel, ReplayModel, ScriptedModel, ToolPlanner
from callgate.agent.models.model import Request
from callgate.sandbox.docker import image
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.unsafe import UnsandboxedWarning
from cli.command import Command
from sandbox.docker.images import have_engine_and_image

ROOT = Path(__file__).parents[2]
HEADINGS = re.findall(r"^### `(.*)`$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)

Reproduction = Callable[[Path], Awaitable[str]]
REPRODUCED: dict[str, Reproduction] = {}


def reproduces(*beginnings: str) -> Callable[[Reproduction], Reproduction]:
    """Mark what reproduces the headings that begin so."""

    def register(reproduction: Reproduction) -> Reproduction:
        for beginning in beginnings:
            (heading,) = [each for each in HEADINGS if each.startswith(beginning)]
            REPRODUCED[heading] = reproduction
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


@reproduces("there is no sandbox 'gvisor'")
async def unknown_sandbox(_: Path) -> str:
    with pytest.raises(CallgateError) as raised:
        Runtime(sandbox="gvisor")
    return str(raised.value)


@reproduces("no Docker engine listens", "the Docker engine at tcp://127.0.0.1:1 is not running")
async def no_engine(_: Path) -> str:
    said = []
    for host in ("unix:///nowhere/docker.sock", "tcp://127.0.0.1:1"):
        with pytest.raises(SandboxUnavailable) as raised:
            async with Runtime(sandbox=DockerBackend(docker_host=host)):
                pass
        said.append(str(raised.value))
    return "\n".join(said)


@reproduces("has no image 'callgate-nowhere'", "has no runtime 'gvisor'")
async def wrong_names(_: Path) -> str:
    await have_engine_and_image()
    said = []
    for backend in (DockerBackend(image="callgate-nowhere"), DockerBackend(runtime="gvisor")):
        with pytest.raises(CallgateError) as raised:
            async with Runtime(sandbox=backend):
                pass
        said.append(str(raised.value))
    return "\n".join(said)


@reproduces("the base image callgate-nowhere")
async def no_base(_: Path) -> str:
    await have_engine_and_image()
    engine = await Engine.connect()
    try:
        with pytest.raises(SandboxError) as raised:
            await image.build(engine, base="callgate-nowhere", tag="callgate-nowhere")
    finally:
        await engine.close()
    return str(raised.value)


@reproduces("packages is for the jail")
async def packages_in_a_container(folder: Path) -> str:
    with pytest.raises(CallgateError) as raised:
        Runtime(sandbox="docker", packages=str(folder))
    return str(raised.value)


@reproduces("the container went away in the middle of the run")
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
async def busy(_: Path) -> str:
    async with Runtime(max_guests=1, queue_seconds=0.1) as runtime, runtime.session():
        with pytest.raises(CallgateError) as raised:
            await runtime.execute_code("1", path="sandbox")
    return str(raised.value)


@reproduces("enter the runtime first")
async def not_entered(_: Path) -> str:
    with pytest.raises(CallgateError) as raised:
        await Runtime().execute_code("1")
    return str(raised.value)


@reproduces("limit reached: wall_seconds")
async def wall_seconds(_: Path) -> str:
    return await failure("while True: pass", Limits(wall_seconds=1))


@reproduces("limit reached: memory_bytes")
async def memory_bytes(_: Path) -> str:
    return await failure("bytearray(10**10)", Limits(memory_bytes=64 << 20))


@reproduces("limit reached: max_log_bytes")
async def max_log_bytes(_: Path) -> str:
    return await failure("print('x' * 1000)", Limits(max_log_bytes=100))


@reproduces("this session is over")
async def session_over(_: Path) -> str:
    async with Runtime(limits=Limits(wall_seconds=1)) as runtime, runtime.session() as session:
        await session.execute_code("while True: pass")
        with pytest.raises(CallgateError) as raised:
            await session.execute_code("1")
    return str(raised.value)


@reproduces("PermissionError")
async def socket(_: Path) -> str:
    return await failure("import socket\nsocket.socket()")


@reproduces("ModuleNotFoundError")
async def third_party(_: Path) -> str:
    return await failure("import requests")


@reproduces("get_weather(...) is never awaited")
async def not_awaited(_: Path) -> str:
    return await failure("get_weather('Oslo')")


@reproduces("the program ended its own process")
async def own_end(_: Path) -> str:
    return await failure("import os\nos._exit(3)")


@reproduces("this runtime was made with sandbox=None")
async def no_graph(_: Path) -> str:
    async with Runtime(sandbox=None) as runtime:
        return told(await runtime.execute_code("while True: pass"))


@reproduces("inputs must be JSON values")
async def no_json(_: Path) -> str:
    with pytest.raises(CallgateError) as raised:
        await failure("day", day=datetime.date(2026, 1, 1))
    return str(raised.value)


@reproduces("tool 'get_weather' failed")
async def crash(_: Path) -> str:
    return await failure("await get_weather('Oslo')")


@reproduces("tool 'slow' did not answer")
async def timeout(_: Path) -> str:
    return await failure("await slow()")


@reproduces("tool 'wipe' needs approval")
async def nobody_to_ask(_: Path) -> str:
    return await failure("await wipe()")


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
async def same_name(_: Path) -> str:
    with pytest.raises(CallgateError) as raised:
        Registry([get_weather, wipe.named("get_weather")])
    return str(raised.value)


@reproduces("a tool cannot be called 'print'")
async def reserved_name(_: Path) -> str:
    with pytest.raises(CallgateError) as raised:
        Registry([wipe.named("print")])
    return str(raised.value)


@reproduces("there is no key for OpenAI")
async def no_key(folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    done = Command(folder, environment)("agent", "do", "--model", "google:gemini-3")
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
async def no_price(_: Path) -> str:
    async with Runtime(sandbox=None) as runtime:
        with pytest.raises(CallgateError) as raised:
            Agent(ScriptedModel([], name="qwen3"), runtime, budget=Budget(cost=1))
    return str(raised.value)


@reproduces("planner has to have a method request")
async def a_planner_of_plans(_: Path) -> str:
    async with Runtime(sandbox=None) as runtime:
        model = ScriptedModel([])
        with pytest.raises(CallgateError) as raised:
            Agent(model, runtime, planner=ToolPlanner(runtime, model))  # type: ignore[arg-type]
    return str(raised.value)


@reproduces("planning took longer")
async def slow_planning(_: Path) -> str:
    async def never(request: Request) -> str:
        await anyio.sleep_forever()
        return ""

    async with Runtime([get_weather], sandbox=None) as runtime:
        slowly = ToolPlanner(runtime, ScriptedModel([never]), settings=PlannerSettings(planning_seconds=0.1))
        plan = await slowly.plan("weather in Oslo")
    return plan.notes[0].replace("0.1 s", f"{PlannerSettings().planning_seconds:g} s")


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_is_the_text_of_an_error(heading: str, tmp_path: Path) -> None:
    assert heading in anyio.run(REPRODUCED[heading], tmp_path)


def test_the_page_has_headings() -> None:
    assert len(HEADINGS) == len(set(HEADINGS)) > 15
    assert sys.platform == "linux"
