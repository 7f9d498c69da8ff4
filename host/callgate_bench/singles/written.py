"""A program that starts while a model writes it, beside waiting for its last token: what is left then."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import anyio

from callgate_bench.figures import Row
from callgate_bench.singles.bench import Bench, BenchFailed, Guests, beside, opened

__all__ = ["written"]

_READ_SECONDS, _TOKENS_PER_SECOND, _TOKEN = 0.3, 80.0, 4
"""A read's time; a model's speed; characters of a token."""
_LINES, _READS = 60, (10, 30, 50)
"""Lines of the program, and which of them read; each read needs the result of the one before."""
_LIST: Final = "[first, second, third]"
_ROWS: Final = {"on the fast path": f"rows = {_LIST}", "in the sandbox": f"def rows_of():\n    return {_LIST}"}


def _program(end: str) -> str:
    lines = [f"name_{number} = 'a value of the program, number {number}'" for number in range(_LINES)]
    before = str(_READ_SECONDS)
    for number, name in zip(_READS, ("first", "second", "third"), strict=True):
        lines[number] = f"{name} = await pause(seconds={before})"
        before = name
    tail = [*end.splitlines(), "name_1"]
    return "\n".join([*lines[: _LINES - len(tail)], *tail])


async def _run(guests: Guests, code: str, *, early: bool) -> list[float]:
    """Seconds from the last token to the result."""
    ended = 0.0

    async def tokens() -> AsyncIterator[str]:
        nonlocal ended
        for start in range(0, len(code), _TOKEN):
            await anyio.sleep(_TOKEN / 4 / _TOKENS_PER_SECOND)
            yield code[start : start + _TOKEN]
        ended = time.perf_counter()

    await guests.calm()
    if early:
        async with guests.runtime.stream_code(tokens()) as stream:
            async for _ in stream:
                pass
        result = stream.result
    else:
        whole = "".join([token async for token in tokens()])
        result = await guests.runtime.execute_code(whole)
    took = time.perf_counter() - ended
    if result is None or not result.ok or len(result.calls) != len(_READS) or result.speculative:
        raise BenchFailed("the program did not run" if result is None else result.for_model(2000))
    return [took]


async def written(bench: Bench) -> list[Row]:
    """Three dependent reads in a program of 60 lines, on both paths."""
    rounds = max(1, bench.sizes.few // 5)
    rows = []
    async with opened(bench) as guests:
        for where, end in _ROWS.items():
            code = _program(end)
            measure = (
                f"{_LINES} lines at {_TOKENS_PER_SECOND:g} tokens/s with 3 dependent reads of {_READ_SECONDS:g} s, "
                f"{where}: from the last token to the result"
            )
            ours, theirs = partial(_run, guests, code, early=True), partial(_run, guests, code, early=False)
            note = f"the last read stands {_LINES - _READS[-1]} lines before the end"
            peer = "waiting for the last token"
            rows.append(await beside("written", measure, rounds, ours, peer, theirs, most=0.3, note=note))
    return rows
