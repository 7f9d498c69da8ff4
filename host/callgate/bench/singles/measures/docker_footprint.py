"""What containers weigh while they wait, what the image weighs, and what runs in containers leave behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread

from callgate import DockerBackend
from callgate.bench.peers.docker_run import DockerRun
from callgate.bench.peers.peer_tag import TAG as PEER_IMAGE
from callgate.bench.peers.process import LlmSandboxPeer, PeerFailed
from callgate.bench.rows import Row, Verdict
from callgate.bench.singles.context import execute, median, opened, still
from callgate.sandbox.docker.engine import Engine, EngineRefused
from callgate.sandbox.docker.image import DEFAULT_TAG

from .footprint import MEGABYTE, memory_of

__all__ = ["Weight", "left", "weight", "weights"]

_KEY = "docker"
_LEFT_SECONDS = 900.0
_POOL = 4
_START_SECONDS = 0.5
"""After which a bare Python sleeps."""


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes: what the container's cgroup is charged with, the anonymous part of it, and its shim's own and resident."""

    charged: int
    anonymous: int
    shim_own: int
    shim_resident: int

    def __str__(self) -> str:
        return (
            f"cgroup {self.charged / MEGABYTE:.1f} MB (anonymous {self.anonymous / MEGABYTE:.1f} MB), its shim "
            f"{self.shim_own / MEGABYTE:.1f} MB of its own ({self.shim_resident / MEGABYTE:.1f} MB resident)"
        )


async def weights(engine: Engine, docker_run: DockerRun, llm: LlmSandboxPeer) -> list[Row]:
    """Memory of idle containers, and the size of the image."""

    async def theirs() -> str:
        return str((await llm.ask("container"))["id"])

    async def bare() -> str:
        id = await anyio.to_thread.run_sync(docker_run.idle)
        await anyio.sleep(_START_SECONDS)
        return id

    peers = {"docker run, a bare Python that sleeps": bare, "llm-sandbox, a shell that waits": theirs}
    told = "; ".join([f"{name}: {await _peer(engine, container)}" for name, container in peers.items()])
    rows = []
    how = (
        "the engine's statistics of the cgroup, less inactive file pages, as `docker stats` counts; the shim "
        "(containerd-shim, one a container) is outside of it, in /proc: private pages and page tables"
    )
    for per, name in (("run", "a container per run"), ("tenant", "a tenant's container")):
        backend = DockerBackend(per="run" if per == "run" else "tenant")
        try:
            async with opened(sandbox=backend, pool_size=_POOL) as runtime:
                if per == "tenant":
                    await execute(runtime, "1 + 1")
                await still(runtime)
                each = [await weight(engine, id) for id in backend.containers]
        except OSError as error:
            rows.append(Row(key=_KEY, measure=f"memory per idle container: {name}", measured=f"not measured: {error}"))
            continue
        middle = Weight(*(int(median(values)) for values in zip(*map(_figures, each), strict=True)))
        rows.append(
            Row(
                key=_KEY, measure=f"memory per idle container: {name}, its guest in it", measured=str(middle),
                peer=told, note=how, numbers={"containers": [_figures(one) for one in each]},
            )
        )  # fmt: skip
    return [*rows, await _image(engine)]


async def _peer(engine: Engine, container: Callable[[], Awaitable[str]]) -> str:
    try:
        return str(await weight(engine, await container()))
    except (PeerFailed, OSError, EngineRefused) as error:
        return f"not measured: {error}"


def _figures(weight: Weight) -> tuple[int, int, int, int]:
    return weight.charged, weight.anonymous, weight.shim_own, weight.shim_resident


async def weight(engine: Engine, container: str) -> Weight:
    """What a container weighs.

    Raises:
        OSError: the engine's processes are on another machine, or are not to be looked at.
    """
    found = (await engine.call("stats", container, stream=False, one_shot=True))["memory_stats"]
    details = found.get("stats", {})
    inactive = details.get("total_inactive_file", details.get("inactive_file", 0))
    anonymous = details.get("total_rss", details.get("anon", 0))
    pid = (await engine.call("inspect_container", container))["State"]["Pid"]
    shim = _parent(pid)
    return Weight(found["usage"] - inactive, anonymous, memory_of(shim).own, _resident(shim))


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as stat:
        parent = int(stat.read().rpartition(")")[2].split()[1])
    with open(f"/proc/{parent}/comm") as comm:
        name = comm.read().strip()
    if not name.startswith(("containerd-shim", "conmon")):
        raise ProcessLookupError(f"the parent of process {pid} is {name}, no shim: the engine is elsewhere")
    return parent


async def _image(engine: Engine) -> Row:
    size = int((await engine.call("inspect_image", DEFAULT_TAG))["Size"])
    try:
        peer = int((await engine.call("inspect_image", PEER_IMAGE))["Size"])
        told = f"llm-sandbox's here, a minimal Debian with Python: {peer / MEGABYTE:.0f} MB"
    except EngineRefused:
        told = ""
    return Row(
        key=_KEY, measure="size of the image", measured=f"{size / MEGABYTE:.1f} MB", peer=told,
        note="made of this machine's Python: the interpreter, its standard library, the guest; nothing else",
        numbers={"bytes": size},
    )  # fmt: skip


async def left(per: str, runs: int) -> Row:
    """Runs in a process of their own, two at a time; what it had before the first must be what it has at the end."""
    measure = f"{runs:,} runs, {'a container each' if per == 'run' else 'tenant'}: what they leave behind"
    target = "nothing"
    command = [sys.executable, "-m", "callgate.bench.peers.docker_leftovers", per, str(runs)]
    try:
        with anyio.fail_after(_LEFT_SECONDS):
            done = await anyio.run_process(command, check=False, stderr=subprocess.PIPE)
    except TimeoutError:
        return Row(key=_KEY, measure=measure, measured=f"not over after {_LEFT_SECONDS:g} s", target=target,
                   verdict="missed")  # fmt: skip
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
        return Row(key=_KEY, measure=measure, measured=f"failed: {said[-1][:300]}", target=target, verdict="missed")
    told: dict[str, Any] = json.loads(done.stdout)
    before, first, last, after = (told[name] for name in ("before", "first", "last", "after"))
    verdict: Verdict = "met" if after == before else "missed"
    return Row(
        key=_KEY, measure=measure, target=target, verdict=verdict, numbers=told,
        measured=f"before and after: {_arrows(before, after)}",
        note=f"{told['seconds']:.0f} s; {told['containers_seen']} containers were seen; with the runtime open, before "
        f"the runs and after them: {_arrows(first, last)}",
    )  # fmt: skip


def _arrows(before: dict[str, int], after: dict[str, int]) -> str:
    return ", ".join(f"{name} {before[name]} → {after[name]}" for name in before)
