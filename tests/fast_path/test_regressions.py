"""Every difference between the paths that was ever found, as the smallest program that shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from fast_path.paths import Paths
from fast_path.programs import Program


@dataclass(frozen=True)
class Regression:
    """A program, and in a sentence what was wrong with it."""

    wrong: str
    source: str
    inputs: dict[str, Any] = field(default_factory=dict)


REGRESSIONS: dict[str, Regression] = {
    "a call that was begun when another one fails": Regression(
        "Calls that no worker had taken up when the program failed were never made.",
        "import asyncio\nawait asyncio.gather(load('a'), get_number(1))",
    ),
    "a deed that was begun when another call fails": Regression(
        "The same with a tool that changes something: its effect was missing.",
        "import asyncio\nawait asyncio.gather(fail_at_threes(3), note('done'))",
    ),
    "a task that was begun before an error": Regression(
        "The same for a task that was never awaited.",
        "import asyncio\ntask = asyncio.create_task(same(1))\n(1).name\nawait task",
    ),
    "gather with an error among its arguments": Regression(
        "The same, where the error comes before gather itself is called.",
        "import asyncio\nimport json\nfor k in range(2):\n    await asyncio.gather(same(2), same(json.loads('{')))",
    ),
    "an item changed by what main gives": Regression(
        "The fast path ran the body of main before it read the item.",
        "d = {'k': 1}\nasync def main():\n    d['k'] = 5\n    return await same(2)\nd['k'] += await main()\nprint(d)",
    ),
    "a warning of the compiler": Regression(
        "What CPython's compiler warns of is in the sandbox's logs, and was not in those of the fast path.",
        "print('before')\n1['12']",
    ),
    "is with a literal": Regression("The same warning, in a program that ends well.", "if 1 is None:\n    print(2)"),
    "keys that become one in JSON": Regression(
        "The sandbox's message with one key twice is refused; the fast path gave a value.", "{1: 'a', '1': 'b'}"
    ),
    "keys that become one in arguments": Regression("The same in a call.", "await same({None: 'a', 'null': 'b'})"),
    "a number too long for its text as the value": Regression(
        "The fast path failed; in the sandbox only the text of the value is missing.", "10 ** 5000"
    ),
    "a name twice in one target": Regression(
        "CPython 3.11 stores the first of the two last, in a function.",
        "async def main():\n    [x, x] = ({}, 1)\n    print(x)\nawait main()",
    ),
    "an error of the json module": Regression(
        "Its traceback lacked the module of the error.", "import json\njson.loads('a')"
    ),
    "gathered deeds after other calls": Regression(
        "A worker that was idle took its call up later than a new worker did the next one: the deeds changed places.",
        "import asyncio\nawait get_number(1)\nawait get_weather('Oslo')\nn = [note(x) for x in 'abcdef']\n"
        "await asyncio.gather(*n)\nprint(await read_notes())",
    ),
    "the results of gathered deeds": Regression(
        "The same, seen in what the calls give.",
        "import asyncio\nawait get_rows(2)\nawait asyncio.gather(*(add_to_total() for _ in range(6)))",
    ),
    "print of what cannot be spread": Regression(
        "CPython names the function in this message, where the fast path had a list's.", "x = 1\nprint(*x)"
    ),
    "an await in a generator of calls": Regression(
        "Such a generator is asynchronous, and gather refuses it; the fast path made the calls.",
        "import asyncio\nawait asyncio.gather(*(same(await get_weather('Oslo')) for k in await get_rows()))",
    ),
    "a task given up by the sandbox that goes on": Regression(
        "The call stood in the result twice: as the fast path had made it, and as the guest gave it up.",
        "import asyncio\nawait list_cities(0)\nresult = asyncio.create_task(read_notes())\n"
        "await same(float('inf'))\nawait result",
    ),
    "a task awaited twice": Regression(
        "Its result was read once, and gone.",
        "import asyncio\nt = asyncio.create_task(get_weather('Oslo'))\na = await t\nb = await t\n"
        "[a, b, *await asyncio.gather(t, t)]",
    ),
    "a name that holds a call in the next round": Regression(
        "In the second round it still had its old value.",
        "c = 5\nfor x in [1, 2]:\n    print(c)\n    c = get_number(x)\n    await c",
    ),
    "a generator of deeds with a name": Regression(
        "Its calls were made where it is written, not where it is gathered.",
        "import asyncio\ng = (note(x) for x in 'ab')\nawait note('z')\nawait asyncio.gather(*g)",
    ),
    "a generator of calls that sees a later change": Regression(
        "The same, seen in the arguments.",
        "import asyncio\nxs = ['a']\ng = (note(x) for x in xs)\nxs.append('b')\nawait asyncio.gather(*g)",
    ),
    "a generator of calls that is gathered twice": Regression(
        "The second time there is nothing in it.",
        "import asyncio\ng = (note(x) for x in 'ab')\n[await asyncio.gather(*g), await asyncio.gather(*g)]",
    ),
    "a task that main takes over": Regression(
        "There is no event loop at the top level of a program that awaits nothing there.",
        "import asyncio\nt = asyncio.create_task(get_number(1))\nasync def main():\n    return await t\n"
        "asyncio.run(main())",
    ),
    "an import within main": Regression(
        "It makes the name local in all of main, also before it.",
        "import json\nasync def main():\n    x = json.dumps(1)\n    import json\n    return x\nawait main()",
    ),
    "a deed in the index of a target": Regression(
        "It was done before the value was evaluated, which fails.", "d = {}\nd[await note('i')] = 1 / 0"
    ),
    "a deed in the holder of a target": Regression("The same.", "(await note('i'))[0] = 1 / 0"),
    "a deed late in a large dict": Regression(
        "CPython hashes the first keys before it evaluates the last values.",
        "d = {[]: 1, " + ", ".join(f"{n}: {n}" for n in range(20)) + ", 'z': await note('x')}",
    ),
    "a deed late in a large set": Regression(
        "The same.", "len({[], " + ", ".join(str(n) for n in range(40)) + ", await note('x')})"
    ),
    "a deed in a set after what was spread": Regression("The same.", "len({*[1], [], await note(1)})"),
    "an iterator within a list": Regression(
        "It is used up once; a read was made for what it no longer gives.",
        "g = [zip([1], [2])]\na = await same(list(g[0]))\nb = await same(list(g[0]))\n[a, b]",
    ),
    "a further target on another line": Regression(
        "The error of the unpacking was told of the statement's first line.", "x = \\\na, b = [1]"
    ),
    "a method whose dot stands on another line": Regression(
        "The error was told of the object's line.", "xs = [1]\n(xs\n .append(5))"
    ),
    "what a loop goes over on another line": Regression(
        "That it cannot be gone over was told of its own line, not the loop's.",
        "for x in (\n  await get_number(1)):\n    pass",
    ),
    "a comprehension's name before it is bound": Regression(
        "The error named a variable that no program can write.",
        "y = 5\nr = [y for x in [await get_number(1)] for y in [y]]",
    ),
    "a method that is not there": Regression(
        "Its argument was evaluated first, and failed first.", "x = 1\nx.append(x[0])"
    ),
    "an input with the name of the function": Regression(
        "The function hides it.",
        "async def main():\n    await get_number(1)\nawait main()\nprint(str(main)[:14])",
        {"main": 5},
    ),
    "an input with a name of the interpreter's": Regression(
        "It decides what the usual guard finds.",
        "if __name__ == '__main__':\n    await get_number(1)\nprint('out')",
        {"__name__": "other"},
    ),
    "an inverted truth value": Regression("From Python 3.12 on it is warned of, in the logs.", "x = True\nprint(~x)"),
    "a field that a plain dict lacks": Regression(
        "From Python 3.12 on the traceback makes a suggestion.", "d = {'temp': 1}\nd.temps"
    ),
    "a key that cannot be one, over several lines": Regression(
        "From Python 3.12 on the error is told of the key's line.",
        "d = {k:\n  await put_in_order([1]) for\n  k in (\n  await get_rows())}",
    ),
    "an error that depends on the order of a set": Regression(
        "Which two items could not be compared was told as the host's hash seed had it.",
        "sorted(set(await same(['b', 'a', 'é', 'B', 4])))",
    ),
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_it_comes_to_the_same_again(name: str, paths: Paths) -> None:
    regression = REGRESSIONS[name]
    program = Program(regression.source, regression.inputs)
    _, _, found = paths.compare(program)
    assert not found, "\n".join([regression.wrong, *found])
