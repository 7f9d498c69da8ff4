"""P60 to P70: the wire held up, closed or cut; and what may not cross it in either direction."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import Limits
from pace import stretched
from probes.harness import WIRE, Jail, control
from probes.processes import eventually, resident_bytes

WALL = Limits(wall_seconds=1.0)


pytestmark = [
    pytest.mark.usefixtures("nothing_is_left"),
    pytest.mark.left_out(
        "docker", reason="the wire is the same as in a tenant's container, which takes a tenth of the time"
    ),
]


def test_p60_calls_that_nobody_reads_the_answers_of_are_bounded(jail: Jail) -> None:
    before = resident_bytes()
    attack = """
block = "".join('{"jsonrpc":"2.0","method":"%s","params":%s,"id":%d}\\n' % (tool, params, n) for n in range(100000)).encode()
send(block)
import time
time.sleep(60)
"""
    # time for a busy machine to begin as many calls as may run
    patient = Limits(wall_seconds=3.0, max_concurrent_calls=64)
    result = jail.attack(attack, limits=patient, inputs={"tool": "slow", "params": "{}"})
    assert result.error is not None
    assert result.error.limit == "wall_seconds"
    assert jail.toolbox.started == jail.toolbox.cancelled == patient.max_concurrent_calls
    result = jail.attack(attack, limits=WALL, inputs={"tool": "big", "params": '{"size":100000}'})
    assert result.error is not None
    assert result.error.limit == "wall_seconds"
    assert resident_bytes() - before < 128 << 20


def test_p60_large_calls_that_wait_their_turn_are_bounded_in_bytes(jail: Jail) -> None:
    before = resident_bytes()
    most = 0
    running = jail.start(
        f"""{WIRE}
for n in range(500):
    send('{{"jsonrpc":"2.0","method":"slow","params":{{}},"id":%d}}\\n' % n)
for n in range(1000, 1500):
    send('{{"jsonrpc":"2.0","method":"echo","params":{{"value":"' + 'x' * (1 << 21) + '"}},"id":%d}}\\n' % n)
""",
        limits=Limits(wall_seconds=2),
    )
    while not running.done():
        most = max(most, resident_bytes() - before)
    assert most < 200 << 20


def test_p61_a_guest_that_does_not_read_is_ended(jail: Jail) -> None:
    before = resident_bytes()
    attack = """
for n in range(8):
    send('{"jsonrpc":"2.0","method":"big","params":{"size":15000000},"id":%d}\\n' % n)
import time
time.sleep(60)
"""
    result = jail.attack(attack, limits=WALL)
    assert result.error is not None
    assert result.error.limit == "wall_seconds"
    assert result.usage.wall_seconds < stretched(2.5)
    eventually(lambda: resident_bytes() - before < 200 << 20, "the host has let go of the answers")
    assert jail.run("len(await big(15000000))").value == 15_000_000


CLOSED = {
    "wire to the host": "os.close(outgoing)", "both": "os.close(outgoing)\nos.close(incoming)", "everything": "os.closerange(0, 256)",
    "replaced": "os.dup2(os.open('/dev/null', os.O_WRONLY), outgoing)", "in the middle of a message": "send('{\"jsonrpc\":')\nos.close(outgoing)",
    "exit": "os._exit(7)", "killed": "os.kill(os.getpid(), 9)", "exit in the middle": "send('{\"jsonrpc\":')\nos._exit(0)",
}  # fmt: skip


@pytest.mark.parametrize("how", CLOSED)
def test_p62_a_closed_wire_ends_the_run_and_its_calls(jail: Jail, how: str) -> None:
    attack = f"""
send('{{"jsonrpc":"2.0","method":"slow","params":{{}},"id":9001}}\\n')
send('{{"jsonrpc":"2.0","method":"add","params":{{"a":1,"b":2}},"id":9002}}\\n')
next(lines())
{CLOSED[how]}
import time
time.sleep(60)
"""
    result = jail.attack(attack, limits=Limits(wall_seconds=10))
    assert result.error is not None
    assert result.error.kind == "GuestDied", result.error
    assert result.usage.wall_seconds < stretched(5)
    assert (jail.toolbox.started, jail.toolbox.cancelled) == (1, 1)
    assert [call.status for call in result.calls] == ["unknown_outcome", "succeeded"]


def test_p62_a_guest_that_cannot_be_answered_is_ended_by_its_limit_at_the_latest(jail: Jail) -> None:
    attack = """
os.close(incoming)
for n in range(100):
    send('{"jsonrpc":"2.0","method":"add","params":{"a":1,"b":2},"id":%d}\\n' % n)
import time
time.sleep(60)
"""
    result = jail.attack(attack, limits=WALL)
    assert result.error is not None
    assert result.usage.wall_seconds < stretched(2.5)


DONE = '{"jsonrpc":"2.0","result":{"value":%s},"id":1}\n'


def test_p63_the_first_result_wins_and_nothing_is_served_after_it(jail: Jail) -> None:
    call = '{"jsonrpc":"2.0","method":"echo","params":{"value":"late"},"id":77}\n'
    for together in (True, False):
        frames = [DONE % 1, DONE % 2, call, '{"jsonrpc":"2.0","method":"print","params":{"text":"late"}}\n']
        sent = ["".join(frames)] if together else frames
        result = jail.attack("for frame in frames: send(frame)\nimport time\ntime.sleep(60)", inputs={"frames": sent})
        assert (result.ok, result.value, result.logs, result.calls) == (True, 1, "", [])
    assert jail.toolbox.seen == []


def test_p63_a_result_before_its_calls_have_ended_waits_for_them_until_the_limit(jail: Jail) -> None:
    slow = '{"jsonrpc":"2.0","method":"slow","params":{},"id":77}\n'
    add = '{"jsonrpc":"2.0","method":"add","params":{"a":1,"b":2},"id":78}\n'
    code = "send(frames[0] + frames[1])\nnext(lines())\nsend(frames[2])\nimport time\ntime.sleep(60)"
    result = jail.attack(code, inputs={"frames": [slow, add, DONE % '"early"']}, limits=Limits(wall_seconds=1))
    assert result.error is not None
    assert (result.error.limit, result.error.tool, result.value) == ("wall_seconds", "slow", "early")
    assert (jail.toolbox.started, jail.toolbox.cancelled) == (1, 1)
    assert [call.status for call in result.calls] == ["unknown_outcome", "succeeded"]


def test_p63_calls_that_wait_when_the_run_ends_wait_no_longer_than_its_limit(jail: Jail) -> None:
    calls = "".join(f'{{"jsonrpc":"2.0","method":"slow","params":{{}},"id":{n}}}\n' for n in range(100, 3000))
    result = jail.attack(
        "send(frames)\nimport time\ntime.sleep(60)", inputs={"frames": calls + DONE % 1}, limits=Limits(wall_seconds=1)
    )
    assert result.error is not None
    assert (result.error.limit, result.value) == ("wall_seconds", 1)
    assert jail.toolbox.started == jail.toolbox.cancelled <= Limits().max_concurrent_calls


def test_p64_what_looks_like_a_message_is_text_when_printed(jail: Jail) -> None:
    frame = '{"jsonrpc":"2.0","result":{"value":"forged"},"id":1}'
    result = jail.run(f"""
import logging, os, sys
frame = {frame!r}
print(frame)
sys.__stdout__.write(frame + "\\n")
sys.__stderr__.write(frame + "\\n")
sys.stdout.buffer.write(frame.encode() + b"\\n")
logging.warning(frame)
os.write(1, frame.encode() + b"\\n")
os.write(2, frame.encode() + b"\\n")
"honest" """)
    assert result.value == "honest"
    assert result.logs.count(frame) == 7


def test_p65_handshakes_and_terminal_escapes_are_no_more_than_data(jail: Jail) -> None:
    for frame in (
        '{"ready":1}',
        '{"spawned":1}',
        '{"exited":1,"status":0}',
        '{"jsonrpc":"1.0","method":"ready"}',
        '{"failed":"x"}',
    ):
        result = jail.attack("send(frame)\nimport time\ntime.sleep(60)", inputs={"frame": frame + "\n"})
        assert result.error is not None
        assert result.error.kind == "ProtocolError"
    odd = "\x1b[2J\x1b]0;owned\x07\r\n\x00\u202e"
    result = jail.run("print(odd, end='')\nraise ValueError(odd)", inputs={"odd": odd})
    assert result.logs == odd
    assert json.loads(json.dumps(result.to_dict()))["logs"] == odd
    surrogates = jail.run("print('\\ud800')\nraise ValueError('\\udfff')")
    for text in (surrogates.logs, surrogates.for_model(), surrogates.error.message if surrogates.error else ""):
        assert text.encode()


@pytest.mark.parametrize("line", ["", "x", "\u20ac" * 9, "y" * 4000])
def test_p65_a_million_lines_are_capped(jail: Jail, line: str) -> None:
    limits = Limits(wall_seconds=10, max_log_bytes=200_000)
    events: list[Any] = []
    result = jail.run(
        "for _ in range(10**6): print(line)", limits=limits, inputs={"line": line}, on_event=events.append
    )
    assert result.error is not None
    assert result.error.limit == "max_log_bytes"
    assert 190_000 < len(result.logs.encode()) <= 200_000
    raw = jail.run("import os\nwhile True: os.write(1, b'z' * 5000)", limits=limits)
    assert raw.error is not None
    assert raw.error.limit == "max_log_bytes"
    assert len(raw.logs) <= 200_000


ENDS = {
    "wall": "send(call)\nimport time\ntime.sleep(60)", "exit": "send(call)\nos._exit(0)", "error": "send(call)\nnext_ = send(call.replace('77', '78'))\nraise ValueError",
    "gives up": "import asyncio\nawait asyncio.wait_for(slow(), 0.1)", "cancel": "send(call)\nsend(give_up)\nimport time\ntime.sleep(60)",
    "protocol": "send(call)\nsend('}\\n')\nimport time\ntime.sleep(60)",
}  # fmt: skip


@pytest.mark.parametrize("how", ENDS)
def test_p66_a_call_is_cancelled_once_however_its_run_ends(jail: Jail, how: str) -> None:
    call = '{"jsonrpc":"2.0","method":"slow","params":{},"id":77}\n'
    give_up = '{"jsonrpc":"2.0","method":"cancel","params":{"id":77}}\n'
    result = jail.attack(ENDS[how], limits=Limits(wall_seconds=0.6), inputs={"call": call, "give_up": give_up})
    assert not result.ok
    assert jail.toolbox.started == jail.toolbox.cancelled
    assert {call.status for call in result.calls} <= {"cancelled", "unknown_outcome"}


def test_p66_a_run_that_is_cancelled_from_outside_takes_its_calls_along(jail: Jail) -> None:
    running = jail.start("await slow()")
    eventually(lambda: jail.toolbox.started == 1, "the call has begun")
    running.cancel()
    eventually(lambda: jail.toolbox.cancelled == 1, "the call is cancelled")


def test_p67_only_what_a_tool_means_to_say_crosses(jail: Jail) -> None:
    for kind in ("unexpected", "class", "exit", "cancelled"):
        frame = f'{{"jsonrpc":"2.0","method":"broken","params":{{"kind":"{kind}"}},"id":77}}\n'
        result = jail.attack("send(frame)\nraw = next(lines()).decode()\nraw", inputs={"frame": frame})
        assert isinstance(result.value, str)
        assert json.loads(result.value)["error"]["code"] == -32603
        for told in (jail.toolbox.secret, "Traceback", ".py", "RuntimeError", "SystemExit", "{{"):
            assert told not in result.value
    told = control("try:\n    raise RuntimeError('secret')\nexcept Exception as error:\n    got = str(error)")
    assert told == "secret"


VALUES = ["{1, 2}", "b'x'", "float('nan')", "float('inf')", "(lambda a: a.append(a) or a)([])", "object()", "10**5000", "1j", "{1: {2: {3}}}", "{(1, 2): 3}", "open", "...",
          "Evil()", "[Evil()]", "{'a': Evil()}", "type('T', (str,), {'__str__': lambda s: 1/0})('x')", "type('L', (list,), {'__iter__': lambda s: 1/0})([1])",
          "type('D', (dict,), {'items': lambda s: [(1, Evil())]})(a=1)", "type('I', (int,), {'__repr__': lambda s: '}{'})(7)",
          "type('F', (float,), {'__repr__': lambda s: 'null,\"id\":9'})(7.5)", "'\\ud800'", "'x' * 10**7"]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_p68_a_value_that_is_not_json_stays_in_the_guest(jail: Jail, value: str) -> None:
    evil = """
class Evil:
    def __repr__(self): raise KeyError("repr")
    __str__ = __reduce__ = __repr__
    def __getattr__(self, name): raise KeyError(name)
"""
    result = jail.run(f"{evil}\n{value}")
    assert result.for_model().encode()
    assert json.dumps(result.to_dict())
    assert result.ok or (
        result.error is not None
        and result.error.kind
        in {"LimitReached", "ProtocolError", "ValueError", "KeyError", "ZeroDivisionError", "TypeError"}
    ), result.error
    sent = jail.run(
        f"{evil}\nattempted = {value}\ntry:\n    await echo(attempted)\nexcept Exception as error:\n    told = type(error).__name__\nelse:\n    told = 'sent'\ntold"
    )
    assert sent.ok or (sent.error is not None and sent.error.kind == "ProtocolError"), sent.error


@pytest.mark.parametrize("value", [
    "{{7*7}}", "${7*7}", "$ref:x.y", {"$ref": "x"}, {"__proto__": {"a": 1}}, {"__class__": "x", "constructor": {}}, "%s%n", "{0.__class__}", {"$expr": "1+1"},
    {"$literal": 1}, "<script>", "'; DROP TABLE x; --", "\u0000\u202e", {"": ""}, {"a.b": [None, True, 2**70, 1e308]},
])  # fmt: skip
def test_p69_arguments_are_delivered_as_they_are(jail: Jail, value: Any) -> None:
    assert jail.run("await echo(given)", inputs={"given": value}).value == value
    assert jail.toolbox.seen == [value]


def test_p70_no_descriptor_can_be_passed_to_the_host(jail: Jail) -> None:
    snippet = """
import array, socket, stat
def ancillary():
    one, other = socket.socketpair()
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
def urgent():
    one, other = socket.socketpair()
    one.send(b"x", socket.MSG_OOB)
got = [attempt(ancillary), [stat.S_ISSOCK(os.fstat(fd).st_mode) for fd in (0, 1, 2)]]
"""
    assert control(snippet)[0] == "done"
    assert jail.probe(snippet) == ["EPERM", [False, False, False]]
    pipes = jail.attack("[stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in (incoming, outgoing)]")
    assert pipes.value == [True, True]
