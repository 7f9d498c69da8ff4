"""Approvals: the client's user is asked; every answer that is not a clear yes is a no."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult, InputResponse

from with_mcp.server.served import ERAS, Ear, Served, text

pytestmark = pytest.mark.anyio

WIPES = {"code": "while True:\n    x = await wipe(table='users')\n    break\nx"}


def wiped(served: Served) -> str:
    file = served.folder / "wiped"
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_user_says_yes(served: Served, era: str, transport: str) -> None:
    ear = Ear()
    if transport == "stdio":
        async with served.client(ear=ear, era=era) as client:
            result = await client.call_tool("execute_code", WIPES)
    else:
        with served.http() as (url, _):
            async with served.http_client(url, ear=ear, era=era) as client:
                result = await client.call_tool("execute_code", WIPES)
    assert text(result) == "Value: wiped users"
    assert ear.asked == ['The program wants to call the destructive tool wipe with {"table": "users"}. Allow it?']
    assert wiped(served) == "users"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("action", "reason"), [("decline", "the user said no"), ("cancel", "the user closed the question")]
)
async def test_the_user_does_not_say_yes(served: Served, era: str, action: str, reason: str) -> None:
    ear = Ear()
    ear.answer = lambda _: ElicitResult.model_validate({"action": action})
    async with served.client(ear=ear, era=era) as client:
        result = await client.call_tool("execute_code", WIPES)
    assert f"the call of tool 'wipe' was denied: {reason}" in text(result)
    assert wiped(served) == ""


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cannot_ask(served: Served, era: str) -> None:
    async with served.client(era=era, elicits=False) as client:
        result = await client.call_tool("execute_code", WIPES)
    assert "this client cannot ask its user" in text(result)
    assert "--yes" in text(result)
    assert wiped(served) == ""


async def test_the_operator_may_approve_everything(served: Served) -> None:
    async with served.client("--yes", elicits=False) as client:
        assert text(await client.call_tool("execute_code", WIPES)) == "Value: wiped users"


async def test_a_client_that_fails_at_asking(served: Served) -> None:
    def fails(_: ElicitRequestParams) -> ElicitResult:
        raise RuntimeError

    ear = Ear()
    ear.answer = fails
    async with served.client(ear=ear) as client:
        result = await client.call_tool("execute_code", WIPES)
    assert result.is_error
    assert wiped(served) == ""


@pytest.mark.parametrize("era", ERAS)
async def test_one_answer_for_all_calls_of_a_tool_in_a_run(served: Served, era: str) -> None:
    ear = Ear()
    ear.answer = lambda _: ElicitResult(action="accept", content={"always": True})
    code = "for n in range(5):\n    await wipe(table=str(n))\n"
    async with served.client(ear=ear, era=era) as client:
        await client.call_tool("execute_code", {"code": code})
        assert len(ear.asked) == 1
        await client.call_tool("execute_code", {"code": code})
    assert len(ear.asked) == 2
    assert wiped(served) == "0123401234"


@pytest.mark.parametrize("era", ERAS)
async def test_calls_made_together_are_asked_about_one_by_one(served: Served, era: str) -> None:
    ear = Ear()
    ear.answer = lambda asked: ElicitResult(action="accept" if '"a"' in asked.message else "decline")
    code = (
        "import asyncio\nwhile True:\n"
        "    got = await asyncio.gather(wipe('a'), wipe('b'), return_exceptions=True)\n    break\n[str(x) for x in got]"
    )
    async with served.client(ear=ear, era=era) as client:
        result = await client.call_tool("execute_code", {"code": code})
    first, second = result.structured_content["value"]
    assert first == "wiped a"
    assert "denied" in second
    assert len(ear.asked) == 2
    assert wiped(served) == "a"


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_is_passed_through_asks_too(served: Served, era: str) -> None:
    ear = Ear()
    async with served.client("--pass", "wipe", ear=ear, era=era) as client:
        result = await client.call_tool("wipe", {"table": "t"})
    assert text(result) == "wiped t"
    assert ear.asked == ['The model wants to call the destructive tool wipe with {"table": "t"}. Allow it?']


async def test_what_is_shown_to_the_user_cannot_deceive(served: Served) -> None:
    ear = Ear()
    async with served.client(ear=ear) as client:
        odd = "\u202e\x1b[2K" + "x" * 50_000
        await client.call_tool("execute_code", {"code": f"while True:\n    await wipe(table={odd!r})\n    break"})
    (asked,) = ear.asked
    assert asked.isprintable()
    assert len(asked) < 3_000


async def paused(client: Client) -> InputRequiredResult:
    """A call that waits for an answer."""
    result = await client.session.call_tool("execute_code", WIPES, allow_input_required=True)
    assert isinstance(result, InputRequiredResult)
    return result


async def test_a_paused_call_goes_on_once_and_only_as_it_was(served: Served) -> None:
    async with served.client(era="auto") as client:
        waiting = await paused(client)
        (key,) = waiting.input_requests or {}
        yes: dict[str, InputResponse] = {key: ElicitResult(action="accept", content={})}

        async def again(state: str | None, code: dict[str, str] = WIPES) -> CallToolResult | InputRequiredResult:
            return await client.session.call_tool(
                "execute_code", code, input_responses=yes, request_state=state, allow_input_required=True
            )

        for state, code in (("guessed", WIPES), (waiting.request_state, {"code": WIPES["code"] + "\n2"})):
            with pytest.raises(MCPError, match="no call waits for these answers"):
                await again(state, code)
        assert wiped(served) == ""
        result = await again(waiting.request_state)
        assert isinstance(result, CallToolResult)
        assert text(result) == "Value: wiped users"
        with pytest.raises(MCPError, match="no call waits for these answers"):
            await again(waiting.request_state)
    assert wiped(served) == "users"


async def test_a_paused_call_ends_with_the_runs_own_limit(served: Served) -> None:
    async with served.client("--wall-seconds", "1", era="auto") as client:
        waiting = await paused(client)
        await anyio.sleep(1.2)
        (key,) = waiting.input_requests or {}
        result = await client.session.call_tool(
            "execute_code", WIPES, input_responses={key: ElicitResult(action="accept", content={})},
            request_state=waiting.request_state, allow_input_required=True,
        )  # fmt: skip
        assert isinstance(result, CallToolResult)
        assert "wall_seconds" in text(result)
    assert wiped(served) == ""


@pytest.mark.parametrize("era", ERAS)
async def test_the_user_sees_that_a_call_has_secrets_and_not_which(served: Served, era: str) -> None:
    (served.folder / "tools.py").write_text(
        '''
from typing import Annotated
from callgate import Secret, tool

@tool(requires_approval=True)
def unlock(door: str, phrase: Annotated[str, Secret], api_key: str) -> str:
    """Unlock a door."""
    return f"{door} {len(phrase)} {len(api_key)}"
'''
    )
    ear = Ear()
    code = "await unlock('front', phrase='open sesame', api_key='key-8ab3')"
    async with served.client(ear=ear, era=era) as client:
        result = await client.call_tool("execute_code", {"code": code}, progress_callback=ear.on_progress)
    assert text(result) == "Value: front 11 8"  # the tool got the values
    (asked,) = ear.asked
    assert '{"door": "front", "phrase": "[redacted]", "api_key": "[redacted]"}' in asked
    heard = " ".join([*ear.asked, *ear.told, *(str(message) for _, message in ear.progress), served.log])
    assert "sesame" not in heard
    assert "key-8ab3" not in heard
    assert any("unlock(" in each for each in ear.told)
