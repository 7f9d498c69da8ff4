"""Written one after the other, made at the same time: the fast path.

A model writes its calls as it thinks of them, one `await` after the other. Where a program is certain to be a graph of
tool calls, callgate runs it as one: calls that only read begin as soon as their arguments are there, calls that change
something keep their place, and what comes out is what the sandbox would have given. The same program runs here both
ways. The data are public holidays: see world/README.md.
"""

from __future__ import annotations

import asyncio
import datetime

from callgate import CodeResult, Runtime, ToolError, tool
from world import HOLIDAYS_2026

SECONDS_PER_CALL = 0.1
SENT: list[str] = []


@tool(read_only=True)
async def get_holidays(country: str, year: int) -> list[str]:
    """Public holidays of a country, as ISO dates.

    Args:
        country: its two-letter code.
        year: the year.
    """
    await asyncio.sleep(SECONDS_PER_CALL)  # a service far away
    if year != 2026 or country not in HOLIDAYS_2026:
        raise ToolError(f"holidays of {country} in {year} are not known; known are those of 2026 in forty countries")
    return HOLIDAYS_2026[country]


@tool(read_only=True)
async def get_weekday(day: str) -> str:
    """The weekday of a date.

    Args:
        day: an ISO date.
    """
    await asyncio.sleep(SECONDS_PER_CALL)
    return datetime.date.fromisoformat(day).strftime("%A")


@tool
async def send_note(text: str) -> int:
    """Send a note to the office; returns how many were sent so far.

    Args:
        text: what it says.
    """
    await asyncio.sleep(SECONDS_PER_CALL)
    SENT.append(text)
    return len(SENT)


PROGRAM = """
norway = await get_holidays("NO", 2026)
sweden = await get_holidays("SE", 2026)
denmark = await get_holidays("DK", 2026)
finland = await get_holidays("FI", 2026)

shared = [day for day in norway if day in sweden and day in denmark and day in finland]
names = []
for day in shared:
    names.append(await get_weekday(day))

print(f"{len(shared)} days on which all four are closed:")
for day, name in zip(shared, names):
    print(f"  {day}  {name}")

await send_note(f"first: {shared[0]}")
await send_note(f"last: {shared[-1]}")
"""


async def main() -> None:
    async with Runtime([get_holidays, get_weekday, send_note]) as runtime:
        compilation = runtime.compile(PROGRAM)
        assert compilation.ok
        print(compilation.explain())

        sandboxed = await runtime.execute_code(PROGRAM, path="sandbox")
        planned = await runtime.execute_code(PROGRAM)

    assert planned.ok, planned.for_model()
    assert (sandboxed.path, planned.path) == ("sandbox", "plan")

    # the same prints, the same calls, the notes in the same order; only the second run sent them as number 3 and 4
    assert planned.logs == sandboxed.logs
    assert made(planned) == made(sandboxed)
    assert planned.value == sandboxed.value + 2 == 4
    assert SENT[:2] == SENT[2:]
    assert planned.speculative == []

    # four countries at once, all the days at once, then two notes one after the other
    one_by_one = sum(call.duration_seconds for call in planned.calls)
    assert sandboxed.usage.wall_seconds > one_by_one * 0.9
    assert 4 * SECONDS_PER_CALL <= planned.usage.wall_seconds < one_by_one / 2

    print(planned.logs, end="")
    print(f"{len(planned.calls)} calls of {SECONDS_PER_CALL} s took {sandboxed.usage.wall_seconds:.2f} s as written")
    print(f"and {planned.usage.wall_seconds:.2f} s as a plan")


def made(run: CodeResult) -> list[tuple[str, str]]:
    """The calls of a run, whatever their order."""
    return sorted((call.tool, str(call.arguments)) for call in run.calls)


if __name__ == "__main__":
    asyncio.run(main())
