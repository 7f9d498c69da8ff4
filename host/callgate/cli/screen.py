"""Shows a command at work: one event is one line; for plans at a terminal, a live table stands below the lines.

1. Lines are written in a thread, in the order in which they came: a slow reader (a pager, a full pipe) holds up neither
   the work nor its clock.
2. A program's prints are data. When stdout cannot be written any more, the work is cancelled.
3. All other lines go to stderr. When stderr cannot be written any more, the work goes on.
4. While a question waits at the terminal, nothing else is shown.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import anyio
import anyio.to_thread

from callgate import Allow, Deny, Redaction
from callgate.cut import cut, duration
from callgate.errors import CallgateError

from .tips import PERSON
from .words import OutputLost, one_line, page, say, tame

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from callgate import ApprovalRequest, CallRecord, StepResult

__all__ = ["Approver", "Drawing", "Line", "Screen", "answer_to", "call_line", "call_text", "short", "step_line"]

_Result = TypeVar("_Result")
_WORD_WIDTH = 8
_SHORT = 60
_LONG = 240
"""Characters of all arguments of a call, and of an error."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line on stderr.

    Attributes:
        word: the subject of the line, in a column of its own; may be empty.
        text: the rest of the line.
        style: rich's style of the line.
    """

    word: str
    text: str
    style: str = ""

    def __str__(self) -> str:
        return tame(f"{self.word:<{_WORD_WIDTH}} {self.text}").rstrip()


def short(text: str) -> str:
    """A name on one line, cut where it is long."""
    return one_line(text, _SHORT)


def call_text(name: str, arguments: object) -> str:
    """A call as Python writes it, on one line, cut where it is long."""
    shown: list[str] = []
    for key, value in arguments.items() if isinstance(arguments, Mapping) else ():
        if sum(map(len, shown)) > _LONG:
            shown.append("...")
            break
        shown.append(f"{short(key)}={cut(_json(value), _SHORT)}")
    return one_line(f"{short(name)}({', '.join(shown)})", _LONG)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "(cannot be shown)"


def call_line(record: CallRecord) -> str:
    """A call that has ended, on one line."""
    facts = [duration(record.duration_seconds), record.status]
    facts += [f"{record.attempts} attempts"] if record.attempts > 1 else []
    facts += ["cached"] if record.cached else []
    facts += ["not made again"] if record.reused else []
    error = f": {one_line(record.error, _LONG)}" if record.error else ""
    return f"{call_text(record.tool, record.arguments)}  {', '.join(facts)}{error}"


_STEPS = {
    "succeeded": ("ok", "green"), "failed": ("failed", "red"), "skipped": ("skipped", "dim"),
    "unknown_outcome": ("unknown", "yellow"),
}  # fmt: skip


def step_line(step: StepResult, *, indent: str = "") -> Line:
    """A step of a plan that has ended: its outcome, its id, its call, its time. `indent` stands before the outcome."""
    word, style = _STEPS[step.status]
    call = call_text(step.tool, step.arguments) if step.arguments else short(step.tool)
    facts = [duration(step.duration_seconds)] if step.started_seconds is not None else []
    if step.items is not None and step.status in ("succeeded", "failed"):
        facts.append(f"{step.items - step.items_failed}/{step.items} items")
    facts += [f"{step.attempts} attempts"] if step.attempts > max(step.items or 0, 1) else []
    facts += ["cached"] if step.cached else []
    facts += [f"from fallback {short(step.fallback)}"] if step.fallback else []
    text = "  ".join(filter(None, (f"{short(step.id)}: {call}", ", ".join(facts))))
    error = one_line(step.error or "", _LONG)
    if error:
        text += f"  {error.removeprefix('Skipped ')}" if step.status == "skipped" else f": {error}"
    return Line(f"{indent}{word}", text, style)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture on stdout: sequences that the terminal draws, and that are not tamed."""

    sequences: str


class Screen:
    """Shows one command at work.

    Args:
        data: stream for a program's prints; None shows none.
        lines: whether lines are shown.
        table: makes the live table, which stands below the lines at a terminal.
    """

    def __init__(
        self, data: TextIO | None = None, *, lines: bool = True, table: Callable[[], RenderableType] | None = None
    ) -> None:
        self._data = data
        self._lines = lines
        self._table = table if lines else None
        self._waiting: list[Line | Drawing | str] = []
        self._came = anyio.Event()
        self._shown = anyio.Event()
        self._asking = False
        self._live: Live | None = None
        self._console: Console | None = None
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._console = page(sys.stderr)
        self._fault: OSError | None = None
        self.in_line = False
        """The last print did not end its line."""

    def add(self, *items: Line | Drawing | str) -> None:
        """Queue lines, prints and pictures of a program; never blocks."""
        for each in items:
            if self._lines if isinstance(each, Line) else self._data is not None:
                self._waiting.append(each)
        self._came.set()

    async def during(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Show queued lines and prints while `work` runs, and return the result of `work`.

        Raises:
            CallgateError: an error of `work`.
            OutputLost: stdout cannot be written any more; `work` was cancelled.
        """
        results: list[_Result] = []
        failure: CallgateError | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._show_all, tasks.cancel_scope)
                self._appear()
                try:
                    results.append(await work())
                except CallgateError as error:
                    failure = error
                await self._settled()
                tasks.cancel_scope.cancel()
        finally:
            self._disappear()
        if self._fault is not None:
            raise OutputLost(self._fault)
        if failure is not None:
            raise failure
        return results[0]

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """For a question: show all that is queued, and then nothing else until the block ends."""
        await self._settled()
        self._asking = True
        self._disappear()
        try:
            yield
        except BaseException:
            say("")  # ends the line of the unanswered question
            raise
        finally:
            self._asking = False
            self._appear()
            self._came.set()

    def write(self, text: str) -> None:
        """Write data to stdout; tamed if that is a terminal."""
        if self._data is not None and text:
            self._data.write(tame(text) if self._data.isatty() else text)
            self._data.flush()
            self.in_line = not text.endswith("\n")

    def _draw(self, drawing: Drawing) -> None:
        if self._data is not None:
            self._data.write("\n" * self.in_line + drawing.sequences)
            self._data.flush()
            self.in_line = False

    async def _settled(self) -> None:
        while self._waiting and self._fault is None:
            await self._shown.wait()

    async def _show_all(self, scope: anyio.CancelScope) -> None:
        while True:
            if not self._waiting or self._asking:
                self._came = anyio.Event()
                await self._came.wait()
                continue
            items = self._waiting[:]
            try:
                await anyio.to_thread.run_sync(self._show, items, abandon_on_cancel=True)
            except OSError as fault:
                self._fault = fault
                scope.cancel()
                return
            del self._waiting[: len(items)]
            self._shown.set()
            self._shown = anyio.Event()

    def _show(self, items: list[Line | Drawing | str]) -> None:
        if self._live is not None:
            with contextlib.suppress(OSError, OutputLost):
                self._live.refresh()  # without the steps that have ended, whose lines come above
        prints: list[str] = []
        for item in items:
            if isinstance(item, str):
                prints.append(item)
                continue
            self.write("".join(prints))
            prints.clear()
            if isinstance(item, Drawing):
                self._draw(item)
                continue
            with contextlib.suppress(OSError, OutputLost):
                self._show_line(item)
        self.write("".join(prints))

    def _show_line(self, line: Line) -> None:
        if self._console is None:
            print(line, file=sys.stderr, flush=True)
        else:
            from rich.text import Text

            self._console.print(Text(str(line), line.style))  # a style of `print` would also paint the live table

    # the live table

    def _appear(self) -> None:
        if self._console is None or self._table is None or self._asking:
            return
        from rich.live import Live

        self._live = Live(console=self._console, get_renderable=self._table, refresh_per_second=8, transient=True)
        with contextlib.suppress(OSError, OutputLost):
            self._live.start()

    def _disappear(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            with contextlib.suppress(OSError, OutputLost):
                live.stop()


# asking a person


async def answer_to(question: str) -> str:
    """Ask the person at the terminal, and return the answer: one line, in lower case; empty at the end of stdin.

    Lines typed before the question are thrown away: they do not answer it.
    """
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    sys.stderr.write(tame(question))
    sys.stderr.flush()
    if sys.platform == "win32":  # only sockets can be waited for there; a thread that waits goes with the command
        line: str = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    else:
        await anyio.wait_readable(sys.stdin)
        line = sys.stdin.readline()
    return line.strip().lower()


class Approver:
    """Asks the person at the terminal whether a call may be made. Without a terminal it says no.

    Args:
        screen: shows nothing while the question waits.
        yes: allow every call (``--yes``).
        person: whether a person can be asked on stdin.
        redaction: what stays out of the question.
    """

    def __init__(self, screen: Screen, *, yes: bool, person: bool, redaction: Redaction | None = None) -> None:
        self._screen = screen
        self._yes = yes
        self._person = person
        self._redaction = redaction or Redaction()
        self._turn = anyio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Allow | Deny:
        if self._yes:
            return Allow(by="--yes")
        if not self._person:
            return Deny("there is no terminal to ask on; the operator can approve every call with --yes")
        async with self._turn, self._screen.asking():
            kind = "destructive tool" if request.tool.destructive else "tool"
            shown = self._redaction.for_approval(request.tool, request.arguments)
            arguments = json.dumps(shown, ensure_ascii=False)
            who = {"code": "program", "direct": "model"}.get(request.caller, request.caller)
            say(f"The {who} wants to call the {kind} {request.tool.name} with {arguments}", "yellow")
            allowed = await answer_to("Allow this call? [y/N] ") in ("y", "yes")
            return Allow(by=PERSON) if allowed else Deny(f"{PERSON} said no", by=PERSON)
