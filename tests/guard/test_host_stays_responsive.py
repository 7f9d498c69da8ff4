"""No program on the fast path and no expression of a plan keeps the event loop from its next turn for longer than 100 ms
of the process's processor time, or takes more than `memory_bytes` plus 64 MiB of the host.

One table of attacks, each run as a program and as the `$expr` of a plan, and expressions that Hypothesis puts together
of large operands. What each comes to is not the subject here: a value or a refusal in words, but soon.
"""

# ruff: noqa: E501 (hostile expressions, a line each)

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from callgate import Limits, Runtime, tool
from guard.heartbeat import heartbeat

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MOST_SECONDS = 0.1
MEMORY_BYTES = 64 * 1024 * 1024
MOST_BYTES = MEMORY_BYTES + 64 * 1024 * 1024
LIMITS = Limits(memory_bytes=MEMORY_BYTES)
TRIES = 3
"""Processor time too is a little more on a busy machine: an attack counts when it holds the loop each time."""
PATIENCE_SECONDS = 120

ATTACKS = r"""
# large integers: made, hashed, compared, searched for, sorted, divided, counted, written
x = int('f' * 3000000, 16); d = {1: 2}; len([1 for i in range(30000) if x in d])
x = int('f' * 3000000, 16); d = {1: 2}; len([d.get(x) for i in range(30000)])
x = int('z' * 3000000, 36); x > 1
x = int('0x' + 'f' * 3000000, 0); x % 7
x = int('1' * 3000000, base=2); [x] * 100000 == [x + 1] * 100000
x = int('7' * 3000000, 8); x in [x - 1] * 100000
x = int('v' * 3000000, 32); sorted([x, x - 1] * 10000)[0] > 1
x = int('3' * 3000000, 4); max([x - 1] * 100000) > x
x = int('9' * 3000000); x
x = 2 ** 65000; y = x + 1; [x] * 780000 == [y] * 780000
x = 2 ** 16000; y = x + 1; [x] * 780000 == [y] * 780000
x = 2 ** 16000; y = x + 1; x in [y] * 780000
x = 2 ** 16000; y = x + 1; ([y] * 780000).count(x)
x = 2 ** 16000; y = x + 1; ([y] * 780000).index(x)
x = 2 ** 16000; y = x + 1; max([y] * 780000) == x
x = 2 ** 16000; y = x + 1; min(([x] * 780000), key=lambda v: v) == y
x = 2 ** 16000; y = x + 1; len(sorted([y, x] * 40000))
x = 2 ** 16000; len([1 for i in range(60000) if x < i])
x = 2 ** 16000; y = x + 1; len([1 for i in range(60000) if x < y])
x = 2 ** 16000; d = {1: 2, x: 3}; len([d[x] for i in range(60000)])
x = 2 ** 16000; d = {1: 2}; len([1 for i in range(60000) if (x, x) in d])
x = 2 ** 16000; len({(x, i) for i in range(60000)})
x = 2 ** 16000; len(set([x] * 780000))
x = 2 ** 16000; len({x + i: i for i in range(60000)})
x = 2 ** 16000; len([x / (x + 1) for i in range(60000)])
x = 2 ** 16000; y = 2 ** 8000 + 1; len([x // y for i in range(60000)])
x = 2 ** 16000; y = 2 ** 8000 + 1; len([x % y for i in range(60000)])
x = 2 ** 16000; len([x % 7 for i in range(60000)])
x = 2 ** 8000 + 1; len([x * x for i in range(60000)])
x = 2 ** 16000; len([x ^ i for i in range(60000)])
x = 2 ** 16000; len([x >> 1 for i in range(60000)])
x = 2 ** 16000; len([-x for i in range(60000)])
x = 2 ** 16000; sum([x] * 780000) > 1
x = 2 ** 16000; sum([1] * 780000, x) > 1
len([3 ** 10000 for i in range(60000)])
len([2 ** 16000 for i in range(60000)])
x = 2 ** 14000; len([str(x) for i in range(60000)])
x = 2 ** 14000; len([f'{x:,}' for i in range(60000)])
x = 2 ** 16000; len([f'{x:x}' for i in range(60000)])
x = 2 ** 1000; len([f'{x:.300f}' for i in range(60000)])
x = 2 ** 1000; len([float(x) for i in range(60000)])
x = 2 ** 14000; len(str([x] * 60000))
x = 2 ** 14000; len(json.dumps([x] * 60000))
x = 2 ** 16000; len([1 for i in range(60000) if x in range(10 ** 12)])
x = 2 ** 16000; len(['abc'[:x] for i in range(60000)])
len([int('9' * 4300) for i in range(60000)])
len([json.loads('9' * 4300) for i in range(60000)])
len(json.loads('[' + ('9' * 4300 + ',') * 4000 + '1]'))
len([round(5, -4000) for i in range(60000)])
x = 10 ** 4000; len([round(x, -3999) for i in range(60000)])
# star arguments
len(list(zip(*([[1]] * 1550000))))
len(list(map(max, *([[1]] * 1550000))))
max(*([1] * 1550000))
min(*range(10 ** 12))
len(list(zip(*[range(100)] * 20000)))
len(list(zip(*[range(1000000)] * 1000)))
len([*([1] * 2000000), *([1] * 2000000)])
# numbers that are dear to write, to read or to round
len(str([1.2345678901234567e-300] * 390000))
len(json.dumps([1.2345678901234567e-300] * 390000))
[1.2345678901234567e-300] * 100000
[1.2345678901234567e+300] * 20000
[19.99] * 200000
x = 1.2345678901234567e-300; len([str(x) for i in range(60000)])
x = 1.2345678901234567e-300; len([f'{x}' for i in range(60000)])
x = 1e308 / 3; len([f'{x:.300f}' for i in range(60000)])
x = 1e300 / 7; len([f'{x:f}' for i in range(60000)])
x = 1e300 / 7; len([round(x, 3) for i in range(60000)])
x = 1e-300 / 7; len([round(x, 300) for i in range(60000)])
x = 0.1; len([f'{x:.500f}' for i in range(60000)])
x = '1.2345678901234567e-300'; len([float(x) for i in range(60000)])
x = '1.' + '2345678901234567' * 200 + 'e-300'; len([float(x) for i in range(60000)])
len(json.loads('[' + '1.2345678901234567e-300,' * 300000 + '1]'))
len(f'{1:1000000}')
len([f'{1:100000}' for i in range(10000)])
len(f'{1.5:.1000000f}')
len(f'{10 ** 4000:,}')
# nested values: a small one can be a large tree
a = [[[1] * 1000] * 1000] * 1000; b = [[[1] * 1000] * 1000] * 1000; a == b
a = [[[1] * 1000] * 1000] * 1000; b = [[[1] * 1000] * 1000] * 1000; a in [b]
a = [[[1] * 1000] * 1000] * 1000; b = [[[1] * 1000] * 1000] * 1000; max(a, b) == a
a = [[[1] * 1000] * 1000] * 1000; len(str(a))
a = [[[1] * 1000] * 1000] * 1000; len(json.dumps(a))
a = [[[1] * 1000] * 1000] * 1000; a
a = {'k': {'k': [{'k': [1] * 1000}] * 1000}}; b = {'k': {'k': [{'k': [1] * 1000}] * 1000}}; [a == b for i in range(1000)]
a = [[1] * 1000] * 1000; b = [[1] * 1000] * 1000; len(sorted([a, b] * 100))
a = [[1] * 1000] * 1000; len([a == a[:] for i in range(1000)])
t = ((1,) * 1000,) * 1000; len({t: 1})
t = ((1,) * 1000,) * 1000; {}.get(t)
a = [1.5] * 790000; b = [1.5] * 790000; [a == b for i in range(9)]
a = [[]] * 300000; len(str(a))
a = [{}] * 300000; len(str(a))
a = [()] * 300000; len(str(a))
a = [{}] * 300000; a
a = [[]] * 300000; a
a = [['a']] * 300000; a
a = [{'a': 1}] * 60000; a
a = [{'a': i} for i in range(9000)]; a
a = [[i] for i in range(30000)]; b = [[i] for i in range(30000)]; [a == b for i in range(100)]
a = [{i: [i]} for i in range(20000)]; len(str(a))
a = [range(5)] * 300000; len(str(a))
a = [None, True, 1, 'a'] * 200000; len(str(a))
# keys that might share a hash, and do not
len({(v,) for v in range(100000)})
len({(v, str(v)): v for v in range(100000)})
# keys that share a hash
len({i * (2 ** 61 - 1) for i in range(60000)})
len({(i * (2 ** 61 - 1),) for i in range(60000)})
s = {i * (2 ** 61 - 1) for i in range(400)}; len([1 for i in range(60000) if 401 * (2 ** 61 - 1) in s])
s = {i * (2 ** 61 - 1) for i in range(15)}; len([1 for i in range(60000) if 401 * (2 ** 61 - 1) in s])
s = {i * (2 ** 61 - 1) for i in range(15)}; r = {i * (2 ** 61 - 1) for i in range(15, 30)}; len([s | r for i in range(60000)])
t = (-1, -2); len({(a, b, c, d, e, f) for a in t for b in t for c in t for d in t for e in t for f in t})
len({i << 44 for i in range(60000)})
len({2.0 ** (61 * i) * k for i in range(16) for k in range(1, 1000)})
len(dict([(1, 2)] * 500000))
len(dict((i, i) for i in range(500000)))
len(set([(1, 2)] * 100000))
a = {i: i for i in range(10000)}; len([{**a} for i in range(1000)])
a = {str(i): i for i in range(9000)}; len([a | a for i in range(1000)])
a = {str(i): i for i in range(9000)}; b = {str(i): i for i in range(9000)}; len([a == b for i in range(1000)])
# texts
x = 'a' * 2000000 + 'b'; y = 'a' * 2000000 + 'c'; len([1 for i in range(10000) if x == y])
x = 'a' * 2000000; len([1 for i in range(1000) if x + 'b' in {}])
x = 'a' * 2000000; len([x.startswith(x) for i in range(1000)])
x = 'a' * 30000; x.count('a' * 50 + 'b' + 'a' * 49)
x = 'a' * 30000; x.rfind('b' + 'a' * 15000)
x = 'a' * 1000000; x.rsplit('b' + 'a' * 500000)
x = ('ab' * 2000 + 'c') * 100; x.find('ab' * 1999 + 'cb')
len(('a ' * 4000000).split())
len(('a ' * 4000000).split(' '))
len(('a\n' * 3000000).splitlines())
len(('ab' * 2000000).replace('a', 'cc'))
len(('a' * 4000000).replace('', 'b'))
len(','.join(['a'] * 2000000))
len(','.join(str(i) for i in range(200000)))
len(('ä' * 5000000).title())
len(('ß' * 5000000).casefold())
len(('ŉ' * 5000000).upper())
len(('a' * 1000000).strip('b' * 100000))
x = ' ' * 3000000; len([x.strip() for i in range(1000)])
x = 'a' * 4000000; len([x.isalpha() for i in range(1000)])
x = 'ä' * 4000000; len([x.isalpha() for i in range(1000)])
'\x01' * 1500000
'ä' * 5000000
'a' * 10000000
len(json.dumps('\x01' * 5000000))
x = 'ä' * 2000000; len(f'{x!a}')
x = '\x01' * 2000000; len(f'{x!r}')
x = 'a' * 1000000; len([x[i:] for i in range(10000)])
x = ['a' * 200 + str(i) for i in range(8000)]; len([sorted(x) for i in range(100)])
len(json.loads('[' + '[],' * 300000 + '1]'))
len(json.loads('[' + '{},' * 300000 + '1]'))
len(json.loads('[' + '{"a":1},' * 150000 + '1]'))
len(json.dumps([{'b': 1, 'a': 1}] * 20000, sort_keys=True))
len(json.dumps([{'b': 1, 'a': 1}] * 20000, indent=4))
# lists
x = [1] * 10000; len([x[i:] for i in range(10000)])
x = [1] * 1000000; len([x + x for i in range(100)])
x = [1] * 1000000; len([list(reversed(x)) for i in range(100)])
x = [1] * 1500000; [all(x) for i in range(100)]
x = [0] * 1500000; [any(x) for i in range(100)]
x = [1.5, 2] * 300000; len(sorted(x))
x = [i * 7919 % 100003 for i in range(20000)]; len([sorted(x) for i in range(100)])
len(sorted(range(60000), key=lambda v: [v] * 100))
len(sorted([[i % 7, i] for i in range(20000)]))
len(sum([[1]] * 20000, []))
len(list(enumerate([1] * 390000)))
len(list(zip([1] * 390000, [2] * 390000)))
len([a for a in range(1000) for b in range(1000) for c in range(10)])
len([[y for y in range(1000)] for x in range(1000)])
len(list(filter(None, [0] * 1500000)))
len(list(map(str, range(200000))))
x = [1] * 1000; len([x.count(2) for i in range(100000)])
x = ['a' * 500] * 1000; len([('a' * 499 + 'b') in x for i in range(100000)])
"""

PROGRAMS = {
    "a hexadecimal constant": "x = 0x" + "f" * 60_000 + "\ny = 0x" + "f" * 59_999 + "e\n[x]*780000 == [y]*780000",
    "a binary constant": "x = 0b" + "1" * 60_000 + "\nlen([1 for i in range(60000) if x in {}])",
    "arguments": "x = await echo([{'a': 1}] * 60000)\nlen(x)",
    "arguments of floats": "x = await echo([1.2345678901234567e-300] * 100000)\nlen(x)",
    "arguments of escapes": "x = await echo('\\x01' * 1500000)\nlen(x)",
    "arguments of empty objects": "x = await echo([{}] * 150000)\nlen(x)",
    "results": "r = await rows()\nlen([1 for x in r])",
    "results that are large integers": "r = await digits()\nlen(r)",
    "prints": "print([1] * 300000)",
    "prints of stars": "print(*([1] * 300000))",
    "a text that grows": "x = ''\nfor i in range(60000):\n    x = x + 'ab'\nlen(x)",
    "a list that grows by lists": "x = []\nb = [1] * 700000\nx += b\nx += b\nx += b\nlen(x)",
    "a list that is extended": "x = []\nb = [[1]] * 100000\nfor i in range(50):\n    x.extend(b)\nlen(x)",
    "insertions at the front": "x = [1] * 700000\nfor i in range(30000):\n    x.insert(0, i)\nlen(x)",
    "removals": "x = [1] * 100000\nfor i in range(30000):\n    x.remove(1)\nlen(x)",
    "an integer that grows": "x = 3\nfor i in range(60000):\n    x *= 3\nx > 1",
    "an integer that is squared": "x = 3\nfor i in range(60):\n    x = x * x\nx > 1",
    "keys set one by one": "d = {}\nx = 2 ** 16000\nfor i in range(30000):\n    d[x + i] = i\nlen(d)",
    "sorting in place": "x = [2 ** 16000, 2 ** 16000 + 1] * 20000\nx.sort()\nlen(x)",
    "a list in a list": "x = []\nfor i in range(30000):\n    x = [x, x]\nlen(x)",
}

ROWS = "u = await nap()\nrows = [[i] for i in range(20000)]\n"
AHEAD = {
    "a large value that may be changed in each round": f"{ROWS}for i in range(3000):\n    if u:\n        rows[0].append(i)",
    "a loop over it that goes on": f"{ROWS}for row in rows:\n    if u:\n        row.append(1)\n    await echo(row)",
    "many names of it": f"{ROWS}" + "".join(f"n{i} = [rows]\n" for i in range(900)) + "if u:\n    rows.append(1)",
    "a chain of unknown values": "u = await nap()\nt = []\nfor i in range(9000):\n    t = [t, u]\n    u[i] = t\nawait echo(t)",
    "unknown values in one another": "u = await nap()\nt = u\nfor i in range(9000):\n    t = t[u]\n    t.append(u)",
    "expressions that fail for want of a value": f"{ROWS}for i in range(9000):\n    x = rows[u]",
    "values that hold it": f"{ROWS}rows.append(u)\nfor i in range(9000):\n    x = sum(rows)\nawait echo(1)",
    "arguments of which one is unknown": f"{ROWS}rows.append(u)\nfor i in range(900):\n    await echo(rows)",
}
"""What a walk ahead meets while a call is under way."""

PLANS: dict[str, Any] = {
    "a literal of many values": [0] * 1_900_000,
    "a literal of empty arrays": [[]] * 900_000,
    "a literal of floats": [1.2345678901234567e-300] * 300_000,
    "a literal of fewer floats": [1.2345678901234567e-300] * 30_000,
    "a literal of as many empty arrays as memory allows": [[]] * 400_000,
    "a literal of as many empty objects as memory allows": [{}] * 200_000,
    "a literal of many names": {f"name {number}": number for number in range(100_000)},
    "a literal of many levels": json.loads("[" * 90 + "[1]," * 50_000 + "1" + "]" * 90),
}

MANY = 100_000


def chain_of_steps(count: int) -> dict[str, Any]:
    """Each step takes the result of the one before it."""
    later = [step_of(number, f"$ref:s{number - 1}") for number in range(1, count)]
    return {"steps": [step_of(0, 1), *later], "output_steps": [f"s{count - 1}"]}


def fan_of_steps(count: int) -> dict[str, Any]:
    """Each step takes the result of the first."""
    return {"steps": [step_of(0, 1), *[step_of(number, "$ref:s0") for number in range(1, count)]]}


def step_of(number: int, value: Any) -> dict[str, Any]:
    return {"id": f"s{number}", "tool": "take", "arguments": {"value": value, "unit": "C", "days": 3}}


def failing(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan, with a first step that fails."""
    first = {"id": "s0", "tool": "take", "arguments": {"value": {"$expr": "1 // 0"}}}
    return {**plan, "steps": [first, *plan["steps"][1:]]}


LARGE_PLANS = {"a chain": chain_of_steps, "a fan": fan_of_steps}


def steps_of_expressions(count: int, expression: str) -> dict[str, Any]:
    one = {"tool": "echo", "arguments": {"value": {"$expr": expression}}}
    return {"steps": [{"id": f"s{number}", **one} for number in range(count)]}


def rows_of_attacks() -> list[str]:
    return [line for line in ATTACKS.strip().splitlines() if not line.startswith("#")]


def as_program(attack: str) -> str:
    modules = "import json\n" if "json." in attack else ""
    return modules + "\n".join(attack.split("; "))


def as_expression(attack: str) -> str:
    """The same as one expression: each name is bound by a `for` of its own."""
    *bindings, value = attack.split("; ")
    loops = " ".join(f"for {name} in [{bound}]" for name, _, bound in (each.partition(" = ") for each in bindings))
    return f"[{value} {loops}]" if loops else value


@tool(read_only=True)
async def echo(value: Any = None) -> Any:
    """Give it back."""
    return value


@tool(read_only=True)
async def rows() -> Any:
    """Give many rows."""
    return [{"id": i, "price": 1.2345678901234567e-300} for i in range(20_000)]


@tool(read_only=True)
async def nap() -> Any:
    """Give something, later."""
    await anyio.sleep(0.3)
    return {}


@tool(read_only=True)
async def digits() -> Any:
    """Give integers of four thousand digits."""
    return [10**4000] * 200


@tool(read_only=True)
async def take(value: Any = None, unit: str = "", days: int = 0) -> Any:
    """Give the value back."""
    return value


@pytest.fixture(params=["asyncio"])  # the evaluator is the same on both
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with Runtime([echo, rows, nap, digits, take], sandbox=None) as entered:
        await entered.execute_code("x = await echo(1)\nx")
        await entered.execute_tool_plan(plan_of("1 + 1"))
        yield entered


def plan_of(expression: str) -> dict[str, Any]:
    return {"steps": [{"id": "s", "tool": "echo", "arguments": {"value": {"$expr": expression}}}]}


class Memory:
    """The most memory that this process took in a block, above what it had before."""

    most_bytes = 0


@contextmanager
def memory_taken() -> Iterator[Memory]:
    taken = Memory()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew: proc(5)
    before = _status("VmRSS")
    yield taken
    taken.most_bytes = _status("VmHWM") - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


async def spent(runtime: Runtime, what: str | dict[str, Any], limits: Limits = LIMITS) -> tuple[float, int]:
    """The longest gap and the most memory of one run of a program or a plan."""
    with anyio.fail_after(PATIENCE_SECONDS), memory_taken() as memory:
        async with heartbeat() as heart:
            if isinstance(what, str):
                await runtime.execute_code(what, limits=LIMITS)
            else:
                await runtime.execute_tool_plan(what, limits=limits)
    return heart.longest_gap_seconds, memory.most_bytes


async def check(runtime: Runtime, what: str | dict[str, Any]) -> None:
    for _ in range(TRIES):
        seconds, taken = await spent(runtime, what)
        assert taken < MOST_BYTES, f"{taken:,} bytes: {what}"
        if seconds < MOST_SECONDS:
            return
    pytest.fail(f"the event loop was kept from its next turn for {seconds:.3f} s: {what}")


@pytest.mark.parametrize("attack", rows_of_attacks())
async def test_no_program_holds_the_event_loop_or_fills_the_host(runtime: Runtime, attack: str) -> None:
    await check(runtime, as_program(attack))


@pytest.mark.parametrize("attack", rows_of_attacks())
async def test_no_expression_of_a_plan_holds_the_event_loop_or_fills_the_host(runtime: Runtime, attack: str) -> None:
    await check(runtime, plan_of(as_expression(attack)))


@pytest.mark.parametrize("name", PROGRAMS)
async def test_no_statement_holds_the_event_loop_or_fills_the_host(runtime: Runtime, name: str) -> None:
    await check(runtime, PROGRAMS[name])


@pytest.mark.parametrize("attack", rows_of_attacks())
async def test_nothing_that_is_looked_at_ahead_does(runtime: Runtime, attack: str) -> None:
    await check(runtime, f"_u = await nap()\n{as_program(attack)}\nawait echo(1)")


@pytest.mark.parametrize("name", AHEAD)
async def test_no_unknown_value_does(runtime: Runtime, name: str) -> None:
    await check(runtime, AHEAD[name])


@contextmanager
def without_full_collections() -> Iterator[None]:
    """Only young objects are looked through for garbage. Looking through all objects of a plan of 100,000 steps takes
    Python some tenths of a second, which docs/isolation.md says; here it is about our own work."""
    before = gc.get_threshold()
    gc.set_threshold(before[0], before[1], 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("name", PLANS)
async def test_no_literal_of_a_plan_holds_the_event_loop_or_fills_the_host(runtime: Runtime, name: str) -> None:
    plan = {"steps": [{"id": "s", "tool": "echo", "arguments": {"value": PLANS[name]}}]}
    with without_full_collections():
        await check(runtime, plan)
        await check(runtime, {"plan": json.dumps(plan)})


async def test_many_expressions_of_a_plan_give_others_their_turn(runtime: Runtime) -> None:
    await check(runtime, steps_of_expressions(100, "len([i for i in range(20000)])"))
    await check(runtime, steps_of_expressions(2000, "1" + "+1" * 90))
    each = {"id": "s", "tool": "echo", "for_each": [1] * 1000}
    await check(runtime, {"steps": [{**each, "arguments": {"value": {"$expr": "len([i for i in range(20000)])"}}}]})


@pytest.mark.alone  # a minute each on a slow machine, five beside two other workers
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("shape", "given_as"), [("a chain", "text"), ("a fan", "object")])
async def test_a_plan_of_100_000_steps_runs_and_gives_others_their_turn(
    runtime: Runtime, shape: str, given_as: str
) -> None:
    plan = LARGE_PLANS[shape](MANY)
    given_plan = json.dumps(plan) if given_as == "text" else plan
    limits = Limits(wall_seconds=300)
    gaps = []
    for _ in range(TRIES):
        with anyio.fail_after(2 * limits.wall_seconds), memory_taken() as memory, without_full_collections():
            async with heartbeat() as heart:
                result = await runtime.execute_tool_plan(given_plan, limits=limits)
        assert result.ok
        assert [step.status for step in result.steps] == ["succeeded"] * MANY
        assert result.outputs[f"s{MANY - 1}"] == 1
        assert result.steps[-1].wave == (MANY - 1 if shape == "a chain" else 1)
        assert memory.most_bytes < limits.memory_bytes + 64 * 1024 * 1024
        del result
        gaps.append(heart.longest_gap_seconds)
        if gaps[-1] < MOST_SECONDS:
            return
    pytest.fail(f"the event loop was kept from its next turn for {gaps} s")


@pytest.mark.parametrize("shape", LARGE_PLANS)
async def test_100_000_steps_that_are_skipped_at_once_give_others_their_turn(runtime: Runtime, shape: str) -> None:
    plan = failing(LARGE_PLANS[shape](MANY))
    gaps = []
    for _ in range(TRIES):
        with anyio.fail_after(PATIENCE_SECONDS), without_full_collections():
            async with heartbeat() as heart:
                result = await runtime.execute_tool_plan(plan)
        assert [step.status for step in result.steps] == ["failed"] + ["skipped"] * (MANY - 1)
        del result
        gaps.append(heart.longest_gap_seconds)
        if gaps[-1] < MOST_SECONDS:
            return
    pytest.fail(f"the event loop was kept from its next turn for {gaps} s")


async def test_a_thousand_steps_may_each_have_an_expression_of_their_own(runtime: Runtime) -> None:
    first = {"id": "s", "tool": "echo", "arguments": {"value": {"price": 2.5, "name": "pear", "tags": ["a", "b"]}}}
    expression = "round(s.price * {n}, 2) if '{n}' not in s.tags else s.name.upper()"
    assert len(expression) > 60
    steps = [
        {"id": f"s{n}", "tool": "echo", "arguments": {"value": {"$expr": expression.format(n=n)}}} for n in range(1000)
    ]
    await check(runtime, {"steps": [first, *steps]})
    result = await runtime.execute_tool_plan({"steps": [first, *steps]})
    assert result.ok
    assert result.outputs["s999"] == 2497.5


async def test_a_plan_that_would_take_more_memory_than_it_may_is_refused_in_words(runtime: Runtime) -> None:
    arrays = {"steps": [{"id": "s", "tool": "echo", "arguments": {"value": [[]] * 5_500_000}}]}
    text = json.dumps(arrays, separators=(",", ":"))
    assert 16_000_000 < len(text) < Limits().max_message_bytes
    _, taken = await spent(runtime, {"plan": text}, Limits())
    assert taken < MOST_BYTES
    result = await runtime.execute_tool_plan(text)
    assert "more than 2000000 values" in result.for_model()
    steps = chain_of_steps(60_000)
    result = await runtime.execute_tool_plan(steps, limits=LIMITS)
    assert "more than memory_bytes, which is 67108864" in result.for_model()


async def test_a_literal_of_as_many_values_as_a_plan_may_have_fits_the_memory(runtime: Runtime) -> None:
    arrays = {"steps": [{"id": "s", "tool": "take", "arguments": {"value": [[]] * 990_000}}]}
    limits = Limits()
    with anyio.fail_after(PATIENCE_SECONDS), memory_taken() as memory:
        result = await runtime.execute_tool_plan(json.dumps(arrays), limits=limits)
    assert result.ok
    assert len(result.outputs["s"]) == 990_000
    assert memory.most_bytes < limits.memory_bytes + 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ("len([1 for i in range(9) if int('f' * 5000, 16) in {1: 2}])", "integer_bits is 16,384"),
        ("0x" + "f" * 5000, "an integer of 20,000 bits is too long"),
        ("len(list(zip(*([[1]] * 1550000))))", "takes too much"),
        ("len({i * (2 ** 61 - 1) for i in range(60)})", "clashes is 16"),
    ],
)
async def test_what_would_hold_it_is_refused_in_words(runtime: Runtime, attack: str, words: str) -> None:
    result = await runtime.execute_tool_plan(plan_of(attack))
    assert not result.ok
    assert words in result.for_model()
    program = await runtime.execute_code(attack)
    assert program.error is not None
    assert program.error.kind == "NotAGraph"  # with a sandbox, it goes there


# generated

COUNTS = st.sampled_from(["0", "1", "3", "100", "1000", "16000", "60000", "1000000", "10 ** 9"])
ATOMS = [
    "1",
    "-1",
    "2.5",
    "1.2345678901234567e-300",
    "1e300",
    "'a'",
    "'ä'",
    "'\\x01'",
    "' '",
    "None",
    "True",
    "[]",
    "{}",
    "()",
]
LARGE = [
    "{a} * {n}", "[{a}] * {n}", "({a},) * {n}", "{{{a}: {b}}}", "{{'k': {a}}}", "[{a}, {b}]", "({a}, {b})", "2 ** {n}",
    "10 ** {n}", "int('f' * {n}, 16)", "int('7' * {n}, 8)", "'9' * {n}", "'ab' * {n}", "range({n})", "str({a})",
    "json.dumps({a})", "[i for i in range({n})]", "[[i] for i in range({n})]", "[{a} for i in range({n})]",
    "{{i: {a} for i in range({n})}}", "{{i * (2 ** 61 - 1) for i in range({n})}}", "[str(i) for i in range({n})]",
    "list({a})", "tuple({a})", "set({a})", "sorted({a})", "list(zip({a}, {b}))", "list(enumerate({a}))", "1 << {n}",
    "list(map(str, {a}))", "[*{a}, *{b}]", "{{**{a}, **{b}}}", "'-'.join({a})", "({a}).split()", "({a}).split('a')",
]  # fmt: skip
WORK = [
    "{a} == {b}", "{a} < {b}", "{a} in {b}", "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} // {b}", "{a} | {b}",
    "{a} & {b}", "{a} ^ {b}", "{a} ** {b}", "{a} >> {b}", "{a} << {b}", "{a}[{b}]", "{a}[{b}:]", "{a}[::-1]", "-{a}", "not {a}",
    "({a}).count({b})", "({a}).index({b})", "({a}).get({b})", "({a}).find({b})", "({a}).rfind({b})", "({a}).replace({b}, {c})",
    "({a}).rsplit({b})", "({a}).strip({b})", "({a}).startswith({b})", "({a}).join({b})", "({a}).upper()", "({a}).title()",
    "({a}).splitlines()", "({a}).center({b})", "({a}).partition({b})", "list(({a}).items())", "({a}).copy()", "({a}).zfill({b})",
    "max({a})", "min({a}, {b})", "max(*{a})", "sum({a})", "sum({a}, {b})", "sorted({a}, key=lambda v: {b})", "len({a})",
    "len(list(zip(*{a})))", "any({a})", "all({a})", "abs({a})", "round({a}, {b})", "round({a})", "float({a})", "int({a})",
    "str({a})", "f'{{{a}}}'", "f'{{{a}!r:>{n}}}'", "f'{{{a}:.{n}f}}'", "f'{{{a}:,}}'", "json.dumps({a})", "json.dumps({a}, indent=2)",
    "json.loads({a})", "dict({a})", "set({a})", "list(map(lambda v: v == {b}, {a}))", "list(filter(None, {a}))",
    "min({a}, key=lambda v: {b})", "list(reversed({a}))", "{{{a}}}", "{{{a}: {b}}}", "{a} if {b} else {c}", "bool({a})", "{a}",
]  # fmt: skip


def _filled(templates: list[str], parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda template, a, b, c, n: template.format(a=a, b=b, c=c, n=n),
        st.sampled_from(templates),
        parts,
        parts,
        parts,
        COUNTS,
    )


@st.composite
def attacks(draw: st.DrawFn) -> str:
    """Bindings of large values, and something done to them, perhaps again and again."""
    names = ["x", "y", "z"][: draw(st.integers(1, 3))]
    known: list[str] = []
    bound: list[str] = []
    for name in names:
        parts = st.sampled_from([*ATOMS, *known])
        bound.append(f"{name} = {draw(_filled(LARGE, _filled(LARGE, parts) | parts))}")
        known.append(name)
    parts = st.sampled_from([*known, *known, *known, *ATOMS])
    work = draw(_filled(WORK, parts) | _filled(WORK, _filled(LARGE, parts) | parts))
    if draw(st.booleans()):
        work = f"len([{work} for i in range({draw(COUNTS)})])"
    return "; ".join([*bound, work])


@settings(
    max_examples=settings().max_examples // 8,  # each takes a second or two
    database=None,
    phases=[Phase.generate],  # what explains and shrinks traces each line, and is slow
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(attack=attacks())
async def test_nothing_that_is_put_together_of_large_values_does_either(runtime: Runtime, attack: str) -> None:
    await check(runtime, as_program(attack))
    await check(runtime, plan_of(as_expression(attack)))
