"""The peer's own process: ``python -m callgate.bench.peers.llm_sandbox``. The one file that imports llm_sandbox.

Its fastest ways: an image that needs no setup, and either one session whose container is kept, or its pool of
containers. (Its interactive session looks for results every 0.1 s.) Each run is a new process in a container that
earlier runs have used. `serving` says how it is asked.
"""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from callgate.bench.peers.peer_tag import TAG
from callgate.bench.serving import serve

try:
    from llm_sandbox import SandboxSession  # type: ignore[import-untyped]
    from llm_sandbox.pool import PoolConfig, create_pool_manager  # type: ignore[import-untyped]
except ImportError:  # an optional peer: the harness asks first
    sys.exit("llm-sandbox is not installed")

_CODE = "print(1 + 1)"
_OPTIONS: dict[str, Any] = {"lang": "python", "image": TAG, "skip_environment_setup": True, "keep_template": True}


class Peer:
    """The functions that may be asked for."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._kept: list[Any] = []
        self._pool: Any = None
        self._settings: dict[str, Any] = {}

    async def start(self, label: str, memory_bytes: int) -> dict[str, Any]:
        """Open a session that is kept, and a pool.

        Args:
            label: what its containers are labelled with, ``name=value``.
            memory_bytes: what a container may use.
        """
        name, _, value = label.partition("=")
        self._settings = {
            "network_mode": "none", "mem_limit": memory_bytes, "labels": {name: value},
            "stop_signal": "SIGKILL",  # its shell ignores any other, and the engine would wait for 10 s
        }  # fmt: skip
        self._keep()
        config = PoolConfig(min_pool_size=1, max_pool_size=2)
        self._pool = create_pool_manager(config=config, runtime_configs=dict(self._settings), **_OPTIONS)
        return {}

    def _keep(self) -> Any:
        session = self._opened.enter_context(self._session())
        self._kept.append(session)
        return session

    def _session(self) -> Any:
        return SandboxSession(**_OPTIONS, runtime_configs=dict(self._settings))

    async def kept(self) -> dict[str, Any]:
        """A run in the session that is kept."""
        return {"seconds": _timed(self._kept[0])}

    async def pooled(self) -> dict[str, Any]:
        """A run in a session of its own whose container comes from the pool, and goes back."""
        started = time.perf_counter()
        with SandboxSession(pool=self._pool, image=TAG) as session:
            _timed(session)
            return {"seconds": time.perf_counter() - started}

    async def cold(self) -> dict[str, Any]:
        """From no container to a result. Its end is not in the figure."""
        started = time.perf_counter()
        with self._session() as session:
            _timed(session)
            return {"seconds": time.perf_counter() - started}

    async def throughput(self, seconds: float, in_flight: int) -> dict[str, Any]:
        """How many runs end when runs start for so long, so many at a time, each thread with a session that is kept."""
        while len(self._kept) < in_flight:
            self._keep()
        with ThreadPoolExecutor(in_flight) as threads:
            list(threads.map(_timed, self._kept))
            started = time.perf_counter()
            runs = sum(threads.map(lambda session: _repeated(session, started + seconds), self._kept))
            return {"seconds": time.perf_counter() - started, "runs": runs}

    async def container(self) -> dict[str, Any]:
        """The id of the container that is kept."""
        return {"id": self._kept[0].container.id}

    async def stop(self) -> dict[str, Any]:
        """Remove all containers."""
        self._opened.close()
        if self._pool is not None:
            self._pool.close()
        return {}


def _repeated(session: Any, until: float) -> int:
    runs = 0
    while time.perf_counter() < until:
        _timed(session)
        runs += 1
    return runs


def _timed(session: Any) -> float:
    started = time.perf_counter()
    output = session.run(_CODE)
    took = time.perf_counter() - started
    if output.stdout.strip() != "2":
        raise RuntimeError(f"status {output.exit_code}: {output.stderr.strip()}")
    return took


if __name__ == "__main__":
    asyncio.run(serve(Peer()))
