"""How a screen shows lines, and what hostile text does to it: nothing."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import sys
from collections.abc import Iterator

import pytest

from callgate.agent.events import MessageAdded
from callgate.cli.agent_lines import AgentLines
from callgate.cli.screen import Line, Screen
from callgate.cli.words import OutputLost
from cli.agent_events import BEGAN, HOSTILE, plan_events, replied, step

pytestmark = pytest.mark.anyio


async def show(screen: Screen, *items: Line | str) -> None:
    async def work() -> None:
        screen.add(*items)

    await screen.during(work)


def hostile_lines() -> Iterator[Line]:
    lines = AgentLines()
    for event in (BEGAN, replied(HOSTILE), MessageAdded(turn=1, text=HOSTILE), *plan_events([step(HOSTILE, HOSTILE)])):
        yield from lines.of(event)


async def test_nothing_that_is_said_drives_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    await show(Screen(), *hostile_lines())
    err = capsys.readouterr().err
    assert "\\x1b]0;owned\\x07" in err
    assert not any(trick in err for trick in ("\x1b", "\x07", "\x9b", "\u202e", "\r"))


async def test_nor_on_a_real_terminal_below_which_a_table_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.text import Text

    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with io.TextIOWrapper(io.FileIO(theirs, "w"), write_through=True) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        await show(Screen(table=lambda: Text("under way")), *hostile_lines())
        seen = ""
        while "\x1b[?25h" not in seen:  # the cursor is there again
            seen += os.read(ours, 65536).decode()
    os.close(ours)
    assert "\\x1b]0;owned\\x07" in seen
    assert not any(trick in seen for trick in ("\x1b]0;", "\x07", "\x1b[2J", "\x9b", "\u202e", "t\rover"))


async def test_where_nobody_reads_stderr_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = os.pipe()
    os.close(theirs)
    with contextlib.suppress(BrokenPipeError), io.TextIOWrapper(io.FileIO(ours, "w")) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        await show(Screen(), Line("word", "text"))


async def test_where_nobody_reads_stdout_the_work_is_cancelled() -> None:
    theirs, ours = os.pipe()
    os.close(theirs)
    with (
        contextlib.suppress(BrokenPipeError),
        io.TextIOWrapper(io.FileIO(ours, "w")) as stdout,
        pytest.raises(OutputLost),
    ):
        await show(Screen(stdout), "a print\n")


async def test_prints_and_lines_come_in_their_order_and_without_lines_there_are_only_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await show(Screen(sys.stderr), "one\n", Line("call", "f()"), "two\n")
    assert capsys.readouterr().err == "one\ncall     f()\ntwo\n"
    await show(Screen(sys.stderr, lines=False), "one\n", Line("call", "f()"))
    assert capsys.readouterr().err == "one\n"
