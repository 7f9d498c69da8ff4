"""Which programs are graphs: each is looked at once, and what came of it is kept. Runs nothing.

What was found depends on the source, the tools and the names of the inputs: together they are the key. That a program
is no graph is kept, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.program.graph.compile import MOST_SOURCE_BYTES, compile_program
from callgate.program.graph.flow import Flow, For, operations_of
from callgate.program.graph.reasons import NotAGraph
from callgate.program.graph.walking.ghost import makes_iterators
from callgate.runtime.code_runs import CodeRun
from callgate.runtime.gate.cache import Cache
from callgate.runtime.offer import Catalogue

__all__ = ["GraphProgram", "GraphPrograms"]

_LONG = 2 * 1024
"""Characters; it takes some milliseconds to read a program of that length, and up to 20 a hostile one."""
_KEPT_BYTES = 200
"""What a program's tree and closures take, for each character of its source."""
_REQUEST_BYTES = 1024
"""More than the `execute` request has around source, tools and inputs."""

Key = tuple[Catalogue, str, frozenset[str]]


@dataclass(frozen=True, slots=True, eq=False)
class GraphProgram:
    """A program that is a graph of tool calls."""

    source: str
    flow: Flow
    looks_ahead: bool
    """Some call could begin before the program gets there."""
    is_lazy: bool
    """What `makes_iterators` says of it."""


Found = GraphProgram | list[NotAGraph]


class GraphPrograms:
    """What was found in the programs that were looked at last.

    Args:
        max_entries: so many programs.
        max_bytes: of all that is kept of them, about. A program that takes an eighth of it alone is not kept.
    """

    def __init__(self, *, max_entries: int = 256, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.kept: Cache[Key, Found] = Cache(max_entries=max_entries, max_bytes=max_bytes)
        self._max_bytes = max_bytes
        self._turn = anyio.Lock()

    async def look(self, run: CodeRun) -> tuple[Found, dict[str, Any]]:
        """The program of that run, or why it is no graph; and the inputs as it will see them.

        One program is looked at at a time, and others have their turn in between; a long one in a thread.

        Raises:
            ConfigurationError: an input is no JSON, or no variable.
        """
        key, values, found = self._known(run)
        if found is None:
            async with self._turn:
                await anyio.lowlevel.checkpoint()
                if len(run.code) > _LONG:
                    found = await anyio.to_thread.run_sync(_look, run, values)
                else:
                    found = _look(run, values)
            self._keep(key, found)
        return found, values

    def look_at_once(self, run: CodeRun) -> tuple[Found, dict[str, Any]]:
        """The same, without waiting."""
        key, values, found = self._known(run)
        if found is None:
            found = _look(run, values)
            self._keep(key, found)
        return found, values

    def _known(self, run: CodeRun) -> tuple[Key, dict[str, Any], Found | None]:
        inputs = run.encoded_inputs()
        reason = _too_large(run, len(inputs))
        if reason is not None:
            return (run.catalogue, "", frozenset()), {}, [reason]
        values: dict[str, Any] = json.loads(inputs) if run.inputs else {}
        key = (run.catalogue, run.code, frozenset(values))
        return key, values, self.kept.get(key)

    def _keep(self, key: Key, found: Found) -> None:
        size = len(key[1]) + sum(map(len, key[2]))
        if not isinstance(found, list):
            size += _KEPT_BYTES * len(key[1])
        if size <= self._max_bytes // 8:
            self.kept.keep(key, found, size)


def _too_large(run: CodeRun, inputs_size: int) -> NotAGraph | None:
    """Why a program is not even looked at. What the sandbox would refuse, it is left to refuse."""
    size = len(run.code.encode("utf-8", "surrogatepass"))
    most = min(MOST_SOURCE_BYTES, run.limits.max_source_bytes)
    if size > most:
        return NotAGraph(1, "the program", f"it has {size} bytes, more than {most}, and was not looked at")
    if size * 6 + inputs_size + len(run.catalogue.wire) + _REQUEST_BYTES > run.limits.max_message_bytes:
        return NotAGraph(1, "the program", "with its tools and inputs it comes near max_message_bytes")
    return None


def _look(run: CodeRun, inputs: dict[str, Any]) -> Found:
    flow = compile_program(run.code, run.catalogue.graph_tools, inputs=inputs)
    if isinstance(flow, list):
        return flow
    early = any(site.early for site in flow.sites)
    again = len(flow.sites) > 1 or any(isinstance(operation, For) for operation in operations_of(flow.body))
    return GraphProgram(run.code, flow, early and again, makes_iterators(flow))
