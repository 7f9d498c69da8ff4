"""Descriptions as definitions: the types of the tool where it is at hand, texts where it is not, and what is noted."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from callgate import ConfigurationError, Registry, Tool, tool
from callgate.agent.react.config import ToolDescription
from callgate.agent.react.schemas import build_tools_schema, notes_on

SEARCH = ToolDescription(
    name="search_database", description="Search the database for records matching a query.", args=("query", "limit")
)


@tool(read_only=True)
async def search_database(query: str, limit: int) -> list[str]:
    """Search."""
    return []


def parameters(description: ToolDescription, tools: Any, provider: Literal["openai", "anthropic"] = "openai") -> Any:
    (made,) = build_tools_schema([description], tools, provider)
    return made["input_schema"] if provider == "anthropic" else made["function"]["parameters"]


def test_the_example_of_the_reference_comes_out_byte_for_byte() -> None:
    shown = """[
      {
        "type": "function",
        "function": {
          "name": "search_database",
          "description": "Search the database for records matching a query.",
          "parameters": {
            "type": "object",
            "properties": {
              "query": {"type": "string"},
              "limit": {"type": "integer"}
            },
            "required": ["query", "limit"]
          }
        }
      }
    ]"""
    made = build_tools_schema([SEARCH], Registry([search_database]))
    assert json.dumps(made) == json.dumps(json.loads(shown))


def test_without_the_tool_every_argument_is_a_text_and_required() -> None:
    assert build_tools_schema([SEARCH]) == [
        {
            "type": "function",
            "function": {
                "name": "search_database",
                "description": "Search the database for records matching a query.",
                "parameters": {
                    "type": "object",
                    "properties": {"query": {"type": "string"}, "limit": {"type": "string"}},
                    "required": ["query", "limit"],
                },
            },
        }
    ]
    assert parameters(ToolDescription(name="list_tables"), None) == {"type": "object", "properties": {}, "required": []}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_an_optional_integer_stays_an_integer(provider: Literal["openai", "anthropic"]) -> None:
    def search(query: str, must: int | None, limit: int | None = None, least: int | None = 3) -> str:
        """Search."""
        return ""

    schema = parameters(ToolDescription(name="search"), Registry([search]), provider)
    assert schema["properties"] == {
        "query": {"type": "string"},
        "must": {"type": ["integer", "null"]},
        "limit": {"type": "integer"},
        "least": {"type": "integer", "default": 3},
    }
    assert schema["required"] == ["query", "must"]


class Filters(BaseModel):
    """What to look for."""

    query: str = Field(description="In a few words.")
    limit: int | None = None
    kind: Literal["user", "order"] = "user"
    near: Place | None = None


class Place(BaseModel):
    city: str
    radius: float | None = None


class Search:
    """As other frameworks have it: an object with a name and an `args_schema`."""

    name = "search_database"
    description = "Its own words."
    args_schema: Any = Filters


EXPECTED = {
    "query": {"type": "string", "description": "In a few words."},
    "limit": {"type": "integer"},
    "kind": {"type": "string", "enum": ["user", "order"], "default": "user"},
    "near": {"$ref": "#/$defs/Place"},
}


@pytest.mark.parametrize(
    "tools",
    [
        [Search()],
        {"search_database": Filters},
        {"search_database": Search()},
        {"search_database": Filters.model_json_schema()},
    ],
    ids=["object", "class", "object by name", "JSON Schema"],
)
def test_a_pydantic_schema_gives_the_types(tools: Any) -> None:
    schema = parameters(SEARCH, tools)
    assert schema["properties"] == EXPECTED
    assert schema["required"] == ["query"]
    assert schema["$defs"]["Place"]["properties"] == {"city": {"type": "string"}, "radius": {"type": "number"}}


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    user_id: int = Field(alias="userId")
    at_most: Annotated[int | None, Field(ge=1, description="So many.")] = None
    colour: Colour | None = None
    lines: list[Line]
    must: Literal["a"] | None
    title: str
    properties: dict[str, int] = {}


def test_a_class_that_contains_itself_has_its_arguments() -> None:
    schema = parameters(ToolDescription(name="t"), {"t": Node})
    children = {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []}
    assert schema["properties"] == {"name": {"type": "string"}, "children": children}
    assert schema["required"] == ["name"]
    assert schema["$defs"]["Node"]["properties"] == schema["properties"]


def test_enums_lists_of_models_aliases_and_constraints_stay_what_they_are() -> None:
    schema = parameters(ToolDescription(name="t"), {"t": Order})
    assert schema["properties"] == {
        "userId": {"type": "integer"},
        "at_most": {"type": "integer", "minimum": 1, "description": "So many."},
        "colour": {"$ref": "#/$defs/Colour"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "must": {"anyOf": [{"const": "a", "type": "string"}, {"type": "null"}]},
        "title": {"type": "string"},
        "properties": {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}},
    }
    assert schema["required"] == ["userId", "lines", "must", "title"]
    assert schema["$defs"]["Colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert schema["$defs"]["Line"]["properties"]["count"] == {"type": "integer", "default": 1}


class NoSchema:
    pass


def test_a_schema_that_cannot_be_had_is_refused() -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        what: NoSchema

    with pytest.raises(ConfigurationError, match="the args_schema of 'search_database' has no JSON Schema"):
        parameters(SEARCH, {"search_database": Odd})


def test_words_come_from_the_configuration_and_else_from_the_tool() -> None:
    (own,) = build_tools_schema([ToolDescription(name="search_database")], [Search()])
    assert own["function"]["description"] == "Its own words."
    (said,) = build_tools_schema([SEARCH], [Search()])
    assert said["function"]["description"] == SEARCH.description


def test_long_words_are_cut_to_what_the_provider_takes_and_it_is_noted() -> None:
    long = ToolDescription(name="a", description="x" * 5_000)
    (openai,) = build_tools_schema([long])
    (anthropic,) = build_tools_schema([long], None, "anthropic")
    assert (len(openai["function"]["description"]), len(anthropic["description"])) == (1_024, 4_096)
    assert notes_on([long]) == (
        "a: the description has 5000 characters; OpenAI is given the first 1024, Anthropic 4096",
    )


def test_a_tool_is_found_by_the_name_that_models_are_shown() -> None:
    odd = Tool.from_schema("search database", "Search.", {"type": "object", "properties": {"q": {}}}, lambda q: q)
    assert parameters(ToolDescription(name="search_database"), Registry([odd]))["properties"] == {"q": {}}


def test_a_meta_tool_may_be_described() -> None:
    schema = parameters(ToolDescription(name="execute_code", description="Run it."), Registry())
    assert list(schema["properties"]) == ["code"]


def test_what_does_not_fit_the_registry_is_noted_beforehand() -> None:
    def of_programs(x: int) -> int:
        """For programs alone."""
        return x

    registry = Registry([search_database, Tool.from_function(of_programs, allowed_callers=["code"])])
    described = [
        SEARCH.model_copy(update={"args": ("query", "limits")}),
        ToolDescription(name="serch_database", description="Search.", args=("query",)),
        ToolDescription(name="of_programs"),
    ]
    assert notes_on(described, registry) == (
        "search_database: the tool has no argument 'limits'; did you mean limit?",
        "serch_database: there is no such tool, calls will fail; its arguments are taken for text; did you mean "
        "search_database?",
        "of_programs: the tool's allowed_callers has no 'direct', so calls of the model will be refused",
    )
    assert notes_on([SEARCH], registry) == ()
    assert notes_on([ToolDescription(name="a")]) == ("a: there is no description, and a model chooses by little else",)


def test_a_langchain_tool_gives_its_types() -> None:
    tools = pytest.importorskip("langchain_core.tools", reason="langchain-core is not installed")

    def search_database(query: str, limit: int | None = None) -> str:
        """Search."""
        return query

    schema = parameters(SEARCH, [tools.StructuredTool.from_function(search_database)])
    assert schema["properties"] == {"query": {"type": "string"}, "limit": {"type": "integer"}}
    assert schema["required"] == ["query"]
