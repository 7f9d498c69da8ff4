"""Asking before a call: yes, no, other arguments, and everything that can go wrong in asking."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from callgate.errors import InvalidArguments, ToolNotAllowed
from callgate.limits import Limits
from callgate.runtime.gate import Allow, ApprovalRequest, Deny, Gate, RunGate
from callgate.tools import Registry, tool

pytestmark = pytest.mark.anyio


@tool(requires_approval=True)
async def pay(amount: int, to: str = "shop") -> str:
    return f"{amount} to {to}"


def run_with(answer: Any, *tools: Any) -> RunGate:
    async def approve(request: ApprovalRequest) -> Any:
        return answer

    return Gate(Registry(tools or [pay]), approve=approve).open(caller="code", limits=Limits())


@pytest.mark.parametrize("answer", [Allow(), True])
async def test_yes_lets_the_call_through(answer: Any) -> None:
    run = run_with(answer)
    assert await run.call("pay", {"amount": 5}) == '"5 to shop"'
    assert run.records[0].status == "succeeded"
    assert run.records[0].changed_arguments is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Deny("too much"), "the call of tool 'pay' was denied: too much"),
        (Deny(), "the call of tool 'pay' was denied"),
        (False, "the call of tool 'pay' was denied"),
        ("yes", "the call of tool 'pay' was denied: the approval could not be obtained"),
        (None, "the call of tool 'pay' was denied: the approval could not be obtained"),
    ],
)
async def test_anything_but_yes_is_no(answer: Any, message: str) -> None:
    run = run_with(answer)
    with pytest.raises(ToolNotAllowed) as caught:
        await run.call("pay", {"amount": 5})
    assert (caught.value.message, caught.value.code) == (message, -32002)
    assert (run.records[0].status, run.records[0].attempts, run.records[0].error) == ("denied", 0, message)


async def test_the_arguments_may_be_changed() -> None:
    run = run_with(Allow({"amount": 3}))
    assert await run.call("pay", {"amount": 5, "to": "me"}) == '"3 to shop"'
    assert run.records[0].arguments == {"amount": 5, "to": "me"}
    assert run.records[0].changed_arguments == {"amount": 3}


async def test_changed_arguments_are_validated_again() -> None:
    run = run_with(Allow({"amount": "3"}))
    with pytest.raises(InvalidArguments, match="argument 'amount' must be a valid integer"):
        await run.call("pay", {"amount": 5})
    assert run.records[0].status == "refused"
    with pytest.raises(InvalidArguments, match="the arguments must be an object, got an array of 0 items"):
        await run_with(Allow([])).call("pay", {"amount": 5})  # type: ignore[arg-type]


async def test_nobody_is_asked_about_wrong_arguments() -> None:
    with pytest.raises(InvalidArguments):
        await run_with(Deny("asked")).call("pay", {})


async def test_without_anybody_to_ask_the_call_is_refused_and_the_operator_told_what_to_do() -> None:
    run = Gate(Registry([pay])).open(caller="code", limits=Limits())
    with pytest.raises(
        ToolNotAllowed,
        match=r"^tool 'pay' needs approval, and there is nobody to ask: the operator must pass approve=\.\.\. to the ",
    ):
        await run.call("pay", {"amount": 5})
    assert run.records[0].status == "refused"


async def test_a_callback_that_raises_is_a_no_and_its_text_stays_on_the_host(caplog: pytest.LogCaptureFixture) -> None:
    async def approve(request: ApprovalRequest) -> bool:
        raise RuntimeError("the vault's address")

    run = Gate(Registry([pay]), approve=approve).open(caller="code", limits=Limits())
    with pytest.raises(
        ToolNotAllowed, match=r"^the call of tool 'pay' was denied: the approval could not be obtained$"
    ):
        await run.call("pay", {"amount": 5})
    assert "the vault's address" in caplog.text


async def test_the_request_says_what_is_asked_and_is_a_copy() -> None:
    requests: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        request.arguments["amount"] = 1_000
        return True

    run = Gate(Registry([pay]), approve=approve).open(caller="plan", limits=Limits())
    assert await run.call("pay", {"amount": 5}) == '"5 to shop"'
    assert (requests[0].tool, requests[0].caller, requests[0].call_id) == (pay, "plan", 1)


async def test_a_sync_callback_will_do() -> None:
    def approve(request: ApprovalRequest) -> bool:
        return True

    gate = Gate(Registry([pay]), approve=approve)  # type: ignore[arg-type]
    assert await gate.open(caller="code", limits=Limits()).call("pay", {"amount": 5})


async def test_the_end_of_the_run_ends_the_asking() -> None:
    async def approve(request: ApprovalRequest) -> bool:
        await anyio.sleep_forever()
        return True

    run = Gate(Registry([pay]), approve=approve).open(caller="code", limits=Limits())
    async with anyio.create_task_group() as group:
        group.start_soon(run.call, "pay", {"amount": 5})
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert run.records[0].status == "cancelled"


async def test_a_hit_in_the_cache_does_not_get_around_the_approval() -> None:
    @tool(requires_approval=True, read_only=True, cache_seconds=60)
    async def secret() -> str:
        return "s"

    answers = [True, False, True]

    async def approve(request: ApprovalRequest) -> bool:
        return answers.pop(0)

    run = Gate(Registry([secret]), approve=approve).open(caller="code", limits=Limits())
    await run.call("secret", {})
    with pytest.raises(ToolNotAllowed):
        await run.call("secret", {})
    await run.call("secret", {})
    assert [record.cached for record in run.records] == [False, False, True]


async def test_changed_arguments_have_their_own_place_in_the_cache() -> None:
    @tool(requires_approval=True, read_only=True, cache_seconds=60)
    async def read(path: str) -> str:
        return path

    answers: list[Any] = [True, Allow({"path": "b"}), True]

    async def approve(request: ApprovalRequest) -> Any:
        return answers.pop(0)

    run = Gate(Registry([read]), approve=approve).open(caller="code", limits=Limits())
    assert [await run.call("read", {"path": path}) for path in "aab"] == ['"a"', '"b"', '"b"']
    assert [record.cached for record in run.records] == [False, False, True]


async def test_a_person_who_thinks_holds_no_place() -> None:
    asked, go = anyio.Event(), anyio.Event()

    async def approve(request: ApprovalRequest) -> bool:
        asked.set()
        await go.wait()
        return True

    @tool
    async def free() -> int:
        return 1

    gate = Gate(Registry([pay, free]), approve=approve)
    run = gate.open(caller="code", limits=Limits(max_concurrent_calls=1))
    async with anyio.create_task_group() as group:
        group.start_soon(run.call, "pay", {"amount": 5})
        await asked.wait()
        with anyio.fail_after(5):
            assert await run.call("free", {}) == "1"
        go.set()
