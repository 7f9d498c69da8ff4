"""The slow lane against the JSON-RPC 2.0 specification's own examples, and the two lanes against each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import LimitReached, ToolError
from callgate.limits import Limits
from callgate.protocol.run import Called, RunWire, error_reply, result_reply
from callgate.runtime.gate import Gate, RunGate
from callgate.runtime.jsonrpc_lane import MAX_BATCH, answer
from callgate.tools import Registry, tool

pytestmark = pytest.mark.anyio


@tool
async def subtract(minuend: int, subtrahend: int) -> int:
    return minuend - subtrahend


@tool(name="sum")
async def total(a: int, b: int, c: int) -> int:
    return a + b + c


@tool
async def get_data() -> list[Any]:
    return ["hello", 5]


@tool
async def update(a: int = 0, b: int = 0, c: int = 0, d: int = 0, e: int = 0) -> None:
    return None


@tool
async def broken(text: str = "") -> str:
    raise RuntimeError("a secret of the host")


@tool
async def refuses(text: str, count: int = 1) -> str:
    raise ToolError(f"no {text}", data={"count": count}, retryable=True)


@tool(allowed_callers=["direct"])
async def forbidden() -> None:
    return None


def gate(**limits: Any) -> RunGate:
    tools = Registry([subtract, total, get_data, update, broken, refuses, forbidden])
    return Gate(tools).open(caller="code", limits=Limits(**limits))


async def said(message: str, **limits: Any) -> Any:
    return (await answer(json.loads(message), gate(**limits))).reply


def one(reply: Any) -> Any:
    """A reply without its words: those are the implementation's own."""
    if isinstance(reply, list):
        return [one(each) for each in reply]
    if reply is not None and "error" in reply:
        return {"id": reply["id"], "code": reply["error"]["code"], "jsonrpc": reply["jsonrpc"]}
    return reply


# https://www.jsonrpc.org/specification, section 7; the two that are no JSON at all never get this far
SPECIFICATION: dict[str, tuple[str, Any]] = {
    "positional": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}',
        {"jsonrpc": "2.0", "result": 19, "id": 1},
    ),
    "positional, swapped": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}',
        {"jsonrpc": "2.0", "result": -19, "id": 2},
    ),
    "named": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}',
        {"jsonrpc": "2.0", "result": 19, "id": 3},
    ),
    "named, swapped": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}',
        {"jsonrpc": "2.0", "result": 19, "id": 4},
    ),
    "a notification": ('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', None),
    "a notification of nothing": ('{"jsonrpc": "2.0", "method": "foobar"}', None),
    "an unknown method": (
        '{"jsonrpc": "2.0", "method": "foobar", "id": "1"}',
        {"jsonrpc": "2.0", "code": -32601, "id": "1"},
    ),
    "an invalid request": (
        '{"jsonrpc": "2.0", "method": 1, "params": "bar"}',
        {"jsonrpc": "2.0", "code": -32600, "id": None},
    ),
    "an empty batch": ("[]", {"jsonrpc": "2.0", "code": -32600, "id": None}),
    "a batch of nonsense": ("[1]", [{"jsonrpc": "2.0", "code": -32600, "id": None}]),
    "a longer one": ("[1,2,3]", [{"jsonrpc": "2.0", "code": -32600, "id": None}] * 3),
    "a mixed batch": (
        """[
            {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
            {"jsonrpc": "2.0", "method": "update", "params": [7]},
            {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
            {"foo": "boo"},
            {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
            {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
        ]""",
        [
            {"jsonrpc": "2.0", "result": 7, "id": "1"},
            {"jsonrpc": "2.0", "result": 19, "id": "2"},
            {"jsonrpc": "2.0", "code": -32600, "id": None},
            {"jsonrpc": "2.0", "code": -32601, "id": "5"},
            {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"},
        ],
    ),
    "a batch of notifications": (
        '[{"jsonrpc": "2.0", "method": "update", "params": [1,2,4]}, {"jsonrpc": "2.0", "method": "update", '
        '"params": [7]}]',
        None,
    ),
}


@pytest.mark.parametrize("name", SPECIFICATION)
async def test_an_example_of_the_specification(name: str) -> None:
    message, expected = SPECIFICATION[name]
    assert one(await said(message)) == expected


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("5", "a request is an object, not int"),
        ('{"method": "f", "id": 1}', 'a request has "jsonrpc": "2.0"'),
        ('{"jsonrpc": "2.0", "id": 1}', "a request has a method, which is text"),
        ('{"jsonrpc": "2.0", "method": "f", "params": 3}', "params are an object or an array"),
        ('{"jsonrpc": "2.0", "method": "f", "params": null, "id": 1}', "params are an object or an array"),
        ('{"jsonrpc": "2.0", "method": "f", "id": true}', "an id is text, a number or null"),
        ('{"jsonrpc": "2.0", "method": "f", "id": {}}', "an id is text, a number or null"),
        (f'{{"jsonrpc": "2.0", "method": "f", "id": "{"x" * 65}"}}', "an id has at most 64 characters"),
        ('{"jsonrpc": "2.0", "method": "f", "x": 1, "y": 1}', "a request has no member 'x'"),
        ("[]", "an empty batch"),
        (json.dumps([1] * (MAX_BATCH + 1)), f"a batch of more than {MAX_BATCH} requests"),
    ],
)
async def test_what_is_wrong_with_a_request_is_said(message: str, problem: str) -> None:
    given_ = await answer(json.loads(message), gate())
    assert given_.fault == problem
    assert given_.reply == {
        "jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request", "data": problem}, "id": None,
    }  # fmt: skip


async def test_too_many_arguments_by_position_are_refused_and_recorded() -> None:
    run = gate()
    reply = (await answer({"jsonrpc": "2.0", "method": "subtract", "params": [1, 2, 3], "id": 1}, run)).reply
    assert reply["error"]["code"] == -32602
    assert reply["error"]["message"] == "tool 'subtract': the arguments must be an object, got an array of 3 items"
    assert [record.status for record in run.records] == ["refused"]


async def test_a_request_of_any_form_may_say_its_line_which_counts_for_plain_calls_alone() -> None:
    run = gate()
    given_ = await answer([{"jsonrpc": "2.0", "method": "subtract", "params": [3, 1], "id": 1, "line": 7}], run)
    assert (given_.fault, given_.reply) == (None, [{"jsonrpc": "2.0", "result": 2, "id": 1}])
    assert [(record.status, record.line) for record in run.records] == [("succeeded", None)]


async def test_a_notification_is_carried_out_and_recorded() -> None:
    run = gate()
    assert (await answer({"jsonrpc": "2.0", "method": "subtract", "params": [1, 2]}, run)).reply is None
    assert [record.status for record in run.records] == ["succeeded"]


async def test_a_limit_ends_the_run_and_is_answered() -> None:
    run = gate(max_tool_calls=1)
    batch = [{"jsonrpc": "2.0", "method": "get_data", "id": n} for n in range(3)]
    given_ = await answer(batch, run)
    assert isinstance(given_.stop, LimitReached)
    assert given_.stop.limit == "max_tool_calls"
    assert sorted("result" in each for each in given_.reply) == [False, True]  # the third was not begun


async def fast(number: Any, method: str, arguments: dict[str, Any], run: RunGate) -> bytes:
    """What a guest's run does with a plain call."""
    try:
        return result_reply(number, await run.call(method, arguments))
    except ToolError as error:
        return error_reply(number, error)


NAMES = st.sampled_from(
    ["subtract", "sum", "get_data", "update", "broken", "refuses", "forbidden", "subtrac", "nix", ""]
)
VALUES = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([None, True, "1", "x", "é", "\ud800", 1.0, 1.5, 2**70, [], [1], {}, {"a": 1}]),
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        ["minuend", "subtrahend", "a", "b", "c", "text", "count", "name", "self", "method", "context", "x y"]
    ),
    VALUES,
    max_size=4,
)
FITTING = st.fixed_dictionaries({"minuend": st.integers(), "subtrahend": st.integers()}) | st.fixed_dictionaries(
    {"text": st.text(max_size=3)}, optional={"count": st.integers()}
)


@given(NAMES, ARGUMENTS | FITTING, st.integers(-(2**53), 2**53) | st.text(max_size=5))
async def test_the_lanes_answer_a_plain_request_alike(name: str, arguments: dict[str, Any], number: Any) -> None:
    message = {"jsonrpc": "2.0", "method": name, "params": arguments, "id": number}
    one_gate, other_gate = gate(), gate()
    events = list(RunWire(Limits()).receive(json.dumps(message).encode() + b"\n"))
    assert events == ([Called(number, name, arguments)] if name else [Called(number, "", arguments)])
    quick = await fast(number, name, arguments, one_gate)
    slow = await answer(message, other_gate)
    assert json.loads(quick) == slow.reply
    assert slow.fault is None
    assert slow.stop is None
    told = [(each.tool, each.status, each.error, each.arguments) for each in one_gate.records]
    assert told == [(each.tool, each.status, each.error, each.arguments) for each in other_gate.records]


@given(st.lists(st.tuples(NAMES, ARGUMENTS | FITTING), min_size=1, max_size=5))
async def test_a_batch_is_answered_as_its_requests_are_one_by_one(calls: list[tuple[str, dict[str, Any]]]) -> None:
    batch = [{"jsonrpc": "2.0", "method": name, "params": params, "id": n} for n, (name, params) in enumerate(calls)]
    together = (await answer(batch, gate())).reply
    assert together == [(await answer(message, gate())).reply for message in batch]
