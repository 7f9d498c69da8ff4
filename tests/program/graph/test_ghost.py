"""The walk ahead: what it offers of a program, given what is known of its calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate.plan.expressions import Budget
from callgate.program.graph.walking.ghost import Ghost, Offered, makes_iterators
from program.graph.following import flow_of

FAILED = object()
"""In the place of a call's result."""


def look(source: str, known: dict[tuple[int, int], Any] | None = None, **options: Any) -> tuple[list[str], bool]:
    """What a look at the program offers, in short, and whether something keeps it from offering more.

    Args:
        source: the program.
        known: what the calls of each place gave; results are JSON values.
        options: `asked`, `most_calls`, `budget`, `inputs`.
    """
    texts = {place: None if value is FAILED else json.dumps(value) for place, value in (known or {}).items()}
    inputs = options.get("inputs", {})
    flow = flow_of(source, **inputs)
    ghost = Ghost(
        flow,
        inputs,
        options.get("budget") or Budget(steps=100_000, bytes=16 << 20),
        texts,
        options.get("asked", texts),
        options.get("most_calls"),
        makes_iterators(flow),
    )
    found = [
        f"{step.site.tool}#{step.site.number}.{step.number} {' '.join(map(str, step.arguments.values()))}"
        for step in ghost.look()
        if isinstance(step, Offered)
    ]
    return found, ghost.blocked


ROWS = "rows = [{'id': n, 'tags': []} for n in range(3)]\n"
AT_ONCE = {
    "calls one after the other": (
        "a = await weather('x')\nb = await weather('y')\n(a, b)",
        ["weather#0.0 x", "weather#1.0 y"],
    ),
    "a loop over what is there": ("for c in ['x', 'y']:\n    w = await weather(c)", ["weather#0.0 x", "weather#0.1 y"]),
    "what needs a result is not offered": ("a = await weather('x')\nb = await weather(a.city)", ["weather#0.0 x"]),
    "an unknown value within an argument": ("a = await weather('x')\nb = await weather([a])", ["weather#0.0 x"]),
    "nothing behind a call with effects": ("await save(1)\nawait weather('x')", []),
    "nor behind one that nobody awaited yet": ("t = save(1)\na = await weather('x')\nawait t", []),
    "what is printed may be unknown": ("print((await weather('x')).temp)\nawait weather('y')", 2),
    "an error ends it": ("await weather('x')\n[][1]\nawait weather('y')", 1),
    "an error in what is printed ends it": ("await weather('x')\nprint(1 // 0)\nawait weather('y')", 1),
    "an error for want of a value does not": ("a = await weather('x')\nb = 1 // a.temp\nawait weather('y')", 2),
    "a branch over an unknown value is stepped over": (
        "a = await weather('x')\nif a.temp:\n    print(1)\nawait weather('y')",
        2,
    ),
    "what a branch may store is unknown": (
        "a = await weather('x')\nb = 1\nif a.temp:\n    b = 2\nawait weather(b)\nawait weather('y')",
        ["weather#0.0 x", "weather#2.0 y"],
    ),
    "a branch with a call with effects ends it": (
        "a = await weather('x')\nif a.temp:\n    await save(1)\nawait weather('y')",
        1,
    ),
    "a place in such a branch makes an unknown number of calls": (
        "a = await weather('x')\nfor c in ['p', 'q']:\n    if a.temp or c == 'q':\n        await weather(c)\n"
        "    await weather(c * 2)",
        ["weather#0.0 x", "weather#2.0 pp", "weather#2.1 qq"],
    ),
    "a loop over an unknown value": (
        "a = await weather('x')\nfor i in a['items']:\n    print(i)\nawait weather('y')",
        2,
    ),
    "an accumulator is unknown, and nothing else is": (
        "t = 0\nfor c in ['x', 'y']:\n    t += (await weather(c)).temp\nawait weather(t)\nawait weather('z')",
        ["weather#0.0 x", "weather#0.1 y", "weather#2.0 z"],
    ),
    "a list that takes an unknown value has a length": (
        "ws = []\nfor c in ['x', 'y']:\n    ws.append(await weather(c))\nawait weather(len(ws))",
        ["weather#0.0 x", "weather#0.1 y", "weather#1.0 2"],
    ),
    "a list that may have been changed has none": (
        "ws = []\na = await weather('x')\nif a.temp:\n    ws.append(1)\nawait weather(len(ws))",
        ["weather#0.0 x"],
    ),
    "another name of that list": (
        "ws = []\nothers = {'k': ws}\na = await weather('x')\nif a.temp:\n    ws.append(1)\n"
        "await weather(others['k'])\nawait weather('y')",
        ["weather#0.0 x", "weather#2.0 y"],
    ),
    "a list that goes on being filled does not end the loop": (
        f"{ROWS}hot = []\nfor r in rows:\n    if (await weather(r['id'])).temp:\n        hot.append(r)",
        ["weather#0.0 0", "weather#0.1 1", "weather#0.2 2"],
    ),
    "items that may be changed do not end the loop over them": (
        f"{ROWS}for r in rows:\n    if (await weather(r['id'])).temp:\n        r['hot'] = 1\nawait weather(rows[0])",
        ["weather#0.0 0", "weather#0.1 1", "weather#0.2 2"],
    ),
    "the list that is gone over does, where it may be changed": (
        f"{ROWS}for r in rows:\n    if (await weather(r['id'])).temp:\n        rows.append(r)",
        ["weather#0.0 0"],
    ),
    "a part of it that was changed under an unknown name": (
        f"{ROWS}a = await weather('x')\nr = rows[a.temp]\nr['id'] = 9\n"
        "await weather(rows[0]['id'])\nawait weather('y')",
        ["weather#0.0 x", "weather#2.0 y"],
    ),
    "what was put under an unknown name, and changed there": (
        "box = {}\nmine = [1]\na = await weather('x')\na['k'] = mine\nb = a['k']\nb.append(2)\n"
        "await weather(mine)\nawait weather('y')",
        ["weather#0.0 x", "weather#2.0 y"],
    ),
    "identity is unknown, too": ("a = await weather('x')\nif a is None:\n    1 // 0\nawait weather('y')", 2),
    "gathered results are known one by one": (
        "import asyncio\na, b = await asyncio.gather(weather('x'), weather('y'))\nawait weather('z')",
        3,
    ),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_is_offered_before_anything_has_ended(name: str) -> None:
    source, expected = AT_ONCE[name]
    found, _ = look(source)
    assert (len(found) if isinstance(expected, int) else found) == expected


LATER: dict[str, tuple[str, dict[tuple[int, int], Any], list[str]]] = {
    "a step of a chain whose call has ended": (
        "for c in ['x', 'y']:\n    a = await weather(c)\n    b = await by_name(a.city)",
        {(0, 1): {"city": "Y"}},
        ["by-name#1.1 Y"],
    ),
    "a gathered result before the others": (
        "import asyncio\nws = await asyncio.gather(*[weather(c) for c in 'pq'])\n"
        "for w in ws:\n    await by_name(w.city)",
        {(0, 1): {"city": "Q"}},
        ["by-name#1.1 Q"],
    ),
    "behind a call with effects that has ended": ("await save(1)\nawait weather('x')", {(0, 0): 1}, ["weather#1.0 x"]),
    "nothing behind a call that failed where it is awaited": (
        "await weather('x')\nawait weather('y')",
        {(0, 0): FAILED},
        [],
    ),
    "but before it is": (
        "t = broken(1)\nawait weather('x')\nawait t\nawait weather('y')",
        {(0, 0): FAILED},
        ["weather#1.0 x"],
    ),
    "nor behind a gather with one that failed": (
        "import asyncio\nawait asyncio.gather(weather('x'), broken(1))\nawait weather('y')",
        {(1, 0): FAILED},
        ["weather#0.0 x"],
    ),
    "a result awaited twice is one object": (
        "t = weather('x')\na = await t\na.update({'k': 1})\nb = await t\nawait by_name(b['k'])",
        {(0, 0): {}},
        ["by-name#1.0 1"],
    ),
}


@pytest.mark.parametrize("name", LATER)
def test_what_is_offered_when_some_calls_have_ended(name: str) -> None:
    source, known, expected = LATER[name]
    if name.startswith(("a step", "a gathered")):
        asked = {(0, 0), (0, 1)}
    else:
        asked = set(known)
    assert look(source, known, asked=asked)[0] == expected


def test_it_says_whether_another_look_can_bring_more() -> None:
    assert look("print((await weather('x')).temp)")[1] is False
    assert look("a = await weather('x')\nawait weather(a.city)")[1] is True
    assert look("await save(1)\nawait weather('x')")[1] is True
    assert look("a = await weather('x')\nif a.temp:\n    await weather('y')")[1] is True


def test_calls_are_counted_where_they_are_few() -> None:
    source = "for c in range(9):\n    await weather(c)"
    assert len(look(source, most_calls=4)[0]) == 4
    behind = "a = await weather('x')\nif a.temp:\n    await weather('y')\nawait weather('z')"
    assert len(look(behind)[0]) == 2
    assert look(behind, most_calls=9)[0] == ["weather#0.0 x"]


def test_all_looks_have_one_budget() -> None:
    budget = Budget(steps=1_000, bytes=1 << 20)
    source = "xs = [n * n for n in range(100)]\nawait weather(xs[9])"
    found = [bool(look(source, budget=budget)[0]) for _ in range(5)]
    assert found[0]
    assert not found[-1]


def test_inputs_and_results_are_its_own() -> None:
    rows = [[1]]
    source = "rows[0].append(2)\na = await weather('x')\na['k'] = 1\nawait by_name(rows)"
    for _ in range(2):
        assert look(source, {(0, 0): {}}, inputs={"rows": rows})[0] == ["by-name#1.0 [[1, 2]]"]
    assert rows == [[1]]
