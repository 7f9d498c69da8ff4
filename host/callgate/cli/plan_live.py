"""A plan while it runs, on stderr: a line for every step that ended, and on a terminal, below, what is under way."""

from __future__ import annotations

import time

from callgate import CallEnded, CallStarted, Event, StepEnded, StepResult, StepStarted
from callgate.cut import duration

from .live import call_line
from .live_view import LiveView
from .words import one_line

__all__ = ["PlanScreen", "tally"]

_WIDEST = 32
_MOST_NOTES = 3
_WORDS = {"succeeded": "ok", "failed": "failed", "skipped": "skipped", "unknown_outcome": "unknown"}
_STYLES = {"succeeded": "green", "failed": "red", "skipped": "dim", "unknown_outcome": "yellow"}


def tally(steps: list[StepResult]) -> list[str]:
    """How many did not succeed, by what became of them."""
    named = {"failed": "failed", "unknown_outcome": "with an unknown outcome", "skipped": "skipped"}
    counts = {status: sum(step.status == status for step in steps) for status in named}
    return [f"{count} {named[status]}" for status, count in counts.items() if count]


class PlanScreen(LiveView[Event]):
    """Shows the steps of one plan.

    Args:
        steps: ids and tools of the plan, where they are known beforehand: they make the columns.
        lines: whether anything is shown at all.
        calls: whether calls that ended are told, too.
    """

    def __init__(self, steps: list[tuple[str, str]], *, lines: bool = True, calls: bool = False) -> None:
        super().__init__(below=lines)
        self.ended: list[StepResult] = []
        self.line_up(steps)
        self._lines = lines
        self._calls = calls
        self._began = time.monotonic()
        self._running: dict[str, tuple[str, float]] = {}
        self._called = 0

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
        if self._lines and (isinstance(event, StepEnded) or (self._calls and isinstance(event, CallEnded))):
            self.add(event)

    def under_way(self) -> list[str]:
        """Steps that have begun and not ended, with their tools."""
        return [f"{_name(name)} ({one_line(tool, _WIDEST)})" for name, (tool, _) in self._running.copy().items()]

    def _rows(self, width: int, height: int) -> list[tuple[str, str]]:
        """What is under way, and how far the plan is."""
        now = time.monotonic()
        running = list(self._running.copy().items())
        room = max(min(len(running), height - 2, 12), 1)
        spin = self._spinner[int(now * 8) % len(self._spinner)]
        rows = [
            (f"{spin:<7}  {self._names(name, tool)}  {now - begun:.1f} s", "cyan")
            for name, (tool, begun) in running[:room]
        ]
        if len(running) > room:
            rows.append((f"         and {len(running) - room} more", ""))
        of = f"/{self._total}" if self._total else ""
        told = f"{len(self.ended)}{of} steps, {len(running)} under way, {self._called} calls, {now - self._began:.1f} s"
        return [*rows, (told, "dim")]

    def _tell(self, event: Event) -> None:
        if isinstance(event, StepEnded):
            self._print(self._step_line(event.step), _STYLES[event.step.status])
            notes = event.step.warnings
            for note in notes[:_MOST_NOTES]:
                self._print(f"         note: {one_line(note, 240)}", "yellow")
            if len(notes) > _MOST_NOTES:
                self._print(f"         (and {len(notes) - _MOST_NOTES} more)", "yellow")
        elif isinstance(event, CallEnded):
            self._print(f"call     {call_line(event.record)}", "dim")

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


def _columns(steps: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [name for name, _ in steps], [tool for _, tool in steps]


def _name(text: str) -> str:
    return one_line(text, _WIDEST - 5)
