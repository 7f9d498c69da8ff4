"""Prints the way of ``print(await f(2))`` through the house: the files that it passes, in order.

    python docs/way_of_a_call.py            # both paths, on the host
    python docs/way_of_a_call.py sandbox    # one of them

Each file stands where it is entered first, with the function that is called there. What runs in the guest is another
process, which this does not see. Imports are done before, by another run.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import callgate
from callgate import Runtime, tool

HOST = Path(callgate.__file__).parent
PROGRAM = "print(await f(2))"


@tool(read_only=True)
async def f(n: int) -> int:
    """Give a number back.

    Args:
        n: the number.
    """
    return n


async def way(path: str) -> list[str]:
    """The files that one run passes, each with the function that it is entered by."""
    seen: dict[Path, str] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and HOST in file.parents:
            seen.setdefault(file.relative_to(HOST), frame.f_code.co_qualname)

    async with Runtime([f], sandbox="auto" if path == "sandbox" else None) as runtime:
        await runtime.execute_code(PROGRAM, path=path)  # type: ignore[arg-type]
        sys.setprofile(note)
        try:
            result = await runtime.execute_code(f"{PROGRAM}\n", path=path)  # type: ignore[arg-type]
        finally:
            sys.setprofile(None)
    assert result.logs == "2\n", result
    return [f"{file!s:44} {function}" for file, function in seen.items()]


def main() -> None:
    """Print the ways that are asked for."""
    for path in sys.argv[1:] or ("plan", "sandbox"):
        files = asyncio.run(way(path))
        print(f"{PROGRAM}, path {path!r}: {len(files)} files")
        print(*(f"  {line}" for line in files), sep="\n")


if __name__ == "__main__":
    main()
