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
    async def open(self, workload: str, paced: float = 1.0) -> dict[str, Any]:
        match self._way:
            case "raises at once":
                raise RuntimeError("no such thing here")
            case "cannot at once":
                raise CannotDo("it has no loops")
            case "exits at once":
                print("ImportError: no module named peer", file=sys.stderr, flush=True)
                os._exit(3)
        tools = [{"name": "run", "description": "Run.", "input_schema": {"type": "object", "properties": {}}}]
        return answered(Opened(tools=tools, form="program", tool="run", argument="code"))

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
        return answered(Turn(texts=["answer: nothing of the kind"], seconds=0.001))

    async def version(self) -> dict[str, Any]:
        return {"version": "1.0"}


if __name__ == "__main__":
    asyncio.run(serve(Misbehaving(sys.argv[1])))
