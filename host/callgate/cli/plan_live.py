"""A plan while it runs, on stderr: a line for every step that ended, and on a terminal, below them, what is under way.

Progress is for people: where stderr cannot be written any more, it stops, and the plan goes on.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from callgate import Allow, ApprovalRequest, CallEnded, CallStarted, Deny, Event, StepEnded, StepResult, StepStarted

from .approval import Approver
from .live import Screen, call_line
from .words import OutputLost, one_line, page, tame

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

__all__ = ["PlanApprover", "PlanScreen", "duration", "tally"]

_APPEARS_AFTER_SECONDS = 0.15
"""A plan that is quicker is not worth a view that comes and goes."""
_WIDEST = 32
_MOST_NOTES = 3
_WORDS = {"succeeded": "ok", "failed": "failed", "skipped": "skipped", "unknown_outcome": "unknown"}
_STYLES = {"succeeded": "green", "failed": "red", "skipped": "dim", "unknown_outcome": "yellow"}


def duration(seconds: float) -> str:
    """Seconds as a person reads them: ``0.4 ms``, ``51 ms``, ``1.25 s``, ``3 min 20 s``."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 119.5:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"


def tally(steps: list[StepResult]) -> list[str]:
    """How many did not succeed, by what became of them."""
    named = {"failed": "failed", "unknown_outcome": "with an unknown outcome", "skipped": "skipped"}
    counts = {status: sum(step.status == status for step in steps) for status in named}
    return [f"{count} {named[status]}" for status, count in counts.items() if count]


class PlanScreen(Screen):
    """Shows the steps of one plan.

    Args:
        steps: ids and tools of the plan, where they are known beforehand: they make the columns.
        lines: whether anything is shown at all.
        calls: whether calls that ended are told, too.
    """

    def __init__(self, steps: list[tuple[str, str]], *, lines: bool = True, calls: bool = False) -> None:
        super().__init__(None, calls=calls)
        self.ended: list[StepResult] = []
        self.line_up(steps)
        self._lines = lines
        self.lost = False
        """Nobody reads stderr any more."""
        self._began = time.monotonic()
        self._running: dict[str, tuple[str, float]] = {}
        self._called = 0
        self._paused = 0
        self._held: list[Event] | None = None
        self._live: Live | None = None
        self._console: Console | None = None
        self._spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if sys.stderr.encoding.lower().startswith("utf") else "-\\|/"
        if lines and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._console = page(sys.stderr)

    def line_up(self, steps: list[tuple[str, str]]) -> None:
        """Make the columns for these steps, before the first of them."""
        self._total = len(steps)
        self._widths = [min(max((len(_name(name)) for name in names), default=0), _WIDEST) for names in _columns(steps)]

    def put(self, event: Event) -> None:
        """Take an event in; never blocks."""
        if isinstance(event, StepStarted):
            self._running[event.id] = (event.tool, time.monotonic())
        elif isinstance(event, StepEnded):
            self._running.pop(event.step.id, None)
            self.ended.append(event.step)
        elif isinstance(event, CallStarted):
            self._called += 1
        if self._held is None:
            super().put(event)
        elif self._wants(event):
            self._held.append(event)

    def _wants(self, event: Event) -> bool:
        return self._lines and (isinstance(event, StepEnded) or (self._calls and isinstance(event, CallEnded)))

    async def drain(self, stop: Callable[[], None]) -> None:
        """Show what comes, until `finish`."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._appear)
                await super().drain(stop)
                tasks.cancel_scope.cancel()
        finally:
            self._disappear()

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Without the view of what is under way; from `settle` on nothing is shown, until this ends."""
        self._paused += 1
        self._disappear()
        try:
            yield
        except BaseException:
            if self._held is not None:  # the question stands there, and nobody will answer
                self._say("", "")
            raise
        finally:
            self._paused -= 1
            held, self._held = self._held, None
            for event in held or ():
                super().put(event)

    async def settle(self) -> None:
        """Wait until everything so far is shown, and show nothing more until the question is answered."""
        await super().settle()
        self._held = []

    def under_way(self) -> list[str]:
        """Steps that have begun and not ended, with their tools."""
        return [f"{_name(name)} ({one_line(tool, _WIDEST)})" for name, (tool, _) in self._running.copy().items()]

    async def _appear(self) -> None:
        if self._console is None:
            return
        from rich.live import Live

        while True:
            await anyio.sleep(_APPEARS_AFTER_SECONDS)
            if self._live is None and not self._paused and not self.lost:
                live = Live(console=self._console, get_renderable=self._view, refresh_per_second=8, transient=True)
                self._live = live
                try:
                    live.start()
                except (OSError, OutputLost):
                    self.lost = True

    def _disappear(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            with contextlib.suppress(OSError, OutputLost):
                live.stop()

    def _view(self) -> RenderableType:
        """What is under way, and how far the plan is."""
        from rich.console import Group
        from rich.text import Text

        assert self._console is not None
        now = time.monotonic()
        running = list(self._running.copy().items())
        room = max(min(len(running), self._console.height - 4, 12), 1)
        spin = self._spinner[int(now * 8) % len(self._spinner)]
        rows = [
            Text(f"{spin:<7}  {self._names(name, tool)}  {now - begun:.1f} s", "cyan")
            for name, (tool, begun) in running[:room]
        ]
        if len(running) > room:
            rows.append(Text(f"         and {len(running) - room} more"))
        of = f"/{self._total}" if self._total else ""
        told = f"{len(self.ended)}{of} steps, {len(running)} under way, {self._called} calls, {now - self._began:.1f} s"
        rows.append(Text(told, "dim"))
        for row in rows:
            row.no_wrap, row.overflow = True, "ellipsis"
        return Group(*rows)

    def _show(self, events: list[Event]) -> None:
        live = self._live
        if live is not None and not self.lost:
            with contextlib.suppress(OSError, OutputLost):
                live.refresh()  # without what has ended, which is printed above it now
        for event in events:
            if isinstance(event, StepEnded):
                self._say(self._step_line(event.step), _STYLES[event.step.status])
                notes = event.step.warnings
                more = f" (and {len(notes) - _MOST_NOTES} more)" if len(notes) > _MOST_NOTES else ""
                for note in notes[:_MOST_NOTES]:
                    self._say(f"         note: {one_line(note, 240)}", "yellow")
                if more:
                    self._say(f"         {more.strip()}", "yellow")
            elif isinstance(event, CallEnded):
                self._say(f"call     {call_line(event.record)}", "dim")

    def _say(self, text: str, style: str) -> None:
        if self.lost:
            return
        try:
            if self._console is not None:
                from rich.text import Text

                self._console.print(Text(tame(text), style))  # as an argument, the style would be the view's too
            else:
                print(tame(text), file=sys.stderr, flush=True)
        except (OSError, OutputLost):
            self.lost = True

    def _step_line(self, step: StepResult) -> str:
        facts = [duration(step.duration_seconds)] if step.started_seconds is not None else []
        if step.items is not None and step.status in ("succeeded", "failed"):
            facts.append(f"{step.items - step.items_failed}/{step.items} items")
        if step.attempts > max(step.items or 0, 1):
            facts.append(f"{step.attempts} attempts")
        if step.cached:
            facts.append("cached")
        if step.fallback:
            facts.append(f"from fallback {step.fallback}")
        told = f"{_WORDS[step.status]:<7}  {self._names(step.id, step.tool)}"
        if facts:
            told += f"  {', '.join(facts)}"
        if step.error and step.status == "skipped":
            return f"{told}  {one_line(step.error.removeprefix('Skipped '), 240)}"
        return f"{told}: {one_line(step.error, 240)}" if step.error else told

    def _names(self, name: str, tool: str) -> str:
        first, second = self._widths
        return f"{_name(name):<{first}}  {_name(tool):<{second}}"


class PlanApprover(Approver):
    """Asks below what is shown, and shows nothing more until there is an answer."""

    def __init__(self, *, everything: bool, terminal: bool, screen: PlanScreen) -> None:
        super().__init__(everything=everything, terminal=terminal, screen=screen)
        self._view = screen

    async def __call__(self, request: ApprovalRequest) -> Allow | Deny:
        with self._view.asking():
            return await super().__call__(request)


def _columns(steps: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [name for name, _ in steps], [tool for _, tool in steps]


def _name(text: str) -> str:
    return one_line(text, _WIDEST - 5)
