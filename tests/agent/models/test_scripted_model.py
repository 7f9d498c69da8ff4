"""The scripted model plays its turns, and says clearly when it has none."""

from __future__ import annotations

import pytest

from callgate.agent.models.model import Assistant, Delta, Reply, Request, ToolCall, Usage, User
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.errors import ModelUnavailable

pytestmark = pytest.mark.anyio

REQUEST = Request(messages=[User(text="Where is it warmer?")], system="Be brief.")
ROME = ("weather", {"city": "Rome"})


async def test_each_turn_is_a_move_or_gives_one_for_the_request() -> None:
    async def later(request: Request) -> str:
        return f"{len(request.messages)} message"

    model = ScriptedModel(
        [
            "text",
            ToolCall(id="", name="weather", arguments={"city": "Rome"}),
            Calls(ROME, ("height", {}), text="Let me see."),
            ["one", Calls(ROME, text="two")],
            lambda request: request.system,
            later,
        ],
        name="m",
        provider="anthropic",
    )
    replies = [await model.ask(REQUEST) for _ in range(6)]
    assert (model.name, model.provider, len(model.requests)) == ("m", "anthropic", 6)
    assert [each.ended for each in replies] == ["answered", "calls", "calls", "calls", "answered", "answered"]
    assert [each.turn.text for each in replies] == ["text", "", "Let me see.", "one\ntwo", "Be brief.", "1 message"]
    assert replies[1].turn.calls == (ToolCall(id="call_2_1", name="weather", arguments={"city": "Rome"}),)
    assert [call.id for call in replies[2].turn.calls] == ["call_3_1", "call_3_2"]


async def test_refusals_cuts_and_empty_replies_are_replies() -> None:
    model = ScriptedModel([Say("So", refusal="I will not."), Say("So f", cut=True), Say(), ""])
    replies = [await model.ask(REQUEST) for _ in range(4)]
    assert [each.ended for each in replies] == ["refused", "cut", "empty", "empty"]
    assert replies[0].refusal == "I will not."


async def test_an_error_is_raised() -> None:
    model = ScriptedModel([ModelUnavailable("too many", status=429), "better"])
    with pytest.raises(ModelUnavailable, match="too many"):
        await model.ask(REQUEST)
    assert (await model.ask(REQUEST)).turn.text == "better"


async def test_a_turn_too_many_is_told_with_what_came_last() -> None:
    model = ScriptedModel(["only"])
    await model.ask(REQUEST)
    with pytest.raises(AssertionError, match=r"has 1 turns, and it is asked once more; last came: .*Where"):
        await model.ask(REQUEST)


@pytest.mark.parametrize("wrong", [7, [7], ("weather", {"city": "Rome"})])
async def test_what_is_no_move_is_told(wrong: object) -> None:
    with pytest.raises(AssertionError, match="turn 1 of the script"):
        await ScriptedModel([wrong]).ask(REQUEST)  # type: ignore[list-item]


async def test_text_and_arguments_are_told_in_pieces() -> None:
    told: list[Delta] = []
    said = Say("a text of more than one piece", calls=Calls(ROME), restarts=1)
    reply = await ScriptedModel([said]).ask(REQUEST, on_delta=told.append)
    assert reply.attempts == 2
    begin = next(position for position, each in enumerate(told) if each.restarted)
    assert begin == 1
    assert "".join(each.text for each in told[begin:]) == "a text of more than one piece"
    assert "".join(each.arguments for each in told) == '{"city": "Rome"}'
    assert next(each.name for each in told if each.call == 0) == "weather"


async def test_a_long_text_is_told_in_a_bounded_number_of_pieces() -> None:
    told: list[Delta] = []
    text = "x" * 10_000_001
    await ScriptedModel([Say(text, calls=Calls(("save", {"text": text})))]).ask(REQUEST, on_delta=told.append)
    assert len(told) < 25_000
    assert "".join(each.text for each in told) == text
    assert "".join(each.arguments for each in told) == f'{{"text": "{text}"}}'


async def test_four_characters_are_a_token() -> None:
    model = ScriptedModel(["eight ch", Say("a", usage=Usage(input_tokens=5))])
    first, second = await model.ask(REQUEST), await model.ask(REQUEST)
    assert first.usage.output_tokens == 2
    assert 20 < first.usage.input_tokens < 100
    assert second == Reply(turn=Assistant(text="a"), ended="answered", usage=Usage(input_tokens=5), model="scripted")


async def test_requests_are_kept_as_they_were() -> None:
    messages = [User(text="a")]
    model = ScriptedModel(["b"])
    await model.ask(Request(messages=messages))
    messages.append(User(text="c"))
    assert model.requests[0].messages == (User(text="a"),)
    await model.aclose()


async def test_a_text_is_no_script() -> None:
    with pytest.raises(TypeError, match=r"a script is a list of turns, and this is a text: \['hello'\]"):
        ScriptedModel("hello")
