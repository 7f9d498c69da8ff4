"""Attacks on the host by programs and expressions, one table, and the measurement of one run."""

# ruff: noqa: E501 (hostile expressions, a line each)

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Limits, Runtime, tool
from guard.heartbeat import heartbeat

__all__ = [
    "AHEAD", "LIMITS", "MOST_BYTES", "MOST_SECONDS", "PATIENCE_SECONDS", "PROGRAMS", "TRIES", "as_expression",
    "as_program", "check", "memory_taken", "plan_of", "rows_of_attacks", "spent", "warm_runtime",
]  # fmt: skip

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


def plan_of(expression: str) -> dict[str, Any]:
    return {"steps": [{"id": "s", "tool": "echo", "arguments": {"value": {"$expr": expression}}}]}


@asynccontextmanager
async def warm_runtime() -> AsyncIterator[Runtime]:
    """A runtime with the tools of the attacks that has run a program and a plan."""
    async with Runtime([echo, rows, nap, digits, take], sandbox=None) as entered:
        await entered.execute_code("x = await echo(1)\nx")
        await entered.execute_tool_plan(plan_of("1 + 1"))
        yield entered


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
