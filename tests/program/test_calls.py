"""Arguments of tools, however the tool is called, and tools that do not exist."""

from __future__ import annotations

import pytest

from callgate.program import Finding, ToolShape, check_program

TOOLS = [
    ToolShape("move", ("source", "target", "name"), frozenset({"source", "target"})),
    ToolShape("ping", (), frozenset()),
    ToolShape("search", ("query",), frozenset({"query"}), accepts_any=True),
    ToolShape("spotify_play", ("artist",), frozenset({"artist"})),
]


def found(source: str) -> list[Finding]:
    return check_program(source, TOOLS, resolve=lambda name: name.replace(".", "_"))


@pytest.mark.parametrize(
    "call",
    [
        "move({})",
        "tools.move({})",
        "tool_call('move', {})",
    ],
)
def test_arguments_are_checked_however_the_tool_is_called(call: str) -> None:
    assert found(f"await {call.format('source=1, target=2, name=3')}") == []
    assert [finding.code for finding in found(f"await {call.format('source=1')}")] == ["missing-argument"]
    assert [finding.code for finding in found(f"await {call.format('source=1, target=2, extra=3')}")] == [
        "unknown-argument"
    ]
    assert found(f"await {call.format('**given')}".replace("await", "given = {}\nawait")) == []


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("await ping(1)", "ping(...) takes no arguments, and 1 are given", "write `ping()`"),
        (
            "await move()",
            "move(...) is called without `source`, `target`",
            "write `move(source=..., target=...)`",
        ),
        (
            "await tool_call('move', 1, 2)",
            'tool_call("move", ...) takes the arguments of the tool by name only',
            'write `tool_call("move", source=..., target=...)`',
        ),
        (
            "await tool_call('mvoe', source=1)",
            "there is no tool `mvoe`",
            'did you mean `tool_call("move", ...)`?',
        ),
        (
            "await tool_call('zzz')",
            "there is no tool `zzz`",
            "the tools are: move, ping, search, spotify_play",
        ),
        ("from tools import mvoe", "there is no tool `mvoe`", "did you mean `from tools import move`?"),
        (
            "await move(1, 2, 3, 4, *[5])",
            "move(...) takes 3 arguments, and 4 are given",
            "its arguments are: source, target, name",
        ),
    ],
)
def test_the_text_says_what_to_write(source: str, message: str, hint: str) -> None:
    (finding,) = found(source)
    assert (finding.message, finding.hint) == (message, hint)


@pytest.mark.parametrize(
    "source",
    [
        "await move(*[1, 2])",
        "await move(1, *[2])",
        "await move(1, 2, **{})",
        "await search('x', anything=1)",
        "await search('x', 1, 2)",
        "await tool_call('spotify.play', artist='A')",
        "await tool_call('move', source=1, target=2, name='n')",
        "name = 'x'\nawait tool_call(name, anything=1)",
        "def move(*a): pass\nmove()",
        "for move in []: move()",
        "tools = []\ntools.anything",
        "def tool_call(*a): pass\ntool_call('zzz')",
        "import tools as t\nawait t.ping()",
        "from tools import move as m\nawait m(1, 2)",
        "from tools import *\nawait move(1, 2)",
        "print(tools.__doc__)",
        "tools.anything = 1",
    ],
)
def test_what_may_be_right_is_left_alone(source: str) -> None:
    assert found(source) == []


def test_an_import_of_a_tool_by_another_name_is_checked() -> None:
    assert [finding.code for finding in found("from tools import move as m\nawait m(1)")] == ["missing-argument"]
    assert [finding.code for finding in found("import tools as t\nawait t.mvoe()")] == ["unknown-tool"]


def test_a_missing_tool_inside_a_try_is_a_warning() -> None:
    (finding,) = found("try:\n    from tools import mvoe\nexcept ImportError:\n    mvoe = None")
    assert finding.severity == "warning"


def test_a_tool_that_is_hidden_by_an_earlier_program_is_not_checked() -> None:
    assert check_program("move()", TOOLS, known_names={"move"}) == []


def test_without_tools_the_hint_says_so() -> None:
    (finding,) = check_program("tools.anything", ())
    assert finding.hint == "there are no tools in this program"


def test_with_thousands_of_tools_the_hint_stays_short() -> None:
    tools = [ToolShape(f"tool_{number}", (), frozenset()) for number in range(4000)]
    (finding,) = check_program("tools.anything_else", tools)
    assert finding.hint == "use one of the 4,000 tools by its name"
