"""Errors: what a program can catch, what ends it, and what is left of it afterwards.

A failed call raises `ToolError` in the program, never returns it as data. A program that fails is a result on the host,
not an exception: with the error, its line, everything printed, and every call made.
"""

from __future__ import annotations

import asyncio
import logging

from callgate import Limits, Runtime, ToolError, tool

STOCK = {"bolt": 120, "nut": 80, "washer": 0}
logging.getLogger("callgate").setLevel(logging.CRITICAL)  # the crash below is on purpose


@tool(read_only=True)
async def get_stock(part: str) -> int:
    """How many of a part are there.

    Args:
        part: the part's name.
    """
    if part == "gear":
        raise RuntimeError("connection string: postgres://admin:secret@db")  # the host's own business
    if part not in STOCK:
        raise ToolError(f"there is no part {part!r}", data={"known": sorted(STOCK)}, retryable=False)
    return STOCK[part]


CATCHES = """
for part in ["bolt", "screw", "gear"]:
    try:
        print(part, await get_stock(part))
    except ToolError as error:
        print(part, "failed:", error, error.data)
"""
FAILS = """
total = 0
for part in ["bolt", "nut", "screw"]:
    total += await get_stock(part)
    print("so far", total)
"""


async def main() -> None:
    async with Runtime([get_stock]) as runtime:
        caught = await runtime.execute_code(CATCHES)
        failed = await runtime.execute_code(FAILS)
        checked = await runtime.execute_code("print(await get_stok('bolt'))")
        endless = await runtime.execute_code("while True: pass", limits=Limits(wall_seconds=0.5))

    # 1. the program catches what a tool means to say; the text of an accident on the host never reaches it
    assert caught.ok, caught.for_model()
    assert "screw failed: there is no part 'screw' {'known': ['bolt', 'nut', 'washer']}" in caught.logs
    assert "gear failed" in caught.logs
    assert "secret" not in caught.logs

    # 2. what it does not catch ends it, and nothing done so far is lost
    assert not failed.ok
    assert failed.error is not None
    assert (failed.error.kind, failed.error.line) == ("ToolError", 4)
    assert failed.logs == "so far 120\nso far 200\n"
    assert [call.status for call in failed.calls] == ["succeeded", "succeeded", "failed"]

    # 3. what is certain to fail is not run at all
    assert checked.error is not None
    assert checked.error.kind == "CheckFailed"
    assert "did you mean `get_stock`?" in checked.for_model()

    # 4. a limit ends a program from outside
    assert endless.error is not None
    assert endless.error.limit == "wall_seconds"

    for title, run in [("caught", caught), ("failed", failed), ("checked", checked), ("endless", endless)]:
        print(f"--- {title}: the model reads")
        print(run.for_model())


if __name__ == "__main__":
    asyncio.run(main())
