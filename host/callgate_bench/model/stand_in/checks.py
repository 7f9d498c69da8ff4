"""The scripted model, what it is shown and may do; and what every provider asks of the tools that it is sent.

What a client sends and the service would not take raises `Refused`; what a script does and no model would, an
`AssertionError` or jsonschema-rs' `ValidationError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs


@dataclass(frozen=True)
class Call:
    """The model calls a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """The result of a call."""

    name: str
    text: str


@dataclass(frozen=True)
class Turn:
    """Everything that a model sees at its turn."""

    number: int
    """The number of turns before this one."""
    user: str
    """The last words of the user."""
    tools: Mapping[str, Mapping[str, Any]]
    """Input schemas of the tools it may call, by name."""
    descriptions: Mapping[str, str]
    answers: tuple[Answer, ...]
    """Results of the calls of its last turn, in the order of the calls."""

    @property
    def answer(self) -> str:
        """The text of the only result."""
        (only,) = self.answers
        return only.text


@dataclass(frozen=True)
class Refusal:
    """The model refuses, with a reason."""

    text: str


Output = str | Call | Refusal
Move = Output | Sequence[Output]
"""Text, a call, a refusal, or several of them."""


class Script:
    """A model that plays these turns, one after the other.

    Args:
        turns: one function for each time it is asked.
    """

    def __init__(self, *turns: Callable[[Turn], Move]) -> None:
        self.turns = turns

    def play(self, turn: Turn) -> list[Output]:
        """The model's next outputs.

        Raises:
            AssertionError: it has no turn left; or as the turn's function does.
        """
        if turn.number >= len(self.turns):
            raise AssertionError(f"the script has {len(self.turns)} turns, and the model is asked once more: {turn}")
        move = self.turns[turn.number](turn)
        return [move] if isinstance(move, Output) else list(move)


OBJECT_PARTS = ("properties", "$defs", "definitions")
LIST_PARTS = ("anyOf", "allOf", "oneOf", "prefixItems")


class Refused(Exception):
    """The service refuses the request.

    Attributes:
        status: the HTTP status.
        kind: the service's own name for the error.
        code: OpenAI's finer name for it; empty where it has none.
        param: the field that it is about, where OpenAI names it.
        headers: of the HTTP response.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        code: str = "",
        param: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code
        self.param = param
        self.headers = dict(headers or {})


def required(body: Mapping[str, Any], name: str, kind: type) -> Any:
    """The value of a required field; a bool does not count as an int."""
    value = body.get(name)
    if name not in body:
        raise Refused(f"{name}: Field required")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Refused(f"{name}: Input should be a valid {kind.__name__}")
    return value


def only(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse fields that the service does not know."""
    for name in given:
        if name not in known:
            raise Refused(f"{where}.{name}: Extra inputs are not permitted")


def names(where: str, given: Sequence[str], pattern: str) -> None:
    """Names of tools: of the service's letters, each once."""
    for position, name in enumerate(given):
        if not re.fullmatch(pattern, name):
            raise Refused(f"{where}.{position}.name: String should match pattern '{pattern}'")
        if name in given[:position]:
            raise Refused(f"{where}: Tool names must be unique: {name}")


def input_schema(where: str, schema: Any, *, strict: bool) -> None:
    """A JSON Schema of type object; for a strict tool, with the subset that grammars are made of."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise Refused(f"{where}: schema must be a JSON Schema of 'type: \"object\"'")
    try:
        jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise Refused(f"{where}: JSON schema is invalid: {error}") from error
    if strict:
        _closed(where, schema)


def _closed(where: str, schema: Any) -> None:
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            raise Refused(f"{where}: 'additionalProperties' is required to be supplied and to be false")
        missing = sorted(set(schema.get("properties", {})) - set(schema.get("required", [])))
        if missing:
            raise Refused(f"{where}: 'required' has to include every key in properties; missing {missing[0]!r}")
    for part in OBJECT_PARTS:
        for name, each in schema.get(part, {}).items():
            _closed(f"{where}.{part}.{name}", each)
    for part in LIST_PARTS:
        for each in schema.get(part, []):
            _closed(f"{where}.{part}", each)
    _closed(f"{where}.items", schema.get("items"))


def output(outputs: Sequence[Output], schema: dict[str, Any] | None) -> None:
    """Check that the last words of a model are JSON that fits the schema."""
    if schema is not None and all(isinstance(each, str) for each in outputs):
        jsonschema_rs.validate(schema, json.loads("".join(map(str, outputs))))


def calls(
    outputs: Sequence[Output], tools: Mapping[str, Any], *, choice: str, parallel: bool, strict: Sequence[str] = ()
) -> None:
    """Whether a model could have done this, under the choice that was sent.

    The services hold their models to it; here it is the script that has to keep to it. A model may always refuse.

    Args:
        outputs: of the model.
        tools: the input schemas, by name.
        choice: ``auto``, ``none``, ``required``, or the name of the one tool that has to be called.
        parallel: whether it may make several calls at once.
        strict: tools whose arguments always fit the schema.
    """
    if any(isinstance(each, Refusal) for each in outputs):
        return
    made = [each for each in outputs if isinstance(each, Call)]
    assert choice != "none" or not made, "the script calls a tool although no call is allowed"
    assert choice in ("auto", "none") or made, f"the script calls no tool although a call is required: {choice}"
    assert choice in ("auto", "none", "required") or {each.name for each in made} == {choice}
    assert parallel or len(made) <= 1, "the script makes several calls at once although only one is allowed"
    for each in made:
        assert each.name in tools, f"the script calls {each.name}, which is not among {sorted(tools)}"
        if each.name in strict:
            jsonschema_rs.validate(tools[each.name], dict(each.arguments))
