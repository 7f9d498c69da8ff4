"""Commands end though a tool does not: by Ctrl-C, also where the tool's thread gets it, or by a limit."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shlex
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from callgate_bench.model.stand_in import Call
from cli.agents import playing, with_key
from cli.command import SECONDS, Command
from probes.processes import eventually

pytestmark = pytest.mark.slow

HOSTILE = Path(__file__).parents[1] / "with_mcp" / "servers" / "hostile.py"
STUCK = '''
"""Tools that never answer; in the thread of one SIGINT arrives, while the main thread sleeps in the event loop."""
import asyncio
import os
import signal
import threading
import time

from callgate import tool


@tool
def stuck() -> str:
    """Wait for good."""
    os.mkfifo("never")
    with open("never") as pipe:
        return pipe.read()


@tool
async def stuck_in_a_thread_of_asyncio() -> str:
    """Wait for good."""
    return await asyncio.to_thread(stuck.function)


@tool
def interrupts() -> str:
    """Wait for good, after Ctrl-C."""
    with open("/proc/self/stat") as status:
        while status.read().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)
            status.seek(0)
    time.sleep(0.2)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    return stuck.function()


@tool
async def interrupts_twice() -> None:
    """Ctrl-C, and again while the first one does its work."""
    os.kill(os.getpid(), signal.SIGINT)
    try:
        await asyncio.sleep(1000)
    finally:
        os.kill(os.getpid(), signal.SIGINT)
'''


@pytest.fixture
def cli(cli: Command) -> Command:
    (cli.folder / "tools.py").write_text(STUCK)
    return with_key(cli)


def calls(cli: Command, command: str, tool: str) -> tuple[str, ...]:
    """A command line in which this tool is called."""
    if command == "run":
        return ("run", "--path", "sandbox", "-c", f"await {tool}()", "--tools", "tools.py")
    (cli.folder / "plan.json").write_text(json.dumps({"steps": [{"id": "it", "tool": tool}]}))
    return ("plan", "plan.json", "--tools", "tools.py")


def begun(cli: Command) -> bool:
    """The tool waits."""
    return (cli.folder / "never").exists()


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("tool", ["interrupts", "interrupts_twice"])
def test_a_command_whose_loop_sleeps_hears_ctrl_c(cli: Command, command: str, tool: str) -> None:
    done = cli(*calls(cli, command, tool))
    assert done.status == 130, done.err
    assert "Traceback" not in done.err
    assert "unhandled" not in done.err
    assert begun(cli) is (tool == "interrupts")


def test_an_agent_whose_loop_sleeps_hears_ctrl_c(cli: Command) -> None:
    with playing(Call("interrupts")) as (_, model):
        done = cli("agent", "Wait", "--mode", "direct", *model, "--tools", "tools.py")
    assert done.status == 130, done.err
    assert begun(cli)


@pytest.mark.parametrize("tool", ["stuck", "stuck_in_a_thread_of_asyncio"])
def test_a_tool_that_a_limit_gave_up_does_not_keep_the_process(cli: Command, tool: str) -> None:
    done = cli("run", "-c", f"print('before')\nawait {tool}()", "--wall-seconds", "3", "--tools", "tools.py")
    assert (done.status, done.out) == (4, "before\n"), done.err
    assert begun(cli)


def test_nor_where_nobody_reads_what_it_says(cli: Command) -> None:
    line = shlex.join(cli.line(*calls(cli, "run", "stuck"), "--wall-seconds", "3"))
    done = subprocess.run(
        ["bash", "-c", f"{line} 2>/dev/full"], cwd=cli.folder, env=cli.all_variables, timeout=SECONDS, check=False
    )
    assert done.returncode == 4
    assert begun(cli)


def test_a_plan_whose_words_nobody_takes_ends_by_ctrl_c(cli: Command) -> None:
    steps = [{"id": f"{n}", "tool": "stuck", "when": False} for n in range(1900)] + [{"id": "it", "tool": "stuck"}]
    (cli.folder / "plan.json").write_text(json.dumps({"steps": steps}))
    with cli.start("plan", "-v", "plan.json", "--tools", "tools.py") as (process, _):
        assert process.stderr is not None
        err = process.stderr.fileno()
        fcntl.fcntl(err, fcntl.F_SETPIPE_SZ, 4096)

        def full() -> bool:
            return int.from_bytes(fcntl.ioctl(err, termios.FIONREAD, bytes(4)), sys.byteorder) >= 4000

        eventually(lambda: full() and begun(cli), "the pipe is full, and the tool waits", SECONDS)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130


@pytest.mark.parametrize(
    ("command", "first", "second", "status"),
    [
        ("run", signal.SIGINT, signal.SIGINT, 130),
        ("plan", signal.SIGINT, signal.SIGINT, 130),
        ("serve", signal.SIGINT, signal.SIGTERM, 130),
        ("serve", signal.SIGTERM, signal.SIGTERM, 0),
    ],
)
def test_a_second_signal_does_not_leave_a_stubborn_server_behind(
    cli: Command, command: str, first: signal.Signals, second: signal.Signals, status: int
) -> None:
    server = {
        "command": sys.executable,
        "args": [str(HOSTILE), "ignores_its_end"],
        "env": {"PYTHONPATH": str(HOSTILE.parents[2])},
    }
    (cli.folder / "servers.json").write_text(json.dumps({"mcpServers": {"stubborn": server}}))
    line = ("serve", "--tools", "tools.py") if command == "serve" else calls(cli, command, "stuck")
    with contextlib.ExitStack() as stack:
        process, _ = stack.enter_context(cli.start(*line, "--mcp", "servers.json"))
        if command == "serve":
            assert process.stderr is not None
            while not process.stderr.readline().startswith(b"callgate serves on "):
                assert process.poll() is None
        else:
            eventually(lambda: begun(cli), "the tool waits", SECONDS)
        (started,) = servers_of(process.pid)
        process.send_signal(first)
        time.sleep(0.5)
        process.send_signal(second)
        assert process.wait(SECONDS) == status
        assert not Path(f"/proc/{started}/cmdline").exists()


def servers_of(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(each) for each in children if b"ignores_its_end" in Path(f"/proc/{each}/cmdline").read_bytes()]
