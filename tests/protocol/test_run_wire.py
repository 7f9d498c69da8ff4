"""The protocol of one run: its table of states, every refusal with its words, and hostile bytes."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from callgate.errors import LimitReached, ProtocolError, ToolError
from callgate.limits import Limits
from callgate.protocol.run import (
    CallCancelled,
    Called,
    Ended,
    Event,
    Other,
    RunWire,
    Showed,
    Wrote,
    encode_tools,
    error_reply,
    result_reply,
)


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode() + b"\n"


def outcome(data: bytes, cuts: list[int] | None = None, limits: Limits | None = None) -> tuple[list[Event], str, str]:
    """Events, final state, and words of the error that ended it."""
    wire = RunWire(limits or Limits())
    events: list[Event] = []
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or ())})
    try:
        for start, end in itertools.pairwise(edges):
            events.extend(wire.receive(data[start:end]))
    except (ProtocolError, LimitReached) as error:
        return events, wire.state, f"{type(error).__name__}: {error}"
    return events, wire.state, ""


def collected(wire: RunWire, data: bytes) -> list[Event]:
    return list(wire.receive(data))


EVENTS: dict[str, tuple[bytes, Event]] = {
    "a call": (line(method="f", params={"a": 1}, id=1), Called(1, "f", {"a": 1})),
    "a call without params": (line(method="f", id=1), Called(1, "f", {})),
    "an id that is text": (line(method="f", params={}, id="x"), Called("x", "f", {})),
    "any order of members": (b'{"id":1,"params":{},"method":"f","jsonrpc":"2.0"}\n', Called(1, "f", {})),
    "white space": (b' { "jsonrpc" : "2.0", "method":"f","id":1 } \r\n', Called(1, "f", {})),
    "a print": (line(method="print", params={"text": "é"}), Wrote("é")),
    "a print of half a pair": (line(method="print", params={"text": "\ud800"}), Wrote("?")),
    "a picture": (
        line(method="rpc.display", params={"name": "a", "media_type": "image/png", "data": "AAAA"}),
        Showed("a", "image/png", "AAAA", is_text=False),
    ),
    "a page": (
        line(method="rpc.display", params={"text": "", "media_type": "text/html", "name": "é"}),
        Showed("é", "text/html", "", is_text=True),
    ),
    "a value": (line(result={"value": [1]}, id=1), Ended([1])),
    "a value that is text": (line(result={"value": None, "value_repr": "{1}"}, id=1), Ended(None, "{1}")),
    "a failure": (line(error={"code": -32010, "message": "", "data": {"kind": "X"}}, id=1), Ended(error={"kind": "X"})),
    "a batch": (b"[1]\n", Other([1])),
    "a number": (b"5\n", Other(5)),
    "another version": (
        b'{"jsonrpc":"1.0","method":"f","id":1}\n',
        Other({"jsonrpc": "1.0", "method": "f", "id": 1}),
    ),
    "no version": (b'{"method":"f","id":1}\n', Other({"method": "f", "id": 1})),
    "a notification": (line(method="f", params={}), Other({"jsonrpc": "2.0", "method": "f", "params": {}})),
    "params by position": (
        line(method="f", params=[1], id=1),
        Other({"jsonrpc": "2.0", "method": "f", "params": [1], "id": 1}),
    ),
    "a member more": (line(method="f", id=1, x=1), Other({"jsonrpc": "2.0", "method": "f", "id": 1, "x": 1})),
    "a method that is a number": (line(method=1, id=1), Other({"jsonrpc": "2.0", "method": 1, "id": 1})),
    "an id that is a fraction": (line(method="f", id=1.5), Other({"jsonrpc": "2.0", "method": "f", "id": 1.5})),
    "an id that is null": (line(method="f", id=None), Other({"jsonrpc": "2.0", "method": "f", "id": None})),
    "an id that is true": (line(method="f", id=True), Other({"jsonrpc": "2.0", "method": "f", "id": True})),
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_message_becomes_an_event(name: str) -> None:
    data, event = EVENTS[name]
    assert outcome(data) == ([event], "ended" if isinstance(event, Ended) else "running", "")


CALL = line(method="f", params={}, id=7)
SHOWN = {"name": "a", "media_type": "image/png", "data": "AAAA"}
DISPLAY = '`rpc.display` is a notification with params {"name": ..., "media_type": ..., "data" or "text": ...}'
REFUSED: dict[str, tuple[bytes, str]] = {
    "an id twice": (CALL + CALL, "the guest used the request id 7 twice"),
    "an id twice, off the fast lane": (CALL + line(method="f", params=[], id=7), "the guest used the request "
        "id 7 twice"),
    "a reply to nothing": (line(result={"value": 1}, id=2), "the guest answered a request that was never made (id 2)"),
    "a reply without an id": (
        line(result={"value": 1}),
        "the guest answered a request that was never made (id None)",
    ),
    "a reply with a true id": (
        line(result={"value": 1}, id=True),
        "the guest answered a request that was never made (id True)",
    ),
    "a reply with an id of text": (
        line(result={"value": 1}, id="1"),
        "the guest answered a request that was never made (id '1')",
    ),
    "an empty object": (line(), "the guest answered a request that was never made (id None)"),
    "a result that is none": (line(result=5, id=1), "the guest's result has no value"),
    "a result without a value": (line(result={}, id=1), "the guest's result has no value"),
    "no result": (line(id=1), "the guest's result has no value"),
    "an error that is none": (line(error=5, id=1), "the guest reported an error without its details"),
    "an error without data": (
        line(error={"code": 1, "message": ""}, id=1),
        "the guest reported an error without its details",
    ),
    "a print with an id": (
        line(method="print", params={"text": "x"}, id=1),
        '`print` is a notification with params {"text": ...}',
    ),
    "a print without text": (line(method="print"), '`print` is a notification with params {"text": ...}'),
    "a print of a number": (
        line(method="print", params={"text": 1}),
        '`print` is a notification with params {"text": ...}',
    ),
    "a print of nothing": (
        line(method="print", params={"text": ""}),
        "the guest printed nothing, which no guest does",
    ),
    "a display without params": (line(method="rpc.display"), DISPLAY),
    "a display with an id": (line(method="rpc.display", params=SHOWN, id=8), DISPLAY),
    "a display of a number": (line(method="rpc.display", params=SHOWN | {"data": 1}), DISPLAY),
    "a display of both": (line(method="rpc.display", params=SHOWN | {"text": ""}), DISPLAY),
    "a display of neither": (line(method="rpc.display", params={"name": "", "media_type": "a/b", "x": ""}), DISPLAY),
    "a display without a name": (line(method="rpc.display", params={"media_type": "a/b", "data": ""}), DISPLAY),
    "a display of two lines of type": (
        line(method="rpc.display", params=SHOWN | {"media_type": "text/html\n"}),
        "the guest displayed something of the name 'a' and type 'text/html\\n'",
    ),
    "a display of a long name": (
        line(method="rpc.display", params=SHOWN | {"name": "a" * 1_001}),
        "the guest displayed something of the name 'aaa",
    ),
    "a cancel without params": (line(method="cancel"), 'a `cancel` notification needs params {"id": ...}'),
    "a cancel with an id": (CALL + line(method="cancel", params={"id": 7}, id=8), 'a `cancel` notification '
        'needs params {"id": ...}'),
    "a cancel of true": (line(method="cancel", params={"id": True}), 'a `cancel` notification needs params '
        '{"id": ...}'),
    "a cancel of nothing": (
        line(method="cancel", params={"id": 7}),
        "the guest cancelled a call that it never made, or twice",
    ),
    "a cancel twice": (
        CALL + line(method="cancel", params={"id": 7}) * 2,
        "the guest cancelled a call that it never made, or twice",
    ),
    "no JSON": (b"{\n", "the guest sent a message that is not JSON: "),
    "an empty line": (b"\n", "the guest sent a message that is not JSON: "),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_fault_breaks_the_run(name: str) -> None:
    data, words = REFUSED[name]
    _, state, error = outcome(data)
    assert state == "broken"
    assert error.startswith(f"ProtocolError: {words}")


def test_what_comes_after_the_end_is_dropped() -> None:
    wire = RunWire(Limits())
    assert collected(wire, line(result={"value": 1}, id=1) + b"junk\n") == [Ended(1)]
    assert collected(wire, b"more junk\n") == []
    assert wire.state == "ended"


def test_what_comes_after_a_fault_is_dropped() -> None:
    wire = RunWire(Limits())
    with pytest.raises(ProtocolError):
        collected(wire, b"junk\n" + CALL)
    assert collected(wire, CALL) == []


def test_what_came_before_a_fault_counts() -> None:
    assert outcome(CALL + b"junk\n" + CALL)[0] == [Called(7, "f", {})]


LIMITS: dict[str, tuple[Limits, bytes, str]] = {
    "a message": (
        Limits(max_message_bytes=50),
        line(method="f", params={"a": "x" * 50}, id=1),
        "max_message_bytes is 50",
    ),
    "half a message": (Limits(max_message_bytes=50), b"x" * 51, "max_message_bytes is 50"),
    "a value": (Limits(max_value_bytes=50), line(result={"value": "x" * 49}, id=1), "max_value_bytes is 50, used 51"),
    "a value as text": (
        Limits(max_value_bytes=50),
        line(result={"value": None, "value_repr": "x" * 49}, id=1),
        "max_value_bytes is 50, used 55",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_breaks_the_run(name: str) -> None:
    limits, data, words = LIMITS[name]
    assert outcome(data, limits=limits) == ([], "broken", f"LimitReached: limit reached: {words}")


def test_a_value_of_exactly_the_limit_passes() -> None:
    value = "x" * 48
    assert outcome(line(result={"value": value}, id=1), limits=Limits(max_value_bytes=50))[0] == [Ended(value)]
    with_notes = line(result={"value": value, "notes": {"dropped": 3}}, id=1)
    assert outcome(with_notes, limits=Limits(max_value_bytes=50))[0] == [Ended(value, notes={"dropped": 3})]
    padded = line(result={"value": value, "notes": {"dropped": 3, "else": 1}}, id=1)
    assert outcome(padded, limits=Limits(max_value_bytes=50))[1] == "broken"


def test_logs_are_kept_up_to_the_limit() -> None:
    wire = RunWire(Limits(max_log_bytes=5))
    wire.write("abc")
    wire.write("")
    with pytest.raises(LimitReached, match=r"^limit reached: max_log_bytes is 5, used 7$"):
        wire.write("éé")
    assert "".join(wire.logs) == "abcé"


def test_the_request_is_one_line_of_json() -> None:
    tools = encode_tools([("f", "f", ["a"]), ("g_h", "g-h", ["a"]), ("i", "i", ["a b"])])
    data = RunWire(Limits(), 3).execute("1\n2", tools, '{"x":"é\\n"}')
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert json.loads(data) == {
        "jsonrpc": "2.0", "method": "execute", "id": 3,
        "params": {"code": "1\n2", "tools": ["f  a", ["g_h", "g-h", "a"], ["i", "i", "a b"]], "inputs": {"x": "é\n"}},
    }  # fmt: skip


def test_namespaces_are_in_the_request_where_there_are_any() -> None:
    tools = [("git_log", "git_log", ["n"]), ("odd", "git.odd", []), ("search_tools", "search_tools", ["query"])]
    members = {"git": {"log": "git_log", "odd": "odd"}, "": {"search": "search_tools"}}
    data = RunWire(Limits()).execute("1", encode_tools(tools, members), "{}")
    assert json.loads(data)["params"] == {
        "code": "1",
        "tools": ["git_log  n", ["odd", "git.odd"], "search_tools  query"],
        "namespaces": {"git": "log odd=odd", "": "search=search_tools"},
        "inputs": {},
    }
    assert b"namespaces" not in RunWire(Limits()).execute("1", encode_tools(tools, {}), "{}")


def test_a_request_that_is_too_long_is_not_made() -> None:
    with pytest.raises(LimitReached, match=r"^limit reached: max_message_bytes is 100, used "):
        RunWire(Limits(max_message_bytes=100)).execute("x" * 100, encode_tools([]), "{}")


def test_replies_are_one_line_of_json() -> None:
    assert result_reply(1, '{"a":"é"}') == '{"jsonrpc":"2.0","result":{"a":"é"},"id":1}\n'.encode()
    failed = error_reply("x", ToolError("no\nway", data=[1], retryable=True, tool="f"))
    assert json.loads(failed) == {
        "jsonrpc": "2.0", "id": "x",
        "error": {"code": -32000, "message": "no\nway", "data": {"tool": "f", "retryable": True, "data": [1]}},
    }  # fmt: skip


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
                    max_leaves=5)  # fmt: skip
IDS = st.integers(0, 3) | st.sampled_from(["a", "b", None, True, 1.5])
METHODS = st.sampled_from(["f", "print", "cancel", "execute", "rpc.x", ""]) | JSON
PARAMS = st.sampled_from([{"text": "x"}, {"text": ""}, {"id": 1}, {"id": "a"}, {"value": 1}]) | JSON
MEMBERS = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2])},
    optional={
        "method": METHODS,
        "params": PARAMS,
        "id": IDS,
        "result": PARAMS,
        "error": PARAMS | st.just({"data": {}}),
    },
)
LINES = st.one_of(
    MEMBERS.map(lambda each: json.dumps(each).encode()),
    st.lists(MEMBERS, max_size=3).map(lambda each: json.dumps(each).encode()),
    JSON.map(lambda each: json.dumps(each).encode()),
    st.binary(max_size=20),
)
HOSTILE = st.lists(LINES, max_size=8).map(lambda lines: b"".join(each + b"\n" for each in lines))


@given(HOSTILE, st.lists(st.integers(0, 10_000), max_size=8), st.integers(20, 200))
def test_any_split_gives_the_same_events_and_the_same_end(data: bytes, cuts: list[int], most: int) -> None:
    limits = Limits(max_message_bytes=most, max_value_bytes=20)
    whole = outcome(data, limits=limits)
    assert outcome(data, cuts, limits) == whole
    assert outcome(data, list(range(len(data))), limits) == whole


class Wire(RuleBasedStateMachine):
    """The table in the module's docstring, as a machine."""

    def __init__(self) -> None:
        super().__init__()
        self.wire = RunWire(Limits())
        self.expected = "running"
        self.used: set[Any] = set()
        self.cancelled: set[Any] = set()

    def give(self, data: bytes) -> list[Event] | None:
        """Events; ``None`` where the wire broke."""
        try:
            return list(self.wire.receive(data))
        except ProtocolError:
            return None

    @rule(number=st.integers(0, 5) | st.sampled_from("ab"), named=st.booleans())
    def call(self, number: Any, named: bool) -> None:
        events = self.give(line(method="f", params={} if named else [], id=number))
        if self.expected != "running":
            assert events == []
        elif number in self.used:
            assert events is None
            self.expected = "broken"
        else:
            assert events is not None
            assert type(events[0]) is (Called if named else Other)
            self.used.add(number)

    @rule(number=st.integers(0, 5))
    def cancel(self, number: int) -> None:
        events = self.give(line(method="cancel", params={"id": number}))
        if self.expected != "running":
            assert events == []
        elif number in self.used and number not in self.cancelled:
            assert events == [CallCancelled(number)]
            self.cancelled.add(number)
        else:
            assert events is None
            self.expected = "broken"

    @rule(text=st.text(min_size=1, max_size=3))
    def print(self, text: str) -> None:
        events = self.give(line(method="print", params={"text": text}))
        assert events == ([] if self.expected != "running" else [Wrote(text.encode("utf-8", "replace").decode())])

    @precondition(lambda self: len(self.used) > 2)
    @rule(failed=st.booleans())
    def reply(self, failed: bool) -> None:
        members: dict[str, Any] = {"error": {"data": {}}} if failed else {"result": {"value": 1}}
        events = self.give(line(id=1, **members))
        if self.expected == "running":
            assert events == [Ended(error={}) if failed else Ended(1)]
            self.expected = "ended"
        else:
            assert events == []

    @precondition(lambda self: len(self.used) > 2)
    @rule(data=st.sampled_from([b"{\n", b"\n", line(result={"value": 1}, id=9), b"\xff\n"]))
    def nonsense(self, data: bytes) -> None:
        events = self.give(data)
        if self.expected == "running":
            assert events is None
            self.expected = "broken"
        else:
            assert events == []

    @invariant()
    def it_is_where_the_table_says(self) -> None:
        assert self.wire.state == self.expected


TestWire = Wire.TestCase


def test_a_displayed_picture_is_decoded_strictly_and_on_demand() -> None:
    assert Showed("a", "image/png", "aGk=", is_text=False).data() == b"hi"
    assert Showed("a", "text/html", "\ud800é", is_text=True).data() == "?é".encode()
    for wrong in ("a", "aGk", "a Gk=", "aGk=\n", "é", "=aGk", "aGk=aGk="):
        with pytest.raises(ProtocolError, match="the guest displayed what is not base64"):
            Showed("a", "image/png", wrong, is_text=False).data()


@given(st.binary(max_size=100))
def test_the_size_of_what_is_displayed_is_never_over_its_lower_bound(data: bytes) -> None:
    shown = Showed("a", "image/png", base64.b64encode(data).decode(), is_text=False)
    assert shown.data() == data
    assert shown.size_bytes <= len(data) <= shown.size_bytes + 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (1, 1),
        (3, 3),
        (4, None),
        (0, None),
        (-1, None),
        (2**70, None),
        (True, None),
        (1.0, None),
        ("1", None),
        ([], None),
    ],
)
def test_a_line_that_the_program_does_not_have_is_no_line(given: Any, expected: int | None) -> None:
    wire = RunWire(Limits())
    wire.execute("a\nb\nc", '"tools":[]', "{}")
    shown = {"name": "x", "media_type": "text/html", "text": "x", "line": given}
    data = [
        line(method="echo", params={}, id=1, line=given),
        line(method="print", params={"text": "x", "line": given}),
        line(method="rpc.display", params=shown),
        line(method="rpc.withdrawn", params={"tool": "echo", "arguments": {}, "line": given}),
    ]
    events: list[Any] = [event for each in data for event in wire.receive(each)]
    assert [type(event).__name__ for event in events] == ["Called", "Wrote", "Showed", "Withdrawn"]
    assert {event.line for event in events} == {expected}
