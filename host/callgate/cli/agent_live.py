"""A task while an agent works on it, on stderr: lines of what has happened, and on a terminal, below them, what is
under way: the model's words as they come, its calls, their steps, and what of the budget is spent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from callgate.agent.events import AgentEvent
from callgate.agent.loop.budget import Budget

from .agent_lines import AgentLines, Box
from .agent_rows import WORD_WIDTH, Line
from .agent_under_way import UnderWay
from .live_view import LiveView
from .words import tame

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["AgentScreen"]

_NARROWEST_BOX, _WIDEST_BOX = 40, 120


class AgentScreen(LiveView[Line | Box]):
    """Shows one task.

    Args:
        lines: whether anything is shown at all.
        verbose: everything, a line each, and no view below them.
        budget: what may be spent.
        asked_mode: see `AgentLines`.
    """

    def __init__(
        self, *, lines: bool = True, verbose: bool = False, budget: Budget | None = None, asked_mode: str = ""
    ) -> None:
        super().__init__(below=lines and not verbose)
        self.lines = AgentLines(verbose=verbose, boxes=self._console is not None, asked_mode=asked_mode)
        self.under_way = UnderWay(time.monotonic(), budget or Budget(turns=None, seconds=None), self._spinner)
        self._shows = lines

    def tell(self, event: AgentEvent) -> None:
        """Take an event in; never blocks."""
        self.under_way.note(event, time.monotonic())
        lines = list(self.lines.of(event))
        if self._shows:
            self.add(*lines)

    def remember(self, events: Iterable[AgentEvent]) -> None:
        """What happened before the task was resumed: it is counted, and not shown."""
        for event in events:
            self.under_way.note(event, time.monotonic())
            for _ in self.lines.of(event):
                pass

    def _rows(self, width: int, height: int) -> list[tuple[str, str]]:
        return self.under_way.rows(time.monotonic(), width, height)

    def _tell(self, each: Line | Box) -> None:
        if isinstance(each, Line):
            self._print(str(each).rstrip(), drawn=lambda: _drawn_line(each))
        elif self._console is None:
            for row in each.rows:
                self._print(str(row.line).rstrip())
        else:
            width = max(min(self._console.width, _WIDEST_BOX), _NARROWEST_BOX)
            self._print("", drawn=lambda: _drawn_box(each, width))


def _drawn_line(line: Line) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, width=WORD_WIDTH)
    table.add_column(overflow="fold")
    table.add_row(Text(tame(line.word), line.style), Text(tame(line.text), line.style))
    return table


def _drawn_box(box: Box, width: int) -> RenderableType:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    table.add_column(no_wrap=True, justify="right")
    for row in box.rows:
        table.add_row(Text(row.word, row.style), Text(tame(row.text)), Text(row.time, "dim"))
    title = Text(tame(box.title), "bold", overflow="ellipsis")
    return Panel(table, title=title, title_align="left", width=width)
