"""Runs per second, one at a time and several at once."""

from __future__ import annotations

import time

import anyio
import anyio.to_thread

from callgate.bench.figures import percentile
from callgate.bench.peers.process import PeerFailed
from callgate.bench.rows import Row
from callgate.bench.singles.context import Bench, calm, execute, opened

__all__ = ["throughput"]

_TARGETS = {1: None, 8: 500}


async def throughput(bench: Bench) -> list[Row]:
    """Rounds of many runs, the peers' rounds in between; each figure is the median of the rounds."""
    rows = []
    async with opened() as runtime:
        for in_flight, target in _TARGETS.items():
            ours: list[float] = []
            peers: dict[str, list[float]] = {bench.monty.name: [], bench.bubblewrap.name: []}
            failed: dict[str, str] = {}
            for _ in range(bench.sizes.rounds):
                await calm(runtime)

                async def run_one() -> None:
                    await execute(runtime, "1 + 1")

                ours.append(await _rate(run_one, bench.sizes.round_runs, in_flight))
                await calm(runtime)
                for peer, rate in ((bench.monty.name, _monty), (bench.bubblewrap.name, _bubblewrap)):
                    if peer not in failed:
                        try:
                            peers[peer].append(await rate(bench, in_flight))
                        except PeerFailed as error:
                            failed[peer] = str(error)
            rows.append(_row(in_flight, target, ours, peers, failed))
    return rows


async def _monty(bench: Bench, in_flight: int) -> float:
    runs = bench.sizes.round_runs
    answer = await bench.monty.ask("throughput", code="1 + 1", runs=runs, in_flight=in_flight)
    return float(runs / answer["seconds"])


async def _bubblewrap(bench: Bench, in_flight: int) -> float:
    async def run_one() -> None:
        await anyio.to_thread.run_sync(bench.bubblewrap.run)

    return await _rate(run_one, max(in_flight, bench.sizes.round_runs // 10), in_flight)


async def _rate(run_one: object, runs: int, in_flight: int) -> float:
    left = iter(range(runs))
    failures: list[PeerFailed] = []

    async def work() -> None:
        for _ in left:
            try:
                await run_one()  # type: ignore[operator]
            except PeerFailed as error:
                failures.append(error)
                return

    started = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(in_flight):
            tasks.start_soon(work)
    if failures:
        raise failures[0]
    return runs / (time.perf_counter() - started)


def _text(rates: list[float]) -> str:
    ordered = sorted(rates)
    return f"{percentile(ordered, 0.5):.0f}/s ({ordered[0]:.0f} to {ordered[-1]:.0f})"


def _row(
    in_flight: int, target: int | None, ours: list[float], peers: dict[str, list[float]], failed: dict[str, str]
) -> Row:
    told = [f"{name}: {_text(rates)}" for name, rates in peers.items() if rates]
    told += [f"{name}: {reason}" for name, reason in failed.items()]
    middle = percentile(sorted(ours), 0.5)
    return Row(
        key="throughput",
        measure=f"runs per second, a fresh jail each, {in_flight} in flight",
        measured=_text(ours),
        target="" if target is None else f"≥ {target}/s",
        verdict="for information" if target is None else "met" if middle >= target else "missed",
        peer="; ".join(told),
        note="Monty reuses its worker processes" if peers.get("Monty") else "",
        numbers={"ours_per_second": ours, "peers_per_second": peers},
    )
