"""Programs made ready to run: which tools each may call, what it may look like, what it may spend. Starts nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeVar

import anyio
import anyio.to_thread

from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.program import Finding
from callgate.tools import Registry

from .catalogue import Catalogue
from .code_runs import CodeRun, Language
from .gate import Gate
from .gate.events import Event
from .kept import Kept
from .offer import Offer

__all__ = ["Path", "Programs", "checked_path"]

Path = Literal["auto", "plan", "sandbox"]

_CATALOGUES = 64
"""Sets of tools whose form on the wire is kept; beyond that they are made anew."""
_LONG: Final = 2 * 1024
"""Characters; it takes a millisecond to look at a program of that length, and up to 10 at a hostile one."""

T = TypeVar("T")

_GIVEN = frozenset({"ToolError", "tool_call", "tools"})


def checked_path(path: Any) -> Path:
    """The path that was asked for. Raises `ConfigurationError` where there is none of that name."""
    if path in ("auto", "plan", "sandbox"):
        chosen: Path = path
        return chosen
    raise ConfigurationError(f"there is no path {path!r}; there are: auto, plan, sandbox")


class Programs:
    """Makes `CodeRun`s for one runtime.

    Args:
        registry: its tools.
        gate: what their calls pass.
        language: what its programs may look like.
    """

    def __init__(self, registry: Registry, gate: Gate, language: Language) -> None:
        self.language = language
        self._registry = registry
        self._gate = gate
        self._catalogues: dict[Offer, Catalogue] = {}
        self._checked: Kept[tuple[Catalogue, str, tuple[str, ...], int], list[Finding]] = Kept(
            max_entries=256, max_bytes=4 * 1024 * 1024
        )
        self._turn = anyio.Lock()

    def prepare(
        self,
        code: str,
        limits: Limits,
        *,
        inputs: Mapping[str, Any] | None = None,
        tools: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> CodeRun:
        """A run of `code`: see `Runtime.execute_code` for the arguments. Raises `ConfigurationError`."""
        if not isinstance(code, str):
            raise ConfigurationError(f"code is Python source text, not {type(code).__name__}")
        if not isinstance(limits, Limits):
            raise ConfigurationError("limits must be Limits, for instance Limits(wall_seconds=10)")
        if inputs is not None and not isinstance(inputs, Mapping):
            raise ConfigurationError(f"inputs is a dict of variables and their values, not {type(inputs).__name__}")
        if isinstance(tools, str) or any(not isinstance(name, str) for name in tools or ()):
            raise ConfigurationError("tools are named by text: tools=['get_weather']")
        if on_event is not None and inspect.iscoroutinefunction(on_event):
            raise ConfigurationError("on_event is called at once and not awaited: give it a plain function, not async")
        gate = self._gate.open(caller="code", limits=limits, allowed=tools, on_event=on_event)
        catalogue = self._catalogue(gate.offer)
        for name in inputs or ():
            if name in catalogue.shapes or name in _GIVEN:
                raise ConfigurationError(
                    f"the input {name!r} would hide the tool, or the name, that programs are given"
                )
        return CodeRun(code, gate, catalogue, limits, dict(inputs or {}), on_event)

    async def check(self, run: CodeRun) -> list[Finding]:
        """Look at a program that stands alone; the findings stay with the run. Others have their turn meanwhile."""
        key = (run.catalogue, run.code, tuple(run.inputs), run.limits.max_source_bytes)
        known = self._checked.get(key)
        if known is None:
            known = await self.look(run.code, partial(run.check, self.language))
            self._checked.keep(key, known, len(run.code) + 64 * len(run.inputs))
        run.findings = list(known)
        return run.findings

    async def look(self, source: str, looking: Callable[[], T]) -> T:
        """What `looking` gives, which looks at `source`.

        A long source is looked at in a thread, one after the other. Python gives others their turn between any two
        steps of a look but the parser's and the compiler's, and those two are bounded: see `callgate.program.syntax`.
        """
        if len(source) <= _LONG:
            return looking()
        async with self._turn:
            return await anyio.to_thread.run_sync(looking)

    def _catalogue(self, offer: Offer) -> Catalogue:
        found = self._catalogues.get(offer)
        if found is None:
            if len(self._catalogues) >= _CATALOGUES:
                self._catalogues.clear()
            found = self._catalogues[offer] = Catalogue(offer)
        return found
