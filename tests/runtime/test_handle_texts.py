"""A tool's text as a model reads it: as it is, whoever is asked; and errors, called one once."""

from __future__ import annotations

import json

import pytest

from callgate import Runtime, ToolError, tool

pytestmark = pytest.mark.anyio


@tool
def said(text: str) -> str:
    """Say it."""
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
    async with Runtime([said], sandbox=None) as runtime:
        answer = await runtime.answer("said", {"text": text})
        assert (answer.text, answer.value, answer.ok) == (read, text, True)
        result = runtime.tool_result("anthropic", answer, "t1")
        assert result == {"type": "tool_result", "tool_use_id": "t1", "content": read}
        assert await runtime.conversation(direct="all").handle("said", {"text": text}) == read


async def test_the_providers_own_code_parses_every_answer() -> None:
    async with Runtime([said], sandbox=None) as runtime:
        for text, _ in TEXTS:
            assert json.loads(await runtime.handle("said", {"text": text}, caller="code")) == text


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
