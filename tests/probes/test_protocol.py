"""P53 to P70: a guest that writes raw bytes to the wire. The host answers each with a defined error, and lives on."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from callgate import CodeResult, Limits
from pace import stretched
from probes.harness import WIRE, Jail
from probes.processes import eventually, resident_bytes

WALL = Limits(wall_seconds=1.0)
CALL = '{"jsonrpc":"2.0","method":"add","params":{"a":1,"b":2},"id":9001}\n'
ASK = """
import json
got = None
send(frame)
reply = json.loads(next(lines()))
"""


pytestmark = [
    pytest.mark.usefixtures("nothing_is_left"),
    pytest.mark.left_out(
        "docker", reason="the wire is the same as in a tenant's container, which takes a tenth of the time"
    ),
]


def failed(result: CodeResult, kind: str, *texts: str) -> bool:
    assert result.error is not None, result
    assert result.error.kind == kind, result.error
    assert all(text in result.error.message for text in texts), result.error
    return True


def ask(jail: Jail, frame: str) -> Any:
    """The host's reply to one frame, as the guest reads it."""
    result = jail.attack(f"{ASK}\nreply", inputs={"frame": frame})
    assert result.ok, result.error
    return result.value


def test_p53_the_control_a_valid_message_by_the_same_way_is_served(jail: Jail) -> None:
    assert ask(jail, CALL) == {"jsonrpc": "2.0", "result": 3, "id": 9001}
    assert jail.toolbox.seen == [[1, 2]] or jail.toolbox.seen == [(1, 2)]


@pytest.mark.parametrize("answer", [
    '{"jsonrpc":"2.0","result":1,"id":99}', '{"jsonrpc":"2.0","result":{"value":1},"id":2}', '{"jsonrpc":"2.0","result":{"value":1},"id":"1"}',
    '{"jsonrpc":"2.0","result":{"value":1},"id":1.0}', '{"jsonrpc":"2.0","result":{"value":1},"id":true}',
    '{"jsonrpc":"2.0","error":{"code":1,"message":"x","data":{}},"id":7}', '{"jsonrpc":"2.0","result":{"value":1},"id":null}',
    '{"jsonrpc":"2.0","result":{"value":1}}', '{"jsonrpc":"2.0"}', '{"jsonrpc":"2.0","id":9001}',
])  # fmt: skip
def test_p53_a_forged_answer_ends_its_own_run_alone(jail: Jail, answer: str) -> None:
    sibling = jail.start("await slow()")
    eventually(lambda: jail.toolbox.started == 1, "the sibling is under way")
    result = jail.attack("send(frame)\nimport time\ntime.sleep(60)", inputs={"frame": answer + "\n"})
    assert failed(result, "ProtocolError", "never made")
    assert not sibling.done()
    sibling.cancel()
    eventually(lambda: jail.toolbox.cancelled == 1, "the sibling is cancelled")


@pytest.mark.parametrize(("name", "clean"), [
    ("../../../etc/passwd", "etc/passwd"), ("/etc/passwd", "etc/passwd"), ("a\0b.png", "a_b.png"), ("a\r\nb.png", "a__b.png"),
    ("\x1b]0;owned\x07", "_]0;owned_"), ("\u202egnp.exe", "_gnp.exe"), ("\ud800", "_"), ("", "artifact.txt"), ("..", "artifact.txt"),
    ("x" * 300 + ".png", "x" * 116 + ".png"),
])  # fmt: skip
def test_p53_what_a_guest_displays_has_a_clean_name_and_the_type_of_its_content(
    jail: Jail, name: str, clean: str
) -> None:
    params = {"name": name, "media_type": "image/png", "data": "PHNjcmlwdD4="}
    frame = json.dumps({"jsonrpc": "2.0", "method": "rpc.display", "params": params}) + "\n"
    result = jail.attack("send(frame)\n1", inputs={"frame": frame})
    assert result.ok, result.error
    assert [(each.name, each.media_type, each.data) for each in result.artifacts] == [
        (clean, "text/plain", b"<script>")
    ]


@pytest.mark.parametrize("params", [
    '{"name":"a","media_type":"image/png","data":"!"}', '{"name":"a","media_type":"image/png","data":7}', '{"name":"a","media_type":"image/png"}',
    '{"name":"a","media_type":"text/html\\r\\nx: y","text":""}', '{"name":7,"media_type":"a/b","text":""}', "[]", '"a"', "null",
])  # fmt: skip
def test_p53_a_forged_display_ends_its_own_run_alone(jail: Jail, params: str) -> None:
    frame = f'{{"jsonrpc":"2.0","method":"rpc.display","params":{params}}}\n'
    result = jail.attack("send(frame)\nimport time\ntime.sleep(60)", inputs={"frame": frame})
    assert failed(result, "ProtocolError", "display")
    assert result.artifacts == []


def test_p53_a_malformed_answer_to_the_run_itself_is_refused(jail: Jail) -> None:
    for body in (
        '"result":1',
        '"result":{}',
        '"result":[]',
        '"error":1',
        '"error":{"code":1}',
        '"error":{"data":[]}',
        '"result":null',
    ):
        result = jail.attack(
            "send(frame)\nimport time\ntime.sleep(60)", inputs={"frame": f'{{"jsonrpc":"2.0",{body},"id":1}}\n'}
        )
        assert result.error is not None
        assert result.error.kind == "ProtocolError", (body, result.error)


BROKEN = {
    "not UTF-8": (b'{"jsonrpc":"2.0","method":"\xff\xfe"}\n', "not UTF-8"), "overlong": (b'"\xc0\xaf"\n', "not UTF-8"),
    "encoded surrogate": (b'"\xed\xa0\x80"\n', "not UTF-8"), "truncated": (b'{"jsonrpc":"2.0","met\n', "not JSON"),
    "scalar": (b"7\n", "object"), "text": (b'"hello"\n', "object"), "null": (b"null\n", "object"), "nothing": (b"\n", "not JSON"), "spaces": (b"   \n", "not JSON"),
    "NaN": (b'{"jsonrpc":"2.0","method":"echo","params":{"value":NaN},"id":1}\n', "NaN"),
    "infinity": (b'{"jsonrpc":"2.0","method":"echo","params":{"value":-Infinity},"id":1}\n', "Infinity"),
    "1e400": (b'{"jsonrpc":"2.0","method":"echo","params":{"value":1e400},"id":1}\n', "too large"),
    "huge integer": (b'{"jsonrpc":"2.0","method":"echo","params":{"value":' + b"9" * 5000 + b'},"id":1}\n', "not JSON"),
    "key twice": (b'{"jsonrpc":"2.0","method":"echo","method":"add","id":1}\n', "twice"),
    "zero byte": (b'{"jsonrpc":"2.0",\x00}\n', "not JSON"), "two values": (b"{} {}\n", "not JSON"), "carriage return": (b"{}\r{}\r\n", "not JSON"),
    "byte order mark": (b"\xef\xbb\xbf{}\n", "not JSON"), "comment": (b"{} // x\n", "not JSON"), "single quotes": (b"{'a':1}\n", "not JSON"),
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_p54_what_is_not_json_ends_the_run(jail: Jail, how: str) -> None:
    frame, text = BROKEN[how]
    result = jail.attack("send(bytes.fromhex(frame))\nimport time\ntime.sleep(60)", inputs={"frame": frame.hex()})
    assert failed(result, "ProtocolError", text)
    assert jail.toolbox.seen == []


def test_p54_integers_of_any_size_that_is_json_stay_exact(jail: Jail) -> None:
    big = 10**4000 + 7
    assert jail.run("await echo(10**4000 + 7) == 10**4000 + 7").value is True
    assert jail.toolbox.seen == [big]


def test_p55_a_line_without_end_is_cut_off(jail: Jail) -> None:
    before = resident_bytes()
    attack = "block = b'x' * (1 << 20)\nwhile True: send(block)"
    result = jail.attack(attack, limits=Limits(max_message_bytes=3 << 20))
    assert failed(result, "LimitReached", "max_message_bytes")
    result = jail.attack(attack)
    assert failed(result, "LimitReached", "max_message_bytes")
    assert resident_bytes() - before < 64 << 20
    fits = '{"jsonrpc":"2.0","method":"echo","params":{"value":"' + "y" * (2 << 20) + '"},"id":9001}\n'
    assert len(ask(jail, fits)["result"]) == 2 << 20


@pytest.mark.parametrize("frame", [
    '{"jsonrpc":"2.0","method":"print","params":{"text":""}}', '{"jsonrpc":"2.0","method":"cancel","params":{"id":5}}',
    '{"jsonrpc":"2.0","method":"cancel","params":{"id":"none of these"}}', '{"jsonrpc":"2.0","method":"add","params":{"a":1,"b":2}}',
    '{"jsonrpc":"2.0","method":"missing","params":{}}', '[]',
])  # fmt: skip
def test_p55_a_flood_of_tiny_frames_neither_fills_nor_stops_the_host(jail: Jail, frame: str) -> None:
    before = resident_bytes()
    flood = jail.start(
        f"""{WIRE}
block = ({frame!r} + chr(10)).encode() * 4000
while True: send(block)
""",
        limits=WALL,
    )
    others = []
    while not flood.done():
        started = time.monotonic()
        jail.is_well()
        others.append(time.monotonic() - started)
    result = flood.result()
    assert result.error is not None
    assert result.error.kind == "ProtocolError" or result.error.limit in ("wall_seconds", "max_tool_calls")
    assert max(others, default=0.0) < stretched(2.5 if jail.kind.contained else 1.0)  # theirs may wait for a container
    assert result.usage.wall_seconds < stretched(2.5)
    del flood, result  # as many calls as the machine is fast, each recorded
    jail.toolbox.seen.clear()
    eventually(lambda: resident_bytes() - before < 64 << 20, "the host has let go of the flood")


DEEP = {
    "arrays": ("send('[' * 100000 + chr(10))", "nested too deeply"), "objects": ("""send('{"a":' * 100000 + chr(10))""", "nested too deeply"),
    "closed": ("send('[' * 100000 + ']' * 100000 + chr(10))", "nested too deeply"),
    "amplified": ("send('[' + '{},' * 1500000 + '{}]' + chr(10))", "200000 JSON values"),
    "batch": ("send('[' + '1,' * 150000 + '1]' + chr(10))", "invalid request"), "batch of calls": ("send('[' + ',' .join([call] * 20000) + ']' + chr(10))", "twice"),
    "last key twice": ("""send('{' + ','.join('"k%d":1' % n for n in range(150000)) + ',"k149999":1}' + chr(10))""", "twice"),
    "escapes": ("""send('"' + chr(92) + '"' * 3000000 + chr(10))""", ""), "backslashes": ("send('\"' + chr(92) * 3000001 + chr(10))", ""),
}  # fmt: skip


@pytest.mark.parametrize("how", DEEP)
def test_p56_a_message_cannot_cost_the_host_more_than_its_bytes(jail: Jail, how: str) -> None:
    attack, text = DEEP[how]
    before = resident_bytes()
    started = time.monotonic()
    result = jail.attack(f"{attack}\nimport time\ntime.sleep(60)", inputs={"call": CALL.strip()})
    assert failed(result, "ProtocolError", text)
    assert time.monotonic() - started < stretched(4)
    assert resident_bytes() - before < 200 << 20
    assert len(jail.toolbox.seen) <= 1024


NAMES = ["missing", "__class__", "echo.__init__", "echo.__globals__", "_echo", "ECHO", "echo\0", "echo\n", "\u0435cho", "\uff45cho", "execute", "tools", "", " echo",
         "rpc.discover", "rpc.echo", "__missing__", "call", "broken/../echo", "x" * 100_000, "\ud800"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_p57_only_declared_tools_can_be_called(jail: Jail, name: str) -> None:
    import json

    reply = ask(jail, json.dumps({"jsonrpc": "2.0", "method": name, "params": {"value": 1}, "id": 9001}) + "\n")
    assert reply["error"]["code"] == -32601
    assert len(reply["error"]["message"]) < 2000
    assert jail.toolbox.seen == []
    result = jail.run("await tool_call(name, value=1)", inputs={"name": name})
    assert result.error is not None
    assert result.error.kind == "ToolError"


def test_p57_a_run_with_no_tools_can_call_none(jail: Jail) -> None:
    result = jail.attack(f"{ASK}\nreply", inputs={"frame": CALL}, tools=[])
    assert result.value["error"]["code"] in (-32601, -32002)
    assert jail.toolbox.seen == []
    assert [call.status for call in result.calls] == ["refused"]


PARAMS = ["{}", '{"a":1}', '{"a":1,"b":2,"c":3}', '{"a":"1","b":2}', '{"a":true,"b":2}', '{"a":1.5,"b":2}', '{"a":null,"b":2}', '{"a":[1],"b":2}', '{"a":{},"b":2}',
          "[1]", "[1,2,3]", "[]", '["1",2]', '{"a":1,"b":2,"__class__":3}', '{"self":1,"a":1,"b":2}', '{"a":1,"b":2,"name":1}']  # fmt: skip


@pytest.mark.parametrize("params", PARAMS)
def test_p58_wrong_arguments_never_reach_the_tool(jail: Jail, params: str) -> None:
    reply = ask(jail, f'{{"jsonrpc":"2.0","method":"add","params":{params},"id":9001}}\n')
    assert reply["error"]["code"] == -32602, reply
    assert jail.toolbox.seen == []


def test_p58_arguments_by_position_are_served(jail: Jail) -> None:
    assert ask(jail, '{"jsonrpc":"2.0","method":"add","params":[1,2],"id":9001}\n')["result"] == 3


def test_p58_params_that_are_no_structure_end_the_run(jail: Jail) -> None:
    for params in ("1", '"x"', "true"):
        frame = f'{{"jsonrpc":"2.0","method":"add","params":{params},"id":9001}}\n'
        assert failed(
            jail.attack("send(frame)\nimport time\ntime.sleep(60)", inputs={"frame": frame}), "ProtocolError", "params"
        )


ODD = {
    "same id twice": (CALL + CALL, "ProtocolError", "twice"), "object id": (CALL.replace("9001", "{}"), "ProtocolError", "id"),
    "array id": (CALL.replace("9001", "[1]"), "ProtocolError", "id"), "boolean id": (CALL.replace("9001", "true"), "ProtocolError", "id"),
    "long id": (CALL.replace("9001", '"' + "i" * 65 + '"'), "ProtocolError", "id"), "empty batch": ("[]\n", "ProtocolError", "batch"),
    "batch of numbers": ("[1,2]\n", "ProtocolError", "object"), "extra member": (CALL.replace('"id"', '"x":1,"id"'), "ProtocolError", "member"),
    "no version": ('{"method":"add","params":{"a":1,"b":2},"id":1}\n', "ProtocolError", "jsonrpc"),
    "old version": (CALL.replace("2.0", "1.0"), "ProtocolError", "jsonrpc"), "numeric version": (CALL.replace('"2.0"', "2.0"), "ProtocolError", "jsonrpc"),
    "method number": (CALL.replace('"add"', "7"), "ProtocolError", "method"), "print with id": ('{"jsonrpc":"2.0","method":"print","params":{"text":"x"},"id":3}\n', "ProtocolError", "print"),
    "print of numbers": ('{"jsonrpc":"2.0","method":"print","params":{"text":7}}\n', "ProtocolError", "print"), "print of nothing": ('{"jsonrpc":"2.0","method":"print"}\n', "ProtocolError", "print"),
    "cancel nothing": ('{"jsonrpc":"2.0","method":"cancel"}\n', "ProtocolError", "cancel"), "cancel object": ('{"jsonrpc":"2.0","method":"cancel","params":{"id":{}}}\n', "ProtocolError", "cancel"),
}  # fmt: skip


@pytest.mark.parametrize("how", ODD)
def test_p59_odd_requests_have_a_defined_end(jail: Jail, how: str) -> None:
    frame, kind, text = ODD[how]
    result = jail.attack("send(frame)\nimport time\ntime.sleep(60)", inputs={"frame": frame})
    assert failed(result, kind, text)


def test_p59_ids_that_json_rpc_allows_are_answered_as_they_are(jail: Jail) -> None:
    for number, back in [
        ("1.5", 1.5),
        ("null", None),
        ('"x"', "x"),
        ("-7", -7),
        (str(2**53), 2**53),
        ('"\\ud800"', "\ud800"),
    ]:
        reply = ask(jail, CALL.replace("9001", number))
        assert reply["id"] == back
        assert reply["result"] == 3
    batch = ask(jail, f"[{CALL.strip()},{CALL.strip().replace('9001', '9002')}]\n")
    assert [(each["id"], each["result"]) for each in batch] == [(9001, 3), (9002, 3)]


def test_p59_a_notification_is_a_call_without_an_answer(jail: Jail) -> None:
    notification = CALL.replace(',"id":9001', "")
    assert ask(jail, notification + CALL)["id"] == 9001
    assert len(jail.toolbox.seen) == 2
