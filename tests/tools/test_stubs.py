"""How much stubs tell, of which tools, and under which names; what a signature tells on one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from callgate.errors import ConfigurationError, ToolNotFound
from callgate.tools import Registry, Tool, tool
from callgate.tools.stubs import DETAILS, result_types, signature, stubs
from tools.stub_checks import PYRIGHT, foreign, imported, passes_mypy, passes_pyright

ISSUE = {
    "title": "Issue",
    "description": "An issue, as it stands.",
    "type": "object",
    "properties": {
        "number": {"type": "integer", "description": "Its number.", "minimum": 1},
        "labels": {"type": "array", "items": {"type": "string"}, "default": ["new"]},
    },
    "required": ["number"],
}
CREATE = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "One line.", "minLength": 1, "maxLength": 80},
        "due": {"type": "string", "format": "date"},
        "state": {"enum": ["open", "shut"], "default": "open", "description": "Where it\\nstands."},
        "size": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
    },
    "required": ["title"],
}


@tool
async def add(first: int, second: int = 2) -> int:
    """Add two numbers.

    Args:
        first: to this.
        second: this is added.

    Returns:
        their sum.
    """
    return first + second


class Place(BaseModel):
    name: str
    inside: Place | None = None
    neighbours: list[Place] = []


@tool
async def find(place: Place, order: Literal["near", "far"] = "near", limit: int | None = None) -> dict[str, Place]:
    """Find places.

    With a \\ backslash, \"\"\"three quotes\"\"\", and a "quote at its end"
    """
    return {}


def of_server(name: str, *, server: str = "github", schema: Any = None, output: Any = None) -> Tool:
    made = foreign(f"{server}_{name}", schema, output, "Create an issue.\n\nIn a repository.")
    return replace(made, server=server, server_tool=name)


def registry() -> Registry:
    return Registry([add, of_server("create_issue", schema=CREATE, output=ISSUE), of_server("__hidden")])


ARGUMENTS = "title: str, due: str = OMITTED, state: Literal['open', 'shut'] = 'open', size: float = OMITTED"

FULL = '''"""Typed stubs of the tools that a program may call. They describe, and do nothing."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

OMITTED: Any = ...


class Issue(TypedDict):
    """An issue, as it stands."""
    number: int  # Its number. (≥ 1)
    labels: NotRequired[list[str]]  # (default ["new"])


async def add(first: int, second: int = 2) -> int:
    """Add two numbers.

    Args:
        first: to this.
        second: this is added.

    Returns:
        their sum.
    """
    raise NotImplementedError


class github:
    @staticmethod
    async def create_issue(@) -> Issue:
        """Create an issue.

        In a repository.

        Args:
            title: One line. (≥ 1, ≤ 80 characters)
            due: (date)
            state: Where it\\\\nstands.
            size: (> 0; a multiple of 0.5)
        """
        raise NotImplementedError


github_create_issue = github.create_issue


async def github___hidden() -> Any:  # also github.__hidden
    """Create an issue.

    In a repository.
    """
    raise NotImplementedError
'''

SIGNATURES = '''"""Typed stubs of the tools that a program may call. They describe, and do nothing."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

OMITTED: Any = ...


class Issue(TypedDict):
    number: int
    labels: NotRequired[list[str]]


async def add(first: int, second: int = 2) -> int:
    """Add two numbers."""
    raise NotImplementedError


class github:
    @staticmethod
    async def create_issue(@) -> Issue:
        """Create an issue."""
        raise NotImplementedError


github_create_issue = github.create_issue


async def github___hidden() -> Any:  # also github.__hidden
    """Create an issue."""
    raise NotImplementedError
'''

NAMES = '''"""The tools that a program may call, without their arguments."""

from __future__ import annotations

from typing import Any


add: Any
github___hidden: Any
github_create_issue: Any
'''


@pytest.mark.parametrize(("detail", "text"), [("full", FULL), ("signatures", SIGNATURES), ("names", NAMES)])
def test_what_each_detail_tells(detail: Any, text: str) -> None:
    assert stubs(registry(), detail=detail) == text.replace("@)", f"{ARGUMENTS})")


def test_full_is_what_is_told_unless_another_detail_is_chosen() -> None:
    assert stubs(registry()) == stubs(registry(), detail="full")


def test_there_is_no_other_detail() -> None:
    with pytest.raises(ConfigurationError, match="there is no detail 'all'; the details are: names, signatures, full"):
        stubs(registry(), detail="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["github_create_issue", "github.create_issue"])
def test_one_tool_is_chosen_by_any_of_its_names(name: str) -> None:
    text = stubs(registry(), names=[name])
    assert "class github:" in text
    assert "async def add" not in text
    assert stubs(registry(), detail="names", names=[name]).endswith("\n\n\ngithub_create_issue: Any\n")


def test_no_tools_are_chosen_by_no_names() -> None:
    assert "async def" not in stubs(registry(), names=[])


def test_a_name_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(ToolNotFound, match="there is no tool 'ad'; did you mean add"):
        stubs(registry(), names=["ad"])


PROGRAM = """
from {module} import add, github, github_create_issue

async def main() -> int:
    issue = await github.create_issue("one", state="shut", due="2030-01-01")
    again = await github_create_issue(title="one")
    return await add(issue["number"], again["number"])
"""
WRONG = """
from {module} import add, github

async def main() -> None:
    await github.create_issue(title=1)
    await add("1")
    (await github.create_issue("x"))["nummer"]
"""


def test_programs_are_checked_against_stubs(tmp_path: Path) -> None:
    module = "stub_module_0"
    for detail in ("full", "signatures"):
        passes_mypy(tmp_path, stubs(registry(), detail=detail), PROGRAM.format(module=module))
        with pytest.raises(AssertionError, match="Found 3 errors"):
            passes_mypy(tmp_path, stubs(registry(), detail=detail), WRONG.format(module=module))


@pytest.mark.slow
@pytest.mark.skipif(PYRIGHT is None, reason="basedpyright is not installed: pip install basedpyright")
def test_programs_are_checked_by_pyright(tmp_path: Path) -> None:
    passes_pyright(tmp_path, stubs(registry()), PROGRAM.format(module="stub_module_0"))
    with pytest.raises(AssertionError, match="3 errors"):
        passes_pyright(tmp_path, stubs(registry()), WRONG.format(module="stub_module_0"))


def test_servers_and_tools_of_one_name_have_one_each(tmp_path: Path) -> None:
    tools = [foreign("github"), of_server("github"), of_server("x", server="print"), of_server("print", server="print")]
    crossed = [of_server("a_b", server="a"), of_server("b", server="a"), foreign("a_b")]
    made = Registry(tools)
    for each in crossed:
        made.add(each, rename=True)
    modules = [stubs(made, detail=detail) for detail in DETAILS]
    passes_mypy(tmp_path, *modules)
    module = imported(tmp_path, modules[-1])
    assert module.github_.github is module.github_github
    assert module.a.b is not module.a.a_b
    assert module.a.a_b is module.a_a_b


def test_a_model_that_two_schemas_describe_alike_is_one_class() -> None:
    text = stubs(Registry([find]), detail="signatures")
    assert text.count("class Place(TypedDict):") == 1
    assert "class Place2" not in text
    assert "    inside: NotRequired[Place | None]\n" in text


def test_no_tools_are_an_empty_module(tmp_path: Path) -> None:
    passes_mypy(tmp_path, stubs(Registry([find])), *(stubs(Registry(), detail=detail) for detail in DETAILS))


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["from", "a-b"], "convert(from_: str, a_b: str = OMITTED) -> Any"),
        (["from", "from_"], "convert(*, from_: str = OMITTED, **{'from': str}) -> Any"),
    ],
)
def test_a_signature_tells_odd_arguments_as_they_are_written_or_else_as_they_are_given(
    names: list[str], line: str
) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names[:1]}
    assert signature(foreign("convert", schema), "convert") == line
    assert signature(add, "add") == "add(first: int, second: int = 2) -> int"


TEXT = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}
OPTIONS = {
    "type": "object",
    "properties": {"how": {"type": "object", "properties": {"deep": {"type": "boolean"}}}},
    "required": ["how"],
}
ODD_KEYS = {
    "type": "object",
    "properties": {"how": OPTIONS["properties"]["how"], "a-b": {}, "a_b": {}},  # type: ignore[index]
    "required": ["a-b"],
}
"""What ``a-b`` would be written as is taken."""


@pytest.mark.slow
def test_a_type_is_called_the_same_whichever_tools_are_beside_its_tool(tmp_path: Path) -> None:
    tools = [of_server(name, schema=OPTIONS, output=TEXT) for name in ("create", "look", "read")]
    tools += [of_server(name, schema=ODD_KEYS, output={"type": "array", "items": TEXT}) for name in ("odd", "same")]
    together = [stubs(Registry(tools), detail=detail) for detail in DETAILS]
    for each in tools:
        called = signature(each, each.name).partition(" -> ")[2]
        alone = stubs(Registry([each]), detail="full")
        for text in (*together[1:], alone):
            assert f") -> {called}:\n" in text
        parameters = alone.partition(f"async def {each.server_tool}(")[2].partition(")")[0]
        assert f"async def {each.server_tool}({parameters})" in together[1]
    passes_mypy(tmp_path, *together)
    if PYRIGHT is not None:
        passes_pyright(tmp_path, *together)


def test_the_types_of_a_result_stand_on_one_line() -> None:
    place = {"type": "object", "properties": {"x y": {"type": "number"}, "name": {"type": "string"}}}
    weather = {"type": "object", "properties": {"at": place, "wind": {"type": "array", "items": place}}}
    told = result_types(foreign("f", output=weather | {"required": ["at"]}), "f", most=300)
    of_place = "FResultAt: {'x y'?: float, name?: str}"
    assert told == f"FResult: {{at: FResultAt, wind?: list[FResultAt]}}; {of_place}"
    assert result_types(add, "add", most=300) == ""
    assert result_types(foreign("f"), "f", most=300) == ""


def test_the_types_of_a_result_keep_to_what_they_may_take() -> None:
    keys = {f"key_{n}": {"type": "object", "properties": {f"x{n}": {"type": "string"}}} for n in range(150)}
    told = result_types(foreign("f", output={"type": "object", "properties": keys}), "f", most=300)
    assert told.endswith("; ...")
    assert len(told) < 400
    chosen = {"type": "object", "properties": {"x": {"enum": [f"value {n}" for n in range(100)]}}}
    assert result_types(foreign("f", output=chosen), "f", most=100) == "FResult: {...}"
