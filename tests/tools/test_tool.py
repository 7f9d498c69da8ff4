"""Tools from functions: what they take, what they say about themselves, what cannot be one."""

from __future__ import annotations

import datetime
import functools
import inspect
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import ConfigurationError, InvalidArguments
from callgate.tools import Retry, Tool, tool
from tools.places import Place, Point, Unit, Wind

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@tool
async def forecast(place: Place, day: datetime.date, unit: Unit = Unit.CELSIUS, *, limit: int | None = None) -> Wind:
    """Weather to come.

    Args:
        place: where.
        unit: C or F.
        limit: at most so many.

    Returns:
        the wind.
    """
    return Wind(speed=place.height, since=day)


def test_a_function_describes_itself() -> None:
    assert forecast.name == "forecast"
    assert forecast.description == "Weather to come."
    assert forecast.is_async
    assert forecast.parameters == ("place", "day", "unit", "limit")
    assert forecast.input_schema == {
        "$defs": {
            "Place": {
                "properties": {
                    "city": {"type": "string"},
                    "height": {"default": 0, "type": "integer"},
                    "tags": {"default": [], "items": {"type": "string"}, "type": "array", "uniqueItems": True},
                },
                "required": ["city"],
                "title": "Place",
                "type": "object",
            },
            "Unit": {"enum": ["C", "F"], "title": "Unit", "type": "string"},
        },
        "additionalProperties": False,
        "properties": {
            "place": {"$ref": "#/$defs/Place", "description": "where."},
            "day": {"format": "date", "type": "string"},
            "unit": {"$ref": "#/$defs/Unit", "description": "C or F.", "default": "C"},
            "limit": {
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "description": "at most so many.",
                "default": None,
            },
        },
        "required": ["place", "day"],
        "type": "object",
    }
    assert forecast.output_schema == {
        "description": "the wind.",
        "properties": {"speed": {"type": "number"}, "since": {"format": "date", "type": "string"}},
        "required": ["speed", "since"],
        "title": "Wind",
        "type": "object",
    }


def test_values_that_json_cannot_say_are_built_from_their_json_form() -> None:
    typed = forecast.validate({"place": {"city": "Oslo", "tags": ["a", "a"]}, "day": "2024-02-29", "unit": "F"})
    assert typed == {
        "place": Place(city="Oslo", tags={"a"}),
        "day": datetime.date(2024, 2, 29),
        "unit": Unit.FAHRENHEIT,
    }


def test_defaults_stay_in_the_function() -> None:
    marker = object()

    @tool
    def echo(a: int, b: Any = marker) -> bool:
        return b is marker

    assert echo.input_schema["properties"] == {"a": {"type": "integer"}, "b": {}}
    assert echo.invoke(echo.validate({"a": 1})) is True


def test_a_default_of_none_allows_null() -> None:
    @tool
    def search(text: str = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
        """Search."""

    assert search.validate({"text": None}) == {"text": None}


def test_the_tool_is_still_called_like_the_function() -> None:
    @tool(name="plus", read_only=True)
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    assert add.name == "plus"
    assert add(1, b=2) == 3
    assert add.__doc__ == "Add."
    assert str(inspect.signature(add)) == "(a: 'int', b: 'int') -> 'int'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "tool 'take': missing argument 'count'"),
        ({"count": True}, "tool 'take': argument 'count' must be a valid integer, got true (a boolean)"),
        ({"count": "5"}, "tool 'take': argument 'count' must be a valid integer, got \"5\" (a string)"),
        ({"count": 5.0}, "tool 'take': argument 'count' must be a valid integer, got 5.0 (a number)"),
        ({"count": None}, "tool 'take': argument 'count' must be a valid integer, got null"),
        ({"count": 1, "citty": "x"}, "tool 'take': unknown argument 'citty'; did you mean city?"),
        ({"count": 1, "q": "x"}, "tool 'take': unknown argument 'q'; the arguments are: count, city, either, nested"),
        (
            {"count": 1, "either": []},
            "tool 'take': argument 'either' must be a valid integer or a valid string, got an array of 0 items",
        ),
        ({"count": 1, "nested": [{"x": 1}]}, "tool 'take': missing argument 'nested[0].y'"),
        (
            {"count": 1, "nested": [{"x": 1, "y": "2"}]},
            "tool 'take': argument 'nested[0].y' must be a valid integer, got \"2\" (a string)",
        ),
        ({"count": float("nan")}, "tool 'take': arguments.count is nan, which is not JSON; use null or a string"),
        ({"city": "\ud800"}, "tool 'take': arguments.city holds half of a surrogate pair, which is not Unicode text"),
        (
            {"city": 1, "town": 2},
            "tool 'take': argument 'city' must be a valid string, got 1 (a number); missing argument 'count'; "
            "unknown argument 'town'; the arguments are: count, city, either, nested",
        ),
    ],
)
def test_every_fault_is_named(arguments: dict[str, Any], message: str) -> None:
    @tool
    def take(count: int, city: str = "", either: int | str = 0, *, nested: list[Point] | None = None) -> None:
        """Take."""

    with pytest.raises(InvalidArguments) as caught:
        take.validate(arguments)
    assert sorted(caught.value.message.removeprefix("tool 'take': ").split("; ")) == sorted(
        message.removeprefix("tool 'take': ").split("; ")
    )
    assert caught.value.code == -32602
    assert caught.value.tool == "take"


def test_alternatives_stay_in_the_order_they_were_written_in() -> None:
    """Types that are equal are kept once by Python: what other tools wrote must not show in this one."""

    @tool
    def other(a: str | bool | int = 0, b: str | bool | int = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
        """Another."""

    @tool
    def one(a: int | bool | str = 0, b: int | bool | str = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
        """One."""

    def types_of(tool: Any, name: str) -> list[str]:
        return [each["type"] for each in tool.input_schema["properties"][name]["anyOf"]]

    assert types_of(other, "a") == ["string", "boolean", "integer"]
    assert types_of(other, "b") == ["string", "boolean", "integer", "null"]
    assert types_of(one, "a") == ["integer", "boolean", "string"]
    assert types_of(one, "b") == ["integer", "boolean", "string", "null"]


def test_the_faults_are_data_too() -> None:
    with pytest.raises(InvalidArguments) as caught:
        forecast.validate({"place": {"city": 5}, "day": "2024-01-01"})
    assert caught.value.data == {
        "faults": [
            {"argument": "place.city", "problem": "argument 'place.city' must be a valid string, got 5 (a number)"}
        ]
    }


def test_a_million_wrong_arguments_are_answered_in_few_words() -> None:
    with pytest.raises(InvalidArguments) as caught:
        forecast.validate({f"argument_{number}": 1 for number in range(10_000)})
    assert len(caught.value.message) < 2_000


def test_an_integer_is_a_float_and_stays_exact() -> None:
    @tool
    def take(number: float, whole: int) -> None:
        """Take."""

    assert take.validate({"number": 5, "whole": 2**70 + 1}) == {"number": 5.0, "whole": 2**70 + 1}


@given(json_values)
def test_any_json_value_passes_through_an_untyped_parameter(value: Any) -> None:
    def echo(value):  # type: ignore[no-untyped-def]
        return value

    echoing = Tool.from_function(echo)
    typed = echoing.validate({"value": value})
    assert typed == {"value": value}
    assert pydantic.TypeAdapter(Any).validate_json(echoing.encode(typed["value"])) == value


def test_a_tool_gets_its_own_copy() -> None:
    @tool
    def change(items: list[int]) -> None:
        items.clear()

    given = {"items": [1, 2]}
    change.invoke(change.validate(given))
    assert given == {"items": [1, 2]}


def test_positional_only_parameters_are_passed_by_position() -> None:
    @tool
    def power(base: int, exponent: int = 2, /, *, plus: int = 0) -> int:
        return int(base**exponent) + plus

    assert power.parameters == ("base", "exponent", "plus")
    assert power.invoke(power.validate({"base": 3})) == 9
    assert power.invoke(power.validate({"plus": 1, "exponent": 3, "base": 2})) == 9


def test_a_positional_only_default_is_filled_where_a_later_one_is_given() -> None:
    @tool
    def three(a: int, b: int = 5, c: int = 7, /) -> list[int]:
        return [a, b, c]

    assert three.invoke(three.validate({"a": 1, "c": 2})) == [1, 5, 2]


def test_field_gives_description_default_and_bounds() -> None:
    @tool
    def take(
        a: Annotated[int, pydantic.Field(description="from Field", ge=1)],
        b: int = pydantic.Field(default=3, le=5, description="b"),
        c: list[int] = pydantic.Field(default_factory=list),  # noqa: B008
    ) -> list[Any]:
        """Take.

        Args:
            a: from the docstring.
        """
        return [a, b, c]

    assert take.input_schema["properties"]["a"]["description"] == "from Field"
    assert take.input_schema["properties"]["b"] == {"default": 3, "description": "b", "maximum": 5, "type": "integer"}
    assert take.input_schema["required"] == ["a"]
    assert take.invoke(take.validate({"a": 1})) == [1, 3, []]
    with pytest.raises(InvalidArguments, match="argument 'b' must be less than or equal to 5, got 6"):
        take.validate({"a": 1, "b": 6})


@pytest.mark.parametrize(
    ("type", "bounds", "value", "words"),
    [
        (str, {"pattern": r"\S"}, " ", r"""a string that matches '\S', got " " (a string)"""),
        (str, {"min_length": 2}, "a", 'a string with at least 2 characters, got "a" (a string)'),
        (list[int], {"max_length": 1}, [1, 2], "an array with at most 1 item, got an array of 2 items"),
        (dict[str, int], {"min_length": 1}, {}, "an object with at least 1 item, got an object"),
    ],
)
def test_a_value_out_of_bounds_is_refused_in_a_whole_sentence(
    type: Any, bounds: dict[str, Any], value: Any, words: str
) -> None:
    def take(it: Any) -> None:
        """Take."""

    take.__annotations__["it"] = Annotated[type, pydantic.Field(**bounds)]
    with pytest.raises(InvalidArguments) as refused:
        Tool.from_function(take).validate({"it": value})
    assert refused.value.message == f"tool 'take': argument 'it' must be {words}"


def test_methods_partials_and_callable_objects_are_tools_too() -> None:
    class Shop:
        async def price(self, item: str) -> int:
            """Price."""
            return len(item)

        async def __call__(self, item: str) -> int:
            return 1

    method = Tool.from_function(Shop().price)
    assert (method.name, method.is_async, method.parameters) == ("price", True, ("item",))
    partial = Tool.from_function(functools.partial(Shop().price, "x"))
    assert (partial.name, partial.is_async, partial.parameters) == ("price", True, ())
    instance = Tool.from_function(Shop(), name="shop")
    assert (instance.is_async, instance.parameters) == (True, ("item",))


def test_a_type_that_is_local_to_a_function_is_found() -> None:
    class Local(pydantic.BaseModel):
        x: int

    @tool
    def take(local: Local) -> Local:
        return local

    assert take.validate({"local": {"x": 1}}) == {"local": Local(x=1)}


class Handle:
    """Nothing that JSON could say."""


def stars(*args: int) -> None: ...
def double_stars(**kwargs: int) -> None: ...
def method(self) -> None: ...  # type: ignore[no-untyped-def]
def takes_handle(handle: Handle) -> None: ...
def returns_handle() -> Handle: ...  # type: ignore[empty-body]
def unknown_type(x: Missing) -> None: ...  # type: ignore[name-defined] # noqa: F821
def generates() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (stars, r"tool 'stars' takes \*args, which cannot be described to a model: name each parameter, take a list"),
        (double_stars, r"tool 'double_stars' takes \*\*kwargs, which cannot be described"),
        (method, "tool 'method' takes 'self': it is a method; make the tool from a bound method"),
        (takes_handle, "tool 'takes_handle': parameter 'handle' has no JSON form: .*; use JSON types, dataclasses"),
        (returns_handle, "tool 'returns_handle': the return type has no JSON form"),
        (unknown_type, "tool 'unknown_type': an annotation cannot be read: name 'Missing' is not defined"),
        (generates, "tool 'generates' is a generator; a call has one result: return a list"),
        (lambda: 1, "a lambda has no name: pass name=..., or write a function"),
        (5, "a tool is made from a function, not from 5"),
        (forecast, "'forecast' is a tool already"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_remedy(function: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Tool.from_function(function)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds must be a number above 0, not 0"),
        ({"timeout_seconds": float("inf")}, "timeout_seconds must be a number above 0, not inf"),
        ({"cache_seconds": 5}, "cache_seconds needs read_only=True"),
        ({"read_only": True, "destructive": True}, "cannot be both read_only and destructive"),
        ({"retry": 3}, r"retry must be a Retry, e.g. Retry\(attempts=3\), not 3"),
        ({"allowed_callers": ("model",)}, "there is no caller 'model'; the callers are: direct, code, plan"),
        ({"allowed_callers": "code"}, "allowed_callers must be a list, not the string 'code'"),
        ({"fallback": "f"}, "fallback must be the name of another tool, not 'f'"),
        ({"timeout": 5}, "there is no option 'timeout'; the options of a tool are: allowed_callers, cache_seconds"),
        ({"name": ""}, "a tool's name must not be empty"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], message: str) -> None:
    def f() -> None: ...

    with pytest.raises(ConfigurationError, match=message):
        tool(**options)(f)


def test_options_are_kept() -> None:
    @tool(
        idempotent=True,
        allowed_callers=["plan"],
        timeout_seconds=2,
        retry=Retry(attempts=2),
        fallback="other",
        cost=0.5,
        category="search",
        capabilities=["a"],
        limitations=["b"],
        examples=[{"x": 1}],
        requires_approval=True,
    )
    def f() -> None: ...

    assert f.allowed_callers == ("plan",)
    assert f.repeatable
    assert (f.capabilities, f.limitations, f.examples) == (("a",), ("b",), ({"x": 1},))
    assert f.named("g").name == "g"


def test_a_tool_says_which_server_it_was_imported_from() -> None:
    schema = {"type": "object"}
    made = Tool.from_schema("s_a", "", schema, dict, server="s", server_tool="a\nb")
    assert (made.server, made.server_tool) == ("s", "a\nb")
    assert made.named("s_a_2").server_tool == "a\nb"
    assert Tool.from_schema("a", "", schema, dict, server="s").server_tool == "a"
    own = Tool.from_schema("a", "", schema, dict)
    assert (own.server, own.server_tool) == (None, None)
    with pytest.raises(ConfigurationError, match=r"^tool 'a': server_tool needs a server$"):
        Tool.from_schema("a", "", schema, dict, server_tool="a")
    with pytest.raises(ConfigurationError, match=r"^a server's name must be printable, 's\\n' is not$"):
        Tool.from_schema("a", "", schema, dict, server="s\n")
