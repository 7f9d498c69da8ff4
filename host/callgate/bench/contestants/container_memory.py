"""What a runtime's containers take while they stand ready: the engine's figures of their cgroups, and their shims."""

from __future__ import annotations

from callgate.bench.singles.measures.docker_footprint import weight
from callgate.sandbox.backend import Backend
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.engine import Engine

__all__ = ["standing"]


async def standing(backend: Backend) -> int:
    """Bytes of all containers that are there now, and of one shim more, for the container that a program runs in.

    Args:
        backend: of a runtime; one that has no containers takes none.

    Raises:
        OSError: the engine's processes are on another machine, or are not to be looked at.
        CallgateError: the engine does not answer, or refuses.
    """
    if not isinstance(backend, DockerBackend):
        return 0
    engine = await Engine.connect()
    try:
        found = [await weight(engine, each) for each in backend.containers]
    finally:
        await engine.close()
    return sum(each.charged + each.shim_own for each in found) + max((each.shim_own for each in found), default=0)
