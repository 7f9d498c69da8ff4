"""Contracts of functions with annotations: their arguments and results. Uses pydantic.

Rules:

1. Values are checked strictly as JSON: an integer parameter refuses ``"5"``, ``true`` and ``5.0``; a float parameter
   takes ``5``. A type that JSON does not have (a tuple, a set, an enum, a date, a model) takes its JSON form.
2. Arguments are written as JSON and read again, so that a tool gets its own copy and types are built from JSON.
   pydantic reads at most 200 levels of nesting.
3. A result passes if it is a value of the return type, or if its JSON form is: a dict passes for a model, a tuple for a
   list.
4. A default stays in the function; the schema shows the default if it is JSON.
5. An argument of the type `Artifact` is a handle, and the function gets the artifact of the caller. A result that has
   bytes or an `Artifact` in it is checked by its schema, which has an object with a handle in their places.

Knows types and values; calls no tool.
"""

from __future__ import annotations

import inspect
import itertools
import re
import typing
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pydantic
import pydantic_core
import typing_extensions
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from callgate.artifacts import HANDLE_SCHEMA, is_handle_schema
from callgate.errors import ConfigurationError, InvalidArguments, ToolError

from .encoding import NotJson, compact_json, encoding
from .exact_types import mentions_artifact, parameter_type, result_type, words_of
from .faults import MAX_FAULTS, MAX_LOOKED_AT, Fault, described, path_text, refusal, unknown_argument
from .plain_types import failing_fast, is_closed, is_plain
from .signature import NOTHING
from .turns import LARGE_BYTES, Work, at_once, uncollected

__all__ = ["Arguments", "Encoded", "FunctionArguments", "TypedResult", "UntypedResult"]

_MOST_ERRORS = 5_000
"""Most errors that pydantic is asked to list; listing them takes some milliseconds."""
_FIRST_BEGINNING = 1_000
"""Members of a long argument that are checked first."""
_BY_HANDLE = 'a file, given by its handle: "art_..."'
_OF_A_CUT = frozenset({"too_short", "missing", "union_tag_not_found", "value_error", "assertion_error"})
"""Types of errors that cutting an argument may cause."""


_Mode = typing.Literal["validation", "serialization"]


class _PlainSchema(GenerateJsonSchema):
    """Leaves out titles of fields: they repeat the names, and the model pays for them."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 -- pydantic's own declaration

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        made = super().bytes_schema(schema)
        kept = self.mode == "serialization" and self._config.ser_json_bytes == "utf8"
        return {**made, "format": _KeptBytes(made["format"])} if kept else made


class _KeptBytes(str):
    """Marks bytes that become an artifact. A type with its own JSON form, such as `Base64Bytes`, replaces the mark."""

    __slots__ = ()


class Arguments:
    """The contract of a call's arguments. A subclass says how they are checked."""

    schema: dict[str, Any]
    names: tuple[str, ...]
    positional_only: tuple[str, ...] = ()

    def validate(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A checked copy of the keyword arguments. Raises `InvalidArguments` that names every fault."""
        try:
            text = compact_json(arguments, "arguments")
        except NotJson as error:
            raise InvalidArguments(f"tool {tool!r}: {error}", tool=tool) from None
        return at_once(self._validated(tool, arguments, text))

    def validating(self, tool: str, arguments: dict[str, Any]) -> Work[dict[str, Any]]:
        """`validate` in turns, for large arguments."""
        try:
            text = yield from encoding(arguments, "arguments")
        except NotJson as error:
            raise InvalidArguments(f"tool {tool!r}: {error}", tool=tool) from None
        yield
        return (yield from self._validated(tool, arguments, text))

    def copied(self, arguments: dict[str, Any], *, large: bool) -> dict[str, Any] | None:
        """What `validate` returns for these arguments, which are JSON values, without writing them as text.

        None if it takes a text: to say what is wrong, or since the types are not their own JSON form.
        """
        return None

    def _validated(self, tool: str, arguments: dict[str, Any], text: str) -> Work[dict[str, Any]]:
        raise NotImplementedError


class FunctionArguments(Arguments):
    """The contract of a function's arguments.

    Args:
        tool: the tool's name, for errors.
        parameters: the function's parameters; their annotations are types.
        words: descriptions by parameter.

    Raises:
        ConfigurationError: the type of a parameter has no JSON form.
    """

    def __init__(self, tool: str, parameters: Sequence[inspect.Parameter], words: Mapping[str, str]) -> None:
        self.names = tuple(parameter.name for parameter in parameters)
        positional = [each for each in parameters if each.kind is each.POSITIONAL_ONLY]
        self.positional_only = tuple(parameter.name for parameter in positional)
        # a positional argument cannot be skipped, so its default is filled in
        self._positional_defaults = {
            parameter.name: parameter.default
            for parameter in positional
            if parameter.default is not NOTHING and not isinstance(parameter.default, FieldInfo)
        }
        self._fills: dict[str, FieldInfo] = {}
        fields = {}
        for parameter in parameters:
            try:
                fields[parameter.name] = self._field(tool, parameter, words.get(parameter.name))
            except TypeError as error:  # a bare `Optional`, `Union`, `Literal`, ...
                raise ConfigurationError(f"tool {tool!r}: parameter {parameter.name!r}: {error}") from error
        adapter = _arguments_adapter(tool, fields)
        self.schema = _schema(adapter, "validation")
        self.schema.pop("title", None)
        self.schema.pop("description", None)
        self.schema.setdefault("properties", {})
        for parameter in parameters:
            self._show_default(parameter)
            if mentions_artifact(parameter.annotation):
                about = self.schema["properties"][parameter.name]
                words_so_far = about.get("description", "")
                about["description"] = f"{words_so_far.rstrip('.')} ({_BY_HANDLE})." if words_so_far else _BY_HANDLE
        self._adapter = adapter
        self._validate = adapter.validator.validate_json
        self._is_closed = all(is_closed(each.annotation) for each in parameters) and not self._fills

    @cached_property
    def _until_a_fault(self) -> pydantic_core.SchemaValidator:
        """A validator that stops at the first fault of an array: it finds no 200,000."""
        return pydantic_core.SchemaValidator(failing_fast(self._adapter.core_schema))

    def copied(self, arguments: dict[str, Any], *, large: bool) -> dict[str, Any] | None:
        if not self._is_closed:
            return None
        validator = self._until_a_fault if large else self._adapter.validator
        try:
            return self._filled(validator.validate_python(arguments, strict=True))
        except pydantic.ValidationError:
            return None

    def _validated(self, tool: str, arguments: dict[str, Any], text: str) -> Work[dict[str, Any]]:
        if len(text) <= LARGE_BYTES:
            return self._typed(tool, arguments, text)
        unknown = [name for name in arguments if name not in self.names]
        if len(unknown) > MAX_LOOKED_AT:  # the other arguments need no check
            faults = [Fault(name, self._problem("extra_forbidden", "", (name,))) for name in unknown[:MAX_FAULTS]]
            raise refusal(tool, faults, f"; and {len(unknown) - len(faults)} more")
        if not any(isinstance(value, dict) and len(value) > _FIRST_BEGINNING for value in arguments.values()):
            try:
                with uncollected():
                    return self._filled(self._until_a_fault.validate_json(text, strict=True))
            except pydantic.ValidationError:
                yield
        if (first := (yield from self._first_errors(arguments))) is not None:
            raise refusal(tool, self._faults(first, arguments), "; there may be more")
        with uncollected():
            return self._typed(tool, arguments, text)

    def _typed(self, tool: str, arguments: dict[str, Any], text: str) -> dict[str, Any]:
        try:
            typed: dict[str, Any] = self._validate(text, strict=True)
        except pydantic.ValidationError as error:
            if error.error_count() > _MOST_ERRORS:
                faults = [Fault("", f"the arguments do not fit, in {error.error_count():,} places")]
            else:
                faults = self._faults(error, arguments)
            raise refusal(tool, faults) from None
        return self._filled(typed)

    def _first_errors(self, arguments: dict[str, Any]) -> Work[pydantic.ValidationError | None]:
        """The first errors of members of long arguments; None where the members fit.

        pydantic lists all errors, and listing 200,000 takes a second. So growing beginnings of the long arguments are
        checked until one has errors.
        """
        longest = max((len(value) for value in arguments.values() if isinstance(value, (dict, list))), default=0)
        sound, step = 0, _FIRST_BEGINNING
        while sound + step < longest:
            first = {name: _beginning(value, sound + step) for name, value in arguments.items()}
            text = yield from encoding(first)
            yield
            try:
                with uncollected():
                    self._validate(text, strict=True)
            except pydantic.ValidationError as error:
                if error.error_count() <= _MOST_ERRORS:
                    blames_a_cut = any(each["type"] in _OF_A_CUT for each in _details(error))
                    return None if blames_a_cut else error
                if step == _FIRST_BEGINNING:  # each member has very many errors
                    return None
                step = _FIRST_BEGINNING
                continue
            yield
            sound, step = sound + step, step * 2
        return None

    def _filled(self, typed: dict[str, Any]) -> dict[str, Any]:
        for name, field in self._fills.items():
            if name not in typed:
                typed[name] = field.get_default(call_default_factory=True, validated_data=typed)
        for name, default in self._positional_defaults.items():
            typed.setdefault(name, default)
        return typed

    def _field(self, tool: str, parameter: inspect.Parameter, words: str | None) -> Any:
        default = parameter.default
        annotation = parameter_type(parameter.annotation, f"tool {tool!r}: parameter {parameter.name!r}")
        given = FieldInfo.from_annotation(annotation)
        if isinstance(default, FieldInfo):  # `x: int = Field(ge=1)`
            given = FieldInfo.from_annotated_attribute(annotation, default)
            annotation = given.annotation
            for metadata in given.metadata:
                annotation = typing.Annotated[annotation, metadata]
            if not given.is_required():
                self._fills[parameter.name] = given
        if given.alias or given.validation_alias:
            raise ConfigurationError(f"tool {tool!r}: parameter {parameter.name!r} has an alias; rename the parameter")
        # a field has no hash, and is not kept: `NotRequired` would give `str | int` for `int | str` if that came first
        field = pydantic.Field(description=given.description or words_of(annotation) or words or None)
        annotation = typing.Annotated[annotation, field]
        required = given.is_required() if isinstance(default, FieldInfo) else default is NOTHING
        return annotation if required else typing_extensions.NotRequired[annotation]

    def _show_default(self, parameter: inspect.Parameter) -> None:
        fill = self._fills.get(parameter.name)
        default = fill.get_default() if fill else parameter.default
        if default is NOTHING or isinstance(default, FieldInfo) or (fill and fill.default_factory):
            return
        try:
            shown = pydantic_core.to_jsonable_python(default)
            compact_json(shown)
        except (ValueError, TypeError):
            return
        self.schema["properties"][parameter.name].setdefault("default", shown)

    def _faults(self, error: pydantic.ValidationError, arguments: dict[str, Any]) -> list[Fault]:
        """One fault for each path; the failed branches of a union share one fault."""
        problems: dict[tuple[str | int, ...], list[str]] = {}
        got: dict[tuple[str | int, ...], str] = {}
        for detail in _details(error)[:MAX_LOOKED_AT]:
            path = _path_in(arguments, detail["loc"], detail["type"])
            text = self._problem(detail["type"], detail["msg"], path)
            if text not in problems.setdefault(path, []):
                problems[path].append(text)
            got[path] = described(detail["input"])
        faults = []
        for path, texts in problems.items():
            name = path_text(path)
            if not path:
                faults.append(Fault("", texts[0]))
            elif texts[0].startswith(("missing ", "unknown ")):
                faults.append(Fault(name, texts[0]))
            else:
                faults.append(Fault(name, f"argument {name!r} must be {' or '.join(texts)}, got {got[path]}"))
        return faults

    def _problem(self, kind: str, message: str, path: tuple[str | int, ...]) -> str:
        if kind == "json_invalid":
            return f"the arguments cannot be read: {message}"
        if kind in ("missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument"):
            return f"missing argument {path_text(path)!r}"
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            name = path_text(path)
            return f"unknown argument {name!r}" if len(path) > 1 else unknown_argument(name, self.names)
        return expected(message)


class Encoded(typing.NamedTuple):
    """A large result."""

    text: str
    """Compact JSON."""
    value: Any = None
    """The value of that text where it is at hand: a copy that the tool does not know. None otherwise."""


class TypedResult:
    """The contract of a function with a return annotation.

    Raises:
        ConfigurationError: the return type has no JSON form.
    """

    def __init__(self, tool: str, annotation: Any, description: str) -> None:
        annotation, description = result_type(annotation, tool), words_of(annotation) or description
        adapter = _adapter(annotation, f"tool {tool!r}: the return type", "serialization")
        schema = _schema(adapter, "serialization")
        self.schema = _with_handles(schema)
        self.holds_artifacts = self.schema is not schema
        """Whether bytes or artifacts are in it; then its schema checks it."""
        if description:
            self.schema.setdefault("description", description)
        self._plain = is_plain(annotation)
        self._is_closed = is_closed(annotation)
        self._validate = adapter.validator
        self._serialize = adapter.serializer.to_python

    def encode(self, tool: str, result: Any) -> str:
        """The result as compact JSON text. Raises `ToolError` when the tool broke its own contract."""
        try:
            return self._typed(result)
        except (pydantic.ValidationError, NotJson, pydantic_core.PydanticSerializationError):
            pass
        text = UntypedResult.encode(tool, result)
        try:
            return self._typed(self._validate.validate_json(text, strict=True))
        except pydantic.ValidationError as error:
            first = _details(error)[0]
            where = path_text(first["loc"], "result")
            problem = f"{where} must be {expected(first['msg'])}, got {described(first['input'])}"
        except (NotJson, pydantic_core.PydanticSerializationError) as error:
            problem = str(error) if isinstance(error, NotJson) else "result cannot be written as JSON"
        raise broken_contract(tool, problem)

    def encoding(self, tool: str, result: Any) -> Work[Encoded]:
        """`encode` for a large result: in turns where the value is its own JSON form, otherwise in one step."""
        if not self._plain:
            return Encoded(self.encode(tool, result))
        try:
            typed = self._validate.validate_python(result, strict=True)
        except pydantic.ValidationError:
            return Encoded(self.encode(tool, result))
        yield
        encoded = yield from UntypedResult().encoding(tool, typed)
        return encoded._replace(value=typed) if self._is_closed else encoded

    def _typed(self, result: Any) -> str:
        typed = self._validate.validate_python(result, strict=True)
        if not self._plain:
            typed = self._serialize(typed, mode="json", warnings="error", by_alias=True)
        return compact_json(typed, "result")


class UntypedResult:
    """The contract of a function that does not say what it returns: anything that has a JSON form, in that form."""

    schema: None = None

    @staticmethod
    def encode(tool: str, result: Any) -> str:
        """Compact JSON text; raises `ToolError` for what has no JSON form."""
        try:
            return compact_json(result, "result")
        except NotJson as error:
            raise broken_contract(tool, str(error)) from None

    @staticmethod
    def encoding(tool: str, result: Any) -> Work[Encoded]:
        """The same in turns, for a result that is large."""
        try:
            return Encoded((yield from encoding(result, "result")))
        except NotJson as error:
            raise broken_contract(tool, str(error)) from None


def _beginning(value: Any, most: int) -> Any:
    """The first `most` members of an array or object."""
    if isinstance(value, list):
        return value[:most]
    return dict(itertools.islice(value.items(), most)) if isinstance(value, dict) else value


def _details(error: pydantic.ValidationError) -> list[pydantic_core.ErrorDetails]:
    return error.errors(include_url=False, include_context=False)


def broken_contract(tool: str, problem: str) -> ToolError:
    """The error for a result that does not fit the tool's own contract."""
    return ToolError(f"tool {tool!r} returned what it must not: {problem}", tool=tool)


_SIZED: Final = re.compile(r"(\w+) should have (.+?)(?: after validation, not .+)?$")
"""A message about a size; what the size was, the value beside it shows."""
_KINDS: Final = {
    "String": "a string", "Dictionary": "an object",
    **dict.fromkeys(("List", "Tuple", "Set", "Frozenset", "Deque"), "an array"),
}  # fmt: skip


def expected(message: str) -> str:
    """pydantic's message as an expectation: ``Input should be a valid integer`` becomes ``a valid integer``."""
    if (sized := _SIZED.match(message)) is not None and (kind := _KINDS.get(sized[1])) is not None:
        return f"{kind} with {sized[2]}"[:300]
    message = message.replace("String should match pattern ", "a string that matches ", 1)
    return message.removeprefix("Input should be ").removeprefix("Value error, ")[:300]


def _arguments_adapter(tool: str, fields: dict[str, Any]) -> pydantic.TypeAdapter[Any]:
    make: Any = typing_extensions.TypedDict
    try:
        arguments = make("Arguments", fields)
    except TypeError as error:  # a bare `Final` or `ClassVar`
        raise ConfigurationError(f"tool {tool!r}: the parameters: {error}") from error
    arguments.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", cache_strings="keys")  # 0.6 of the time
    try:
        return _adapter(arguments, f"tool {tool!r}: the parameters")
    except ConfigurationError:
        for name, annotation in fields.items():  # which of them?
            required = (
                typing.get_args(annotation)[0]
                if typing.get_origin(annotation) is typing_extensions.NotRequired
                else annotation
            )
            _adapter(required, f"tool {tool!r}: parameter {name!r}")
        raise


def _adapter(annotation: Any, what: str, mode: _Mode = "validation") -> pydantic.TypeAdapter[Any]:
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(annotation)
        adapter.rebuild()
        _schema(adapter, mode)
    except (pydantic.errors.PydanticUserError, pydantic_core.SchemaError, NameError, TypeError) as error:
        reason = str(error).splitlines()[0].partition(". Set `arbitrary_types_allowed")[0].rstrip(".")
        reason = reason.removeprefix("Unable to generate pydantic-core schema for ")
        raise ConfigurationError(
            f"{what} has no JSON form: {reason}; use JSON types, dataclasses, TypedDicts, enums or pydantic models, "
            "callgate.Artifact for files and pictures, or say what it takes with Tool.from_schema"
        ) from error
    return adapter


def _with_handles(schema: Any) -> Any:
    """A copy of a schema with handles where bytes are; the same object if it has neither bytes nor handles."""
    if isinstance(schema, list):
        parts = [_with_handles(each) for each in schema]
        return schema if all(made is each for made, each in zip(parts, schema, strict=True)) else parts
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("format"), _KeptBytes) or is_handle_schema(schema):
        return {**HANDLE_SCHEMA, **{key: each for key, each in schema.items() if key in ("title", "description")}}
    members = {key: _with_handles(each) for key, each in schema.items()}
    return schema if all(members[key] is each for key, each in schema.items()) else members


def _schema(adapter: pydantic.TypeAdapter[Any], mode: _Mode) -> dict[str, Any]:
    return adapter.json_schema(mode=mode, schema_generator=_PlainSchema)


def _path_in(arguments: Any, location: tuple[str | int, ...], kind: str) -> tuple[str | int, ...]:
    """pydantic's location without the names of union branches, which are not in the value."""
    path: list[str | int] = []
    value = arguments
    for index, part in enumerate(location):
        missing = index == len(location) - 1 and kind.startswith("missing")
        inside = part in value if isinstance(value, dict) else isinstance(value, list) and part in range(len(value))
        if inside:
            value = value[part]
        elif not missing:
            continue
        path.append(part)
    return tuple(path)
