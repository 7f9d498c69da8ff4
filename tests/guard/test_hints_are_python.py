"""What a program is told to write is Python, for the Python that runs it; and what Python's prompt offers works here.

Every hint that shows code is compiled, in the place that it is for. The definition names the version that runs.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from callgate import Runtime, Tool, tool

pytestmark = pytest.mark.anyio

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@tool(read_only=True)
async def get_weather(city: str, unit: str = "c") -> dict[str, Any]:
    """Current weather of a city.

    Args:
        city: its name, in English.
        unit: c or f.
    """
    return {"city": city, "temp": 21.5, "unit": unit}


@tool(read_only=True)
async def list_cities() -> list[str]:
    """All cities."""
    return ["Oslo", "Rome"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime([get_weather, list_cities], pool_size=1) as opened:
        yield opened


MISTAKES = [
    "get_weather('a')",
    "x = get_weather('a')",
    "x = get_weather('a')\nprint(x['temp'])",
    "print(get_weather('a')['temp'])",
    "print(get_weather('a').temp)",
    "f'{get_weather(\"a\")}'",
    "for c in list_cities():\n    print(c)",
    "[c for c in list_cities()]",
    "sum(get_weather(c)['temp'] for c in await list_cities())",
    "sum(get_weather(c).temp for c in ['a'] if get_weather(c)['temp'] > 3)",
    "sorted(['a'], key=lambda c: await get_weather(c))",
    "sorted(['a'], key=lambda c: get_weather(c)['temp'])",
    "f = lambda c: (await get_weather(c)).temp",
    "def f(c):\n    return await get_weather(c)\nf('a')",
    "def f(c):\n    for x in await list_cities():\n        yield x\nlist(f(1))",
    "def f(c):\n    return get_weather(c)\nawait f('a')",
    "def f(c):\n    return get_weather(c)\nimport asyncio\nawait asyncio.gather(*map(f, ['a']))",
    "async def f():\n    pass\ndef g():\n    f()\ng()",
    "async def main():\n    pass",
    "def main(a, b=1):\n    pass",
    "get_wether('a')",
    "tools.get_wether('a')",
    "from tools import get_wether",
    "await tool_call('get_wether', city='a')",
    "await tool_call('get_weather', 'a')",
    "await tool_call('get_weather', 'it\\'s \"a\"')",
    "await get_weather()",
    "await get_weather(town='a')",
    "await get_weather('a', 'b', 'c')",
    "await get_weather('a', city='a')",
    "true",
    "defaultdict(list)",
    "prnt(1)",
    "json.dumps(1)",
    "console.log(1)",
    "await get_weather(class='a')",
    "await get_weather(page-size='a')",
    "import asyncio\nasyncio.sleep(1)",
    "import asyncio\ndef f():\n    asyncio.sleep(1)\n",
    "if True:\n    break",
    "return_ = yield 3",
]


def shown(hint: str) -> list[str]:
    """The pieces of code in a hint that are to be written."""
    return re.findall(r"(?:write|takes|mean|anything|and|or|with) `([^`]+)`", hint)


def compiles(code: str, mistake: str) -> bool:
    """Whether a piece of code can be written where the mistake is: at the top level, as an argument, or as a head."""
    tries = [code, f"f({code})", f"{code}: pass", f"{code}(): pass"]
    if code.startswith(("{{", "}}")):
        return True
    for each in tries:
        try:
            compile(each.replace("(...)", "()"), "<hint>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError:
            continue
        return True
    return False


async def test_every_hint_that_shows_code_is_python(runtime: Runtime) -> None:
    count = 0
    for mistake in MISTAKES:
        findings = runtime.check(mistake)
        for finding in findings:
            for code in shown(finding.hint):
                count += 1
                assert compiles(code, mistake), (mistake, finding)
    assert count >= 25


@pytest.mark.parametrize("mistake", [each for each in MISTAKES if "lambda" in each])
async def test_no_hint_for_a_lambda_says_to_await_in_it(runtime: Runtime, mistake: str) -> None:
    result = await runtime.execute_code(mistake, path="sandbox")
    if result.error is not None:
        assert "write `await" not in result.for_model()
        assert "write `(await" not in result.for_model()


async def test_a_hint_within_a_generator_makes_it_a_list(runtime: Runtime) -> None:
    failed = await runtime.execute_code("sum(get_weather(c)['temp'] for c in ['a', 'b'])", check=False)
    assert failed.error is not None
    assert "write a list, `[...]`, instead of the generator" in failed.error.message
    (finding,) = runtime.check("sum(get_weather(c)['temp'] for c in ['a', 'b'])")
    assert "`(await get_weather(c))`" in finding.hint
    assert "`[...]` around the generator" in finding.hint
    assert (await runtime.execute_code("sum([(await get_weather(c))['temp'] for c in ['a', 'b']])")).value == 43.0


# which Python


NESTED = [
    'print(f"{x["a"]}")',
    'print(f"{\', \'.join(x)} {", ".join(x)}")',
    "print(f\"{'\\n'.join(x)}\")",
]


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses", "mcp"])
@pytest.mark.parametrize("policy", ["none", "restricted"])
async def test_the_definition_says_which_python_runs(provider: Any, policy: Any) -> None:
    made = Runtime([get_weather], policy=policy, sandbox="jail")
    (text,) = [repr(each) for each in made.tool_definitions(provider) if "Run Python that calls tools" in repr(each)]
    assert f"Python {HERE}" in text
    assert repr(made.conversation().tool_definitions(provider)).count(f"Python {HERE}") == 1


async def test_the_example_of_a_definition_is_a_program_that_check_passes() -> None:
    async def call(**arguments: Any) -> Any:
        return arguments

    taken: dict[str, Any] = {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]}
    gives = {"type": "object", "properties": {"items": {"type": "integer"}}, "required": ["items"]}
    plain = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    for schema in (taken, plain):
        made = Runtime([Tool.from_schema("ask", "", schema, call, read_only=True, output_schema=gives)])
        (text,) = [each["description"] for each in made.tool_definitions("anthropic") if each["name"] == "execute_code"]
        example = re.split(r"\n\n|\nTools", text.partition("Example:\n")[2])[0].partition("\nThe tools")[0]
        assert "import asyncio" in example
        ast.parse(example)
        assert "r.items" not in example


@pytest.mark.parametrize("code", NESTED)
async def test_an_f_string_of_a_later_python_is_told_as_that(runtime: Runtime, code: str) -> None:
    found = runtime.check(f"x = {{'a': 1}}\n{code}")
    if sys.version_info >= (3, 12):
        assert found == []
        return
    (finding,) = found
    assert f"Python {HERE}" in finding.hint
    assert "before 3.12" in finding.hint
    result = await runtime.execute_code(code, check=False)
    assert result.error is not None
    assert f"Python {HERE}" in result.error.message


@pytest.mark.parametrize("code", ["f'{}'", "f'a }'"])
async def test_other_mistakes_in_an_f_string_are_not_told_as_that(runtime: Runtime, code: str) -> None:
    (finding,) = runtime.check(code)
    assert "3.12" not in finding.hint


# what Python's prompt offers


@pytest.mark.parametrize("end", ["exit()", "quit()", "exit(0)", "quit(None)"])
async def test_exit_and_quit_end_a_program_well(runtime: Runtime, end: str) -> None:
    code = f"print('before')\n{end}\nprint('after')"
    assert runtime.check(code) == []
    result = await runtime.execute_code(code)
    assert (result.ok, result.logs) == (True, "before\n")


async def test_exit_with_a_reason_fails_the_program_with_it(runtime: Runtime) -> None:
    result = await runtime.execute_code("exit('no rows')")
    assert result.error is not None
    assert (result.error.kind, result.error.message, result.error.line) == ("SystemExit", "no rows", 1)


async def test_help_tells_of_a_tool_what_there_is(runtime: Runtime) -> None:
    result = await runtime.execute_code("help(get_weather)\nhelp(len)\nhelp()")
    assert result.ok
    assert re.search(r"get_weather\(city, unit=\.\.\.\)", result.logs)
    assert "Current weather of a city." in result.logs
    assert "city: its name, in English." in result.logs
    assert "Return the number of items in a container." in result.logs
    assert [call.tool for call in result.calls] == []


@pytest.mark.parametrize("name", ["copyright", "credits", "license"])
async def test_names_of_the_prompt_that_are_not_there_are_found_before_a_program_runs(
    runtime: Runtime, name: str
) -> None:
    assert [finding.code for finding in runtime.check(f"{name}()")] == ["unknown-name"]


async def test_a_tool_is_a_coroutine_function_with_a_signature_and_a_docstring(runtime: Runtime) -> None:
    code = """
import asyncio, functools, inspect, warnings
warnings.simplefilter("error")
if hasattr(inspect, "markcoroutinefunction"):
    asks = [inspect.iscoroutinefunction]
else:
    asks = [inspect.iscoroutinefunction, asyncio.iscoroutinefunction]
def traced(function):
    assert all(ask(function) for ask in asks)
    @functools.wraps(function)
    async def inner(*arguments, **options):
        return await function(*arguments, **options)
    return inner
signature = inspect.signature(get_weather)
bound = signature.bind("Oslo")
inner = traced(get_weather)
[
    str(signature), list(signature.parameters), signature.parameters["city"].default is inspect.Parameter.empty,
    bound.arguments, get_weather.__doc__, get_weather.__name__, (await inner("Rome")).temp,
    str(inspect.signature(functools.partial(get_weather, unit="f"))), inner.__doc__ == get_weather.__doc__,
    str(inspect.signature(lambda a, b=1: 0)), inspect.getdoc(tools.list_cities), str(inspect.signature(list_cities)),
]
"""
    result = await runtime.execute_code(code)
    assert result.error is None
    doc = "Current weather of a city.\n\nArgs:\n    city: its name, in English.\n    unit: c or f."
    assert result.value == [
        "(city, unit=...)", ["city", "unit"], True, {"city": "Oslo"}, doc, "get_weather", 21.5,
        "(city, *, unit='f')", True, "(a, b=1)", "All cities.", "()",
    ]  # fmt: skip


@pytest.mark.slow
async def test_docstrings_of_many_tools_are_cut_to_first_lines_and_then_left_out() -> None:
    async def run() -> int:
        return 1

    schema: dict[str, Any] = {"type": "object", "properties": {}}

    def many(count: int) -> list[Tool]:
        text = "Does it." + "\n\nAt length. " + "x" * 300
        return [Tool.from_schema(f"t{number}", text, schema, run) for number in range(count)]

    for count, doc in ((10, "Does it.\n\nAt length. " + "x" * 300), (500, "Does it."), (3000, None)):
        async with Runtime(many(count), pool_size=0) as runtime:
            result = await runtime.execute_code("[t1.__doc__, await t2()]")
            said, value = result.value
            assert value == 1
            assert said == doc if doc is not None else "describe_tools" in said


# tracebacks and texts


OURS = re.compile(r"callgate|/guest/|calls\.py|link\.py|records\.py|session\.py|network\.py")


@pytest.mark.parametrize(
    "failing",
    [
        "(await get_weather('a')).tmp",
        "(await get_weather('a'))['tmp']",
        "await get_weather(3)",
        "def f():\n        return get_weather(3)\n    f()",
        "import asyncio\n    await asyncio.gather(get_weather(3), get_weather('a'))",
        "async def f():\n        return await get_weather(3)\n    await f()",
        "import socket\n    socket.gethostbyname('example.com')",
        "get_weather('a') + 1",
    ],
)
async def test_a_traceback_that_a_program_makes_shows_its_own_lines_alone(runtime: Runtime, failing: str) -> None:
    code = (
        "import traceback, logging, io\nsaid = []\ntry:\n"
        f"    {failing}\nexcept Exception as error:\n"
        "    said.append(traceback.format_exc())\n    said.extend(traceback.format_exception(error))\n"
        "    said.append(repr(traceback.extract_tb(error.__traceback__)))\n"
        "    log = io.StringIO()\n    logging.basicConfig(stream=log, force=True)\n    logging.exception('x')\n"
        "    said.append(log.getvalue())\n'\\n'.join(said)"
    )
    result = await runtime.execute_code(code, check=False)
    assert result.error is None
    assert re.search(r'File "<program>", line [456], in <module>', result.value)
    assert not OURS.search(result.value), result.value


async def test_a_stack_that_a_program_prints_begins_with_its_own_lines(runtime: Runtime) -> None:
    code = "import traceback\ndef f():\n    return traceback.format_stack()\nasync def g():\n    return f()\nawait g()"
    result = await runtime.execute_code(code)
    assert [re.findall(r"line \d+, in \S+", frame)[0] for frame in result.value] == [
        "line 6, in <module>", "line 5, in g", "line 3, in f",
    ]  # fmt: skip


async def test_a_call_that_was_not_awaited_has_a_text_wherever_it_ends_up(runtime: Runtime) -> None:
    raised = await runtime.execute_code("calls = [get_weather('a')]\nraise ValueError('no', calls[0])", check=False)
    alone = await runtime.execute_code("calls = [get_weather('a')]\nraise ValueError(calls[0])", check=False)
    for result in (raised, alone):
        assert result.error is not None
        assert "call of get_weather, not awaited" in result.error.message
        assert "call of get_weather, not awaited" in result.error.traceback
    put = await runtime.execute_code("calls = [get_weather('a')]\nf'{calls[0]}'", check=False)
    assert put.error is not None
    assert "the call of get_weather was not awaited: write `await get_weather(...)`" in put.error.message
    inside = await runtime.execute_code("calls = [get_weather('a')]\nfirst = f'{calls}'\nawait calls[0]\nfirst")
    assert "call of get_weather, not awaited" in inside.value
