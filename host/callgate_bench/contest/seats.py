"""The harness's side of a contestant: its process, its definitions and answers, and its row in the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NotRequired

import pydantic
from typing_extensions import TypedDict

from callgate import Runtime, tool
from callgate.cut import cut
from callgate_bench.contest.process import PeerFailed, PeerProcess, plain
from callgate_bench.contestants.callgate_modes import words
from callgate_bench.contestants.contestant import CannotDo, Opened, Turn
from callgate_bench.contestants.listed import MODES, Listed
from callgate_bench.results import Entry
from callgate_bench.workloads import WORKLOADS
from callgate_bench.workloads.workload import Call

__all__ = ["Seat"]

_LONGEST = 500
"""Characters of a contestant's own words."""


class _Definition(TypedDict):
    name: str
    input_schema: dict[str, Any]
    description: NotRequired[str]


_DEFINITIONS = pydantic.TypeAdapter(list[_Definition])
_OPENED, _TURN = pydantic.TypeAdapter(Opened), pydantic.TypeAdapter(Turn)


class Seat(PeerProcess):
    """One contestant for the whole run.

    Args:
        listed: who it is.
        packages: of its environment.
        answer_seconds: how long a turn may take; then it is given up, and its process is ended.
        failure: why it takes no part; empty where it does.
    """

    def __init__(self, listed: Listed, packages: str = "", *, answer_seconds: float = 120.0, failure: str = "") -> None:
        module = listed.module if "." in listed.module else f"callgate_bench.contestants.{listed.module}"
        super().__init__(module, [listed.name], packages=packages, answer_seconds=answer_seconds)
        self.listed = listed
        self.failure = failure or listed.cannot
        self.version = ""
        self.sandbox = ""
        self._own_words = True

    async def ask(self, what: str, **details: Any) -> dict[str, Any]:
        """Ask the process; a process that has died is started again to `open` a workload.

        Raises:
            CannotDo: it has no way to do this.
            PeerFailed: it failed.
        """
        answer = await super().ask(what, **details)
        if "cannot" in answer:
            raise CannotDo(plain(str(answer["cannot"]), _LONGEST))
        return answer

    async def open(self, workload: str, paced: float = 1.0, *, scripted: bool = True) -> Opened:
        """Prepare the contestant for a workload; the arguments are those of `Contestant.open`. Raises as `ask` does."""
        answer = await self.ask("open", workload=workload, paced=paced, scripted=scripted)
        try:
            opened = _OPENED.validate_python(answer)
            _DEFINITIONS.validate_python(opened.tools)
        except pydantic.ValidationError as error:
            raise PeerFailed(cut(f"what it opened with is nothing for a model: {error}", _LONGEST)) from None
        self._own_words = opened.own_words
        if not self.version:
            answer = await self.ask("version")
            self.version = plain(str(answer.get("version", "")), _LONGEST)
            self.sandbox = plain(str(answer.get("sandbox", "")), _LONGEST)
        if not opened.tools:  # without a sandbox, callgate's words would say that programs have to be graphs
            tools = [tool(read_only=True)(each) for each in WORKLOADS[workload].tools]
            runtime = Runtime(tools, sandbox="jail" if opened.form == "program" else None)
            opened.tools, opened.system = words(runtime, opened.tool)
        return opened

    async def hear(self, piece: str) -> None:
        """Let the contestant hear a piece of the arguments that the model writes. Raises as `ask` does."""
        await self.ask("hear", piece=piece)

    async def act(self, calls: Sequence[Call]) -> Turn:
        """Have the contestant make the model's calls. Raises as `ask` does."""
        answer = await self.ask("turn", calls=[asdict(each) for each in calls])
        try:
            return _TURN.validate_python(answer)
        except pydantic.ValidationError as error:
            raise PeerFailed(cut(f"its answer is not a result of a turn: {error}", _LONGEST)) from None

    def entry(self) -> Entry:
        """The contestant's entry in the results."""
        return Entry(
            name=self.listed.name, title=self.listed.title, mode=self.listed.mode, ours=self.listed in MODES,
            about=self.listed.about, version=self.version, failure=self.failure, confined=self.listed.confined,
            own_words=self._own_words,
        )  # fmt: skip
