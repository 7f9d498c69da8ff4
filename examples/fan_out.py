"""Fan-out: forty calls that take a tenth of a second each, gathered.

The calls run at the same time on the host, at most `max_concurrent_calls` of them; the program is one thread and waits.
The data are public holidays: see world/README.md.
"""

from __future__ import annotations

import asyncio

from callgate import Limits, Runtime, ToolError, tool
from world import HOLIDAYS_2026

SECONDS_PER_CALL = 0.1
COUNTRIES = sorted(HOLIDAYS_2026)


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


PROGRAM = """
import asyncio
from collections import Counter

answers = await asyncio.gather(*(get_holidays(country, 2026) for country in countries))
counted = Counter(day for days in answers for day in days)
day, times = counted.most_common(1)[0]
print(f"{sum(map(len, answers))} holidays in {len(answers)} countries; the most common is {day}, in {times} of them")
{"day": day, "countries": times}
"""


async def main() -> None:
    async with Runtime([get_holidays], limits=Limits(max_concurrent_calls=40)) as runtime:
        run = await runtime.execute_code(PROGRAM, inputs={"countries": COUNTRIES})
    assert run.ok, run.for_model()
    assert len(run.calls) == len(COUNTRIES) == 40

    observed = sum("2026-01-01" in HOLIDAYS_2026[country] for country in COUNTRIES)
    assert run.value == {"day": "2026-01-01", "countries": observed}

    one_by_one = sum(call.duration_seconds for call in run.calls)
    assert run.usage.wall_seconds < one_by_one / 4

    print(run.logs, end="")
    print(f"40 calls took {one_by_one:.1f} s put together, and {run.usage.wall_seconds:.2f} s in the program")


if __name__ == "__main__":
    asyncio.run(main())
