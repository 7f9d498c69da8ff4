"""Programs in, plans out: exactly these."""

from __future__ import annotations

import json
from typing import Any

import pytest

from program.graph.scheduling import planned, refusal_of, steps_of

PLANS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "results are referred to by the variable they are bound to": (
        "w = await get('Oslo')\nd = await get(w.city, days=w['temp'] + 1)\nawait save(d)",
        [
            {"id": "w", "tool": "get", "arguments": {"city": "Oslo"}},
            {
                "id": "d", "tool": "get",
                "arguments": {"city": {"$expr": "w.city"}, "days": {"$expr": "w['temp'] + 1"}},
            },
            {"id": "save", "tool": "save", "arguments": {"value": "$ref:d"}, "depends_on": ["w"]},
        ],
    ),
    "constants are JSON, and texts that look like references are literal": (
        "await find('$ref:x', [1, -2.5, None, {'a': True}])\nawait find('${find}')\nawait find('steps[0].result')",
        [
            {
                "id": "find", "tool": "find",
                "arguments": {"query": {"$literal": "$ref:x"}, "limit": [1, -2.5, None, {"a": True}]},
            },
            {"id": "find_2", "tool": "find", "arguments": {"query": {"$literal": "${find}"}}},
            {"id": "find_3", "tool": "find", "arguments": {"query": {"$literal": "steps[0].result"}}},
        ],
    ),
    "a gathered list is one step for all items": (
        "import asyncio\ncities = await find('x')\nresults = await asyncio.gather(*[get(c) for c in cities])\n"
        "warm = [r.city for r in results if r.temp > 4]\nawait save(warm)",
        [
            {"id": "cities", "tool": "find", "arguments": {"query": "x"}},
            {
                "id": "results", "tool": "get", "arguments": {"city": "$item"},
                "for_each": {"$expr": "list(cities)"},
            },
            {
                "id": "save", "tool": "save",
                "arguments": {"value": {"$expr": "[r.city for r in results if r.temp > 4]"}},
                "depends_on": ["cities"],
            },
        ],
    ),
    "calls of a loop are zipped with the results before them": (
        "out = []\nfor c in ['Oslo', 'Rome']:\n    w = await get(c)\n    if w.temp > 3:\n"
        "        more = await find(f'{c} {w.temp}')\n        out.append((c, more))\nawait save(out)",
        [
            {"id": "w", "tool": "get", "arguments": {"city": "$item"}, "for_each": ["Oslo", "Rome"]},
            {
                "id": "more", "tool": "find", "arguments": {"query": {"$expr": "f'{item[0]} {item[1].temp}'"}},
                "for_each": {"$expr": "[[c, one_w] for c, one_w in zip(['Oslo', 'Rome'], w) if one_w.temp > 3]"},
            },
            {
                "id": "save", "tool": "save",
                "arguments": {
                    "value": {
                        "$expr": "[(c, one_more) for c, one_more in zip([c for c, one_w in "
                        "zip(['Oslo', 'Rome'], w) if one_w.temp > 3], more)]"
                    }
                },
            },
        ],
    ),
    "nested loops are one list of items": (
        "xs = []\nfor k, v in {'a': 1, 'b': 2}.items():\n    for d in range(v):\n        xs.append(await find(k, d))",
        [
            {
                "id": "xs", "tool": "find", "arguments": {"query": "$item[0]", "limit": "$item[1]"},
                "for_each": {"$expr": "[[k, d] for k, v in {'a': 1, 'b': 2}.items() for d in range(v)]"},
            }
        ],
    ),
    "an item carries what an argument came to, where the variable is no JSON value": (
        "for pair in zip('ab', [1, 2]):\n    await find(str(pair))",
        [
            {
                "id": "find", "tool": "find", "arguments": {"query": "$item"},
                "for_each": {"$expr": "[str(pair) for pair in zip('ab', [1, 2])]"},
            }
        ],
    ),
    "a place within an item's own value is no reference": (
        "for c in ['Oslo', 'Rome']:\n    await get(c[0])",
        [{"id": "get", "tool": "get", "arguments": {"city": {"$expr": "item[0]"}}, "for_each": ["Oslo", "Rome"]}],
    ),
    "branches are conditions, and what comes after them waits for both sides": (
        "w = await get('Oslo')\nif w.temp > 3 and w.near:\n    r = await find('a')\n    await save(r)\nelif w.temp:\n"
        "    await save('cold')\nx = await get('Rome')\nawait save(x)",
        [
            {"id": "w", "tool": "get", "arguments": {"city": "Oslo"}},
            {
                "id": "r", "tool": "find", "arguments": {"query": "a"},
                "when": {"$expr": "bool(w.temp > 3 and w.near)"}, "critical": True,
            },
            {
                "id": "save", "tool": "save", "arguments": {"value": "$ref:r"},
                "when": {"$expr": "bool(w.temp > 3 and w.near)"}, "critical": True,
            },
            {
                "id": "save_2", "tool": "save", "arguments": {"value": "cold"},
                "when": {"$expr": "not (w.temp > 3 and w.near) and bool(w.temp)"}, "critical": True,
            },
            {"id": "x", "tool": "get", "arguments": {"city": "Rome"}, "after": ["save", "save_2"]},
            {"id": "save_3", "tool": "save", "arguments": {"value": "$ref:x"}, "depends_on": ["w"]},
        ],
    ),
    "a condition is kept as it was when it was asked": (
        "n = len(await find('x'))\nif n > 2:\n    n = 0\n    await save(n)",
        [
            {"id": "find", "tool": "find", "arguments": {"query": "x"}},
            {"id": "save", "tool": "save", "arguments": {"value": 0}, "when": {"$expr": "len(find) > 2"}},
        ],
    ),
    "a pure branch is a conditional expression": (
        "w = await get('Oslo')\nwhere = 'a'\nif w.temp > 9:\n    where = w.city\nawait find(where)",
        [
            {"id": "w", "tool": "get", "arguments": {"city": "Oslo"}},
            {"id": "find", "tool": "find", "arguments": {"query": {"$expr": "w.city if w.temp > 9 else 'a'"}}},
        ],
    ),
    "what an expression binds itself is never taken for a step or an item": (
        "x = await find('x')\ny = [x for x in [1, 2]]\nfor c in x:\n"
        "    await find([item + c for item in 'ab'], y)",
        [
            {"id": "find", "tool": "find", "arguments": {"query": "x"}},
            {
                "id": "find_2", "tool": "find",
                "arguments": {
                    "query": {"$expr": "[an_item + item for an_item in 'ab']"},
                    "limit": {"$expr": "[x for x in [1, 2]]"},
                },
                "for_each": {"$expr": "list(find)"},
            },
        ],
    ),
    "lists and dicts that grow where nobody else has them are known": (
        "w = await get('Oslo')\nxs = [1]\nxs.append(w.temp)\nxs += ['a']\nd = {}\nd['k'] = xs[0]\nn = 1\nn += w.temp\n"
        "await save([xs, d, n])",
        [
            {"id": "w", "tool": "get", "arguments": {"city": "Oslo"}},
            {
                "id": "save", "tool": "save",
                "arguments": {
                    "value": {"$expr": "[[1, w.temp, 'a'], {'k': [1, w.temp, 'a'][0]}, 1 + w.temp]"}
                },
            },
        ],
    ),
    "started calls are ordered by what was awaited before them; a read comes after what was begun": (
        "import asyncio\na = asyncio.create_task(save(1))\nb = asyncio.create_task(save(2))\nr = await get('x')\n"
        "await a\nawait b\nawait save(r)\nawait get('y')",
        [
            {"id": "save", "tool": "save", "arguments": {"value": 1}},
            {"id": "save_2", "tool": "save", "arguments": {"value": 2}},
            {"id": "r", "tool": "get", "arguments": {"city": "x"}, "depends_on": ["save", "save_2"]},
            {"id": "save_3", "tool": "save", "arguments": {"value": "$ref:r"}, "depends_on": ["save", "save_2"]},
            {"id": "get", "tool": "get", "arguments": {"city": "y"}, "depends_on": ["save_3"]},
        ],
    ),
    "keys that may be no texts become texts as in JSON": (
        "await save({1: 'a'})\nw = await get('x')\nawait save({w.temp: 1})",
        [
            {"id": "save", "tool": "save", "arguments": {"value": {"1": "a"}}},
            {"id": "w", "tool": "get", "arguments": {"city": "x"}, "depends_on": ["save"]},
            {
                "id": "save_2", "tool": "save",
                "arguments": {"value": {"$expr": "json.loads(json.dumps({w.temp: 1}))"}},
            },
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "steps"), PLANS.values(), ids=PLANS.keys())
def test_a_program_becomes_this_plan(source: str, steps: list[dict[str, Any]]) -> None:
    assert steps_of(source) == steps


def test_steps_are_described_and_may_have_many_items() -> None:
    (step,) = planned("\nfor c in ['a']:\n    await get(c)")["steps"]
    assert (step["description"], step["max_items"]) == ("line 3: await get(c)", 100_000)


def test_small_inputs_are_written_into_expressions() -> None:
    source = "for row in rows[:top]:\n    await get(row['city'])"
    (step,) = steps_of(source, {"rows": [{"city": "Oslo", "n": 1}], "top": 2})
    assert step["for_each"] == {"$expr": "list([{'city': 'Oslo', 'n': 1}][:2])"}
    assert step["arguments"] == {"city": {"$expr": "item['city']"}}


def test_large_constants_are_no_expressions() -> None:
    cities = [f"city {n}" for n in range(2_000)]
    (step,) = steps_of(f"for c in {cities!r}:\n    await get(c)")
    assert step["for_each"] == cities


def test_no_calls_are_no_steps() -> None:
    assert planned("print(1)") == {"steps": []}


REFUSED = {
    "total = 0\nfor c in 'ab':\n    total += (await get(c)).temp\nawait save(total)": (
        "line 4: save(total): its argument `value` needs `total`, which has another value in each round of the loop in "
        "line 2; collect what the rounds give in a list, [... for ...], and use that"
    ),
    "xs = await find('x')\nys = xs\nys.append('Bergen')\nfor x in xs:\n    await get(x)": (
        "line 4: for: what it goes over, with calls in it, needs `xs`, which is changed in place in line 3, or shares "
        "parts with what is; make it in one expression, like [row.name for row in rows]"
    ),
    "w = None\nif len('a') > 0:\n    w = await get('x')\nawait save(w)": (
        "line 4: save(w): its argument `value` needs `w`, which comes of a call that is made only if the condition in "
        "line 2 says so; use the result in the same branch, or make the call without the condition"
    ),
    "for c in 'ab':\n    w = await get(c)\n    await save(w)": (
        "line 1: for: it calls save, which is not read-only, and calls others as well; make the other calls in a loop "
        "of their own, before the one with save"
    ),
    "w = await get('x')\nrow = w.by_day\nif row:\n    row['n'] = 1\nif w.temp:\n    await save(1)": (
        "line 5: if: its condition, with calls in a branch, needs `w`, which is changed in place in line 4, or shares "
        "parts with what is; make it in one expression, like [row.name for row in rows]"
    ),
    "for c in 'ab':\n    days = []\n    for d in [1, 2]:\n        days.append(await get(c, d))\n    await find(days)": (
        "line 5: find(days): its argument `query` needs `days`, which holds results of an inner loop, anew in each "
        "round of an outer one; put them into one list, over both loops"
    ),
    "xs = ['a']\nfor x in xs:\n    await get(x)\n    xs.append(x)": (
        "line 2: for: what it goes over is changed in the loop, or shares parts with what is; loop over a copy: "
        "list(values)"
    ),
    "x = 'a' * 3\n" + "x = x + x\n" * 60 + "await get(x)": (
        "line 62: get(x): its argument `city` needs `x`, which gets too large for an expression of a plan; let a tool "
        "give the value, or do it in several calls"
    ),
    "await get('\\ud800')": (
        "line 1: get('\\ud800'): it holds half of a surrogate pair, which is not Unicode text; remove it"
    ),
}


@pytest.mark.parametrize(("source", "reason"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_is_not_certain_is_refused_in_words_to_act_on(source: str, reason: str) -> None:
    assert refusal_of(source) == reason


def test_an_input_that_is_too_large_is_refused_where_a_call_needs_it() -> None:
    inputs = {"rows": ["x" * 3000]}
    assert refusal_of("for row in rows:\n    await get(row)", inputs) == (
        "line 1: for: what it goes over, with calls in it, needs `rows`, which is an input that is too large to be "
        "written into a plan; let a tool give the data"
    )
    assert steps_of("print(rows)\nawait get('x')", inputs) == [{"id": "get", "tool": "get", "arguments": {"city": "x"}}]


ALIASES = [
    "a = w.near\nb = [a]\nb[0].append(1)",
    "a = [w.near]\nb = a.copy()\nb[0].append(1)",
    "a = {'k': w.near}\nfor x in a.values():\n    x.append(1)",
    "a = w.near if w else []\na += [1]",
    "a = max([w.near, w.near])\na.sort()",
    "a = []\na.append(w.near)\na[0].clear()",
    "a = []\nfor n in [1, 2]:\n    a.append(w.near)\nfor each in a:\n    each.reverse()",
    "a, b = w.near, 1\na.insert(0, b)",
    "a = list(zip([w.near], [1]))\nfor x, n in a:\n    x.append(n)",
    "w['near'] = 1",
    "a = [x for x in [w.near]]\na[0][0] = 1",
    "a = sorted([w.near], key=len)[0]\na.extend('x')",
]


@pytest.mark.parametrize("change", ALIASES)
def test_a_change_through_another_variable_is_seen(change: str) -> None:
    reason = refusal_of(f"w = await get('Oslo')\n{change}\nawait save(w.near)")
    assert reason.startswith("line ")
    assert "which is changed in place" in reason


@pytest.mark.parametrize(
    "change",
    [
        "a = list(w.near)\na.append(1)", "a = [w.near]\na.append(1)", "a = str(w.near)\na += 'x'",
        "a = {**w}\na['near'] = 1", "a = []\nfor x in w.near:\n    a.append(x)", "a = len(w.near)\na += 1",
    ],
)  # fmt: skip
def test_a_change_of_a_copy_changes_nothing_else(change: str) -> None:
    assert steps_of(f"w = await get('Oslo')\n{change}\nawait save(w.near)")[-1]["arguments"] == {
        "value": {"$expr": "w.near"}
    }


def test_a_call_awaited_twice_gives_the_same_object_twice() -> None:
    start = "import asyncio\nt = asyncio.create_task(get('x'))\na = await t\n"
    assert "`b`, which is changed" in refusal_of(f"{start}b = await t\na['k'] = 1\nawait save(b)")
    assert "`t`, which is changed" in refusal_of(f"{start}a['k'] = 1\nb = await t\nawait save(b)")
    gathered = f"{start}xs = await asyncio.gather(t, get('y'))\na['k'] = 1\nawait save(xs)"
    assert "`xs`, which is changed" in refusal_of(gathered)


def test_a_round_sees_what_the_round_before_left() -> None:
    source = "last = 'a'\nfor c in 'abc':\n    await find({use})\n    last = {value}"
    assert "`last`, which has another value in each round" in refusal_of(source.format(use="last", value="c"))
    rows = "rows = []\nshared = []\nfor c in 'abc':\n    shared.append(c)\n    rows.append(shared)\nawait save(rows)"
    assert "which is changed in place in line 4" in refusal_of(rows)


def test_a_program_whose_plan_would_be_much_too_large_is_refused_soon() -> None:
    wide = "d = [" + ", ".join(f"w['{n:040}']" for n in range(150)) + "]"
    assert "its plan are too large" in refusal_of(f"w = await get('Oslo')\n{wide}\n" + "await save(d)\n" * 60)
    many = "".join(f"a{n} = await get('x', {n})\n" for n in range(300)) + "".join(
        f"b{n} = save(a{n % 7})\n" for n in range(400)
    )
    waits = "".join(f"await b{n}\n" for n in range(400))
    assert "too many calls wait for too many others" in refusal_of(many + waits)


def test_every_plan_can_be_sent_as_json() -> None:
    for source, _ in PLANS.values():
        assert json.loads(json.dumps(planned(source))) == planned(source)
