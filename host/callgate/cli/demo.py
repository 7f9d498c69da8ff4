"""``callgate demo``: a model-style program in the sandbox, real data behind its tools, and what that saved, counted."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from callgate import CallEnded, CodeResult, Event, Printed, Runtime, SandboxError, Tool, event_loop

from .demo_data import ask_for_text, tools
from .live import call_line
from .tips import headline
from .words import FAILED, NO_SANDBOX, OK, OutputLost, Stop, page, tame

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["command"]

_QUESTION = (
    "Where in the European Union does the capital hold the largest share of the people, and which capitals are closest?"
)
_SHOWN_PER_TOOL = 2


@click.command("demo", short_help="See a program call tools from inside the sandbox, on real data.")
def command() -> int:
    """Run a program such as a model writes, with tools that answer from real data; then one that tries to get out.

    Exit codes: 0 all went as it should, 1 it did not, 3 no sandbox works here.
    """
    return event_loop.run(_demo)


async def _demo() -> int:
    console = page(sys.stdout)
    try:
        async with Runtime(tools()) as runtime:
            console.print(f"Sandbox: {runtime.backend.description}", style="dim")
            answered = await _answer(console, runtime)
            held = await _escape(console, runtime)
    except SandboxError as error:
        raise Stop(str(error), "`callgate doctor` says what works on this machine and what to do", NO_SANDBOX) from None
    console.print()
    console.print("Your own tools: `callgate run --tools FILE.py PROGRAM.py`, or `from callgate import Runtime, tool`.")
    return OK if answered and held else FAILED


async def _answer(console: Console, runtime: Runtime) -> bool:
    code = ask_for_text("question.txt")
    _heading(console, f"A user asks: {_QUESTION}")
    console.print("A model would write this program; here it comes with callgate.")
    _program(console, code)
    _heading(console, "It runs: every call passes the gate to the host, and prints arrive as they happen")
    teller = _Teller(console)
    result = await runtime.execute_code(code, on_event=teller.tell)
    teller.finish()
    if not result.ok:
        console.print(headline(result), style="bold red")
        return False
    _heading(console, "What the model was spared, counted in this run")
    for line in _saved(result, {tool.name: tool for tool in runtime.registry}):
        console.print(f"  {line}")
    return True


def _saved(result: CodeResult, known: dict[str, Tool]) -> list[str]:
    """Facts of the run, counted, not estimated."""
    calls = result.calls
    answers = sum(len(known[call.tool].encode(_called_again(known[call.tool], call.arguments))) for call in calls)
    read = len(result.for_model().encode())
    less = f"{answers / read:.0f} times less"
    used = result.usage
    cpu = f", {used.cpu_seconds * 1000:.0f} ms of it the program's own processor time" if used.cpu_seconds else ""
    return [
        f"{len(calls)} tool calls made by one program: one trip to the model, instead of one for every call or batch",
        f"{answers:,} bytes of tool results stayed out of its context; it reads {read:,}: {less}",
        f"{used.wall_seconds * 1000:.0f} ms from code to result{cpu}",
    ]


def _called_again(tool: Tool, arguments: dict[str, object]) -> object:
    """The result of a call, once more: the tools of the demo only read. Their coroutines never wait."""
    coroutine = tool(**arguments)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a tool of the demo waited")


async def _escape(console: Console, runtime: Runtime) -> bool:
    code = ask_for_text("escape.txt")
    _heading(console, "Now a program that tries to get out, with the same Python and no rules in the language")
    _program(console, code)
    _heading(console, "The kernel's answers")
    teller = _Teller(console)
    result = await runtime.execute_code(code, on_event=teller.tell)
    teller.finish()
    if result.ok and result.value is True:
        return True
    console.print("It was NOT confined. Please report this.", style="bold red")
    return False


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(text, style="bold")


def _program(console: Console, code: str) -> None:
    console.print()
    if not console.color_system:
        console.print("\n".join(f"    {line}" if line else "" for line in code.rstrip().splitlines()))
        return
    from rich.syntax import Syntax

    # the terminal's own colours, which suit its background; lines are left to wrap, not cut
    for line in Syntax("", "python", theme="ansi_dark", background_color="default").highlight(code.rstrip()).split():
        console.print("    ", line, sep="")


class _Teller:
    """Shows a run as it goes on: the first calls of each tool, a count of the others, and every print."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self.lost: OutputLost | None = None

    def tell(self, event: Event) -> None:
        """Show an event. Raises nothing, since it is called from within the run: see `lost`."""
        if self.lost is None:
            try:
                self._show(event)
            except OutputLost as lost:
                self.lost = lost

    def _show(self, event: Event) -> None:
        if isinstance(event, Printed):
            self.finish()
            self._console.print(tame(event.text), end="")
        elif isinstance(event, CallEnded):
            tool = event.record.tool
            if tool not in self._seen:
                self.finish()
            self._seen[tool] += 1
            if self._seen[tool] <= _SHOWN_PER_TOOL:
                self._told[tool] += 1
                self._console.print(f"  call  {call_line(event.record)}", style="dim")

    def finish(self) -> None:
        """Say how many calls were not shown. Raises `OutputLost`."""
        if self.lost is not None:
            raise self.lost
        for tool, seen in self._seen.items():
            hidden = seen - self._told[tool]
            if hidden:
                self._told[tool] = seen
                self._console.print(f"  call  {tool}: {hidden} more", style="dim")
