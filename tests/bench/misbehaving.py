"""A contestant that behaves badly in the way that its argument names: ``python -m bench.misbehaving WAY``."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from callgate_bench.contestants.contestant import CannotDo, Contestant, Opened, Turn
from callgate_bench.serving import serve

TOOL = {"name": "run", "description": "Run.", "input_schema": {"type": "object", "properties": {}}}
ANSWERS: Mapping[str, Any] = {
    "gives too few texts": {"texts": [], "seconds": 0.0},
    "gives nonsense": {"text": 7},
    "gives no texts": {"texts": [7], "seconds": 0.0},
    "takes less than no time": {"texts": ["answer: 1"], "seconds": -1.0},
    "floods": {"texts": ["x" * 80_000_000], "seconds": 0.0},
    "says a number": 7,
}
SHOWS: Mapping[str, Any] = {
    "opens with nonsense": {"tools": "all of them", "form": "program"},
    "shows a tool that is none": {"tools": [{"name": "run", "input_schema": {"type": 7}}], "form": "program"},
    "asks for a form of its own": {"tools": [TOOL], "form": "poem"},
    "searches with nonsense": {"tools": [TOOL], "form": "program", "first": [[{"tool": 7}]]},
}


class Misbehaving(Contestant):
    packages = ("pytest",)

    def __init__(self, way: str) -> None:
        super().__init__()
        self._way = way

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        if self._way == "exits at once":
            print("ImportError: no module named peer", file=sys.stderr, flush=True)
            os._exit(3)
        if self._way in SHOWS:
            return dict(SHOWS[self._way])
        return await super().open(workload, paced, scripted)

    async def show(self) -> Opened:
        match self._way:
            case "raises at once":
                raise RuntimeError("no such thing here")
            case "cannot at once":
                raise CannotDo("it has no loops")
            case "drives the terminal":
                raise RuntimeError("\x1b[2J\x1b]0;owned\x07 and\nmore " + "x" * 1000)
        return Opened(tools=[TOOL], tool="run", own_words=self._way != "borrows words")

    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if self._way in ANSWERS:
            answer: dict[str, Any] = ANSWERS[self._way]
            return answer
        return await super().turn(calls)

    async def act(self, calls: Sequence[Mapping[str, Any]]) -> Turn:
        text = "answer: nothing of the kind"
        if self._way.startswith("leaves a"):
            sleep = [sys.executable, "-c", "import time; time.sleep(3600)  # misbehaving"]
            subprocess.Popen(sleep)  # noqa: ASYNC220
        match self._way:
            case "hangs" | "leaves a child and hangs":
                await asyncio.Event().wait()
            case "hangs for good":
                time.sleep(3600)  # noqa: ASYNC251
            case "reads what is not for it":
                text = f"answer: {subprocess.run(['head', '-c1'], capture_output=True, check=False).stdout!r}"  # noqa: ASYNC221
            case "aborts afterwards":
                asyncio.get_running_loop().call_later(0.05, os.abort)
            case "aborts" | "leaves a child and aborts":
                os.abort()
            case "raises":
                raise ValueError("the peer's own fault")
            case "cannot":
                raise CannotDo("it knows no classes")
            case "speaks out of turn":
                os.write(1, b"not JSON\n" * 1000)
        return Turn(texts=[text])


if __name__ == "__main__":
    if sys.argv[1] == "says something deep":
        print("[" * 100_000, flush=True)
    asyncio.run(serve(Misbehaving(sys.argv[1])))
