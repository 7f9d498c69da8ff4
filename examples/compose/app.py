"""A service with callgate in it, as `compose.yaml` starts it: one program, and what confined it."""

from __future__ import annotations

import asyncio
import os

from callgate import Runtime, tool

PROGRAM = """
import platform
rows = [await stock(item) for item in ("bolts", "nuts", "washers")]
print(f"{sum(rows)} parts, counted on {platform.node()}")
max(rows)
"""


@tool(read_only=True)
async def stock(item: str) -> int:
    """How many of a part are there."""
    return {"bolts": 120, "nuts": 80}.get(item, 0)


async def main() -> None:
    async with Runtime([stock], sandbox=os.environ.get("SANDBOX", "auto")) as runtime:
        print(runtime.backend.description)
        run = await runtime.execute_code(PROGRAM, path="sandbox")
        print(run.for_model())


if __name__ == "__main__":
    asyncio.run(main())
