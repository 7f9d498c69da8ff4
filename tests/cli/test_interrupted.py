"""Commands end though a tool does not: by Ctrl-C, also where the tool's thread gets it, or by a limit."""

from __future__ import annotations

import contextlib
import json

import pytest

from callgate.bench.model.stand_in import Call
from cli.agents import playing, with_key
from cli.command import Command

STUCK = '''
"""Tools that never answer; in the thread of one SIGINT arrives, while the main thread sleeps in the event loop."""
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
def interrupts() -> str:
    """Wait for good, after Ctrl-C."""
    with open("/proc/self/stat") as status:
        while status.read().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)
            status.seek(0)
    time.sleep(0.2)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    return stuck()
'''


@pytest.mark.parametrize("command", ["run", "plan", "agent"])
def test_a_command_whose_loop_sleeps_hears_ctrl_c(cli: Command, command: str) -> None:
    (cli.folder / "tools.py").write_text(STUCK)
    (cli.folder / "plan.json").write_text(json.dumps({"steps": [{"id": "it", "tool": "interrupts"}]}))
    with contextlib.ExitStack() as stack:
        line = {
            "run": ("run", "-c", "print(await interrupts())"),
            "plan": ("plan", "plan.json"),
            "agent": ("agent", "Wait", "--mode", "direct"),
        }[command]
        if command == "agent":
            _, model = stack.enter_context(playing(Call("interrupts")))
            line += model
        done = with_key(cli)(*line, "--tools", "tools.py")
    assert done.status == 130, done.err
    assert (cli.folder / "never").is_fifo()


def test_a_tool_that_a_limit_gave_up_does_not_keep_the_process(cli: Command) -> None:
    (cli.folder / "tools.py").write_text(STUCK)
    done = cli("run", "-c", "print('before')\nawait stuck()", "--wall-seconds", "3", "--tools", "tools.py")
    assert (done.status, done.out) == (4, "before\n"), done.err
    assert (cli.folder / "never").is_fifo()
