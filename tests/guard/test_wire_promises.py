"""What the security page promises of the wire: whatever is not the protocol ends the run, and is never answered."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import Limits, tool

from .hostile_guest import attacked

pytestmark = [pytest.mark.anyio, pytest.mark.sampled]

LIMITS = Limits(wall_seconds=20)
CALL = '{"jsonrpc":"2.0","method":"take","id":%s}'


@tool(read_only=True)
async def take(items: Any = None) -> str:
    """Takes anything."""
    return "taken"


TWICE = {
    "twice in a batch": ["[" + CALL % 7 + "," + CALL % 7 + "]"],
    "twice in a batch, then alone": ["[" + CALL % 7 + "," + CALL % 7 + "]", CALL % 7],
    "in a batch, then alone": ["[" + CALL % 7 + "]", CALL % 7],
    "alone, then in a batch": [CALL % 7, "[" + CALL % 8 + "," + CALL % 7 + "]"],
    "in two batches": ["[" + CALL % 7 + "]", "[" + CALL % 7 + "]"],
    "as text": ["[" + CALL % '"a"' + "]", CALL % '"a"'],
    "as a fraction": ["[" + CALL % "7.0" + "]", CALL % 7],
    "with params by position": [CALL.replace("}", ',"params":[1]}') % 7, "[" + CALL % 7 + "]"],
}


@pytest.mark.parametrize("use", TWICE)
async def test_an_id_that_is_used_twice_ends_the_run_wherever_it_stands(use: str) -> None:
    code = "".join(f"send({line!r} + '\\n')\ntime.sleep(0.05)\n" for line in TWICE[use])
    cost = await attacked(code + "print(answer())\nend()", [take], LIMITS)
    assert cost.run.error is not None
    assert cost.run.error.kind == "ProtocolError"
    assert "twice" in cost.run.error.message


async def test_ids_of_a_batch_that_differ_are_all_answered() -> None:
    line = "[" + ",".join(CALL % each for each in (1, 2, '"a"', '"1"', 2.5)) + "]"
    cost = await attacked(f"send({line!r} + '\\n')\nprint(answer().decode())\nend()", [take], LIMITS)
    assert cost.run.ok, cost.run.error
    assert cost.run.logs.count("taken") == 5


LONG = 300_000
ODD = {
    "a key that occurs twice": '{"a":"@","a":1}',
    "a key that occurs twice, far apart": '{"a":1,' + ",".join(f'"k{n}":{n}' for n in range(50_000)) + ',"a":2}',
    "NaN": '["@",NaN]',
    "infinity": '["@",-Infinity]',
    "a fraction that overflows": '["@",1e400]',
    "a number of very many digits": '["@",' + "9" * 4_400 + "]",
    "too deep": "[" * 2_000 + '"@"' + "]" * 2_000,
    "a comma too many": "[" + "1," * 100_000 + "]",
    "a comma before all": "[," + "1," * 100_000 + "1]",
    "no comma": '["@" 1]',
    "no end": '["@",1',
    "the wrong bracket": '["@",1}',
    "something after it": '["@"]]',
    "a raw control character": '["@\t"]',
    "a name that is none": '{"a":"@",1:2}',
}


@pytest.mark.parametrize("odd", ODD)
async def test_a_long_message_that_is_no_strict_json_ends_the_run(odd: str) -> None:
    code = f"call({ODD[odd]!r}.replace('@', 'x' * {LONG}))\nprint(answer())\nend()"
    cost = await attacked(code, [take], LIMITS.replace(max_source_bytes=1 << 23))
    assert cost.run.error is not None
    assert cost.run.error.kind == "ProtocolError", cost.run.logs[:300]
    assert not cost.run.calls


async def test_a_long_message_that_is_json_arrives_as_it_was_sent() -> None:
    got: list[Any] = []

    @tool
    async def keep(items: Any) -> None:
        """Keeps what it is given."""
        got.append(items)

    code = """
row = {"name": 'a "quoted", [odd] {text}\\\\', "n": [1, -2.5, 1e10, None, True, {}, [], ["", {"é": "😀"}]]}
rows = [row] * 5_000 + [[[row]]] + ["x" * 300_000] + [{str(n): n for n in range(20_000)}]
for indent in (None, 1):
    apart = (" , ", " : ") if indent else None
    call(json.dumps({"items": rows}, separators=apart), id=10 + (indent or 0), tool="keep")
    answer()
await keep(rows)
"""
    cost = await attacked(code, [keep], LIMITS)
    assert len(got) >= 2, cost.run.error
    assert got[0] == got[1]
    assert got[0][0]["n"][7] == ["", {"é": "😀"}]
    assert len(got[0]) == 5_003
    assert got[0][-1] == {str(n): n for n in range(20_000)}
