"""What endpoints do wrongly, over real HTTP: each has a defined outcome, none a crash or an endless wait."""

from __future__ import annotations

import re
import socket
import threading
from typing import Any

import anyio
import pytest

from agent.models.wires import WIRES, asks, request, says, talking, tells, tools
from callgate.agent.models.anthropic_model import AnthropicModel
from callgate.agent.models.model import ModelProvider
from callgate.agent.models.named import model_named
from callgate.agent.models.openai_model import OpenAIModel
from callgate.errors import ModelRejected, ModelUnavailable
from callgate_bench.model.stand_in.faults import (
    dribbling,
    edited,
    ending,
    hanging_up,
    refusing,
    saying,
    stalling,
    well,
)
from callgate_bench.model.stand_in.server import KEY

pytestmark = pytest.mark.anyio

SOON = {"retry-after-ms": "1"}
Event = dict[str, Any]


@pytest.mark.parametrize("status", [429, 500, 503, 529])
@pytest.mark.parametrize("wire", WIRES)
async def test_what_passes_is_tried_again_by_the_sdk(wire: ModelProvider, status: int) -> None:
    fault = refusing(status, "wait", headers=SOON)
    async with talking(wire, says("here"), faults=(fault, fault)) as talk:
        reply = await talk.model.ask(request(), on_delta=talk.told.append)
        assert (reply.turn.text, reply.attempts, talk.said) == ("here", 3, "here")


@pytest.mark.parametrize(("status", "headers"), [(429, {"retry-after": "0.01"}), (500, SOON), (529, SOON)])
@pytest.mark.parametrize("wire", WIRES)
async def test_what_does_not_pass_is_unavailable(wire: ModelProvider, status: int, headers: dict[str, str]) -> None:
    fault = refusing(status, "too many", headers=headers)
    async with talking(wire, faults=(fault,), for_ever=True) as talk:
        with pytest.raises(ModelUnavailable, match=f"answered {status}: .*too many") as raised:
            await talk.model.ask(request())
        assert raised.value.status == status
        assert raised.value.retry_after_seconds == (0.01 if status == 429 else 0.001)
        assert len(talk.bodies) == 3


@pytest.mark.parametrize("given", ["7200", "Wed, 01 Jan 2098 00:00:00 GMT"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_pause_longer_than_two_minutes_is_told_at_once(wire: ModelProvider, given: str) -> None:
    fault = refusing(429, "too many", headers={"retry-after": given})
    async with talking(wire, faults=(fault,), for_ever=True) as talk:
        with pytest.raises(ModelUnavailable, match=r"it asks to be left alone for \d+ s") as raised:
            await talk.model.ask(request())
        assert len(talk.bodies) == 1
        pause = raised.value.retry_after_seconds
        assert pause is not None
        assert pause == 7200 if given == "7200" else pause > 10**9


@pytest.mark.parametrize("status", [400, 401, 403, 404])
@pytest.mark.parametrize("wire", WIRES)
async def test_what_the_endpoint_will_not_take_is_rejected_at_once(wire: ModelProvider, status: int) -> None:
    async with talking(wire, faults=(refusing(status, "no such thing"),), for_ever=True) as talk:
        with pytest.raises(ModelRejected, match=f"answered {status}: .*no such thing") as raised:
            await talk.model.ask(request())
        assert (raised.value.status, len(talk.bodies)) == (status, 1)


async def test_money_that_is_spent_does_not_come_back_by_waiting() -> None:
    spent = refusing(429, "quota", code="insufficient_quota", headers=SOON)
    async with talking("openai", faults=(spent,), for_ever=True) as talk:
        with pytest.raises(ModelRejected, match="quota"):
            await talk.model.ask(request())


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", [OpenAIModel, AnthropicModel])
async def test_where_nobody_listens_the_model_is_unavailable(model: Any, streamed: bool) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        asked = model("m", base_url=f"http://127.0.0.1:{bound.getsockname()[1]}", api_key="any", max_retries=0)
        with pytest.raises(ModelUnavailable, match="no connection to the model") as raised:
            await asked.ask(request(), on_delta=(lambda delta: None) if streamed else None)
        assert raised.value.status is None
        await asked.aclose()


@pytest.mark.parametrize("model", [OpenAIModel, AnthropicModel])
async def test_a_connection_that_fails_says_where_to_and_no_password(model: Any) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        place = f"127.0.0.1:{bound.getsockname()[1]}/gateway"
        asked = model("m", base_url=f"http://me:short@{place}", api_key="any", max_retries=0)
        with pytest.raises(ModelUnavailable, match=re.escape(f" (http://{place})")) as raised:
            await asked.ask(request())
        assert "short" not in str(raised.value)
        await asked.aclose()


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("fault", [hanging_up, ending])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_that_breaks_off_is_asked_for_again(wire: ModelProvider, fault: Any, after: int) -> None:
    async with talking(wire, asks, tells, faults=(fault(after),)) as talk:
        reply = await talk.model.ask(request(tools=tools(wire, "weather")), on_delta=talk.told.append)
        assert [call.arguments for call in reply.turn.calls] == [{"city": "Rome"}, {"city": "Oslo"}]
        assert (reply.attempts, len(talk.bodies)) == (2, 2)
        assert sum(delta.restarted for delta in talk.told) == 1
        assert talk.said == reply.turn.text


@pytest.mark.parametrize("fault", [hanging_up, ending])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_that_always_breaks_off_is_unavailable(wire: ModelProvider, fault: Any) -> None:
    async with talking(wire, says("never whole"), faults=(fault(2),), for_ever=True) as talk:
        with pytest.raises(ModelUnavailable, match="broke off, 3 times"):
            await talk.model.ask(request(), on_delta=talk.told.append)
        assert len(talk.bodies) == 3
        assert sum(delta.restarted for delta in talk.told) == 2


@pytest.mark.parametrize("wire", WIRES)
async def test_without_retries_of_streams_the_first_break_is_told(wire: ModelProvider) -> None:
    async with talking(wire, says("never whole"), faults=(hanging_up(2),), stream_retries=0) as talk:
        with pytest.raises(ModelUnavailable, match="broke off, once"):
            await talk.model.ask(request(), on_delta=talk.told.append)


@pytest.mark.parametrize("wire", WIRES)
async def test_an_endpoint_that_hangs_up_without_a_word_is_tried_again_by_the_sdk(wire: ModelProvider) -> None:
    async with talking(wire, says("here"), faults=(hanging_up(),), max_retries=1) as talk:
        reply = await talk.model.ask(request())
        assert (reply.turn.text, reply.attempts) == ("here", 2)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_that_falls_silent_is_asked_for_again(wire: ModelProvider) -> None:
    released = threading.Event()
    try:
        async with talking(wire, says("here it is"), faults=(stalling(2, released),), timeout_seconds=0.2) as talk:
            reply = await talk.model.ask(request(), on_delta=talk.told.append)
            assert (reply.turn.text, talk.said, len(talk.bodies)) == ("here it is", "here it is", 2)
            released.set()
    finally:
        released.set()


@pytest.mark.parametrize("wire", WIRES)
async def test_an_endpoint_that_dribbles_is_given_up(wire: ModelProvider) -> None:
    released = threading.Event()
    try:
        async with talking(wire, says("here"), faults=(dribbling(1, released),), request_seconds=0.3) as talk:
            with pytest.raises(ModelUnavailable, match=r"no whole reply of the model within 0\.3 s"):
                await talk.model.ask(request(), on_delta=talk.told.append)
            released.set()
    finally:
        released.set()


@pytest.mark.parametrize("wire", WIRES)
async def test_one_who_asks_may_be_cancelled(wire: ModelProvider) -> None:
    released = threading.Event()
    try:
        async with talking(wire, says("here"), faults=(dribbling(1, released),)) as talk:
            with anyio.move_on_after(0.2) as scope:
                await talk.model.ask(request(), on_delta=talk.told.append)
            assert scope.cancelled_caught
            released.set()
            assert (await talk.model.ask(request())).turn.text == "here"
    finally:
        released.set()


@pytest.mark.parametrize("wire", WIRES)
async def test_what_fails_in_on_delta_is_the_callers(wire: ModelProvider) -> None:
    def fails(delta: object) -> None:
        raise ZeroDivisionError

    async with talking(wire, says("a" * 1000)) as talk:
        with pytest.raises(ZeroDivisionError):
            await talk.model.ask(request(), on_delta=fails)
        assert len(talk.bodies) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"<html>Bad gateway</html>", "it sent: <html>Bad gateway</html>"),
        (b"", "gave no reply"),
        (b"[" * 100_000, "gave no reply"),
        (b"[]", r"it sent: \[\]"),
        (b"{}", "it sent: {}"),
        (b'{"choices": [7], "content": "text"}', 'it sent: {"choices": '),
        (b'{"error": {"message": "out of coal", "code": 502}}', "out of coal"),
    ],
)
@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_no_reply_is_unavailable(wire: ModelProvider, text: bytes, words: str) -> None:
    async with talking(wire, faults=(saying(text),), for_ever=True, stream_retries=0) as talk:
        for on_delta in (None, talk.told.append):
            with pytest.raises(ModelUnavailable, match=words):
                await talk.model.ask(request(), on_delta=on_delta)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_reply_is_bounded(wire: ModelProvider, streamed: bool) -> None:
    async with talking(wire, says("a" * 100_000), max_reply_bytes=50_000) as talk:
        with pytest.raises(ModelUnavailable, match="longer than 50000 bytes"):
            await talk.model.ask(request(), on_delta=talk.told.append if streamed else None)
        assert len(talk.bodies) == 1


async def test_so_is_one_of_a_provider_without_a_class_of_its_own() -> None:
    async with talking("openai", says("a" * 100_000)) as talk:
        model = model_named(
            "heroku:m", base_url=str(talk.client.base_url).removesuffix("/v1/"), api_key=KEY, max_reply_bytes=50_000
        )
        with pytest.raises(ModelUnavailable, match="longer than 50000 bytes"):
            await model.ask(request(), on_delta=talk.told.append)
        await model.aclose()


@pytest.mark.parametrize(("wire", "status"), [("openai", 500), ("anthropic", 529)])
async def test_an_overloaded_endpoint_says_so_in_the_middle_of_a_stream(wire: ModelProvider, status: int) -> None:
    def overloaded(event: Event) -> Event:
        if wire == "openai":
            is_text = event["choices"] and event["choices"][0]["delta"].get("content")
            return {"error": {"message": "Overloaded", "type": "server_error", "code": None}} if is_text else event
        if event["type"] != "content_block_delta":
            return event
        return {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    async with talking(wire, says("here"), faults=(edited(overloaded),)) as talk:
        assert (await talk.model.ask(request(), on_delta=talk.told.append)).turn.text == "here"
    async with talking(wire, says("here"), faults=(edited(overloaded),), for_ever=True) as talk:
        with pytest.raises(ModelUnavailable, match="Overloaded") as raised:
            await talk.model.ask(request(), on_delta=talk.told.append)
        assert (raised.value.status, len(talk.bodies)) == (status, 3)


@pytest.mark.parametrize("garbled", ['{"half": ', "\u2026", "[1]"])
@pytest.mark.parametrize("wire", WIRES)
async def test_an_event_that_is_no_event_ends_the_stream(wire: ModelProvider, garbled: str) -> None:
    async with talking(wire, says("here"), faults=(edited(lambda event: garbled), well)) as talk:
        try:
            assert (await talk.model.ask(request(), on_delta=talk.told.append)).turn.text == "here"
        except ModelUnavailable as error:
            assert garbled == "[1]", error  # noqa: PT017
