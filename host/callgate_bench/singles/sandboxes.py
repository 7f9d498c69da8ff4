"""From code to result in each sandbox, one after the other in one run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from callgate import SandboxUnavailable
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.jail import JailBackend
from callgate.sandbox.srt.backend import SrtBackend
from callgate.sandbox.unsafe import UnsafeBackend, UnsandboxedWarning
from callgate_bench.figures import Row, timed
from callgate_bench.singles.bench import Bench, opened

__all__ = ["sandboxes"]

_KINDS: dict[str, tuple[Callable[[], Any], float, float]] = {
    "jail, tier 1": (lambda: JailBackend(tier=1), 5e-3, 10e-3),
    "jail, tier 2": (lambda: JailBackend(tier=2), 5e-3, 10e-3),
    "docker": (DockerBackend, 5e-3, 0.5),
    "srt": (SrtBackend, 5e-3, 0.6),
    "unsafe": (UnsafeBackend, 0.1, 0.2),
}
"""What makes it, and the seconds that it may take with a full pool and without one."""


async def sandboxes(bench: Bench) -> list[Row]:
    """`1 + 1`, with a full pool and without a pool. A sandbox that does not work here is told with its reason."""
    rows = []
    for name, (make, warm, cold) in _KINDS.items():
        for pool, words, within in ((2, "pool warm", warm), (0, "without a pool", cold)):
            measure = f"code to result, {name}, {words}: 1 + 1"
            took: list[float] = []
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UnsandboxedWarning)
                    async with opened(bench, make(), pool) as guests:
                        took += [(await guests.measure("1 + 1"))["seconds"] for _ in range(bench.sizes.few)]
            except SandboxUnavailable as error:
                rows.append(
                    Row(
                        key="sandboxes",
                        measure=measure,
                        measured=f"not measured: this sandbox does not work: {error}",
                        verdict="open",
                    )
                )
                break
            rows.append(timed("sandboxes", measure, took, within=within))
    return rows
