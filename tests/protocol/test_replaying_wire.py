"""The protocol of a run that replays: its waits, its numbers, and its divergence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate.errors import ProtocolError
from callgate.limits import Limits
from callgate.protocol.run import Ended, Other, RunWire, Waits, Withdrawn

REPLAY = '{"seed":"00","start":1.0,"events":0}'


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def replaying() -> RunWire:
    wire = RunWire(Limits())
    wire.execute("1\n2\n3", '"tools":[]', "{}", replay=REPLAY)
    return wire


def test_the_request_says_that_the_guest_replays() -> None:
    request = RunWire(Limits()).execute("1", '"tools":[]', "{}", replay=REPLAY)
    assert json.loads(request)["params"]["replay"] == json.loads(REPLAY)
    assert "replay" not in json.loads(RunWire(Limits()).execute("1", '"tools":[]', "{}"))["params"]


@pytest.mark.parametrize("until", [None, 0.5, 1.7e9, -5.0])
def test_a_wait_is_an_event(until: float | None) -> None:
    assert list(replaying().receive(line(method="$wait", params={"until": until}))) == [Waits(until)]


def test_the_next_wait_comes_when_the_first_has_been_answered() -> None:
    wire, wait = replaying(), line(method="$wait", params={"until": None})
    assert list(wire.receive(wait)) == [Waits(None)]
    wire.waits = False
    assert list(wire.receive(wait)) == [Waits(None)]
    with pytest.raises(ProtocolError, match="a second event before the first one has come"):
        list(wire.receive(wait))
    assert wire.state == "broken"


@pytest.mark.parametrize("params", [{}, None, [], {"until": "1"}, {"until": 1}, {"until": True}, {"until": [1.0]}])
def test_a_wait_without_a_time_is_refused(params: Any) -> None:
    with pytest.raises(ProtocolError, match="seconds since 1970, or null"):
        list(replaying().receive(line(method="$wait", params=params)))


def test_a_wait_of_another_run_is_any_message() -> None:
    wire = RunWire(Limits())
    wire.execute("1", '"tools":[]', "{}")
    assert [type(event) for event in wire.receive(line(method="$wait", params={"until": None}))] == [Other]


@pytest.mark.parametrize(("number", "expected"), [(3, 3), (None, None), ("3", None), (True, None)])
def test_a_withdrawn_call_may_have_a_number(number: Any, expected: int | None) -> None:
    params = {"tool": "echo", "arguments": {}, "number": number}
    assert list(replaying().receive(line(method="rpc.withdrawn", params=params))) == [
        Withdrawn("echo", {}, None, expected)
    ]


def test_a_divergence_is_told_by_its_code_and_in_a_run_that_replays_alone() -> None:
    failed = line(id=1, error={"code": -32011, "message": "x", "data": {"line": 1}})
    assert list(replaying().receive(failed)) == [Ended(error={"line": 1}, diverged=True)]
    assert list(RunWire(Limits()).receive(failed)) == [Ended(error={"line": 1})]
