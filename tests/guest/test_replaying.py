"""A guest that replays: it pulls one event at a time, and with the same events it does the same again."""

from __future__ import annotations

from typing import Any

import pytest

from guest.replay_programs import PROGRAMS
from guest.replayed import START, replayed

CUT = (
    "as_completed of coroutines",
    "a task group that fails",
    "wait_for",
    "calls of plain functions",
    "a cancelled call",
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_again(name: str) -> None:
    for order in range(2):
        recorded = replayed(PROGRAMS[name], order=order)
        again = replayed(PROGRAMS[name], recorded.events)
        assert again.seen == recorded.seen
        assert again.waits == []
        assert again.events == recorded.events


@pytest.mark.sampled
@pytest.mark.parametrize("name", CUT)
def test_a_program_goes_on_where_its_history_ends(name: str) -> None:
    recorded = replayed(PROGRAMS[name])
    for cut in range(0, len(recorded.events), 3):
        first = replayed(PROGRAMS[name], recorded.events[:cut], order=1)
        second = replayed(PROGRAMS[name], recorded.events[:cut], order=1)
        assert first.events[:cut] == recorded.events[:cut]
        assert (first.seen, first.events, first.ran.messages) == (second.seen, second.events, second.ran.messages)


def test_another_order_is_another_run() -> None:
    values = [replayed(PROGRAMS["as_completed"], order=order).value for order in range(3)]
    assert len({str(value) for value in values}) == 3


# one event at a time


def test_a_guest_waits_once_for_each_event_behind_the_calls_that_it_made() -> None:
    found = replayed("import asyncio\nprint('x')\nawait asyncio.gather(echo(1), echo(2), asyncio.sleep(5))")
    methods = [each.get("method") for each in found.ran.messages]
    assert methods == ["print", "echo", "echo", "$wait", "$wait", "$wait", None]
    assert found.waits == [pytest.approx(START + 5)] * 3


def test_nothing_leaves_while_the_history_lasts() -> None:
    code = "print('a')\nawait echo(1)\nprint('b')\nother = echo('other')\nawait echo(2)\nprint('c')\nawait other"
    recorded = replayed(code)
    found = replayed(code, recorded.events[:2])
    assert found.before_first_wait == ["print", "print", "echo", "print"]
    assert len(found.ran.calls) == 1


def test_only_calls_without_an_answer_in_the_history_leave() -> None:
    code = "import asyncio\nawait asyncio.gather(*[echo(n) for n in range(5)])"
    recorded = replayed(code)
    answered = {event["id"] for event in recorded.events[:3]}
    found = replayed(code, recorded.events[:3])
    assert {each["id"] for each in found.ran.messages if each.get("method") == "echo"} == {1, 2, 3, 4, 5} - answered


def test_a_call_that_is_withdrawn_has_its_number() -> None:
    found = replayed(PROGRAMS["a cancelled call"])
    (withdrawn,) = (each for each in found.ran.messages if each.get("method") == "rpc.withdrawn")
    assert withdrawn["params"] == {"tool": "echo", "arguments": {"value": 1}, "number": 1, "line": 3}
    assert found.ran.cancelled == [2]


# timers


def test_timers_with_one_time_end_in_the_order_in_which_they_were_made() -> None:
    code = "import asyncio\nout = []\nasync def one(n):\n    await asyncio.sleep(0.5)\n    out.append(n)\n"
    code += "await asyncio.gather(*map(one, range(40)))\nout"
    found = replayed(code)
    assert found.value == list(range(40))
    assert len(found.events) == 1


def test_a_cancelled_timer_ends_no_wait() -> None:
    code = "import asyncio\nasyncio.get_running_loop().call_later(1, print, 'never').cancel()\nawait asyncio.sleep(2)"
    assert replayed(code).waits == [pytest.approx(START + 2)]


@pytest.mark.parametrize("seconds", ["float('inf')", "1e300", "86400 * 400"])
def test_a_timer_may_be_far_away(seconds: str) -> None:
    code = f"import asyncio\nlate = asyncio.create_task(asyncio.sleep({seconds}))\nawait echo(1)"
    assert replayed(code).value == 1


def test_a_timer_without_a_number_is_refused() -> None:
    found = replayed("import asyncio\nasyncio.get_running_loop().call_later(float('nan'), print)")
    assert "not a number" in str(found.ran.error)


# another program than the recorded one


def diverged(code: str, other: str, order: int = 0) -> dict[str, Any]:
    recorded = replayed(code, order=order)
    found = replayed(other, recorded.events)
    assert found.ran.error is not None
    assert found.ran.error["code"] == -32011
    assert found.ran.calls == []
    data: dict[str, Any] = found.ran.error["data"]
    return data


DIVERGING = {
    "other arguments": (
        "await echo(1)", "x = 2\nawait echo(x)",
        (2, 'the answer to call 1, echo({"value":1})', 'call 1, echo({"value":2})'),
    ),
    "another tool": (
        "await echo(1)", "await fail('x')",
        (1, 'the answer to call 1, echo({"value":1})', 'call 1, fail({"message":"x"})'),
    ),
    "no call": ("await echo(1)", "1", (None, 'the answer to call 1, echo({"value":1})', "the end of the program")),
    "a call less": (
        "await echo(1)\nawait echo(2)", "import asyncio\nawait echo(1)\nawait asyncio.sleep(1)",
        (None, 'the answer to call 2, echo({"value":2})', "a program that has made 1 calls and waits until 17000000"),
    ),
    "no timer": (
        "import asyncio\nawait asyncio.sleep(1)", "await echo(1)",
        (None, "the timer at 1700000001.000000", "a program that has made 1 calls and waits"),
    ),
    "a later timer": (
        "import asyncio\nawait asyncio.sleep(1)", "import asyncio\nawait asyncio.sleep(2)",
        (None, "the timer at 1700000001.000000", "a program that has made 0 calls and waits until 1700000002.000000"),
    ),
    "a call that is cancelled": (
        "await echo(1)",
        "import asyncio\nt = asyncio.create_task(echo(1))\nawait asyncio.sleep(0)\nt.cancel()\nawait asyncio.sleep(9)",
        (None, 'the answer to call 1, echo({"value":1})', "a program that has made 1 calls and waits until"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIVERGING)
def test_a_replay_that_goes_another_way_says_where(name: str) -> None:
    code, other, (line, expected, got) = DIVERGING[name]
    found = diverged(code, other)
    assert found["line"] == line
    assert found["expected"] == expected
    assert found["got"].startswith(got)


def test_arguments_are_compared_as_json_and_not_by_the_order_of_their_keys() -> None:
    recorded = replayed("await echo({'a': 1, 'b': 2})")
    assert replayed("await echo({'b': 2, 'a': 1})", recorded.events).value == {"a": 1, "b": 2}


def test_a_program_cannot_catch_that_it_diverged() -> None:
    code = "try:\n    await echo(2)\nexcept BaseException:\n    pass\n"
    assert diverged("await echo(1)", code)["line"] == 2
