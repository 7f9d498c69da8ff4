"""What guests leave in memory while they live, and what runs leave behind when they are over."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass

import anyio

from callgate.bench.peers.process import PeerFailed
from callgate.bench.rows import Row, Verdict
from callgate.bench.singles.context import Bench, calm, execute, median, opened
from callgate.runtime import Runtime
from callgate.sandbox.jail import JailBackend

__all__ = ["MEGABYTE", "Memory", "descendants", "flat", "memory", "memory_of"]

MEGABYTE = 1_000_000
_MOST_IDLE_BYTES = 3 * MEGABYTE
_FLAT_BYTES = MEGABYTE  # growth of resident memory over all the runs that is still flat: an allocator breathes


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: of this process alone (its page tables included), and its proportional share of everything it maps."""

    own: int
    share: int

    def __str__(self) -> str:
        return f"{self.own / MEGABYTE:.2f} MB of its own (with shares of common pages: {self.share / MEGABYTE:.2f} MB)"


def memory_of(pid: int) -> Memory:
    """What a process has. Raises `OSError` where the kernel does not let this user look."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        sizes = _kilobytes(rollup.read())
    with open(f"/proc/{pid}/status") as status:
        tables = _kilobytes(status.read()).get("VmPTE", 0)
    own = sizes["Private_Clean"] + sizes["Private_Dirty"] + tables
    return Memory(own, sizes["Pss"] + tables)


def _kilobytes(text: str) -> dict[str, int]:
    lines = (line.split() for line in text.splitlines())
    return {parts[0].rstrip(":"): int(parts[1]) * 1024 for parts in lines if len(parts) == 3 and parts[2] == "kB"}


def _middle(pids: list[int]) -> Memory:
    each = [memory_of(pid) for pid in pids]
    return Memory(int(median([one.own for one in each])), int(median([one.share for one in each])))


async def memory(bench: Bench) -> list[Row]:
    """Guests of a full pool, and one that has run a program, as the kernel counts their pages."""
    try:
        peer = _middle((await bench.monty.ask("workers"))["pids"])
        told = f"Monty: {peer} a worker, after a run"
    except (PeerFailed, OSError, IndexError) as error:
        told = f"Monty: {error}"
    try:
        async with opened() as runtime:
            idle = _middle([guest.pid for guest in runtime._pool._idle])  # type: ignore[attr-defined]
            async with runtime.session() as session:
                await session.execute_code("1 + 1")
                used = memory_of(session._guest.pid)  # type: ignore[attr-defined]
    except OSError as error:
        return [Row(key="memory", measure="memory per live idle guest", measured=f"not to be had: {error}",
                    target="≤ 3 MB", verdict="open", peer=told)]  # fmt: skip
    return [
        Row(
            key="memory", measure="memory per live idle guest", measured=str(idle), target="≤ 3 MB",
            verdict="met" if idle.own <= _MOST_IDLE_BYTES else "missed", peer=told,
            numbers={"own_bytes": idle.own, "share_bytes": idle.share},
        ),
        Row(
            key="memory", measure="memory per live guest after a run", measured=str(used), peer=told,
            numbers={"own_bytes": used.own, "share_bytes": used.share},
        ),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _State:
    descriptors: int
    processes: int
    host_bytes: int
    zygote_bytes: int


def _children(pid: int) -> list[int]:
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as children:
                found += [int(each) for each in children.read().split()]
    except OSError:  # it has just ended
        return found
    return found


def descendants(pid: int) -> list[int]:
    """Processes that `pid` started, and those that they did."""
    found = []
    stack = _children(pid)
    while stack:
        each = stack.pop()
        found.append(each)
        stack += _children(each)
    return found


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _state(runtime: Runtime) -> _State:
    await calm(runtime)
    await anyio.sleep(0.1)  # the last ends have been seen to
    gc.collect()
    assert isinstance(runtime.backend, JailBackend)
    outer = runtime.backend.zygote_pid
    # in tier 1 the process that was started waits for the zygote; in tier 2 it is the zygote
    zygote = _children(outer)[0] if runtime.backend.tier == 1 else outer
    return _State(len(os.listdir("/proc/self/fd")), len(descendants(outer)), _resident(os.getpid()), _resident(zygote))


async def flat(bench: Bench) -> list[Row]:
    """Descriptors, processes and resident memory of host and zygote, before and after many runs."""
    runs = bench.sizes.flat_runs
    async with opened() as runtime:
        for _ in range(max(2, runs // 5)):  # caches fill
            await execute(runtime, "await tick(n=1)")
        before = await _state(runtime)
        for _ in range(runs):
            await execute(runtime, "await tick(n=1)")
        after = await _state(runtime)
    grown = (after.host_bytes - before.host_bytes, after.zygote_bytes - before.zygote_bytes)
    same = (after.descriptors, after.processes) == (before.descriptors, before.processes)
    verdict: Verdict = "met" if same and max(grown) <= _FLAT_BYTES else "missed"
    told = (
        f"descriptors {before.descriptors} → {after.descriptors}, processes {before.processes} → {after.processes}, "
        f"host {before.host_bytes / MEGABYTE:.1f} → {after.host_bytes / MEGABYTE:.1f} MB, "
        f"zygote {before.zygote_bytes / MEGABYTE:.1f} → {after.zygote_bytes / MEGABYTE:.1f} MB"
    )
    return [
        Row(
            key="flat", measure=f"{runs:,} runs: what they leave behind", measured=told,
            target="flat (memory: within 1 MB)", verdict=verdict, numbers={"grown_bytes": list(grown)},
        )
    ]  # fmt: skip
