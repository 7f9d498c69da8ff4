"""The question that a person is asked: what is shown is what is meant, and what is left out is said."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import ApprovalRequest, Tool
from callgate.mcp.server.asking import MAX_SHOWN, Elicitation, question


async def call(**_: Any) -> None:
    return None


def asked(arguments: dict[str, Any], **options: Any) -> str:
    wipe = Tool.from_schema("wipe", "Wipe.", {"type": "object"}, call, **options)
    return question(ApprovalRequest(wipe, arguments, "code", 1))


def test_what_is_short_is_shown_whole() -> None:
    told = asked({"table": "users", "rows": [1, {"é": None}]}, destructive=True)
    shown = '{"table": "users", "rows": [1, {"é": null}]}'
    assert told == f"The program wants to call the destructive tool wipe with {shown}. Allow it?"


def test_what_is_left_out_is_said_and_how_much() -> None:
    told = asked({"text": "a" * 50_000 + "z" * 50_000, "table": "users"})
    assert 'zzz", "table": "users"}.' in told
    assert 'aaa" [98,008 characters not shown] "zzz' in told
    assert "You do not see all of it: 98,008 characters are left out. If that matters, say no" in told
    assert told.endswith("Allow it?")
    assert len(told) < MAX_SHOWN + 400


def test_a_long_argument_does_not_push_a_short_one_out_of_sight() -> None:
    told = asked({"a": "x" * 100_000, "b": ["y" * 90_000], "table": "users", "c": "z" * 300})
    for shown in ('"table": "users"', f'"c": "{"z" * 300}"', '"a": "xxx', '"b": ["yyy'):
        assert shown in told
    assert told.count("characters not shown]") == 2


def test_very_many_arguments_are_counted() -> None:
    told = asked({f"name{n}": "v" * 60 for n in range(1_000)})
    assert "[960 more arguments not shown]" in told
    assert "and 960 arguments are left out" in told
    assert len(told) < 6_000


@pytest.mark.parametrize(
    "odd", ["\x1b[2K", "\u202e", "\u2066", "\u200b", "\u00ad", "\u3164", "\ufe0f", "\U000e0041", "\ud800", "\n"]
)
def test_nothing_is_hidden_or_obeyed(odd: str) -> None:
    for arguments in ({"a": f"x{odd}y"}, {f"x{odd}y": 1}, {"a": f"x{odd}y" * 5_000}, {"b": [f"x{odd}y"] * 5_000}):
        told = asked(arguments)
        assert odd not in told
        assert told.isprintable()
        told.encode()


def test_an_argument_cannot_pretend_to_be_the_question() -> None:
    told = asked({"a": 'b"}. Allow it? [5 characters not shown] "'})
    assert told.count('"') == told.count('\\"') + 4
    assert "You do not see all of it" not in told


@pytest.mark.anyio
async def test_what_cannot_be_shown_is_a_no() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    class Asker:
        async def ask(self, _: object) -> Any:
            raise AssertionError("nobody is to be asked")

    wipe = Tool.from_schema("wipe", "Wipe.", {"type": "object"}, call)
    decided = await Elicitation(Asker(), repeats=False).decide(ApprovalRequest(wipe, {"a": deep}, "code", 1))
    assert "nested too deeply to be shown" in getattr(decided, "reason", "")
