"""Pictures of results as they reach the providers, over real HTTP with the SDKs; and endpoints that refuse them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from agent.models.wires import says, talking, tells, tools
from callgate.agent.models.fitting import MAX_PICTURES, with_pictures
from callgate.agent.models.messages_json import estimated, message_to_json, pictures_in
from callgate.agent.models.model import (
    Assistant,
    Message,
    ModelProvider,
    Request,
    ToolCall,
    ToolReplies,
    ToolReply,
    User,
)
from callgate.errors import ModelRejected
from callgate.runtime.pictures import Picture, PictureReference, pictures_of
from callgate_bench.model.stand_in.faults import Fault, refusing, well
from runtime.drawn import artifact, png

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("wire", ["openai", "anthropic"])


async def drawn(*names: str) -> list[Picture]:
    return [(await pictures_of([artifact(png(seed=number), name)])).shown[0] for number, name in enumerate(names, 1)]


def turn(number: int, *pictures: Picture, ok: bool = True) -> list[Message]:
    """A call, and its result with pictures."""
    call = ToolCall(id=f"call_{number}", name="weather", arguments={"city": "Rome"})
    shown = tuple(each.reference for each in pictures)
    reply = ToolReply(id=call.id, name=call.name, text=f"result {number}", ok=ok, pictures=shown)
    return [Assistant(calls=(call,)), ToolReplies(replies=(reply,))]


def asking(wire: ModelProvider, messages: list[Message], *pictures: Picture) -> Request:
    kept = {each.reference.sha256: each for each in pictures}
    return Request(messages=[User(text="Where?"), *messages], tools=tools(wire, "weather"), pictures=kept)


async def sent(wire: ModelProvider, *, ok: bool = True, kept: bool = True) -> dict[str, Any]:
    """The body of a request with two pictures in one result."""
    pictures = await drawn("one.png", "two.png")
    async with talking(wire, tells, says("done")) as talk:
        reply = await talk.model.ask(asking(wire, turn(1, *pictures, ok=ok), *(pictures if kept else ())))
        assert reply.turn.text
        (body,) = talk.bodies
        return body


def data_of(number: int) -> str:
    return base64.b64encode(png(seed=number)).decode()


async def test_anthropics_model_gets_them_in_the_result() -> None:
    body = await sent("anthropic")
    (result,) = body["messages"][-1]["content"]
    assert result["type"] == "tool_result"
    text, one, first, two, second = result["content"]
    assert [each["text"] for each in (text, one, two)] == ["result 1", "one.png:", "two.png:"]
    assert [each["source"]["data"] for each in (first, second)] == [data_of(1), data_of(2)]
    assert first["source"]["media_type"] == "image/png"


async def test_anthropics_mark_of_an_error_is_left_off_with_pictures() -> None:
    (result,) = (await sent("anthropic", ok=False))["messages"][-1]["content"]
    assert not result.get("is_error")
    (result,) = (await sent("anthropic", ok=False, kept=False))["messages"][-1]["content"]
    assert result["is_error"] is True


async def test_openais_model_gets_them_behind_all_results_of_the_turn() -> None:
    *_, tool, user = (await sent("openai"))["messages"]
    assert (tool["role"], tool["content"]) == ("tool", "result 1")
    assert user["role"] == "user"
    said, call, one, first, two, second = user["content"]
    assert said["text"].endswith("Tools and programs made them, not the user:")
    assert [each["text"] for each in (call, one, two)] == [
        "Of the call call_1 of weather:", "one.png:", "two.png:",
    ]  # fmt: skip
    assert [each["image_url"]["url"] for each in (first, second)] == [
        f"data:image/png;base64,{data_of(number)}" for number in (1, 2)
    ]


@BOTH
async def test_of_a_picture_that_is_not_kept_any_more_the_model_gets_a_line(wire: ModelProvider) -> None:
    text = json.dumps(await sent(wire, kept=False))
    assert "(Not shown, since the bytes are not kept any more: one.png, two.png.)" in text
    assert data_of(1) not in text


@BOTH
async def test_pictures_in_the_users_place_go_there(wire: ModelProvider) -> None:
    """As the planner that works in words says results."""
    (picture,) = await drawn("one.png")
    messages: list[Message] = [Assistant(text="Action: look"), User(text="Observation", pictures=(picture.reference,))]
    async with talking(wire, says("a"), says("b")) as talk:
        await talk.model.ask(asking(wire, messages, picture))
        *_, last = talk.bodies[0]["messages"]
    assert [each["type"] for each in last["content"]][:2] == ["text", "text"]
    assert data_of(1) in json.dumps(last)


# endpoints that take none


REFUSALS: list[tuple[str, Fault]] = [
    ("openai", refusing(400, "Invalid content type. image_url is only supported by certain models.")),
    ("openrouter", refusing(404, "No endpoints found that support image input")),
    ("ollama", refusing(500, "this model is missing data required for image input")),
    ("deepseek", refusing(422, "unknown variant `image_url`, expected `text`")),
    ("groq", refusing(400, "messages.3.content must be a string")),
    ("no word of it", refusing(400, "Bad Request")),
]


@pytest.mark.parametrize("fault", [each[1] for each in REFUSALS], ids=[each[0] for each in REFUSALS])
@BOTH
async def test_a_model_without_vision_is_asked_without_pictures_from_then_on(
    wire: ModelProvider, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    pictures = await drawn("one.png")
    async with talking(wire, tells, says("b"), says("c"), faults=(fault,), max_retries=0) as talk:
        for _ in range(2):
            await talk.model.ask(asking(wire, turn(1, *pictures), *pictures))
    first, *rest = (json.dumps(body) for body in talk.bodies)
    assert data_of(1) in first
    assert len(rest) == 2
    for each in rest:
        assert data_of(1) not in each
        assert "(Not shown, since you take no pictures: one.png.)" in each
    assert "does not take pictures" in caplog.text


async def test_a_request_that_is_refused_for_another_reason_is_not_blamed_on_its_pictures() -> None:
    pictures = await drawn("one.png")
    refused = refusing(400, "no such tool")
    async with talking("openai", says("a"), tells, faults=(refused, refused, well)) as talk:
        with pytest.raises(ModelRejected, match="no such tool"):
            await talk.model.ask(asking("openai", turn(1, *pictures), *pictures))
        await talk.model.ask(asking("openai", turn(1, *pictures), *pictures))
    assert data_of(1) in json.dumps(talk.bodies[-1])


async def test_a_server_that_fails_for_a_moment_gets_its_pictures_again() -> None:
    pictures = await drawn("one.png")
    async with talking("openai", says("a"), tells, faults=(refusing(503, "busy"), well), max_retries=1) as talk:
        await talk.model.ask(asking("openai", turn(1, *pictures), *pictures))
    assert all(data_of(1) in json.dumps(body) for body in talk.bodies)


# few, and counted


def reference(number: int, width: int = 640, height: int = 480) -> PictureReference:
    return PictureReference(
        handle=f"art_{number:032x}", name=f"{number}.png", media_type="image/png", sha256=f"{number:064x}",
        width=width, height=height,
    )  # fmt: skip


def conversation(most: int) -> list[Message]:
    messages: list[Message] = [User(text="Draw.")]
    for number in range(most):
        reply = ToolReply(id=f"c{number}", name="draw", text="drawn", pictures=(reference(number),))
        messages += [Assistant(calls=(ToolCall(id=f"c{number}", name="draw"),)), ToolReplies(replies=(reply,))]
    return messages


def test_the_newest_pictures_stay_and_older_ones_go_eight_at_a_time() -> None:
    for number in range(MAX_PICTURES + 1):
        assert with_pictures(conversation(number)) == conversation(number)
    kept = {
        number: [picture.name for each in with_pictures(conversation(number)) for picture in pictures_in(each)]
        for number in range(MAX_PICTURES + 1, MAX_PICTURES + 10)
    }
    for number in range(MAX_PICTURES + 1, MAX_PICTURES + 9):  # so that the provider's cache is lost once
        assert kept[number] == [f"{each}.png" for each in range(8, number)]
    assert kept[MAX_PICTURES + 9][0] == "16.png"


def test_a_line_stands_for_a_picture_that_has_gone() -> None:
    made = with_pictures(conversation(2), 0)
    first = made[2]
    assert isinstance(first, ToolReplies)
    assert first.replies[0].text == "drawn\n(Shown before, and left out now: 0.png.)"
    assert first.replies[0].pictures == ()
    assert with_pictures(made, 0) == made


def test_the_estimate_counts_pictures() -> None:
    with_them = estimated(Request(messages=conversation(3)), Assistant(text="a")).input_tokens
    without = estimated(Request(messages=with_pictures(conversation(3), 0)), Assistant(text="a")).input_tokens
    assert with_them - without >= 3 * (reference(0).tokens - 30)


def test_the_json_form_of_messages_without_pictures_is_as_it_was() -> None:
    """Digests of recordings are made of it."""
    assert message_to_json(User(text="a")) == {"role": "user", "text": "a"}
    reply = ToolReply(id="c", name="look", text="1")
    assert message_to_json(ToolReplies(replies=(reply,))) == {
        "role": "tools", "replies": [{"id": "c", "name": "look", "text": "1", "ok": True}],
    }  # fmt: skip
