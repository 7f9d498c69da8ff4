"""Programs written as plans: the steps, what they wait for, and what no plan says."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.program.graph.reasons import NotAGraph
from callgate.program.graph.writing import Written, write_plan
from program.graph.following import flow_of


def told(source: str, **inputs: Any) -> list[str]:
    """The steps of a plan in short: ``id tool arguments | for_each < what has to have ended``."""
    written = write_plan(flow_of(source, **inputs), inputs)
    assert isinstance(written, Written), written
    lines = []
    for step in written.steps:
        arguments = " ".join(str(_short(value)) for value in step["arguments"].values())
        each = f" | {_short(step['for_each'])}" if "for_each" in step else ""
        after = f" < {' '.join(step['depends_on'])}" if "depends_on" in step else ""
        lines.append(f"{step['id']} {step['tool']} {arguments}{each}{after}")
    return lines


def _short(value: Any) -> Any:
    return value["$expr"] if isinstance(value, dict) and "$expr" in value else value


PLANS: dict[str, tuple[str, list[str]]] = {
    "straight": (
        "a = await weather('x')\nb = await weather(a.city, unit='F')\nf'{a} {b}'",
        ["a weather x", "b weather a.city F"],
    ),
    "values between the calls": (
        "a = await weather('x')\nc = a.city\nd = [c, 1]\nawait save({'all': d})",
        ["a weather x", "save save {'all': [a.city, 1]}"],
    ),
    "writes keep their place": (
        "a = await weather('x')\nawait save(1)\nb = await weather('y')\nawait save(2)",
        ["a weather x", "save save 1 < a", "b weather y < save", "save_2 save 2 < b"],
    ),
    "a gather": (
        "import asyncio\na, b = await asyncio.gather(weather('x'), weather('y'))\nawait save(b.city)",
        ["a weather x", "b weather y", "save save b.city < a"],
    ),
    "a map": (
        "import asyncio\nws = await asyncio.gather(*[weather(c) for c in ['x', 'y']])\nawait save(len(ws))",
        ["ws weather $item | ['x', 'y']", "save save len(ws)"],
    ),
    "a loop that appends": (
        "ws = []\nfor c in 'pq':\n    w = await weather(c)\n    ws.append(w.temp)\nawait save(ws)",
        ["w weather $item | list('pq')", "save save [result_1.temp for item_1, result_1 in zip('pq', w)]"],
    ),
    "a loop over pairs": (
        "for c, u in [('x', 'F')]:\n    await weather(c, u)",
        ["weather weather item[0] item[1] | [['x', 'F']]"],
    ),
    "a comprehension with a condition": (
        "ws = [await weather(c) for c in 'pq' if c > 'p']\nawait save(str(ws))",
        ["weather weather $item | [item_1 for item_1 in 'pq' if item_1 > 'p']", "save save str(weather)"],
    ),
    "calls held in a list": (
        "import asyncio\nts = [weather('x'), weather('y')]\nws = await asyncio.gather(*ts)\nawait save(ws[1])",
        ["ws weather x", "ws_2 weather y", "save save [ws, ws_2][1]"],
    ),
    "names of comprehensions are no step's": (
        "x = await weather('x')\nawait save([x for x in [1, 2]])",
        ["x_2 weather x", "save save [x for x in [1, 2]] < x_2"],
    ),
    "text that looks like a reference": ("await save('$ref:a')", ["save save {'$literal': '$ref:a'}"]),
    "what is worked out of the item before the call": (
        "x = 'a'\nfor c in 'pq':\n    x = c * 2\n    await weather(x)",
        ["weather weather item * 2 | list('pq')"],
    ),
    "reads of a list before a write": (
        "import asyncio\nts = [weather('x')]\nfor c in 'pq':\n    ts.append(weather(c))\n"
        "await asyncio.gather(*ts)\nawait save(1)",
        ["weather weather x", "weather_2 weather $item | list('pq')", "save save 1 < weather weather_2"],
    ),
    "an input": ("await save(n)", ["save save 3"]),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_program_is_written_as_steps(name: str) -> None:
    source, expected = PLANS[name]
    inputs = {"n": 3} if name == "an input" else {}
    assert told(source, **inputs) == expected


NONE = {
    "a = await weather('x')\nif a.temp:\n    await save(1)": "line 2: if: a branch makes calls",
    "for c in 'pq':\n    await weather(c)\n    await save(c)": "several calls a round",
    "t = 0\nfor c in 'pq':\n    t += (await weather(c)).temp\nawait save(t)": "its argument value is not known",
    "xs = [1]\nys = xs\nys.append(2)\nawait save(xs)": "its argument value is not known",
    "a = await weather('x')\na['k'] = 1\nawait save(a)": "its argument value is not known",
    "a = await weather('x')\nb = {'k': a}\na['k'] = 1\nawait save(b)": "its argument value is not known",
    "t = 0\nfor c in 'pq':\n    await weather(c, t)\n    t += 1": "its argument unit is not known",
    "x = 'a'\nfor c in 'pq':\n    await weather(c, x)\n    x = c": "its argument unit is not known",
    "xs = []\nfor c in 'pq':\n    w = await weather(c)\n    xs.append(w)\n    w.update({'k': 1})\nawait save(xs)": (
        "its argument value is not known"
    ),
    "xs = ['p']\nfor c in xs:\n    xs.append(await weather(c))": "what it goes over is not known",
    "r = [1]\nawait save(sorted(r, key=lambda r: -r))": "its argument value is not known",
    "for c in 'pq':\n    await weather([c for item in [1, 2]])": "its argument city is not known",
    "x = 0\nif (await weather('x')).temp:\n    x = 1\nawait save(x)": "its argument value is not known",
    "a = await weather('x')\nxs = []\nxs += [a]\nxs[0]['k'] = 1\nawait save(a)": "its argument value is not known",
    "await save(big)": "its argument value is not known",
}


@pytest.mark.parametrize("source", NONE)
def test_what_no_plan_says_is_told(source: str) -> None:
    inputs = {"big": "x" * 3000}
    found = write_plan(flow_of(source, **inputs), inputs)
    assert isinstance(found, NotAGraph), found
    assert NONE[source] in str(found)


def test_a_change_in_place_does_not_take_what_cannot_see_it() -> None:
    source = "xs = [1]\nrows = await weather('x')\nxs.append(2)\nawait save(rows)"
    assert told(source) == ["rows weather x", "save save $ref:rows"]


def test_expressions_do_not_grow_without_end() -> None:
    doubled = "x = [1]\n" + "x = [x, x]\n" * 60 + "await save(x)"
    assert isinstance(write_plan(flow_of(doubled), {}), NotAGraph)


def test_an_input_that_cannot_be_written_is_not_known() -> None:
    deep: object = 1
    for _ in range(300):
        deep = [deep]
    assert isinstance(write_plan(flow_of("await save(n)", n=deep), {"n": deep}), NotAGraph)
