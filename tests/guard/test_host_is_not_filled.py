"""No message of a program, however large or odd, keeps the host's event loop from its next turn for longer than a tenth
of a second of processor time (on a slow machine, for twice what one text takes to be decoded), or takes more of the
host than its `memory_bytes` plus 64 MiB.

The guests here have found their wire and write bytes to it themselves.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from callgate import Limits, Tool, tool

from .hostile_guest import Cost, attacked

MOST_SECONDS = 0.1
ONE_TEXT = b"x" * 16_000_000 + "😀".encode()
"""The longest step that the standard library cannot do in parts: to decode one text, into 64 MB of memory."""
MEMORY = 256 << 20
MOST_BYTES = MEMORY + (64 << 20)
LIMITS = Limits(wall_seconds=60, memory_bytes=MEMORY)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what is measured is the work between two turns; which loop has them is the same


@tool(read_only=True)
async def take(items: Any = None) -> str:
    """Takes anything."""
    return "taken"


@tool(read_only=True)
async def take_numbers(items: list[int]) -> str:
    """Takes whole numbers."""
    return "taken"


async def _taken(**_: Any) -> str:
    return "taken"


def _by_schema(name: str, items: dict[str, Any]) -> Tool:
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": items}}, "required": ["items"]}
    return Tool.from_schema(name, "Takes items.", schema, _taken, read_only=True)


ROWS = {
    "anyOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "string", "pattern": "^a+$"},
        {"type": "array", "items": {"type": "string"}},
    ]
}
TOOLS = [take, take_numbers, _by_schema("take_by_schema", {"type": "integer"}), _by_schema("take_rows", ROWS)]

COUNT = 190_000
"""A message may have 200,000 values."""
SHAPES = {
    "small numbers": f"b'[' + b','.join([b'1'] * {COUNT}) + b']'",
    "texts": f"b'[' + b','.join([b'\"ab\"'] * {COUNT}) + b']'",
    "long fractions": f"b'[' + b','.join([b'1.' + b'5' * 50] * {COUNT}) + b']'",
    "long numbers": "b'[' + b','.join([b'9' * 400] * 40000) + b']'",
    "objects": f"b'[' + b','.join([b'{{\"a\":1}}'] * {COUNT // 2}) + b']'",
    "other objects": f"b'[' + b','.join([b'{{\"b\":1}}'] * {COUNT // 2}) + b']'",
    "empty arrays": f"b'[' + b','.join([b'[]'] * {COUNT // 2}) + b']'",
    "towers": "b'[' + b','.join([b'[' * 140 + b']' * 140] * 1000) + b']'",
    "many names": f"b'{{' + b','.join([b'\"%06d\":1' % n for n in range({COUNT})]) + b'}}'",
    "one text": "b'\"' + b'x' * 16_000_000 + b'\"'",
    "one text of escapes": "b'\"' + b',\\\\\"' * 5_000_000 + b'\"'",
    "one wide text": "b'\"' + b'x' * 16_000_000 + '😀'.encode() + b'\"'",
    "one text of emoji": "b'\"' + '😀'.encode() * 4_000_000 + b'\"'",
    "a fraction of 16 MB": "b'[0.' + b'5' * 16_000_000 + b']'",
    "spaces": "b'[' + b' ' * 16_000_000 + b']'",
    "brackets": "b'[' * 16_000_000",
    "half a pair at the end": f"b'[' + b','.join([b'\"ab\"'] * {COUNT}) + b',\"\\\\ud800\"]'",
}


def step_seconds() -> float:
    """Processor time that this machine takes, as busy as it is now, for the longest step that cannot be divided."""
    began = time.thread_time()
    ONE_TEXT.decode()
    return time.thread_time() - began


async def bounded(code: str, shape: str = "") -> Cost:
    """What an attack cost that kept to the bounds, at one of three tries: a busy machine takes longer now and then, a
    step that nobody divided takes too long each time. One text may take twice the step that cannot be divided.
    """
    for last in (False, False, True):
        steps = [step_seconds() for _ in range(3)] if shape.startswith("one ") else []
        cost = await attacked(code, TOOLS, LIMITS)
        steps += [step_seconds() for _ in steps]
        most = max(MOST_SECONDS, 2 * max(steps, default=0))
        assert cost.grown_bytes < MOST_BYTES, f"{cost.grown_bytes >> 20} MiB"
        if cost.gap_seconds < most:
            break
        assert not last, f"the event loop waited {cost.gap_seconds * 1000:.0f} ms for {cost.run.usage}"
    return cost


@pytest.mark.alone
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["take", "take_numbers", "take_by_schema", "take_rows"])
async def test_large_arguments_leave_others_their_turn(name: str, shape: str) -> None:
    code = f"call(b'{{\"items\":' + {SHAPES[shape]} + b'}}', tool={name!r})\nprint(answer()[:200].decode())\nend()"
    cost = await bounded(code, shape)
    if cost.run.ok:
        assert "result" in cost.run.logs or "error" in cost.run.logs
        assert [call.tool for call in cost.run.calls] == [name]


@pytest.mark.parametrize("name", ["take", "take_numbers", "take_by_schema"])
async def test_very_many_wrong_names_are_refused_by_the_first(name: str) -> None:
    cost = await bounded(f"call({SHAPES['many names']}, tool={name!r})\nprint(answer().decode())\nend()")
    assert "unknown argument '000000'" in cost.run.logs
    assert len(cost.run.logs) < 5_000
    assert cost.run.calls[0].status == "refused"


@pytest.mark.parametrize("first_wrong", [0, 150_000, 189_999])
async def test_of_very_many_wrong_items_the_first_are_told(first_wrong: int) -> None:
    items = f"[b'1'] * {first_wrong} + [b'\"x\"'] * {COUNT - first_wrong}"
    code = f"call(b'{{\"items\":[' + b','.join({items}) + b']}}', tool='take_numbers')\nprint(answer().decode())\nend()"
    cost = await bounded(code)
    assert cost.run.calls[0].status == "refused"
    assert f"argument 'items[{first_wrong}]' must be a valid integer" in cost.run.logs or first_wrong == 150_000
    assert len(cost.run.logs) < 5_000


@pytest.mark.parametrize("shape", SHAPES)
async def test_large_values_leave_others_their_turn(shape: str) -> None:
    await bounded(f"end(({SHAPES[shape]}).decode())", shape)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.startswith("one ")])
async def test_large_prints_leave_others_their_turn(shape: str) -> None:
    head = b'{"jsonrpc":"2.0","method":"print","params":{"text":'
    cost = await bounded(f"send({head!r} + {SHAPES[shape]} + b'}}}}\\n')\nend()", shape)
    assert cost.run.error is not None
    assert cost.run.error.limit == "max_log_bytes"
    assert len(cost.run.logs.encode()) <= LIMITS.max_log_bytes


DRIBBLES = {
    "a call": 'b\'{"jsonrpc":"2.0","method":"take","id":1,"params":{"items":"\' + b\'x\' * 1_500_000',
    "a flood of lines that are nothing": 'b\'{"jsonrpc":"2.0","method":"take","params":{}}\\n\' * 20_000',
}


@pytest.mark.parametrize("dribble", DRIBBLES)
async def test_bytes_that_come_two_by_two_take_their_bytes_and_no_more(dribble: str) -> None:
    code = f"""
try:
    fcntl.fcntl(outgoing, fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT)  # one packet for each write
except OSError:
    pass
data = memoryview({DRIBBLES[dribble]})
at = 0
while at < len(data):
    try:
        at += os.write(outgoing, data[at:at + 2])
    except BlockingIOError:
        time.sleep(0)
"""
    limits = Limits(wall_seconds=60, memory_bytes=64 << 20)
    cost = await attacked(code, TOOLS, limits)
    assert cost.gap_seconds < MOST_SECONDS
    assert cost.grown_bytes < 48 << 20, f"{cost.grown_bytes >> 20} MiB for {cost.run.usage.received_bytes} bytes"


async def test_output_that_comes_byte_by_byte_is_one_text() -> None:
    cost = await attacked("for n in range(300_000):\n    os.write(1, b'ab')", TOOLS, LIMITS)
    assert cost.run.logs == "ab" * 300_000
    assert cost.gap_seconds < MOST_SECONDS
    assert cost.grown_bytes < 32 << 20, f"{cost.grown_bytes >> 20} MiB"


DISPLAY = '{"jsonrpc":"2.0","method":"rpc.display","params":{"name":"a","media_type":"image/png",'
PICTURES = {
    "one picture": "b'\"data\":\"' + b'A' * 16_000_000 + b'\"'",
    "one page": "b'\"text\":\"' + b'x' * 16_000_000 + b'\"'",
    "one wide page": "b'\"text\":\"' + b'x' * 16_000_000 + '😀'.encode() + b'\"'",
    "one that is no base64": "b'\"data\":\"' + b'A' * 15_999_999 + b'!\"'",
    "one with padding everywhere": "b'\"data\":\"' + b'AA==' * 4_000_000 + b'\"'",
}


@pytest.mark.parametrize("picture", PICTURES)
async def test_large_pictures_leave_others_their_turn(picture: str) -> None:
    cost = await bounded(
        f"for n in range(4):\n    send({DISPLAY.encode()!r} + {PICTURES[picture]} + b'}}}}\\n')\nend()", picture
    )
    assert sum(each.size_bytes for each in cost.run.artifacts) <= LIMITS.max_artifact_bytes
    assert len(cost.run.notes) <= 11


PLAIN = '{"jsonrpc":"2.0","method":"take"'
FLOODS = {
    "pictures": f'b\'{DISPLAY}"data":"AAAA"}}}}\\n\' * 20_000',
    "pictures without a byte": f'b\'{DISPLAY}"data":""}}}}\\n\' * 20_000',
    "prints of one letter": """b'{"jsonrpc":"2.0","method":"print","params":{"text":"a"}}\\n' * 40_000""",
    "notifications": f"b'{PLAIN}}}\\n' * 20_000",
    "calls": f"b''.join(b'{PLAIN},\"id\":%d}}\\n' % n for n in range(10, 30_000))",
    "calls by position": f"b''.join(b'{PLAIN},\"id\":%d,\"params\":[%d]}}\\n' % (n, n) for n in range(10, 9_000))",
    "calls given up": (
        f"b''.join(b'{PLAIN},\"id\":%d}}\\n' % n + b'{PLAIN.replace('take', 'cancel')},"
        '"params":{"id":%d}}\\n\' % n for n in range(10, 15_000))'
    ),
    "batches": f"(b'[' + b','.join([b'{PLAIN}}}'] * 1000) + b']\\n') * 10",
    "unknown tools": f"b''.join(b'{PLAIN.replace('take', 'tak%d')},\"id\":%d}}\\n' % (n, n) for n in range(10, 9_000))",
    "empty lines": "b'\\n' * 1_000_000",
    "empty batches": "b'[]\\n' * 300_000",
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_floods_of_small_messages_leave_others_their_turn(flood: str) -> None:
    code = f"""
import threading
def listen():
    while True:
        try:
            os.read(incoming, 1 << 16)
        except BlockingIOError:
            time.sleep(0.001)
threading.Thread(target=listen, daemon=True).start()
send({FLOODS[flood]})
end()
"""
    await bounded(code)


@pytest.mark.parametrize(
    "error",
    [
        "'\"kind\":\"' + 'K' * 15_000_000 + '\"'",
        '\'"kind":"E","message":"\' + \'😀\' * 3_500_000 + \'"\'',
        '\'"kind":"E","message":"m","traceback":"\' + \'t\' * 15_000_000 + \'"\'',
        '\'"kind":"E","tool":"\' + \'t\' * 15_000_000 + \'"\'',
        '\'"kind":"E","line":\' + \'9\' * 4_000',
        "'\"kind\":' + '[' * 500 + ']' * 500 + ',\"message\":[1,2]'",
    ],
)
async def test_every_field_of_what_a_guest_says_of_its_error_is_bounded(error: str) -> None:
    head, tail = '{"jsonrpc":"2.0","id":1,"error":{"code":-32010,"message":"m","data":{', "}}}\n"
    cost = await bounded(f"send({head!r} + {error} + {tail!r})\ntime.sleep(60)")
    told = cost.run.error
    assert told is not None
    assert len(told.kind) <= 300
    assert len(told.message) <= 200_000
    assert len(told.traceback) <= 200_000
    assert len(told.tool or "") <= 300
    assert told.line is None


async def test_the_text_of_a_value_is_bounded() -> None:
    head, tail = '{"jsonrpc":"2.0","id":1,"result":{"value":null,"value_repr":"', '"}}\n'
    cost = await bounded(f"send({head!r} + 'r' * 8_000_000 + {tail!r})\ntime.sleep(60)")
    assert cost.run.value_repr is not None
    assert len(cost.run.value_repr) <= 200_000


async def test_recorded_arguments_are_weighed_by_their_memory() -> None:
    code = """
for n in range(17):
    call(b'{"items":"' + b'x' * 4_000_000 + '😀'.encode() + b'"}', id=10 + n)
    answer()
end()
"""
    cost = await attacked(code, TOOLS, Limits(wall_seconds=60))
    assert len(cost.run.calls) == 17
    kept = [call.arguments for call in cost.run.calls if isinstance(call.arguments, dict)]
    assert len(kept) == 4  # 16 MB each
    assert str(cost.run.calls[-1].arguments).startswith("(not kept:")
    assert cost.gap_seconds < MOST_SECONDS
    assert cost.grown_bytes < 192 << 20, f"{cost.grown_bytes >> 20} MiB"
