"""Parameters of tools that are no Python names (``from``, ``class``, ``page-size``) can be written, and are told so.

Held at every way to call a tool from a program, on both paths, at `Runtime.check`, in stubs, signatures and
descriptions.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from callgate import Runtime, Tool

pytestmark = pytest.mark.anyio


def made(name: str, parameters: list[str], *, required: list[str] | None = None, **options: Any) -> Tool:
    """A tool that gives back what it was called with."""

    async def echo(**arguments: Any) -> Any:
        return arguments

    properties = {each: {"type": "string", "description": f"the {each}"} for each in parameters}
    schema = {
        "type": "object", "properties": properties, "additionalProperties": False,
        "required": parameters[:1] if required is None else required,
    }  # fmt: skip
    return Tool.from_schema(name, "Echo.", schema, echo, **options)


CONVERT = made("convert", ["from", "to", "page-size", "class"], required=["from", "to"], read_only=True)
COLLIDING = made("colliding", ["from", "from_", "a-b", "a_b", "c-d", "c.d"], required=[])
STRICT = made("strict", ["a-b", "a_b"])
OF_A_SERVER = made("mail_list", ["from", "max results"], server="mail", server_tool="list", read_only=True)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime([CONVERT, COLLIDING, STRICT, OF_A_SERVER], pool_size=1) as opened:
        yield opened


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("convert(from_='a', to='b')", {"from": "a", "to": "b"}),
        ("convert('a', 'b', page_size='c', class_='d')", {"from": "a", "to": "b", "page-size": "c", "class": "d"}),
        ("convert('a', 'b', 'c')", {"from": "a", "to": "b", "page-size": "c"}),
        ("tools.convert(to='b', from_='a')", {"to": "b", "from": "a"}),
        ("tool_call('convert', from_='a', to='b', page_size='c')", {"from": "a", "to": "b", "page-size": "c"}),
        ("mail.list(from_='a', max_results='b')", {"from": "a", "max results": "b"}),
        ("mail_list(from_='a')", {"from": "a"}),
        ("tool_call('mail.list', from_='a')", {"from": "a"}),
        ("colliding(from_='a', a_b='b')", {"from_": "a", "a_b": "b"}),
        ("colliding('a', 'b')", {"from": "a", "from_": "b"}),
    ],
)
async def test_a_parameter_is_written_with_an_underscore_on_both_paths(
    runtime: Runtime, call: str, arguments: dict[str, str]
) -> None:
    for path in ("plan", "sandbox"):
        result = await runtime.execute_code(f"await {call}", path=path)
        assert (result.error, result.findings) == (None, [])
        assert result.value == arguments
        assert result.calls[0].arguments == arguments


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("convert(**{'from': 'a', 'to': 'b', 'page-size': 'c'})", {"from": "a", "to": "b", "page-size": "c"}),
        ("convert(**{'from_': 'a'}, to='b')", {"from": "a", "to": "b"}),
        ("colliding(**{'from': 'a', 'from_': 'b'})", {"from": "a", "from_": "b"}),
        ("colliding(**{'a-b': 'a', 'c.d': 'b'})", {"a-b": "a", "c.d": "b"}),
    ],
)
async def test_two_stars_give_any_parameter_under_its_own_name(
    runtime: Runtime, call: str, arguments: dict[str, str]
) -> None:
    result = await runtime.execute_code(f"await {call}")
    assert (result.error, result.value) == (None, arguments)


async def test_one_argument_written_in_both_ways_is_refused(runtime: Runtime) -> None:
    (finding,) = runtime.check("await convert('a', 'b', from_='c')")
    assert finding.code == "repeated-argument"
    for call in ("convert('a', 'b', **{'from_': 'c'})", "convert(**{'from': 'a', 'from_': 'b', 'to': 'c'})"):
        result = await runtime.execute_code(f"await {call}")
        assert not result.ok


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("await convert(from='a', to='b')", "`from_=...`"),
        ("await convert(\n    to='b',\n    from='a',\n)", "`from_=...`"),
        ("await convert('a', 'b', class = 'c')", "`class_=...`"),
        ("await convert('a', 'b', page-size='c')", "`page_size=...`"),
        ("await convert(to='b')", "write `convert(from_=..., to=...)`"),
        ("await convert(form='a', to='b')", "did you mean `from_=...`?"),
        ("await convert('a', 'b', pagesize='c')", "did you mean `page_size=...`?"),
        ("await convert('a', 'b', 'c', 'd', 'e')", "its arguments are: from_, to, page_size, class_"),
        ("await tool_call('convert', 'a')", 'write `tool_call("convert", from_=..., to=...)`'),
        ("await strict(a_b='n')", "write `strict(**{'a-b': ...}, a_b=...)`"),
    ],
)
async def test_a_hint_names_what_can_be_written(runtime: Runtime, code: str, hint: str) -> None:
    assert any(hint in str(finding) for finding in runtime.check(code)), runtime.check(code)


async def test_following_the_hints_ends_with_a_program_that_runs(runtime: Runtime) -> None:
    code = "await convert(from='a', to='b')"
    for _ in range(3):
        errors = [finding for finding in runtime.check(code) if finding.severity == "error"]
        if not errors:
            break
        (name, written) = re.findall(r"`(\w+)` is a keyword of Python: a tool takes `(\w+)=", str(errors[0]))[0]
        code = code.replace(f"{name}=", f"{written}=")
    assert (await runtime.execute_code(code)).value == {"from": "a", "to": "b"}


async def test_stubs_and_descriptions_say_how_a_parameter_is_written(runtime: Runtime) -> None:
    stub = runtime.stubs(names=["convert"])
    ast.parse(stub)
    assert re.search(r"async def convert\(\s*from_: str, to: str, page_size: str = \w+, class_: str = \w+", stub)
    assert "from_: stands for 'from': the from" in stub
    assert "page_size: stands for 'page-size'" in stub
    described = await runtime.execute_code("await describe_tools('convert')")
    assert "from_: str" in json.dumps(described.value)
    collision = runtime.stubs(names=["colliding"])
    ast.parse(collision)
    assert "'a-b'" in collision  # told as a key, since it cannot be written otherwise


async def test_direct_calls_and_plans_take_the_tools_own_names(runtime: Runtime) -> None:
    step = {"id": "s", "tool": "convert", "arguments": {"from": "a", "to": "b"}}
    result = await runtime.execute_tool_plan({"steps": [step], "output_steps": ["s"]})
    assert result.outputs == {"s": {"from": "a", "to": "b"}}
    step["arguments"] = {"from_": "a", "to": "b"}
    assert not (await runtime.execute_tool_plan({"steps": [step], "output_steps": ["s"]})).ok
