"""Lines of what has ended, on stderr, and on a terminal, below them, what is under way. Knows nothing of what it is.

It is for people: where stderr cannot be written any more, it stops, and the work goes on.
"""

from __future__ import annotations

import contextlib
import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import anyio

from callgate import Allow, ApprovalRequest, Deny

from .approval import Approver
from .shown import Item, Shown
from .words import OutputLost, page, tame

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

__all__ = ["ApproverBelow", "LiveView"]

_APPEARS_AFTER_SECONDS = 0.15
"""What is quicker is not worth a view that comes and goes."""


class LiveView(Shown[Item]):
    """Shows things as they end, and what is under way below them. What they look like is `_tell` and `_rows`.

    Args:
        below: whether there is a view below the lines, on a terminal.
    """

    def __init__(self, *, below: bool) -> None:
        super().__init__()
        self.lost = False
        """Nobody reads stderr any more."""
        self._paused = 0
        self._held: list[Item] | None = None
        self._live: Live | None = None
        self._console: Console | None = None
        self._spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if sys.stderr.encoding.lower().startswith("utf") else "-\\|/"
        if below and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._console = page(sys.stderr)

    def add(self, *items: Item) -> None:
        """Take them in; never blocks."""
        if self._held is None:
            super().add(*items)
        else:
            self._held.extend(items)

    async def drain(self, stop: Callable[[], None] | None = None) -> None:
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
                self._print("")
            raise
        finally:
            self._paused -= 1
            held, self._held = self._held, None
            self.add(*held or ())

    async def settle(self) -> None:
        """Wait until everything so far is shown, and show nothing more until the question is answered."""
        await super().settle()
        self._held = []

    @abstractmethod
    def _tell(self, item: Item) -> None:
        """Show it, by `_print`."""

    @abstractmethod
    def _rows(self, width: int, height: int) -> list[tuple[str, str]]:
        """What is under way, on a terminal of that size: texts, one a row, and their styles."""

    def _show(self, items: list[Item]) -> None:
        live = self._live
        if live is not None and not self.lost:
            with contextlib.suppress(OSError, OutputLost):
                live.refresh()  # without what has ended, which is printed above it now
        for item in items:
            self._tell(item)

    def _print(self, text: str, style: str = "", *, drawn: Callable[[], RenderableType] | None = None) -> None:
        """Write a line: tamed, and on a terminal in that style, or what is `drawn` in its place."""
        if self.lost:
            return
        try:
            if self._console is None:
                print(tame(text), file=sys.stderr, flush=True)
                return
            from rich.text import Text

            # as an argument of its own, the style would be the view's, too
            self._console.print(Text(tame(text), style) if drawn is None else drawn(), soft_wrap=drawn is None)
        except (OSError, OutputLost):
            self.lost = True

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
        from rich.console import Group
        from rich.text import Text

        assert self._console is not None
        rows = self._rows(self._console.width, max(self._console.height - 2, 3))
        return Group(*(Text(tame(text), style, no_wrap=True, overflow="ellipsis") for text, style in rows))


class ApproverBelow(Approver):
    """Asks below what is shown, and shows nothing more until there is an answer."""

    def __init__(self, *, everything: bool, terminal: bool, screen: LiveView[Any]) -> None:
        super().__init__(everything=everything, terminal=terminal, screen=screen)
        self._view = screen

    async def __call__(self, request: ApprovalRequest) -> Allow | Deny:
        with self._view.asking():
            return await super().__call__(request)
