"""Reports a run and its calls to all watchers of its runtime: to the gate they are one, which does not fail. The rules
stand in `watching.py`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from callgate.errors import ToolError, ToolNotAllowed

from .records import CallRecord
from .watching import CallWatch, Kind, RunStart, RunWatch, Watcher

if TYPE_CHECKING:
    from callgate.runtime.plans.result import PlanResult
    from callgate.runtime.result import CodeResult
    from callgate.tools import Tool

    from .run_gate import RunGate

__all__ = ["CallWatches", "Ended", "RunWatches", "watched", "watching"]

logger = logging.getLogger("callgate")

T = TypeVar("T")


class RunWatches:
    """All that follow one run; see the rules in `watching.py`.

    Args:
        watchers: of the runtime. They hear of the run with `begin`.
    """

    __slots__ = ("_blind", "_failed", "_watchers", "_watches")

    def __init__(self, watchers: tuple[Watcher, ...]) -> None:
        self._watchers = watchers
        self._watches: list[tuple[RunWatch, bool]] = []
        self._blind = False
        """Whether an essential watcher does not follow the run."""
        self._failed: set[type] = set()

    def begin(self, start: RunStart) -> None:
        """The run begins."""
        for watcher in self._watchers:
            try:
                self._watches.append((watcher.run(start), watcher.essential))
            except Exception:
                self._blind |= watcher.essential
                self.note_failure(watcher)

    def call(self, record: CallRecord) -> CallWatches:
        """A call has arrived."""
        watches: list[tuple[CallWatch, bool]] = []
        blind = self._blind
        for watch, essential in self._watches:
            try:
                watches.append((watch.call(record), essential))
            except Exception:
                blind |= essential
                self.note_failure(watch)
        return CallWatches(self, watches, blind)

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """The plan was approved or denied."""
        for watch, essential in self._watches:
            try:
                watch.approved(granted, by, changed)
            except Exception:
                self._blind |= essential
                self.note_failure(watch)

    def ended(self, result: CodeResult | PlanResult | None, error: BaseException | None) -> None:
        """The run has ended."""
        for watch, _ in reversed(self._watches):
            try:
                watch.ended(result, error)
            except Exception:
                self.note_failure(watch)

    def note_failure(self, watch: object) -> None:
        """Log the exception that is being handled, if it is the first of this kind of watcher in the run."""
        if type(watch) not in self._failed:
            self._failed.add(type(watch))
            logger.exception("what follows a run from outside failed (%s); the run goes on", type(watch).__qualname__)


class CallWatches:
    """All that follow one call; see the rules in `watching.py`."""

    __slots__ = ("_blind", "_run", "_watches")

    def __init__(self, run: RunWatches, watches: list[tuple[CallWatch, bool]], blind: bool) -> None:
        self._run = run
        self._watches = watches
        self._blind = blind

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """The call was approved or denied."""
        for watch, essential in self._watches:
            try:
                watch.approved(granted, by, changed)
            except Exception:
                self._blind |= essential
                self._run.note_failure(watch)

    def calling(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """The tool is called next.

        Raises:
            ToolError: a watcher refuses the call, or an essential one has failed and the call has effects.
        """
        self._must_see(tool)
        for watch, essential in self._watches:
            try:
                watch.calling(tool, arguments)
            except ToolError:
                raise
            except Exception:
                self._blind |= essential
                self._run.note_failure(watch)
        self._must_see(tool)

    def _must_see(self, tool: Tool) -> None:
        if self._blind and not tool.read_only:
            raise ToolNotAllowed(
                f"tool {tool.name!r} was not called: the audit log failed, and a call with effects must stand in it. "
                "Tell the operator; tools that only read still work",
                tool=tool.name,
            )

    def ended(self, tool: Tool | None, text: str | None) -> None:
        """The call has left the gate."""
        for watch, _ in reversed(self._watches):
            try:
                watch.ended(tool, text)
            except Exception:
                self._run.note_failure(watch)


class Ended(Protocol):
    """Reports the end of a run; only the first one counts."""

    def __call__(self, result: CodeResult | PlanResult | None, error: BaseException | None = None, /) -> None:
        """See `RunWatch.ended`."""


@contextlib.contextmanager
def watching(gate: RunGate, kind: Kind, source: Any = "", inputs: str = "{}") -> Iterator[Ended]:
    """Report the beginning of a run to the watchers of its runtime, and its end. The block gets a function, and reports
    the end by calling it; where it does not, the end of the block is reported, as a cancellation or with its error.

    Args:
        gate: of the run.
        kind: see `RunStart`, like the other arguments.
    """
    if not gate.gate.watchers:
        yield lambda result, error=None: None
        return
    watches = RunWatches(gate.gate.watchers)
    is_over = False

    def ended(result: CodeResult | PlanResult | None, error: BaseException | None = None, /) -> None:
        nonlocal is_over
        if not is_over:
            is_over = True
            watches.ended(result, error)

    try:
        watches.begin(RunStart(kind=kind, limits=gate.limits, offer=gate.offer, source=source, inputs=inputs))
        gate.watches = watches
        yield ended
    except BaseException as error:
        ended(None, error)
        raise
    ended(None)


async def watched(gate: RunGate, ran: Coroutine[Any, Any, T], kind: Kind, source: Any = "", inputs: str = "{}") -> T:
    """Await a run, and report its beginning and its end to the watchers of its runtime: see `watching`."""
    if not gate.gate.watchers:
        return await ran
    try:
        with watching(gate, kind, source, inputs) as ended:
            result = await ran
            ended(None if kind == "direct" else result)  # type: ignore[arg-type]
            return result
    finally:
        ran.close()
