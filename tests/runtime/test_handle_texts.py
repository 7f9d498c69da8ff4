"""A tool's text and its errors as a model reads them; arguments that came as text, and may have been cut."""

from __future__ import annotations

import json

import pytest

from callgate import InvalidArguments, Runtime, ToolError, tool
from callgate.runtime.model.decoding import decoded

pytestmark = pytest.mark.anyio


@tool
def echo(text: str) -> str:
    """Repeat the text."""
    return text


TEXTS = [
    ("Commit history:\nCommit: 'a'", "Commit history:\nCommit: 'a'"),
    ('"quoted"', '"quoted"'),
    ('{"a": 1}', '{"a": 1}'),
    ("7", "7"),
    ("null", "null"),
    ("", '""'),
    (" \n", '" \\n"'),
]


@pytest.mark.parametrize(("text", "read"), TEXTS)
async def test_a_text_is_read_as_it_is(text: str, read: str) -> None:
    async with Runtime([echo], sandbox=None) as runtime:
        answer = await runtime.answer("echo", {"text": text})
        assert (answer.text, answer.value, answer.ok) == (read, text, True)
        result = runtime.tool_result("anthropic", answer, "t1")
        assert result == {"type": "tool_result", "tool_use_id": "t1", "content": read}
        assert await runtime.conversation(direct="all").handle("echo", {"text": text}) == read


async def test_the_providers_own_code_parses_every_answer() -> None:
    async with Runtime([echo], sandbox=None) as runtime:
        for text, _ in TEXTS:
            assert json.loads(await runtime.handle("echo", {"text": text}, caller="code")) == text


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ("Error executing tool x: no", "Error executing tool x: no"),
        ("error: no", "error: no"),
        ("no such file", "Error: no such file"),
    ],
)
async def test_an_error_is_called_one_once(message: str, read: str) -> None:
    @tool
    def fails() -> None:
        """Fail."""
        raise ToolError(message)

    async with Runtime([fails], sandbox=None) as runtime:
        answer = await runtime.answer("fails", {})
        assert (answer.text, answer.ok) == (read, False)


WHOLE = json.dumps({"code": "print('\u00e9\n\\\\')", "n": -12.5e-3, "b": [True, None, {"x": False}]}, indent=1)


@pytest.mark.parametrize("name", ["execute_code", "get_weather"])
def test_arguments_that_end_in_the_middle_were_cut_by_the_token_limit(name: str) -> None:
    for end in range(1, len(WHOLE)):
        with pytest.raises(InvalidArguments) as error:
            decoded(name, WHOLE[:end], 1_000)
        assert "are not valid JSON" in error.value.message
        assert error.value.message.endswith(
            "the text ends in the middle: it was probably cut by the token limit. Make the call again, with less in it"
        ), WHOLE[:end]
    assert decoded(name, WHOLE, 1_000) == json.loads(WHOLE)


@pytest.mark.parametrize(
    "text", ["Oslo", '{"a": 1 "b": 2}', '{"a": 1}}', "{'a': 1}", '{"code": "print("x")"}', "[1,]", "NaN"]
)
def test_what_is_wrong_in_the_middle_was_not_cut(text: str) -> None:
    with pytest.raises(InvalidArguments) as error:
        decoded("get_weather", text, 1_000)
    assert "token limit" not in error.value.message
