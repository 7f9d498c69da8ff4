"""`check` warns where a call is put away and certainly never awaited, and says nothing where it may be."""

from __future__ import annotations

import ast

import pytest

from callgate import Runtime, tool

ASYNC = "import asyncio\n"


@tool
async def send(to: str) -> str:
    """Send a mail."""
    return to


DROPPED = {
    "a list": "done = [send(to) for to in 'abc']\nprint(len(done), 'mails sent')",
    "a display": "x = [send('a'), send('b')]",
    "a statement": "[send(to) for to in 'abc']\nprint(1)",
    "a dict": "x = {'a': send('a')}",
    "a dict that is filled": "x = {}\nx['a'] = send('a')\nprint(len(x))",
    "an argument": "print([send('a')])",
    "a keyword": "x = dict(a=send('a'))",
    "append": "x = []\nfor to in 'abc':\n    x.append(send(to))\nprint(len(x))",
    "a lambda": "x = list(map(lambda to: send(to), 'abc'))",
    "a function": "async def f():\n    x = [send('a')]\n    return 1\nawait f()",
}
FINE = {
    "gather": ASYNC + "await asyncio.gather(*[send(to) for to in 'abc'])",
    "gather of a name": ASYNC + "x = [send(to) for to in 'abc']\nawait asyncio.gather(*x)",
    "a loop": "x = [send(to) for to in 'abc']\nfor each in x:\n    await each",
    "append": "x = []\nx.append(send('a'))\nfor each in x:\n    await each",
    "a name that is passed on": "x = [send('a')]\ndef f(calls):\n    return calls\ny = f(x)\nawait y[0]",
    "a lambda": "f = lambda to: send(to)\nawait f('a')",
    "awaited": "x = [await send(to) for to in 'abc']\nprint(len(x))",
    "blocking": "def f():\n    x = [send('a')]\n    return x\nprint(len(f()))",
    "tasks": ASYNC + "x = [asyncio.create_task(send(to)) for to in 'abc']\nprint(len(x))",
}


@pytest.mark.parametrize("name", DROPPED)
def test_a_call_that_is_certainly_dropped_is_a_warning(name: str) -> None:
    findings = [each for each in Runtime([send], sandbox=None).check(DROPPED[name]) if each.code == "not-awaited"]
    assert findings
    for each in findings:
        assert each.severity == "warning"
        assert each.message == "send(...) is called here and never awaited: its result is dropped"
        for code in each.hint.split("`")[1::2]:
            ast.parse(f"async def f():\n    {code}")


@pytest.mark.parametrize("name", FINE)
def test_a_call_that_may_be_awaited_is_none(name: str) -> None:
    assert [each for each in Runtime([send], sandbox=None).check(FINE[name]) if each.code == "not-awaited"] == []


@pytest.mark.anyio
async def test_in_a_session_the_next_program_may_await_it() -> None:
    async with Runtime([send]) as runtime, runtime.session() as session:
        assert (await session.execute_code(DROPPED["a display"])).findings == []
