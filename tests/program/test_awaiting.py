"""Calls that are never awaited: the uses that are surely wrong, and those that may be right."""

from __future__ import annotations

import pytest

from callgate.program import Finding, ToolShape, check_program

TOOLS = [ToolShape("get_weather", ("city",), frozenset({"city"}))]


def found(source: str) -> list[Finding]:
    return [finding for finding in check_program(source, TOOLS) if finding.code in ("not-awaited", "await-in-def")]


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("{}['temp']", "subscripted"),
        ("{}.temp", "asked for `.temp`"),
        ("{} + 1", "used in arithmetic"),
        ("-{}", "used in arithmetic"),
        ("not {}", "tested"),
        ("{} == 3", "compared"),
        ("3 in {}", "compared"),
        ("f'{{{}}}'", "put into text"),
        ("[x for x in {}]", "iterated over"),
        ("{} or 3", "tested"),
        ("1 if {} else 2", "tested"),
        ("print({})", "passed to print(...)"),
        ("len({})", "passed to len(...)"),
        ("dict(*{})", "unpacked"),
    ],
)
def test_a_call_used_as_its_result_is_an_error(expression: str, what: str) -> None:
    (finding,) = found("x = " + expression.format("get_weather(1)"))
    assert finding.message == f"get_weather(...) is {what} without `await`, so there is no result yet"
    assert finding.hint == "write `(await get_weather(1))` there"
    assert finding.severity == "error"


@pytest.mark.parametrize(
    "source",
    [
        "if get_weather('Oslo'): pass",
        "while get_weather('Oslo'): pass",
        "for x in get_weather('Oslo'): pass",
        "a, b = get_weather('Oslo')",
        "return get_weather('Oslo')",
        "assert get_weather('Oslo')",
        "tools.get_weather('Oslo')",
        "tool_call('get_weather', city='Oslo')",
        "from tools import get_weather as gw\ngw('Oslo')",
        "async def main():\n    get_weather('Oslo')\nawait main()",
        "import asyncio\nasyncio.gather(get_weather('Oslo'), get_weather('Paris'))",
        "import asyncio\nasyncio.sleep(1)",
        "from asyncio import sleep\nsleep(1)",
        "import asyncio as aio\nfor w in aio.gather(get_weather('Oslo')): pass",
        "async def main(): pass\nmain()",
        "async def main(): return 1\nprint(main())",
        "for i in range(3):\n    get_weather(i)",
    ],
)
def test_what_is_thrown_away_or_used_too_early_is_an_error(source: str) -> None:
    (finding,) = found(source)
    assert finding.severity == "error"


@pytest.mark.parametrize(
    "use", ["print(w['temp'])", "print(w.temp)", "print(w)", "for k in w: pass", "f'{w}'", "x = w + 1", "a, b = w"]
)
def test_a_variable_that_only_ever_holds_the_call_is_followed(use: str) -> None:
    (finding,) = found(f"w = get_weather('Oslo')\n{use}")
    assert finding.line == 2
    assert finding.message.endswith("but holds the call get_weather(...) and not its result")
    assert finding.hint == "write `w = await get_weather('Oslo')` on line 1"


def test_a_call_that_is_assigned_and_never_used_is_a_warning_for_a_later_program_may_await_it() -> None:
    (finding,) = found("t = get_weather('Oslo')")
    assert finding == Finding(
        "not-awaited",
        1,
        5,
        "get_weather(...) is assigned to `t`, which is never awaited",
        "write `t = await get_weather('Oslo')`",
        "warning",
    )


def test_a_coroutine_started_in_a_plain_function_gets_the_hint_to_make_it_async() -> None:
    (finding,) = found("async def work(): pass\ndef start():\n    work()\nstart()")
    assert finding.hint == "make `start` an `async def` and write `await work()`"


def test_a_long_call_is_not_repeated_in_the_hint() -> None:
    (finding,) = found(f"get_weather('{'x' * 200}')")
    assert finding.hint == "write `await get_weather(...)`"


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    get_weather('Oslo')\nf()",
        "def f():\n    return get_weather('Oslo')['temp']\nf()",
        "f = lambda: get_weather('Oslo')['temp']",
        "class A:\n    w = get_weather('Oslo')",
        "w = get_weather('Oslo')\nprint(await w)",
        "w = get_weather('Oslo')\nw = await w\nprint(w['temp'])",
        "w = get_weather('Oslo')\nprint(w.done())",
        "w = get_weather('Oslo')\nprint(locals())",
        "x = get_weather('Oslo') if True else None",
        "def use(call): pass\nuse(get_weather('Oslo'))",
        "def print(x): pass\nprint(get_weather('Oslo'))",
        "async def f():\n    return get_weather('Oslo')\nawait f()",
        "async def gen():\n    yield 1\ngen()",
        "import functools\n@functools.cache\nasync def f(): pass\nf()",
        "async def main(): pass\nimport asyncio\nasyncio.run(main())",
        "get_weather = print\nget_weather('Oslo')",
        "class A:\n    async def f(self): pass\n    def g(self): self.f()",
        "asyncio = 1\nasyncio.sleep(1)",
        "def f(values): return (await get_weather(v) for v in values)",
    ],
)
def test_what_may_be_right_is_left_alone(source: str) -> None:
    assert found(source) == []


def test_each_plain_function_that_awaits_is_named_once() -> None:
    source = "def a():\n    await get_weather(1)\n    await get_weather(2)\ndef b():\n    await get_weather(1)"
    assert [finding.line for finding in found(source)] == [2, 5]
