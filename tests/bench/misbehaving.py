"""A contestant that behaves badly in the way that its argument names: ``python -m bench.misbehaving WAY``."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from callgate.bench.contestants.seat import CannotDo, Opened, Turn, answered, cannot_or
from callgate.bench.serving import serve


class Misbehaving:
    def __init__(self, way: str) -> None:
        self._way = way

    @cannot_or
    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        match self._way:
            case "raises at once":
                raise RuntimeError("no such thing here")
            case "cannot at once":
                raise CannotDo("it has no loops")
            case "drives the terminal":
                raise RuntimeError("\x1b[2J\x1b]0;owned\x07 and\nmore " + "x" * 1000)
            case "exits at once":
                print("ImportError: no module named peer", file=sys.stderr, flush=True)
                os._exit(3)
            case "opens with nonsense":
                return {"tools": "all of them", "form": "program"}
        tools = [{"name": "run", "description": "Run.", "input_schema": {"type": "object", "properties": {}}}]
        own_words = self._way != "borrows words"
        return answered(Opened(tools=tools, form="program", tool="run", argument="code", own_words=own_words))

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        match self._way:
            case "hangs":
                await asyncio.Event().wait()
            case "hangs for good":
                time.sleep(3600)  # noqa: ASYNC251
            case "leaves a child and hangs":
                child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)  # misbehaving"])  # noqa: ASYNC220
                print("child", child.pid, file=sys.stderr, flush=True)
                await asyncio.Event().wait()
            case "leaves a session":
                child = subprocess.Popen(  # noqa: ASYNC220
                    [sys.executable, "-c", "import time; time.sleep(3600)  # misbehaving"], start_new_session=True
                )
                print("child", child.pid, file=sys.stderr, flush=True)
            case "leaves a session and aborts":
                subprocess.Popen(  # noqa: ASYNC220
                    [sys.executable, "-c", "import time; time.sleep(3600)  # misbehaving"], start_new_session=True
                )
                os.abort()
            case "reads what is not for it":
                taken = subprocess.run(["head", "-c1"], capture_output=True, check=False).stdout  # noqa: ASYNC221
                return answered(Turn(texts=[f"answer: {taken!r}"], seconds=0.0))
            case "aborts afterwards":
                asyncio.get_running_loop().call_later(0.05, os.abort)
            case "aborts":
                os.abort()
            case "raises":
                raise ValueError("the peer's own fault")
            case "cannot":
                raise CannotDo("it knows no classes")
            case "speaks out of turn":
                os.write(1, b"not JSON\n" * 1000)
            case "floods":
                return answered(Turn(texts=["x" * 80_000_000], seconds=0.0))
            case "gives too few texts":
                return answered(Turn(texts=[], seconds=0.0))
            case "gives nonsense":
                return {"text": 7}
            case "gives no texts":
                return answered(Turn(texts=[7], seconds=0.0))  # type: ignore[list-item]
            case "takes less than no time":
                return answered(Turn(texts=["answer: 1"], seconds=-1.0))
            case "says a number":
                return 7  # type: ignore[return-value]
        return answered(Turn(texts=["answer: nothing of the kind"], seconds=0.001))

    async def version(self) -> dict[str, Any]:
        return {"version": "1.0"}


if __name__ == "__main__":
    if sys.argv[1] == "says something deep":
        print("[" * 100_000, flush=True)
    asyncio.run(serve(Misbehaving(sys.argv[1])))
