"""The harness's side of a contestant: its process, begun again where it died, and what its row says of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from callgate.bench.contestants.listed import Listed
from callgate.bench.contestants.seat import CannotDo, Opened, Turn
from callgate.bench.peers.process import PeerFailed, PeerProcess
from callgate.bench.results import Entry
from callgate.bench.workloads.workload import Call

__all__ = ["Seat"]


class Seat:
    """One contestant for the whole run.

    Args:
        listed: who it is.
        python: the interpreter of its environment.
        ours: one of callgate's modes.
        answer_seconds: how long a turn may take; then it is given up, and its process is ended.
        failure: why it takes no part; empty where it does.
    """

    def __init__(self, listed: Listed, python: str, *, ours: bool, answer_seconds: float, failure: str = "") -> None:
        self.listed = listed
        self.failure = failure or listed.cannot
        self.version = ""
        self.sandbox = ""
        self._python = python
        self._ours = ours
        self._answer_seconds = answer_seconds
        self._process: PeerProcess | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.__aexit__(None, None, None)

    @property
    def pid(self) -> int | None:
        """Of its process."""
        return None if self._process is None else self._process.pid

    async def open(self, workload: str, paced: float = 1.0) -> Opened:
        """Make it ready for a workload; a process that has died is begun again.

        Raises:
            CannotDo: it has no way to do this workload.
            PeerFailed: it failed.
        """
        if self._process is not None and self._process.failure:
            await self._leave()
        if self._process is None:
            module = self.listed.module
            self._process = await PeerProcess(
                self.listed.title,
                module if "." in module else f"callgate.bench.contestants.{module}",
                answer_seconds=self._answer_seconds,
                python=self._python,
                arguments=self.listed.arguments,
            ).__aenter__()
        opened = Opened(**_able(await self._process.ask("open", workload=workload, paced=paced)))
        if not self.version:
            told = await self._process.ask("version")
            self.version, self.sandbox = str(told.get("version", "")), str(told.get("sandbox", ""))
        return opened

    async def begin(self) -> None:
        """A conversation begins. Raises `PeerFailed`."""
        if self._process is not None:
            await self._process.ask("begin")

    async def act(self, calls: Sequence[Call]) -> Turn:
        """Have it do what the model called. Raises as `open` does."""
        if self._process is None:
            raise PeerFailed("it was not opened")
        asked = [{"tool": each.tool, "arguments": dict(each.arguments)} for each in calls]
        answer = _able(await self._process.ask("turn", calls=asked))
        try:
            return Turn(**{**answer, "intervals": [(begin, end) for begin, end in answer["intervals"]]})
        except (TypeError, ValueError, KeyError) as error:
            raise PeerFailed(f"what it answered is no result of a turn: {error!r}"[:300]) from None

    def entry(self) -> Entry:
        """What the results say of it."""
        return Entry(
            name=self.listed.name, title=self.listed.title, mode=self.listed.mode, ours=self._ours,
            about=self.listed.about, version=self.version, failure=self.failure,
        )  # fmt: skip


def _able(answer: dict[str, Any]) -> dict[str, Any]:
    if "cannot" in answer:
        raise CannotDo(answer["cannot"])
    return answer
