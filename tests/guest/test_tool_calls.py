"""Calling tools: how arguments are given, what comes back, and what a failed call is."""

from __future__ import annotations

from typing import Any

import pytest

from guest.conftest import Run
from guest.driver import GuestProcess

CALLS: dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]] = {
    "by keyword": ("await get_weather(city='Oslo')", [("get_weather", {"city": "Oslo"})]),
    "by position": ("await get_weather('Oslo', 'C')", [("get_weather", {"city": "Oslo", "unit": "C"})]),
    "mixed": ("await get_weather('Oslo', unit='C')", [("get_weather", {"city": "Oslo", "unit": "C"})]),
    "with a star": ("await get_weather(*['Oslo'], **{'unit': 'C'})", [("get_weather", {"city": "Oslo", "unit": "C"})]),
    "unknown keywords are the host's affair": ("await get_weather(town='Oslo')", [("get_weather", {"town": "Oslo"})]),
    "through tools": ("await tools.get_weather('Oslo')", [("get_weather", {"city": "Oslo"})]),
    "imported": ("from tools import get_weather as w\nawait w('Oslo')", [("get_weather", {"city": "Oslo"})]),
    "through the imported module": ("import tools\n"
                                    "await tools.get_weather('Oslo')", [("get_weather", {"city": "Oslo"})]),
    "by name": ("await tool_call('get_weather', city='Oslo')", [("get_weather", {"city": "Oslo"})]),
    "a parameter called name": ("await tool_call('named', name='n')", [("named", {"name": "n"})]),
    "the same, directly": ("await named('n', value=1)", [("named", {"name": "n", "value": 1})]),
    "a name that is no identifier": ("await dash_ed(1)", [("dash-ed", {"x": 1})]),
    "the same by its own name": ("await tool_call('dash-ed', x=1)", [("dash-ed", {"x": 1})]),
    "huge integers": ("await echo(2 ** 70)", [("echo", {"value": 2**70})]),
    "unicode": ("await echo('😀 \\u2028 \\x00')", [("echo", {"value": "😀 \u2028 \x00"})]),
    "half of a surrogate pair": ("await echo('\\ud800')", [("echo", {"value": "\ud800"})]),
    "tuples are lists": ("await echo((1, 2))", [("echo", {"value": [1, 2]})]),
    "keys become text": ("await echo({1: 2})", [("echo", {"value": {"1": 2}})]),
    "an earlier result": ("w = await get_weather('x')\nawait echo(w)",
                          [("get_weather", {"city": "x"}), ("echo", {"value": {"city": "x", "temp": 1}})]),
    "an enum of text": ("import enum\nclass E(str, enum.Enum):\n    A = 'a'\n"
                        "await echo(E.A)", [("echo", {"value": "a"})]),
    "functools.partial": ("import functools\nawait functools.partial(get_weather, unit='C')('Oslo')",
                          [("get_weather", {"city": "Oslo", "unit": "C"})]),
    "in a plain function": ("def f():\n    return echo(1)\nf()", [("echo", {"value": 1})]),
    "in a lambda of async code": ("f = lambda: echo(1)\nawait f()", [("echo", {"value": 1})]),
    "in a class body": ("class A:\n    x = echo(1)\nA.x", [("echo", {"value": 1})]),
    "in a property": ("class A:\n    @property\n    def x(self):\n"
                      "        return echo(1)\nA().x", [("echo", {"value": 1})]),
    "never awaited": ("call = echo(1)\n2", [("echo", {"value": 1})]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_call(name: str, run: Run) -> None:
    code, expected = CALLS[name]
    ran = run(code)
    assert ran.error is None, ran.error
    assert ran.calls == expected


RESULTS: dict[str, tuple[str, Any]] = {
    "attribute access": ("w = await get_weather('Oslo')\n[w.temp, w['temp'], w.get('temp')]", [4, 4, 4]),
    "nested": ("r = await echo({'a': [{'b': 1}]})\nr.a[0].b", 1),
    "a result is a dict": ("w = await get_weather('x')\n[isinstance(w, dict), type(w).__name__, w == dict(w)]",
                           [True, "Record", True]),
    "it can be changed": ("w = await get_weather('x')\nw['new'] = 1\nw.new", 1),
    "methods win over fields": ("r = await echo({'items': 1})\nr['items']", 1),
    "hasattr": ("w = await get_weather('x')\n[hasattr(w, 'temp'), hasattr(w, 'tmep')]", [True, False]),
    "a copy is one too": ("import copy\nw = copy.deepcopy(await get_weather('x'))\nw.temp", 1),
    "a pickle is one too": ("import pickle\nw = pickle.loads(pickle.dumps(await get_weather('x')))\nw.temp", 1),
    "huge integers stay exact": ("(await echo(2 ** 70)) == 2 ** 70", True),
    "json again": ("import json\njson.dumps(await get_weather('x'))", '{"city": "x", "temp": 1}'),
    "a large one": ("len(await big(3_000_000))", 3_000_000),
    "deep ones": ("x = 1\nfor _ in range(300):\n    x = [x]\n(await echo(x)) == x", True),
    "sorted by a field": ("r = await echo([{'n': 2}, {'n': 1}])\n[x.n for x in sorted(r, key=lambda x: x.n)]", [1, 2]),
    "awaited twice": ("c = echo(1)\n[await c, await c]", [1, 1]),
    "match": ("match await get_weather('x'):\n    case {'temp': t}:\n        r = t\nr", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_a_result(name: str, run: Run) -> None:
    code, expected = RESULTS[name]
    ran = run(code)
    assert ran.error is None, ran.error
    assert ran.value == expected


def test_a_field_that_is_not_there_is_answered_with_those_that_are(run: Run) -> None:
    ran = run("(await get_weather('x')).tmep")
    assert (ran.kind, ran.message) == (
        "AttributeError",
        "the result has no field 'tmep'; its fields are: 'city', 'temp'",
    )
    ran = run("w = await get_weather('x')\nw.temp = 3")
    assert ran.message == "set a field with result['temp'] = ..., not as an attribute"


def test_a_failed_call_raises_tool_error(run: Run) -> None:
    ran = run(
        "try:\n    await fail('no such city', {'n': 1})\n"
        "except ToolError as e:\n    r = [str(e), e.tool, e.code, e.data, e.retryable, e.message]\nr"
    )
    assert ran.value == ["no such city", "fail", -32000, {"n": 1}, True, "no such city"]


def test_a_failed_call_that_is_not_caught_ends_the_program(run: Run) -> None:
    ran = run("await fail('no such city', {'n': 1})")
    assert ran.error is not None
    assert {key: ran.error[key] for key in ("kind", "message", "line", "tool", "code", "data", "retryable")} == {
        "kind": "ToolError", "message": "no such city", "line": 1, "tool": "fail", "code": -32000, "data": {"n": 1},
        "retryable": True,
    }  # fmt: skip


def test_a_program_may_raise_tool_error_itself(run: Run) -> None:
    ran = run("raise ToolError('mine', data={1, 2})")
    assert (ran.kind, ran.message) == ("ToolError", "mine")


def test_an_unknown_tool_is_an_error_of_the_host(run: Run) -> None:
    ran = run("try:\n    await tool_call('nix')\nexcept ToolError as e:\n    r = e.code\nr")
    assert ran.value == -32601


WRONG = {
    "too many": (
        "await echo(1, 2)",
        "TypeError: echo() takes 1 positional arguments but 2 were given; its parameters are: value",
    ),
    "twice": ("await echo(1, value=2)", "TypeError: echo() got multiple values for argument 'value'"),
    "no name": ("await tool_call(3)", "TypeError: tool_call() takes the tool's name first, not int"),
    "a set": (
        "await echo({1})",
        "TypeError: the arguments of echo must be JSON values: a value of type set has no JSON form; write sorted(...)",
    ),
    "a set deep inside": (
        "await echo({'a': [{1}]})",
        "TypeError: the arguments of echo must be JSON values: a value of type set has no JSON form; write sorted(...)",
    ),
    "bytes": (
        "await echo(b'x')",
        "TypeError: the arguments of echo must be JSON values: a value of type bytes has no JSON form; write .decode()",
    ),
    "an object": (
        "await echo(object())",
        "TypeError: the arguments of echo must be JSON values: a value of type object has no JSON form",
    ),
    "a key": (
        "await echo({(1, 2): 3})",
        "TypeError: the arguments of echo must be JSON values: a key of type tuple has no JSON form; write text",
    ),
    "not a number": (
        "await echo(float('nan'))",
        "ValueError: the arguments of echo must be JSON values: nan is not JSON; use None or text",
    ),
    "infinity": (
        "await echo([1e999])",
        "ValueError: the arguments of echo must be JSON values: inf is not JSON; use None or text",
    ),
    "a cycle": (
        "x = []\nx.append(x)\nawait echo(x)",
        "ValueError: the arguments of echo must be JSON values: it contains itself",
    ),
    "too deep": (
        "x = []\nfor _ in range(100_000):\n    x = [x]\nawait echo(x)",
        "ValueError: the arguments of echo are nested too deeply for JSON",
    ),
    "a coroutine": (
        "async def f():\n    return 1\nc = f()\ntry:\n    await echo(c)\nfinally:\n    c.close()",
        "TypeError: echo was given something that was not awaited: write `await` in front of it",
    ),
    "no such tool": ("tools.get_wether", "AttributeError: there is no tool 'get_wether'; did you mean 'get_weather'?"),
    "none like it": ("tools.zzzz", "AttributeError: there is no tool 'zzzz'"),
    "imported": ("from tools import get_wether", "ImportError: cannot import name 'get_wether' from 'tools'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_never_leaves(name: str, run: Run) -> None:
    code, expected = WRONG[name]
    ran = run(code)
    assert f"{ran.kind}: {ran.message}".startswith(expected)
    assert ran.calls == []


# fmt: off
USES = [
    "print({})", 'f"{{{}}}"', "str({})", "{} == 1", "{} != 1", "{} < 1", "list({})", "for _ in {}: pass",
    "{}['temp']", "{}.temp", "len({})", "bool({})", "{} + 1", "1 + {}", "-{}", "int({})", "1 in {}", "{}()",
    "a, b = {}", "round({})", "sum([{}])", "'%s' % {}", "'{{}}'.format({})", "max([1, {}])", "if {}: pass", "not {}",
    "with {}: pass", "abs({})", "{}.get('temp')", "x = {}\nx.temp", "echo({})", "await echo({})",
    "await echo([{{'a': {}}}])", "{}", "{}['a'] = 1", "del {}['a']", "dict({})", "set({})", "sorted({})", "[*{}]",
    "print(*{})", "echo(**{})", "1 ** {}", "divmod(7, {})", "{} @ 1", "float({})", "range({})", "[1][{}]",
    "print(1, {})", "return {}",
]
# fmt: on


@pytest.mark.parametrize("use", USES)
def test_an_unawaited_call_that_is_used_says_to_await_it(use: str, run: Run) -> None:
    ran = run(use.format("get_weather('Oslo')"))
    assert ran.kind == "TypeError"
    assert "the call of get_weather was not awaited: write `await get_weather(...)`" in ran.message


@pytest.mark.parametrize(
    "use", ["import json\njson.dumps({})", "''.join([{}])", "import math\nmath.sqrt({})", "'a' + {}"]
)
def test_where_python_words_the_error_it_says_so_too(use: str, run: Run) -> None:
    ran = run(use.format("get_weather('Oslo')"))
    assert ran.kind == "TypeError"
    assert "await" in ran.message


def test_an_unawaited_call_shows_what_it_is(run: Run) -> None:
    assert run("repr(get_weather('x'))").value == "<call of get_weather, not awaited>"
    assert run("a = get_weather('x')\n[a == a, a != get_weather('x'), a in {a}]").value == [True, True, True]


def test_a_tool_that_is_shadowed_stays_reachable(guest: GuestProcess) -> None:
    assert guest.run("echo = 5\n[echo, await tools.echo(6)]").value == [5, 6]
    assert guest.run("echo").value == 5, "state lives on between programs"


def test_inputs_win_over_tools(guest: GuestProcess) -> None:
    assert guest.run("echo", {"echo": 1}).value == 1


def test_a_call_in_a_variable_is_finished_at_the_end_of_its_program(guest: GuestProcess) -> None:
    assert guest.run("call = echo(7)").cancelled == []
    assert guest.run("await call").value == 7


def test_calls_of_a_program_that_failed_end_with_it(guest: GuestProcess) -> None:
    guest.run("call = hang()\n1 / 0")
    ran = guest.run("await call")
    assert (ran.kind, ran.message) == ("ToolError", "the program that made this call has ended")
    assert ran.cancelled == []
