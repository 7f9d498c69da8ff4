"""What follows runs from outside never breaks one; where an audit log fails, calls with effects are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from callgate import Allow, AuditLog, Runtime, Telemetry, tool
from callgate.runtime.gate.watching import Watcher
from callgate.runtime.redaction import Redaction
from runtime.audit.audited import checked, records

pytestmark = pytest.mark.anyio

MOMENTS = ["run", "call", "approved", "calling", "ended of a call", "ended of a run"]
PROGRAM = "a = await look(x=1)\nb = await pay(x=a + 1)\n[a, b]"


class Bug(Exception):
    """Nobody expects it."""


@dataclass
class Fails:
    """Passes everything on, and fails at one moment."""

    to: Any
    moment: str
    essential: bool

    def _told(self, moment: str, method: Callable[..., Any], *args: Any) -> Any:
        if moment == self.moment:
            raise Bug(moment)
        return method(*args)

    def run(self, *args: Any) -> Any:
        return _FailingRun(self._told("run", self.to.run, *args), self.moment, self.essential)


class _FailingRun(Fails):
    def call(self, *args: Any) -> Any:
        return _FailingCall(self._told("call", self.to.call, *args), self.moment, self.essential)

    def approved(self, *args: Any) -> None:
        self._told("plan approved", self.to.approved, *args)

    def ended(self, *args: Any) -> None:
        self._told("ended of a run", self.to.ended, *args)


class _FailingCall(Fails):
    def approved(self, *args: Any) -> None:
        self._told("approved", self.to.approved, *args)

    def calling(self, *args: Any) -> None:
        self._told("calling", self.to.calling, *args)

    def ended(self, *args: Any) -> None:
        self._told("ended of a call", self.to.ended, *args)


class FailingLog(AuditLog):
    """An audit log with a bug."""

    moment = ""

    def watcher(self, redaction: Redaction) -> Watcher:
        return Fails(super().watcher(redaction), self.moment, essential=True)


@dataclass(frozen=True, kw_only=True)
class FailingTelemetry(Telemetry):
    """Telemetry with a bug."""

    moment: str

    def watcher(self, redaction: Redaction) -> Any:
        return Fails(super().watcher(redaction), self.moment, essential=False)


@pytest.fixture
def paid() -> list[int]:
    """What was paid."""
    return []


@pytest.fixture
def tools(paid: list[int]) -> list[Any]:
    """One that reads and one that has an effect."""

    @tool(read_only=True)
    async def look(x: int) -> int:
        """Reads."""
        return x

    @tool(requires_approval=True)
    async def pay(x: int) -> int:
        """Has an effect."""
        paid.append(x)
        return x

    return [look, pay]


def failures(caplog: pytest.LogCaptureFixture) -> int:
    """The exceptions that were logged."""
    logged = [each for each in caplog.records if each.exc_info]
    assert all(each.exc_info is not None and each.exc_info[0] is Bug for each in logged)
    return len(logged)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("path", ["plan", "sandbox"])
async def test_an_audit_log_that_fails_before_a_call_has_calls_with_effects_refused_and_reads_go_on(
    tmp_path: Path, tools: list[Any], paid: list[int], caplog: pytest.LogCaptureFixture, moment: str, path: Any
) -> None:
    log = FailingLog(tmp_path / "audit.jsonl")
    log.moment = moment
    sandbox: Any = "jail" if path == "sandbox" else None
    async with Runtime(tools, sandbox=sandbox, audit=log, approve=lambda _: Allow(by="ann")) as runtime:
        for _ in range(2):
            result = await runtime.execute_code(PROGRAM, path=path)
            if moment.startswith("ended"):  # it was called by then
                assert result.value == [1, 2]
            else:
                assert result.error is not None
                assert "'pay' was not called: the audit log failed" in result.error.message
                assert [call.status for call in result.calls] == ["succeeded", "refused"]
    assert paid == ([2, 2] if moment.startswith("ended") else [])
    assert failures(caplog) == 2  # one for each run, however many calls it made
    assert sum(line["kind"] == "called" for line in records(log)) == len(paid)


async def test_a_plan_whose_approval_the_log_failed_to_note_has_no_effect(
    tmp_path: Path, tools: list[Any], paid: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    log = FailingLog(tmp_path / "audit.jsonl")
    log.moment = "plan approved"
    async with Runtime(
        tools, sandbox=None, audit=log, approve=lambda _: Allow(), approve_plan=lambda _: Allow()
    ) as runtime:
        steps = [{"id": "a", "tool": "look", "arguments": {"x": 1}}, {"id": "b", "tool": "pay", "arguments": {"x": 2}}]
        result = await runtime.execute_tool_plan({"steps": steps})
    assert [step.status for step in result.steps] == ["succeeded", "failed"]
    assert paid == []
    assert failures(caplog) == 1


@pytest.mark.parametrize("moment", MOMENTS)
async def test_telemetry_that_fails_costs_spans_alone_and_the_audit_log_is_whole(
    tmp_path: Path, tools: list[Any], paid: list[int], caplog: pytest.LogCaptureFixture, moment: str
) -> None:
    pytest.importorskip("opentelemetry")
    log = AuditLog(tmp_path / "audit.jsonl", key=b"a key that nobody can guess")
    async with Runtime(
        tools, sandbox=None, telemetry=FailingTelemetry(moment=moment), audit=log, approve=lambda _: Allow(by="ann")
    ) as runtime:
        result = await runtime.execute_code(PROGRAM)
        assert result.value == [1, 2]
        assert (await runtime.answer("look", {"x": 3})).ok
        assert not (await runtime.answer("look", {"x": "no"})).ok
    assert paid == [2]
    assert failures(caplog) <= 3
    assert checked(log.path).ok
    assert [line["kind"] for line in records(log)] == [
        "opened", "run", "outcome", "approved", "called", "outcome", "run_ended", "outcome", "refused", "closed",
    ]  # fmt: skip
