"""What a plan may cost the host: programs written to be expensive are refused soon, ordinary ones stay far from it."""

from __future__ import annotations

import json
import sys
import tracemalloc
from typing import Any

import pytest

from callgate.program.graph.planning.schedule import schedule
from callgate.program.graph.planning.work import MOST_WORK, Work
from callgate.program.graph.reasons import Refusal
from program.graph.scheduling import accepted, flow_of, planned, refusal_of, steps_of

pytestmark = pytest.mark.sampled

MOST_EVENTS = 8_000_000
"""Calls and returns of functions while a plan is made. The dearest program that is known has 6 million."""
MOST_BYTES = 50_000_000
FOLLOWED = "it is too much to follow"


class TooMuch(BaseException):
    """Raised in the middle, so that a test that fails does not take minutes."""


def made(source: str) -> str:
    """How many steps its plan has, or why it has none."""
    flow = flow_of(source)
    left = MOST_EVENTS

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooMuch

    sys.setprofile(count)
    try:
        plan, _ = schedule(flow, {})
    except Refusal as refused:
        return str(refused)
    finally:
        sys.setprofile(None)
    return f"{len(plan['steps'])} steps"


def chain(count: int) -> tuple[str, str]:
    return "".join(f"v{n}=0\n" for n in range(count)), "".join(f"  v{n}=v{n + 1}\n" for n in range(count - 1))


def loop(body: str, count: int = 101) -> str:
    """A loop in which what a round leaves goes through many variables, one more in each round."""
    before, moves = chain(count)
    return f"x=[1]\nq=[[{'0,' * 9000}],0]\n{before}for i in x:\n{moves}  v{count - 1}=i\n{body}"


EXPENSIVE = {
    "a large literal that is unpacked again and again": (f"x=[[{'0,' * 9000}],0]\n" + "a,b=x\n" * 2000, "0 steps"),
    "a large literal with many names": (f"x=[{'0,' * 9000}]\n" + "a=x\n" * 3000, "0 steps"),
    "a large dict with many names": (
        "x={" + "".join(f"'{n}':0," for n in range(5500)) + "}\n" + "a=x\n" * 2500, "0 steps",
    ),
    "a large literal unpacked in a loop that is followed again": (loop("  a,b=q\n" * 500), "0 steps"),
    "a large literal written in a loop that is followed again": (loop(f"  z=[{'0,' * 6000}]\n"), "0 steps"),
    "a large literal for many calls": (f"x=[{'[],' * 9000}]\n" + "await find(x)\n" * 100, FOLLOWED),
    "a long text for many calls": (f"x='{'a' * 40_000}'\n" + "await find(x)\n" * 1500, "its plan is too large"),
    "conditions after many variables": (
        "".join(f"v{n}=1\n" for n in range(3000)) + "if v1:\n  pass\n" * 2600, FOLLOWED,
    ),
    "one condition for many calls": (
        "w=await find(1)\nif w and w[0] or w[1] == 3 and len(w[2]) > 4:\n" + " await find(2)\n" * 1900, FOLLOWED,
    ),
    "loops in loops, each with its own variables": (
        "u=[]\n"
        + "".join(f"{' ' * n}for i{n} in [1]:\n{' ' * n} w{n}=u\n{' ' * n} u=[w{n},i{n}]\n" for n in range(19)),
        FOLLOWED,
    ),
    "calls that are awaited again and again": (
        f"import asyncio\nt=[{'find(1),' * 1000}]\n" + "r=await asyncio.gather(*t)\n" * 1000, FOLLOWED,
    ),
    "lists that grow and share": (
        "".join(f"d{n}=[]\n" for n in range(1500))
        + "".join(f"d{n}.append(d{n - 1})\n" for n in range(1, 1500)),
        FOLLOWED,
    ),
    "a loop of many dependent calls": (
        "r=[1]\nfor i in r:\n a0=await find(i)\n"
        + "".join(f" a{n}=await find(a{n - 1})\n" for n in range(1, 1500)),
        FOLLOWED,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "comes"), EXPENSIVE.values(), ids=EXPENSIVE.keys())
def test_an_expensive_program_is_planned_cheaply_or_refused_soon(source: str, comes: str) -> None:
    assert comes in made(source)


LARGE = {
    "containers in containers": "x0=[]\n" + "".join(f"x{n}=[x{n - 1}]\n" for n in range(1, 4800)),
    "names in names": (
        "".join(f"a{n}=await find({n})\n" for n in range(1200))
        + f"g=[{','.join(f'a{n}' for n in range(600))}]\n"
        + "".join(f"b{n}=[g,a{n % 500 + 650}]\n" for n in range(1600))
    ),
    "copies of a literal": f"x=[{'[],' * 9000}]\n" + "await find(x)\n" * 100,
}


@pytest.mark.parametrize("source", LARGE.values(), ids=LARGE.keys())
def test_little_is_kept_while_a_plan_is_made(source: str) -> None:
    flow = flow_of(source)
    tracemalloc.start()
    try:
        schedule(flow, {})
    except Refusal:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MOST_BYTES


def test_a_long_name_is_not_what_others_wait_for() -> None:
    plan = planned(f"import asyncio\n{'x' * 20_000}=await save(1)\nr=await asyncio.gather({'save(2),' * 400})")
    assert len(json.dumps(plan)) < 512 * 1024


ORDINARY = {
    "calls one after the other": "".join(
        f"a{n} = await get('city {n}')\nif a{n}.temp > 3:\n    print(a{n}.city)\n" for n in range(200)
    ),
    "a list that grows": "out = []\n" + "".join(f"a{n} = await get('{n}')\nout.append(a{n})\n" for n in range(200)),
    "all at once": f"import asyncio\nr = await asyncio.gather({','.join(f'get(str({n}))' for n in range(200))})",
    "loops": "".join(
        f"cities = await find('{n}')\nout = {{}}\nfor c in cities:\n    w = await get(c)\n"
        "    if w.temp > 3:\n        out[c] = [w.temp, await find(w.city)]\nawait save(out)\n"
        for n in range(50)
    ),
    "a table for many": f"rows = {[[n, str(n)] for n in range(50)]}\n" + "await save(rows)\n" * 200,
}


@pytest.mark.parametrize("source", ORDINARY.values(), ids=ORDINARY.keys())
def test_a_program_of_two_hundred_calls_stays_far_from_the_budget(source: str) -> None:
    work = Work()
    schedule(flow_of(source), {}, work)
    assert work.left > MOST_WORK // 2


def test_a_loop_is_followed_once_where_once_will_do() -> None:
    source = (
        "import asyncio\nout = []\nw = 1\nfor c in ['a', 'b']:\n    w = await get(c)\n    if w.temp > 3:\n"
        "        out.append(w.temp)\nr = await asyncio.gather(*[get(c) for c in out])"
    )
    flow, lines = flow_of(source), []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "_take":
            lines.append(frame.f_locals["operation"].line)

    sys.setprofile(note)
    try:
        schedule(flow, {})
    finally:
        sys.setprofile(None)
    assert lines == [4, 8]


def test_what_a_loop_leaves_is_seen_however_many_rounds_it_takes() -> None:
    before, moves = chain(12)
    source = f"w = await get('x')\n{before}for i in [w.near]:\n{moves}  v11=i\nv0.append(1)\nawait save(w.near)"
    assert "`w`, which is changed in place" in refusal_of(source)


ITERATORS = [
    "[zip([1], [2])]", "{'k': map(str, [1])}", "[1, [reversed([1])]]", "list(map(enumerate, [[1]]))",
    "[filter(None, x) for x in [[1]]]", "[[zip([1])] for x in [1]][0]", "(zip([1]), 1)",
]  # fmt: skip


@pytest.mark.parametrize("held", ITERATORS)
def test_what_holds_an_iterator_is_no_expression_to_be_copied(held: str) -> None:
    assert "`g`, which holds an iterator" in refusal_of(f"g = {held}\nawait find(g)\nawait find(g)")
    assert "holds an iterator" in refusal_of(f"g = []\ng.append({held})\nawait find(g)")
    assert "holds an iterator" in refusal_of(f"for g in [{held}]:\n    await find(g)")


@pytest.mark.parametrize(
    "read",
    [
        "list(zip([1], [2]))", "[*map(str, [1])]", "[x for x in zip([1], [2])]", "dict(zip('ab', [1, 2]))",
        "sorted(reversed([1, 2]))", "max(map(len, ['a']))", "','.join(map(str, [1]))", "1 in map(len, ['a'])",
        "[i for i, _ in enumerate(filter(None, [1]))]", "sum(x for x in [1, 2])",
    ],
)  # fmt: skip
def test_an_iterator_that_is_read_at_once_does_no_harm(read: str) -> None:
    assert len(steps_of(f"g = {read}\nawait find(g)")) == 1
    assert len(steps_of(f"g = []\ng += zip([{read}])\nfor x in enumerate(g):\n    await find(x)")) == 1


def test_numbers_of_thousands_of_digits_are_refused_in_plain_words() -> None:
    number = f"0x{'f' * 4000}"
    assert "too many digits" in refusal_of(f"await find({number})")
    assert "gets too large" in refusal_of(f"await find({{{number}: 1}})")


def test_a_sum_over_what_a_loop_goes_over_shares_nothing_with_it() -> None:
    for values, target, added in (
        ("[1, 2]", "x", "x"), ("await find('x')", "x", "x"), ("enumerate(await find('x'))", "n, x", "n"),
    ):  # fmt: skip
        assert steps_of(f"total = 0\nfor {target} in {values}:\n    w = await get(x)\n    total += {added}")
    changed = "xs = [['a']]\nall = xs\nfor x in xs:\n    await find(x)\n    all += [x]".replace("all", "every")
    assert "what it goes over is changed in the loop" in refusal_of(changed)


def test_lists_that_grow_by_hand_stay_shallow() -> None:
    source = "out = []\n" + "".join(f"out.append(await get('{n}'))\n" for n in range(60)) + "await save(out)"
    assert len(steps_of(source)) == 61


def test_a_plan_of_many_calls_is_read_by_the_engine() -> None:
    plan = planned("".join(f"a{n}=await find({n})\n" for n in range(1500)))
    assert len(accepted(plan).steps) == 1500
