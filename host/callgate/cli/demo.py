"""``callgate demo``: a program such as a model writes, with tools on real data, and a count of what it saved."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from callgate import CallEnded, CodeResult, Event, Printed, Runtime, Tool, event_loop

from .demo_data import ask_for_text, tools
from .screen import call_line
from .tips import headline
from .words import Exit, OutputLost, page, tame

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["command"]

_QUESTION = (
    "Where in the European Union does the capital hold the largest share of the people, and which capitals are closest?"
)
_SHOWN_PER_TOOL = 2


@click.command("demo")
def command() -> int:
    """Run a program such as a model writes, with tools that answer from real data; then one that tries to get out.

    Exit codes: 0 all went as it should, 1 it did not, 3 no sandbox works here.
    """
    return event_loop.run(_demo)


async def _demo() -> int:
    console = page(sys.stdout)
    async with Runtime(tools()) as runtime:
        console.print(f"Sandbox: {runtime.backend.description}", style="dim")
        answered = await _answer(console, runtime)
        held = await _escape(console, runtime)
    console.print()
    console.print(
        "Your own tools: `callgate run --tools FILE.py PROGRAM.py`, or `from callgate import SyncRuntime, tool`."
    )
    return Exit.OK if answered and held else Exit.FAILED


async def _answer(console: Console, runtime: Runtime) -> bool:
    heading = "It runs: every call passes the gate to the host, and prints arrive as they happen"
    _heading(console, f"A user asks: {_QUESTION}")
    console.print("A model would write this program; here it comes with callgate.")
    result = await _run(console, runtime, ask_for_text("question.txt"), heading)
    if not result.ok:
        console.print(headline(result), style="bold red")
        return False
    _heading(console, "What the model was spared, counted in this run")
    for line in await _saved(result, {tool.name: tool for tool in runtime.registry}):
        console.print(f"  {line}")
    return True


async def _escape(console: Console, runtime: Runtime) -> bool:
    _heading(console, "Now a program that tries to get out, with the same Python and no rules in the language")
    result = await _run(console, runtime, ask_for_text("escape.txt"), "The kernel's answers")
    if result.ok and result.value is True:
        return True
    console.print("It was NOT confined. Please report this.", style="bold red")
    return False


async def _run(console: Console, runtime: Runtime, code: str, heading: str) -> CodeResult:
    """Show a program, and run it: the first calls of each tool, a count of the others, and every print."""
    console.print("\n".join(["", *(f"    {line}".rstrip() for line in code.rstrip().splitlines())]))
    _heading(console, heading)
    seen: Counter[str] = Counter()
    lost: list[OutputLost] = []

    def count_the_others() -> None:
        for tool, calls in seen.items():
            if calls > _SHOWN_PER_TOOL:
                console.print(f"  call  {tool}: {calls - _SHOWN_PER_TOOL} more", style="dim")
        seen.clear()

    def tell(event: Event) -> None:
        try:
            if isinstance(event, Printed):
                count_the_others()
                console.print(tame(event.text), end="")
            elif isinstance(event, CallEnded):
                if event.record.tool not in seen:
                    count_the_others()
                seen[event.record.tool] += 1
                if seen[event.record.tool] <= _SHOWN_PER_TOOL:
                    console.print(
                        f"  call  {call_line(runtime.redaction.event(event, runtime.registry).record)}",
                        style="dim",
                    )
        except OutputLost as fault:  # raised after the run: this function is called from within it
            lost.append(fault)

    result = await runtime.execute_code(code, on_event=tell)
    if lost:
        raise lost[0]
    count_the_others()
    return result


async def _saved(result: CodeResult, known: dict[str, Tool]) -> list[str]:
    """Counted facts of the run. The tools only read, so each is called once more to count its result."""
    calls = result.calls
    answers = sum([len(known[call.tool].encode(await known[call.tool](**call.arguments))) for call in calls])
    read = len(result.for_model().encode())
    less = f"{answers / read:.0f} times less"
    used = result.usage
    cpu = f", {used.cpu_seconds * 1000:.0f} ms of it the program's own processor time" if used.cpu_seconds else ""
    return [
        f"{len(calls)} tool calls made by one program: one trip to the model, instead of one for every call or batch",
        f"{answers:,} bytes of tool results stayed out of its context; it reads {read:,}: {less}",
        f"{used.wall_seconds * 1000:.0f} ms from code to result{cpu}",
    ]


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(text, style="bold")
