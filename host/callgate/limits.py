"""The limits of one run: names, units and defaults. The kernel, the sandbox and the gate enforce them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from .errors import ConfigurationError

__all__ = ["Limits"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The resources that one run may use. There are no other, hidden limits.

    A run that exceeds a limit ends with a ``LimitReached`` error, which names the field, its value and the usage.
    """

    wall_seconds: float = 60.0
    """Seconds from the moment the program is handed over, waiting for tools included. At the limit the guest is
    killed. It also limits a plan, and a tool that a model calls directly."""
    cpu_seconds: float = 30.0
    """Processor seconds of the guest. The kernel counts in whole seconds: a fraction is rounded up."""
    memory_bytes: int = 512 * 1024 * 1024
    """Address space that the program may map beyond the interpreter itself. At the limit Python raises
    ``MemoryError``."""
    max_processes: int = 64
    """Threads that the program may have at once, its main thread included. A second process is never allowed."""
    max_file_bytes: int = 64 * 1024 * 1024
    """Bytes that ``/tmp`` and ``/output`` hold, over all their files."""
    max_tool_calls: int = 100_000
    """Tool calls in one run, refused ones included. A run that can be replayed may wait for as many timers, too."""
    max_concurrent_calls: int = 256
    """Tool calls that run at the same time. Further calls wait; this limit never ends a run. Of sync tools 40 run at a
    time in a runtime, and of an MCP server's as many as its configuration says (16)."""
    max_log_bytes: int = 1024 * 1024
    """UTF-8 bytes that the program may print."""
    max_artifacts: int = 32
    """Artifacts of one run: files that its program leaves in ``/output``, and what it displays. Further ones are told
    in `CodeResult.notes` and not kept; this limit never ends a run."""
    max_artifact_bytes: int = 32 * 1024 * 1024
    """Bytes of all artifacts of one run. One that does not fit is told in `CodeResult.notes` and not kept."""
    max_value_bytes: int = 8 * 1024 * 1024
    """Bytes of the run's value, as compact JSON."""
    max_source_bytes: int = 64 * 1024
    """UTF-8 bytes of a program's source. Python's own parser runs on the host and holds the interpreter's lock, in any
    thread: 240 KB of source can take it 0.2 to 0.5 s, in which the host does nothing else. Raise this limit only for
    programs that you trust."""
    max_message_bytes: int = 16 * 1024 * 1024
    """Bytes of one message on the wire, in either direction: the source with its inputs, a call's arguments, a
    tool's result."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            whole = field.type == "int"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                kind = "a whole number" if whole else "a number"
                raise ConfigurationError(f"{field.name} must be {kind}, not {value!r}")
            if not (value > 0 and math.isfinite(value)):
                hint = "; use a large number for 'as good as none'" if value == math.inf else ""
                raise ConfigurationError(f"{field.name} must be above 0, not {value!r}{hint}")

    def replace(self, **changes: Any) -> Limits:
        """These limits with some fields changed; raises `ConfigurationError` for an unknown or impossible one."""
        names = {field.name for field in dataclasses.fields(self)}
        for name in changes:
            if name not in names:
                raise ConfigurationError(f"there is no limit {name!r}; there are: {', '.join(sorted(names))}")
        return dataclasses.replace(self, **changes)
