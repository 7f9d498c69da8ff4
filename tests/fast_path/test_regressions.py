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
