"""Other people's functions become tools as they stand: bare aliases, descriptions, exact numbers, iterators, refusals.

The promise is "Tools" in docs/tools.md: signature, annotations and docstring are the contract that a model sees and
that every call is held to; what cannot be one is refused when the tool is made, with what to write instead.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import enum
import json
import threading
import time
import typing
from collections.abc import AsyncIterator
from typing import Annotated, Any, Dict, FrozenSet, List, Literal, Mapping, Optional, Sequence, Set, Tuple, Union  # noqa: UP035

import pydantic
import pytest
from typing_extensions import Doc, TypedDict

import callgate
from callgate import ConfigurationError, InvalidArguments, Runtime, Tool, ToolError
from runtime.conftest import opened

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def taking(annotation: Any, **kept: Any) -> Tool:
    def take(value):  # type: ignore[no-untyped-def]
        return repr(value)

    take.__annotations__ = {"value": annotation}
    take.__doc__ = kept.get("doc")
    return callgate.tool(take)


def returning(annotation: Any, result: Any = None) -> Tool:
    def give():  # type: ignore[no-untyped-def]
        return result() if callable(result) else result

    give.__annotations__ = {"return": annotation}
    return callgate.tool(give)


async def called(tool: Tool, **arguments: Any) -> Any:
    """What a program gets from one call."""
    async with Runtime([tool], sandbox=None) as runtime:
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        ran = await runtime.execute_code(f"await {tool.name}({given})")
    if ran.error is not None:
        raise ToolError(ran.error.message)
    return ran.value


BARE: dict[str, tuple[Any, Any]] = {
    "Dict": (Dict, {"a": 1}),  # noqa: UP006
    "List": (List, [1, "a"]),  # noqa: UP006
    "List[Dict]": (List[Dict], [{"a": [1]}]),  # type: ignore[type-arg] # noqa: UP006
    "Union[str, List]": (Union[str, List], ["a"]),  # noqa: UP006, UP007
    "Optional[Dict]": (Optional[Dict], None),  # noqa: UP006, UP045
    "Tuple": (Tuple, [1, 2]),  # noqa: UP006
    "Set": (Set, [1]),  # noqa: UP006
    "FrozenSet": (FrozenSet, [1]),  # noqa: UP006
    "Sequence": (Sequence, [1, 2]),
    "Mapping": (Mapping, {"a": 1}),
    "Iterable": (typing.Iterable, [1, 2]),
    "Dict[str, List]": (Dict[str, List], {"a": [1]}),  # type: ignore[type-arg] # noqa: UP006
    "dict": (dict, {"a": 1}),
    "list[dict]": (list[dict], [{"a": 1}]),  # type: ignore[type-arg]
}


@pytest.mark.parametrize("name", BARE)
async def test_a_bare_alias_is_a_result_and_a_parameter(name: str) -> None:
    annotation, value = BARE[name]
    assert await called(returning(annotation, value)) == value
    assert taking(annotation).validate({"value": value}).keys() == {"value"}


@pytest.mark.parametrize(
    "annotation", [type, typing.Callable, typing.Union, typing.Optional, typing.Literal, typing.Annotated]
)
def test_a_bare_name_that_says_nothing_of_json_is_refused_as_a_configuration_error(annotation: Any) -> None:
    for make in (taking, returning):
        with pytest.raises(ConfigurationError, match="tool '"):
            make(annotation)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Share(enum.Enum):
    HALF = 0.5
    ALL = 1


EXACT: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "integers": (Literal[1, 2, 3], [1, 2], [True, 1.0, 4, "1"]),
    "zero": (Literal[0], [0], [False, 0.0]),
    "a truth value": (Literal[True], [True], [1, 1.0]),
    "both": (Literal[True, 2], [True, 2], [1, 2.0, 1.0]),
    "mixed with text": (Literal["a", 1], ["a", 1], [True, 1.0]),
    "an enum of integers": (Level, [1, 2], [True, 1.0, 2.0, 3]),
    "an enum of numbers": (Share, [0.5, 1], [True, 1.0]),
    "or nothing": (Literal[1, 2] | None, [1, None], [True, 1.0]),
    "in a list": (list[Literal[1, 2]], [[1, 2]], [[True], [1, 2.0]]),
    "in a mapping": (dict[str, Level], [{"a": 1}], [{"a": True}, {"a": 1.0}]),
    "annotated": (Annotated[Literal[1], "one"], [1], [True]),
}


@pytest.mark.parametrize("name", EXACT)
def test_listed_numbers_take_what_is_listed_and_nothing_that_python_calls_equal(name: str) -> None:
    annotation, taken, refused = EXACT[name]
    tool = taking(annotation)
    for value in taken:
        tool.validate({"value": value})
    for value in refused:
        with pytest.raises(InvalidArguments, match="argument 'value"):
            tool.validate({"value": value})


def test_the_refusal_of_a_number_says_what_is_listed() -> None:
    with pytest.raises(InvalidArguments, match="argument 'value' must be 1, 2 or 3, got true"):
        taking(Literal[1, 2, 3]).validate({"value": True})


def test_an_enum_member_arrives_in_the_function() -> None:
    assert taking(Level).validate({"value": 2}) == {"value": Level.HIGH}


DESCRIBED = {
    "a text": (Annotated[str, "the city"], "the city"),
    "a text in a union": (Annotated[str, "the city"] | None, "the city"),
    "a text beside others": (Annotated[str, pydantic.StringConstraints(min_length=1), "the city"], "the city"),
    "Doc": (Annotated[str, Doc("the city")], "the city"),
    "Field": (Annotated[str, pydantic.Field(description="the city")], "the city"),
    "Field before text": (Annotated[str, "a text", pydantic.Field(description="the city")], "the city"),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_annotated_describes_a_parameter_and_wins_over_the_docstring(name: str) -> None:
    annotation, words = DESCRIBED[name]
    docs = "Do it.\n\nArgs:\n    value: what the docstring says.\n"
    assert taking(annotation, doc=docs).input_schema["properties"]["value"]["description"] == words
    assert taking(str, doc=docs).input_schema["properties"]["value"]["description"] == "what the docstring says."


async def test_annotated_describes_a_parameter_that_may_be_left_out() -> None:
    @callgate.tool
    def find(city: Annotated[str, "the city"] = None) -> Annotated[str, "what was found"]:  # type: ignore[assignment] # noqa: RUF013
        return city

    assert find.input_schema["properties"]["city"]["description"] == "the city"
    assert find.output_schema is not None
    assert find.output_schema["description"] == "what was found"
    async with Runtime([find], sandbox=None) as runtime:
        assert "the city" in runtime.stubs()


class Picture(pydantic.BaseModel):
    name: str
    data: bytes


@dataclasses.dataclass
class Blob:
    data: bytes | None


class Part(TypedDict):
    data: bytes


@pytest.mark.parametrize("annotation", [bytes, bytes | None, list[bytes], dict[str, bytes], Picture, list[Blob], Part])
def test_a_tool_that_returns_bytes_promises_a_handle(annotation: Any) -> None:
    assert "artifact" in json.dumps(returning(annotation).output_schema)


@pytest.mark.parametrize("annotation", [bytearray, memoryview])
def test_a_tool_that_promises_other_bytes_is_refused_with_what_to_write(annotation: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"the return type has no JSON form: .*callgate\.Artifact for files"):
        returning(annotation)


@pytest.mark.parametrize("annotation", [str | bytes, typing.AnyStr, dict[str, str | bytes | None]])
async def test_a_tool_that_may_return_text_instead_of_bytes_is_a_tool(annotation: Any) -> None:
    made = returning(annotation)
    assert made.output_schema is not None


async def test_bytes_that_are_written_as_base64_are_a_result() -> None:
    class Encoded(pydantic.BaseModel):
        data: pydantic.Base64Bytes

    class Chosen(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
        data: bytes

    text = base64.b64encode(b"\xff\x00").decode()
    found = await called(returning(Encoded, lambda: Encoded(data=text.encode())))
    assert base64.b64decode(found["data"]) == b"\xff\x00"
    assert await called(returning(Chosen, lambda: Chosen(data=b"\xff\x00"))) == {"data": "_wA="}


async def test_bytes_of_a_tool_without_annotation_become_an_artifact() -> None:
    @callgate.tool
    def give():  # type: ignore[no-untyped-def]
        return b"x"

    assert (await called(give))["bytes"] == 1


def numbers() -> Any:
    return (n for n in [1, 2])


ITERATORS = {
    "typing.Iterator": typing.Iterator[int],
    "Iterator": collections.abc.Iterator[int],
    "Generator": collections.abc.Generator[int, None, None],
    "bare Generator": typing.Generator,
    "Iterable": collections.abc.Iterable[int],
    "nothing": Any,
}


@pytest.mark.parametrize("name", ITERATORS)
async def test_iterators_are_lists_whatever_they_are_called(name: str) -> None:
    annotation = ITERATORS[name]
    assert await called(returning(annotation, numbers)) == [1, 2]
    assert await called(returning(annotation, lambda: iter([1]))) == [1]
    assert await called(returning(annotation, lambda: [3])) == [3]


async def test_an_iterator_is_read_in_the_thread_of_its_tool() -> None:
    threads: set[int] = set()

    @callgate.tool
    def count() -> collections.abc.Iterator[int]:
        def each() -> collections.abc.Iterator[int]:
            for number in range(3):
                threads.add(threading.get_ident())
                time.sleep(0)
                yield number

        return each()

    assert await called(count) == [0, 1, 2]
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    "annotation", [AsyncIterator[int], collections.abc.AsyncGenerator[int, None], typing.AsyncIterable[int]]
)
def test_asynchronous_iterators_are_refused_alike(annotation: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="returns an asynchronous iterator; a call has one result: return a list"
    ):
        returning(annotation)


@pytest.mark.parametrize(
    "annotation", [collections.abc.Iterator[int], collections.abc.Generator[int, None, None], AsyncIterator[int]]
)
def test_iterators_as_parameters_are_refused_alike(annotation: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="parameter 'value' is an iterator, which has no JSON form: take a list"
    ):
        taking(annotation)


def test_an_iterable_parameter_is_checked_before_the_call_and_arrives_as_a_list() -> None:
    tool = taking(collections.abc.Iterable[int])
    assert tool.validate({"value": [1, 2]}) == {"value": [1, 2]}
    for wrong in (["a"], "ab"):
        with pytest.raises(InvalidArguments):
            tool.validate({"value": wrong})


async def test_what_a_docstring_says_of_the_result_is_shown_where_no_annotation_does() -> None:
    @callgate.tool
    def temperature(city: str):  # type: ignore[no-untyped-def]
        """Look it up.

        Returns:
            The temperature in degrees
            Celsius.
        """

    @callgate.tool
    def humidity(city: str) -> Any:
        """
        Returns:
            The humidity in percent.
        """

    @callgate.tool
    def pressure(city: str) -> float:
        """Returns:
        The pressure in hectopascal."""
        return 1000

    assert temperature.description == "Look it up.\n\nReturns: The temperature in degrees Celsius."
    assert humidity.description == "Returns: The humidity in percent."
    assert "The pressure in hectopascal." in pressure.description
    async with opened(temperature, humidity, pressure, sandbox=None) as runtime:
        stubs = runtime.stubs()
        definitions = str(runtime.tool_definitions("anthropic"))
    for words in ("The temperature in degrees Celsius.", "The humidity in percent.", "The pressure in hectopascal."):
        assert words in stubs
        assert words in definitions


def test_an_annotated_result_is_described_in_its_schema_alone() -> None:
    @callgate.tool
    def humidity(city: str) -> float:
        """Look it up.

        Returns:
            Percent.
        """
        return 5

    assert humidity.description == "Look it up."
    assert humidity.output_schema == {"type": "number", "description": "Percent."}


class Handle:
    """Nothing that JSON could say."""


@pytest.mark.parametrize("make", [taking, returning])
@pytest.mark.parametrize("annotation", [Handle, list[Handle], typing.Callable[[int], str], threading.Thread])
def test_a_type_without_a_json_form_is_refused_with_what_to_do_in_our_words(make: Any, annotation: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make(annotation)
    message = str(refused.value)
    assert "; use JSON types, dataclasses, TypedDicts, enums or pydantic models, " in message
    assert message.endswith("or say what it takes with Tool.from_schema")
    assert "arbitrary_types_allowed" not in message
    assert "__get_pydantic_core_schema__" not in message
