"""A model's calls, answered: what it got wrong is told in words, and nothing is raised for it."""

from __future__ import annotations

import json
from typing import Any

import anyio
import jsonschema_rs
import pytest

from callgate import ApprovalRequest, ConfigurationError, Deny, Limits, Printed, Retry, Runtime, Tool, ToolError, tool
from callgate.runtime.model.meta import META_TOOLS
from runtime.conftest import opened

pytestmark = pytest.mark.anyio


@tool(read_only=True, capabilities=["weather"])
async def get_weather(city: str, unit: str = "C") -> dict[str, Any]:
    """Current weather of a city."""
    return {"city": city, "temp": len(city), "unit": unit}


@tool
async def send_mail(to: str, note: str | None = None) -> str:
    """Sends a mail."""
    if to == "nobody":
        raise ToolError("there is nobody of that name")
    return f"sent to {to}, {note}"


@tool(allowed_callers=["code"])
async def only_in_code(n: int) -> int:
    """Doubles a number."""
    return 2 * n


@tool(allowed_callers=["plan"])
async def only_in_plans(n: int) -> int:
    return n


@tool(requires_approval=True)
async def pay(amount: int) -> str:
    return f"paid {amount}"


@tool
async def rows(count: int) -> list[int]:
    return list(range(count))


ODD = Tool.from_schema(
    "get weather (v2.1) " + "x" * 60,
    "Weather, with odd names.",
    {"type": "object", "properties": {"filter[city]": {"type": "string"}, "$top": {"type": "integer"}}},
    lambda **given: given,
    server="Météo",
    server_tool="get weather",
)
TOOLS = [get_weather, send_mail, only_in_code, only_in_plans, pay, rows, ODD]


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> Any:
    async with opened(*TOOLS, pool_size=1) as entered:
        yield entered


ANSWERED: list[tuple[str, Any, str]] = [
    ("get_weather", {"city": "Oslo"}, '{"city":"Oslo","temp":4,"unit":"C"}'),
    ("get_weather", '{"city": "Oslo"}', '{"city":"Oslo","temp":4,"unit":"C"}'),
    ("get_weather", '"{\\"city\\": \\"Oslo\\"}"', '{"city":"Oslo","temp":4,"unit":"C"}'),
    ("send_mail", {"to": "x", "note": None}, "sent to x, None"),
    ("get_weather", {"city": "Oslo", "unit": None}, '{"city":"Oslo","temp":4,"unit":"C"}'),
    ("rows", '{"count": 2}', "[0,1]"),
    ("execute_code", '{"code": "print((await get_weather(\'Oslo\')).temp)"}', "4"),
    (
        "execute_tool_plan",
        {"steps": [{"id": "a", "tool": "get_weather", "arguments": {"city": "Rome"}}]},
        '1/1 steps succeeded.\n- a (get_weather): succeeded\nOutputs:\na: {"city":"Rome","temp":4,"unit":"C"}',
    ),
]


@pytest.mark.parametrize(("name", "arguments", "text"), ANSWERED)
async def test_calls_are_answered(runtime: Runtime, name: str, arguments: Any, text: str) -> None:
    answer = await runtime.answer(name, arguments)
    assert answer.text == text
    assert answer.ok
    assert not answer.mistake
    assert await runtime.handle(name, arguments) == text


WRONG: list[tuple[str, Any, str]] = [
    (
        "get_weather",
        '{"city": "Oslo"',
        "get_weather: the arguments are not valid JSON: Expecting ',' delimiter at line",
    ),
    ("get_weather", '{"city": "a", "city": "b"}', "the key 'city' occurs twice"),
    ("get_weather", '{"city": NaN}', "NaN is not JSON"),
    ("get_weather", "[" * 100_000, "the arguments are nested too deeply"),
    ("get_weather", '{"city": "Os', "the arguments are not valid JSON: Unterminated string starting at line 1"),
    ("get_weather", "Oslo", "the arguments are not valid JSON: Expecting value at line 1 column 1, near 'Oslo'"),
    ("get_weather", ["Oslo"], "the arguments must be an object, got an array of 1 item"),
    ("get_weather", 3, "the arguments must be an object, got 3 (a number)"),
    ("get_weather", None, "missing argument 'city'"),
    ("get_weather", "", "missing argument 'city'"),
    ("get_weather", {"town": "Oslo"}, "'town'"),
    ("get_weather", {"city": None}, "argument 'city'"),
    ("get_wether", {"city": "x"}, "there is no tool 'get_wether'; did you mean get_weather?"),
    ("excute_code", {"code": "1"}, "did you mean execute_code?"),
    ("zzzzzzzzzz", {}, "there is no tool 'zzzzzzzzzz'; search_tools finds the tools that there are"),
    ("", {}, "there is no tool ''"),
    ("only_in_code", {"n": 1}, "it is for: code; call it in a program, with execute_code"),
    ("only_in_plans", {"n": 1}, "it is for: plan; make it a step of a plan, with execute_tool_plan"),
    ("execute_code", {}, "missing argument 'code'"),
    ("execute_code", None, "missing argument 'code'"),
    ("execute_code", {"code": 3}, "argument 'code' must be of type string, got 3 (a number)"),
    ("execute_code", '{"code": "1"', "execute_code: the arguments are not valid JSON"),
    ("execute_code", "print(1)", 'execute_code takes an object with the program in it: {"code": "print(1)"}'),
    (
        "execute_code",
        '"print(1)"',
        'execute_code takes an object with the program in it: {"code": "print(1)"}, got "pr',
    ),
    ("execute_code", ["print(1)"], "got an array of 1 item"),
    ("execute_code", {"code": "1", "lang": "py"}, "'lang'"),
    ("search_tools", {}, "query is empty; say in a few words what the tool should do (it may be empty beside server"),
    ("search_tools", {"capability": "wether"}, "there is no capability 'wether'; did you mean weather?"),
    ("search_tools", {"query": ""}, "query is empty"),
    ("search_tools", {"query": "x", "limit": 0}, "'limit'"),
    ("search_tools", {"query": 7}, "argument 'query' must be of type string or array, got 7 (a number)"),
    ("search_tools", {"query": ["x", 7]}, "argument 'query[1]' must be of type string, got 7 (a number)"),
    ("search_tools", {"query": ["x"] * 9}, "query is a list of 9 queries; give 1 to 8 of them"),
    ("search_tools", {"query": "x", "detail": "all"}, '"names", "signatures", "full"'),
    ("search_tools", {"query": "(", "regex": True}, "the regular expression cannot be used"),
    ("search_tools", {"query": "x", "server": "nowhere"}, "there is no server 'nowhere'"),
    ("search_tools", {"query": "x", "sever": "y"}, "did you mean server?"),
    ("describe_tools", {"names": []}, "names"),
    ("describe_tools", {"names": ["get_wether"]}, "did you mean get_weather?"),
    ("describe_tools", {"names": "get_weather"}, "'names' must be of type array"),
]


@pytest.mark.parametrize(("name", "arguments", "words"), WRONG)
async def test_what_a_model_gets_wrong_is_answered_in_words(
    runtime: Runtime, name: str, arguments: Any, words: str
) -> None:
    answer = await runtime.answer(name, arguments)
    assert answer.text.startswith("Error: ")
    assert words in answer.text
    assert len(answer.text) < 1_000
    assert (answer.ok, answer.mistake, answer.structured()) == (False, True, None)


MISTAKES: list[tuple[str, Any, bool]] = [
    ("send_mail", {"to": "nobody"}, False),
    ("execute_code", {"code": "get_wether('x')"}, True),
    ("execute_code", {"code": "1/0"}, False),
    ("execute_tool_plan", {"steps": []}, True),
    ("execute_tool_plan", "no plan", True),
    ("execute_tool_plan", {"steps": [{"id": "a", "tool": "send_mail", "arguments": {"to": "nobody"}}]}, False),
    ("pay", {"amount": 1}, False),
]


@pytest.mark.parametrize(("name", "arguments", "mistake"), MISTAKES)
async def test_a_failure_says_whether_it_was_the_models_own(
    runtime: Runtime, name: str, arguments: Any, mistake: bool
) -> None:
    answer = await runtime.answer(name, arguments)
    assert not answer.ok
    assert answer.mistake is mistake, answer.text


@pytest.mark.parametrize("name", ["{model}", "get weather (v2.1) " + "x" * 60, "Météo.get weather", "{python}"])
async def test_a_tool_answers_to_each_of_its_names(runtime: Runtime, name: str) -> None:
    definition = runtime.tool_definitions("anthropic", direct=[ODD.name], meta=[])[0]
    assert len(definition["name"]) <= 64
    named = name.format(model=definition["name"], python=runtime.registry.callable_name(ODD.name))
    shown = dict.fromkeys(definition["input_schema"]["properties"])
    assert list(shown) == ["filter_city_", "_top"]
    answer = await runtime.answer(named, {"filter_city_": "Oslo", "_top": 3})
    assert answer.text == '{"filter[city]":"Oslo","$top":3}'
    assert answer.name == ODD.name


async def test_search_finds_what_the_model_can_call_in_any_way(runtime: Runtime) -> None:
    answer = await runtime.answer("search_tools", {"query": "double a number"})
    assert answer.found[0] == "only_in_code"
    assert "only_in_code" in answer.text
    within = await runtime.answer("search_tools", {"query": "double a number"}, tools=["get_weather", "rows"])
    assert not {"only_in_code", "send_mail"} & set(within.found)
    assert "only_in_code" not in within.text
    hidden = await runtime.answer("describe_tools", {"names": ["only_in_code"]}, tools=["get_weather"])
    assert not hidden.ok
    assert runtime.search_tools("weather", limit=1).found[0].tool is get_weather
    assert runtime.find_by_capability("Weather") == (get_weather,)
    assert runtime.describe_tools(["rows"]).tools == (rows,)


async def test_a_capability_lists_its_tools_for_models_programs_and_python(runtime: Runtime) -> None:
    """The `findByCapability` of the reference, in each of the three places."""
    assert [found.name for found in runtime.find_by_capability("weather")] == ["get_weather"]
    assert (await runtime.answer("search_tools", {"capability": "Weather"})).found == ("get_weather",)
    assert (await runtime.answer("search_tools", {"query": "", "capability": "weather"})).found == ("get_weather",)
    program = "[each.name for each in (await tools.search(capability='weather')).found]"
    assert await runtime.handle("execute_code", {"code": program}) == 'Value: ["get_weather"]'


async def test_tools_are_searched_by_any_of_their_names_in_an_allow_list(runtime: Runtime) -> None:
    within = await runtime.answer("search_tools", {"query": "odd names"}, tools=["Météo.get weather"])
    assert within.found == (ODD.name,)


async def test_an_allow_list_holds_for_every_way_to_call(runtime: Runtime) -> None:
    allowed = ["get_weather"]
    refused = await runtime.answer("rows", {"count": 1}, tools=allowed)
    assert "not among the tools that this run may call" in refused.text
    program = await runtime.answer("execute_code", {"code": "await rows(1)"}, tools=allowed)
    plan = await runtime.answer(
        "execute_tool_plan", {"steps": [{"id": "a", "tool": "rows", "arguments": {"count": 1}}]}, tools=allowed
    )
    assert not program.ok
    assert not plan.ok
    nothing: list[tuple[str, dict[str, Any]]] = [
        ("rows", {"count": 1}),
        ("execute_code", {"code": "await get_weather('x')"}),
    ]
    for name, arguments in nothing:
        assert not (await runtime.answer(name, arguments, tools=[])).ok


async def test_the_providers_own_code_calls_tools_for_code(runtime: Runtime) -> None:
    for caller in ("code", "code_execution_20260120", "program"):
        assert await runtime.handle("only_in_code", {"n": 4}, caller=caller) == "8"
        refused = await runtime.answer("execute_code", {"code": "1"}, caller=caller)
        assert (refused.ok, refused.mistake) == (False, True)
    with pytest.raises(ConfigurationError, match=r"direct, code, plan, and .*e\.g\. code_execution_20260120"):
        await runtime.handle("only_in_code", {"n": 4}, caller="somebody")


async def test_limits_and_events_are_those_of_the_call(runtime: Runtime) -> None:
    told: list[str] = []
    answer = await runtime.answer(
        "execute_code",
        {"code": "print(1)\nwhile True: pass"},
        limits=Limits(cpu_seconds=1, wall_seconds=60),
        on_event=lambda event: told.append(event.text) if isinstance(event, Printed) else None,
    )
    assert "cpu_seconds" in answer.text
    assert "".join(told) == "1\n"
    once = await runtime.answer("rows", {"count": 20}, limits=Limits(max_message_bytes=40))
    assert "max_message_bytes" in once.text


async def test_wall_seconds_bound_the_call_of_one_tool() -> None:
    ended: list[str] = []

    @tool(read_only=True)
    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("hang")

    @tool(timeout_seconds=60)
    async def book(seat: int) -> None:
        try:
            await anyio.sleep_forever()
        except BaseException:
            ended.append("book")
            raise ValueError("it makes something of its own of it") from None

    @tool(retry=Retry(attempts=1_000, backoff_seconds=0.01, factor=1), idempotent=True)
    async def fail() -> None:
        raise ToolError("try again", retryable=True)

    async def nobody(request: ApprovalRequest) -> Deny:
        await anyio.sleep_forever()
        return Deny("")

    async with Runtime([hang, book, fail, pay], sandbox=None, approve=nobody) as runtime:
        told = "Error: limit reached: wall_seconds is 0.1: tool "
        unknown = "; it may have done its work all the same: the outcome is unknown, find out before you call it again"
        limits = Limits(wall_seconds=0.1)
        with anyio.fail_after(20):
            assert await runtime.handle("hang", {}, limits=limits) == f"{told}'hang' had not answered by then"
            assert await runtime.handle("book", {"seat": 1}, limits=limits) == (
                f"{told}'book' had not answered by then{unknown}"
            )
            assert ended == ["hang", "book"]
            assert "had not answered by then" in await runtime.handle("fail", {}, limits=limits)
            denied = await runtime.answer("pay", {"amount": 1}, limits=limits)
            conversation = runtime.conversation(direct="all", limits=limits)
            assert (await conversation.handle("hang", {})).startswith(told)
    assert denied.text == f"{told}'pay' was not called, since nobody had approved it by then"
    assert (denied.ok, denied.mistake, denied.structured()) == (False, False, None)


async def test_no_answer_names_a_meta_tool_that_the_model_does_not_have(runtime: Runtime) -> None:
    calls: list[tuple[str, Any]] = [
        ("zzzzzzzzzz", {}),
        ("only_in_code", {"n": 1}),
        ("only_in_plans", {"n": 1}),
        ("excute_code", {"code": "1"}),
        ("describe_tools", {"names": ["nothing"]}),
        ("search_tools", {"query": "weather number mail", "detail": "full"}),
    ]
    for has in ([], ["describe_tools"], ["search_tools"]):
        for name, arguments in calls:
            text = await runtime.handle(name, arguments, meta=has)
            for other in set(META_TOOLS) - {*has, name}:
                assert other not in text
            assert (f"{name} is not in your list of tools" in text) is (name in META_TOOLS and name not in has)
    with pytest.raises(ConfigurationError, match="there is no meta-tool 'search'"):
        await runtime.handle("rows", {"count": 1}, meta=["search"])


async def test_programs_in_a_session_see_each_others_variables(runtime: Runtime) -> None:
    async with runtime.session() as session:
        assert (await runtime.answer("execute_code", {"code": "x = 41"}, session=session)).ok
        assert await runtime.handle("execute_code", {"code": "x + 1"}, session=session) == "Value: 42"


async def test_an_operators_mistake_is_raised(runtime: Runtime) -> None:
    with pytest.raises(ConfigurationError, match="allowed names the tool 'nothing'"):
        await runtime.handle("get_weather", {"city": "x"}, tools=["nothing"])
    with pytest.raises(ConfigurationError, match="enter the runtime first"):
        await Runtime(TOOLS, sandbox=None).handle("get_weather", {"city": "x"})


async def test_somebody_who_says_no_is_no_mistake_of_the_models() -> None:
    async def no(request: ApprovalRequest) -> Deny:
        return Deny("too much")

    async with Runtime([pay], sandbox=None, approve=no) as runtime:
        answer = await runtime.answer("pay", {"amount": 1})
        assert "too much" in answer.text
        assert not answer.mistake


# structured


STRUCTURED: list[tuple[str, Any]] = [
    ("get_weather", {"city": "Oslo"}),
    ("rows", {"count": 3}),
    ("send_mail", {"to": "x"}),
    ("execute_code", {"code": "print(1)\n2"}),
    ("execute_code", {"code": "1/0"}),
    ("execute_code", {"code": "x ="}),
    ("execute_code", {"code": "print('x' * 100_000)\n'y' * 100_000"}),
    ("execute_code", {"code": "{1, 2}"}),
    ("execute_tool_plan", {"steps": [{"id": "a", "tool": "rows", "arguments": {"count": 9_000}}]}),
    ("execute_tool_plan", {"steps": [{"id": f"s{n}", "tool": "rows", "arguments": {"count": 1}} for n in range(300)]}),
    ("execute_tool_plan", {"steps": [{"id": "a", "tool": "nothing"}]}),
    ("search_tools", {"query": "weather", "detail": "full"}),
    ("describe_tools", {"names": ["get_weather", "rows"]}),
]


@pytest.mark.parametrize(("name", "arguments"), STRUCTURED)
async def test_structured_answers_fit_the_output_schema_and_a_context(
    runtime: Runtime, name: str, arguments: Any
) -> None:
    definitions = {each["name"]: each for each in runtime.tool_definitions("mcp", direct="all")}
    structured = (await runtime.answer(name, arguments)).structured()
    assert structured is not None
    jsonschema_rs.validate(definitions[name]["outputSchema"], structured)
    assert len(json.dumps(structured)) < 60_000


async def test_what_was_cut_is_named(runtime: Runtime) -> None:
    long = await runtime.answer("execute_code", {"code": "print('x' * 100_000)\n'y' * 100_000"})
    structured = long.structured()
    assert structured is not None
    assert structured["truncated"] == ["logs", "value"]
    assert long.result is not None
    assert len(long.result.logs) == 100_001  # type: ignore[union-attr]


def test_every_meta_tool_can_be_asked_for() -> None:
    assert META_TOOLS == ("search_tools", "describe_tools", "execute_code", "execute_tool_plan")
