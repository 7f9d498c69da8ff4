"""Programs made to exhaust, stall or confuse the host's evaluator: each comes to what the sandbox makes of it, and the
host spends no more than the budget of a walk.

The families are those of the probes: P42 to P45, P50 and P69, and the names that mean something else.
"""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callgate import CodeResult, Limits, Runtime
from runtime.conftest import opened

pytestmark = [pytest.mark.anyio, pytest.mark.sampled]

EXHAUST = {
    "P42 a power of powers": "print(1)\nx = 10 ** 10 ** 8\nprint(2)",
    "P42 digits of a huge number": "x = 7 ** 20_000\nprint(len(str(x * x)))",
    "P42 a shift": "x = 1 << 10 ** 10",
    "P42 int of long text": "x = int('9' * 10 ** 6)",
    "P43 deep JSON": "import json\nx = json.loads('[' * 100_000 + ']' * 100_000)",
    "P43 a long loop": "n = 0\nfor i in range(10 ** 7):\n    n += 1\nprint(n)",
    "P44 lists in lists": "x = []\nfor i in range(100_000):\n    x = [x]\nprint(len(x))",
    "P44 a list in itself": "x = []\nx.append(x)\nprint(x)",
    "P44 dicts in a circle": "a = {}\nb = {'a': a}\na['b'] = b\nprint(a)",
    "P45 a format width": 'print(len(f"{1:>{10 ** 8}}"))',
    "P45 text times a number": "x = 'a' * 10 ** 10",
    "P45 a list times a number": "x = [0] * 10 ** 9",
    "P45 doubling": "x = 'a'\nfor i in range(28):\n    x += x\nprint(len(x))",
    "P45 a tree that is a graph": "x = [1]\nfor i in range(40):\n    x = [x, x]\nprint(len(x))",
    "P45 quadratic joins": "s = ''\nfor i in range(40_000):\n    s = s + 'xxxxxxxxxx'\nprint(len(s))",
    "P45 nested comprehensions": "x = [a for a in range(1000) for b in range(1000) for c in range(10)]\nprint(len(x))",
    "keys that collide": "d = {}\nfor i in range(40_000):\n    d[i * (2 ** 61 - 1)] = 1\nprint(len(d))",
    "a list that grows while it is read": "x = [1]\nfor i in x:\n    if len(x) < 10 ** 6:\n        x.append(i)\nprint(len(x))",
    "sorting by a heavy key": "x = sorted(range(40_000), key=lambda i: [i] * 100)\nprint(x[0])",
    "prints without end": "for i in range(10 ** 6):\n    print('x' * 100)",
}
CONFUSE = {
    "P50 deep parentheses": "x = " + "(" * 150 + "1" + ")" * 150,
    "P50 a long sum": "x = " + "+".join(["1"] * 3000) + "\nprint(x)",
    "P50 many lines": "x = 1\n" * 9000 + "print(x)",
    "P50 a byte order mark": "\ufeffprint('ä')",
    "P50 carriage returns": "print(1)\r\nprint(2)\rprint(3)\n",
    "P50 form feeds": "print(1)\f\nprint(2)",
    "P50 line separators in text": "x = 'a\u2028b\x85c'\nprint(len(x))\nprint(x[5])",
    "P69 templates": "x = await echo('{{7*7}} ${x} $ref:s1 $item %s {0}')\nprint(x)",
    "P69 keys": "x = await echo({'$ref': 'a', '__proto__': {'$expr': '1+1'}, '$literal': [1], '$$ref:': '$$item'})\nprint(x)",
    "P69 a reference as text": "a = await echo('$ref:echo')\nb = await echo([a, '$item', {'$ref': 'echo'}])\nprint(a, b)",
    "P69 template text in an f-string": "a = await echo('x')\nb = await echo(f'${{a}} $ref:{a} {a}')\nprint(b)",
    "print is a variable": "print = len\nprint('abc')",
    "a builtin is shadowed": "len = sum\nx = len([1, 2])\nx",
    "a tool is a variable": "echo = 3\necho",
    "a tool under another name": "e = echo\nprint(await e(1))",
    "a tool in a list": "for f in [echo]:\n    print(await f(1))",
    "the name of a tool by a loop": "for echo in [1, 2]:\n    print(echo)",
    "the name of a tool by an import": "import json as echo\nprint(echo.dumps(1))",
    "a name that normalises to a tool": "ｅcho = 5\nprint(ｅcho, echo)",
    "a name that normalises to print": "ｐrint('hello')",
    "del": "x = 1\ndel x\nprint(x)",
    "del of a builtin": "print(1)\nlen = 3\ndel len\nprint(len('ab'))",
    "walrus": "print([y := 3, y + 1])",
    "walrus in a comprehension": "x = [z for i in range(3) if (z := i)]\nprint(x, z)",
    "star arguments": "args = [1]\nprint(await echo(*args))",
    "double star arguments": "print(await echo(**{'value': 3}))",
    "a class": "class A:\n    x = 1\nprint(A.x)",
    "global": "async def main():\n    global x\n    x = 2\nawait main()\nprint(x)",
    "main without await": "async def main():\n    print(1)\nmain()\nprint(2)",
    "main twice": "async def main():\n    print(1)\nawait main()\nawait main()",
    "main that returns early": "async def main():\n    if 1:\n        return 5\n    return 6\nprint(await main())",
    "locals": "x = 1\nprint(sorted(k for k in locals() if k == 'x'))",
    "dunder": "print(().__class__.__name__, __name__)",
    "format": "print('{0.__class__}'.format(1))",
    "a future": "from __future__ import annotations\nx: Nothing = 1\nprint(x)",
    "an annotation that fails": "x: nothing = 1",
    "exit": "exit(3)",
    "assert": "assert 0, 'no'",
    "a string that is a docstring": "'''doc'''\nprint(__doc__)",
    "yield": "yield 1",
    "await in a lambda": "f = lambda: (yield)\nprint(1)",
    "same argument twice": "await echo(1, value=2)",
    "an unknown argument": "await echo(valve=2)",
    "no argument": "await echo()",
    "a wrong argument": "await get_weather(5)",
    "nan as an argument": "await echo(float('nan'))",
    "a set as an argument": "await echo({1})",
    "bytes": "print(b'abc'[0])",
    "complex": "print(1j * 1j)",
    "ellipsis": "x = ...\nprint(x)",
    "a chained comparison with a call": "print(1 < await echo(2) < 3)",
    "a call in a default": "f = lambda x=await echo(1): x\nprint(f())",
    "a call in a condition of a comprehension": "print([x for x in [1, 2] if await echo(x) > 1])",
    "a call that is never awaited": "echo(1)\nprint(2)",
    "a call awaited twice": "c = echo(1)\nprint(await c, await c)",
    "a call as a value": "print(echo(1))",
    "a call in a dict, awaited": "d = {'a': echo(1)}\nprint(await d['a'])",
    "an error in a task that nobody awaits": "import asyncio\nt = asyncio.create_task(refuse('x'))\nawait echo(1)\n1 // 0",
    "a half surrogate": "x = '\\ud800'\nprint(x)\nawait echo(x)",
    "a zero byte": "x = await echo('a\\0b')\nprint(len(x))",
}


ENDLESS = {"P42 a power of powers", "keys that collide"}
"""What the limit ends on either path, whatever it is."""


@pytest.fixture(scope="module")
async def tight(anyio_backend: str) -> AsyncIterator[Runtime]:
    limits = Limits(wall_seconds=20, cpu_seconds=4, memory_bytes=128 * 1024 * 1024)
    async with opened(pool_size=2, limits=limits) as entered:
        yield entered


def told(result: CodeResult) -> dict[str, Any]:
    """What a user sees of a run, but for what differs from run to run."""
    error = result.error
    limit = error.limit if error is not None else None
    return {
        "ok": result.ok,
        "value": result.value,
        "value_repr": result.value_repr,
        "logs": result.logs if limit is None else None,
        "error": None if error is None else (error.kind, limit or error.message, limit or error.line),
        "calls": sorted((call.tool, repr(call.arguments), call.status) for call in result.calls),
    }


@pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")  # the walk is the same on both
@pytest.mark.parametrize("name", [*EXHAUST, *CONFUSE])
async def test_it_comes_to_what_the_sandbox_makes_of_it(tight: Runtime, name: str) -> None:
    source = EXHAUST.get(name) or CONFUSE[name]
    limits = Limits(wall_seconds=20, cpu_seconds=1) if name in ENDLESS else None
    fast = await tight.execute_code(source, limits=limits)
    slow = await tight.execute_code(source, path="sandbox", limits=limits)
    assert told(fast) == told(slow)
    assert name not in ENDLESS or (fast.error is not None and fast.error.limit == "cpu_seconds")


async def test_the_event_loop_goes_on_beside_a_long_program(tight: Runtime) -> None:
    """Between two prints the program does nothing but work: whoever ticks then had a turn in the middle of it."""
    source = "print('begin')\nn = 0\nfor i in range(40_000):\n    n += i\nprint('end')\nn"
    ticks = 0
    told: list[int] = []

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        result = await tight.execute_code(source, path="plan", on_event=lambda _: told.append(ticks))
        tasks.cancel_scope.cancel()
    assert (result.value, result.logs) == (799980000, "begin\nend\n")
    assert told[-1] - told[0] > 4  # it works for tens of milliseconds, and gives way after five
