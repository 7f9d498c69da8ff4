"""Asking before a call: yes, no, other arguments, and everything that can go wrong in asking."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from callgate.errors import InvalidArguments, ToolNotAllowed
from callgate.runtime.gate import Allow, ApprovalRequest, Deny, RunGate
from callgate.tools import tool
from runtime.gated import failure_of, run_of

pytestmark = pytest.mark.anyio


@tool(requires_approval=True)
async def pay(amount: int, to: str = "shop") -> str:
    return f"{amount} to {to}"


@tool(requires_approval=True, read_only=True, cache_seconds=60)
async def read(path: str) -> str:
    return path


def run_with(*answers: Any) -> RunGate:
    """A run whose calls get these answers, one after the other."""
    left = list(answers)

    async def approve(request: ApprovalRequest) -> Any:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return run_of(pay, read, approve=approve)


@pytest.mark.parametrize("answer", [Allow(), True])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_yes_lets_the_call_through(answer: Any, is_async: bool) -> None:
    run = run_with(answer) if is_async else run_of(pay, approve=lambda request: answer)
    assert await run.call("pay", {"amount": 5}) == '"5 to shop"'
    assert run.records[0].status == "succeeded"
    assert run.records[0].changed_arguments is None


@pytest.mark.parametrize(
    ("answer", "reason", "logged"),
    [
        (Deny("too much"), ": too much", ""),
        (Deny(), "", ""),
        (False, "", ""),
        ("yes", ": the approval could not be obtained", "answered 'yes' for tool 'pay', not Allow, Deny or a bool"),
        (None, ": the approval could not be obtained", "answered None"),
        (RuntimeError("the vault's address"), ": the approval could not be obtained", "the vault's address"),
    ],
)
async def test_anything_but_yes_is_no(answer: Any, reason: str, logged: str, caplog: pytest.LogCaptureFixture) -> None:
    run = run_with(answer)
    error = await failure_of(run, "pay", {"amount": 5})
    assert isinstance(error, ToolNotAllowed)
    assert (error.message, error.code) == (f"the call of tool 'pay' was denied{reason}", -32007)
    assert (run.records[0].status, run.records[0].attempts, run.records[0].error) == ("denied", 0, error.message)
    assert logged in caplog.text


async def test_the_arguments_may_be_changed() -> None:
    run = run_with(Allow({"amount": 3}))
    assert await run.call("pay", {"amount": 5, "to": "me"}) == '"3 to shop"'
    assert run.records[0].arguments == {"amount": 5, "to": "me"}
    assert run.records[0].changed_arguments == {"amount": 3}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"amount": "3"}, "argument 'amount' must be a valid integer"),
        ([], "must be an object, got an array of 0 items"),
    ],
)
async def test_changed_arguments_are_validated_again(changed: Any, message: str) -> None:
    run = run_with(Allow(changed))
    error = await failure_of(run, "pay", {"amount": 5})
    assert isinstance(error, InvalidArguments)
    assert message in error.message
    assert run.records[0].status == "refused"


async def test_nobody_is_asked_about_wrong_arguments() -> None:
    assert isinstance(await failure_of(run_with(), "pay"), InvalidArguments)


async def test_without_anybody_to_ask_the_call_is_refused_and_the_operator_told_what_to_do() -> None:
    run = run_of(pay)
    error = await failure_of(run, "pay", {"amount": 5})
    told = "tool 'pay' needs approval, and there is nobody to ask: the operator must pass approve=... to the runtime"
    assert isinstance(error, ToolNotAllowed)
    assert error.message == told
    assert run.records[0].status == "refused"


async def test_the_request_says_what_is_asked_and_is_a_copy() -> None:
    requests: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        request.arguments["amount"] = 1_000
        return True

    assert await run_of(pay, caller="plan", approve=approve).call("pay", {"amount": 5}) == '"5 to shop"'
    assert (requests[0].tool, requests[0].caller, requests[0].call_id) == (pay, "plan", 1)


async def test_the_end_of_the_run_ends_the_asking() -> None:
    async def approve(request: ApprovalRequest) -> None:
        await anyio.sleep_forever()

    run = run_of(pay, approve=approve)
    async with anyio.create_task_group() as group:
        group.start_soon(run.call, "pay", {"amount": 5})
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert run.records[0].status == "cancelled"


async def test_the_cache_does_not_get_around_the_approval_and_keeps_changed_arguments_as_such() -> None:
    run = run_with(True, False, True, Allow({"path": "b"}), True)
    given: list[str] = []
    for path in "aaaab":
        try:
            given.append(await run.call("read", {"path": path}))
        except ToolNotAllowed:
            given.append("denied")
    assert given == ['"a"', "denied", '"a"', '"b"', '"b"']
    assert [record.cached for record in run.records] == [False, False, True, False, True]
