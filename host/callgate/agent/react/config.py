"""An agent's configuration: its planner, the tools as the model is told of them, and the endpoints of models.

The YAML is that of the tool choice mechanism: ``spec.planner`` and ``resources.inference_gateways``. What is unknown or
wrong in it is refused, with its place in the file. ``apiVersion``, ``kind`` and ``metadata`` may stand beside them, and
change nothing.

Knows what was written, and `OPENAI_TOOL_CHOICE`; no tools, and no model.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from callgate.agent.models.model import ModelProvider
from callgate.agent.models.named import tool_choice_from_environment
from callgate.errors import ConfigurationError
from callgate.tools.faults import did_you_mean, path_text, printable

from .yaml_text import MAX_TEXT_BYTES, Path, Place, yaml_values

__all__ = [
    "DEFAULT_PARALLEL",
    "MAX_TOOLS",
    "AgentConfig",
    "Gateway",
    "GatewayConfig",
    "PlannerConfig",
    "ToolDescription",
    "read_config",
]

DEFAULT_PARALLEL = 8
"""Calls of one turn that run at the same time, where the configuration does not say."""
MAX_TOOLS = 128
"""Descriptions of tools; OpenAI's Chat Completions take no more in a request."""

MOST_OF_ANTHROPIC = 1
"""Temperature that its API takes; OpenAI's takes 2."""

_WORDS = ("auto", "required", "none")
_MAX_FAULTS = 10
_TOOL_NAME = r"^[a-zA-Z0-9_-]{1,64}$"
"""What providers take for a tool's name."""


def _named(value: Any) -> Any:
    """A tool choice as one word: OpenAI's object for a certain tool becomes the tool's name."""
    if isinstance(value, Mapping):
        function = value.get("function")
        name = function.get("name") if isinstance(function, Mapping) and set(function) == {"name"} else None
        if value.get("type") != "function" or not isinstance(name, str) or len(value) != 2:
            raise ValueError('a certain tool is {"type": "function", "function": {"name": "..."}}, or its name')
        value = name
    if isinstance(value, str) and not re.fullmatch(_TOOL_NAME.strip("^$"), value):
        raise ValueError(f"it is auto, required, none or a tool's name, not {value[:60]!r}")
    return value


ToolChoice = Annotated[str, BeforeValidator(_named)]
_Argument = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ToolDescription(_Part):
    """A tool as the model is told of it."""

    name: str = Field(pattern=_TOOL_NAME)
    """The tool's: as it is registered, or as models are shown it."""
    description: str = ""
    """When to call it, and for what. Where there is none, the tool's own."""
    args: Annotated[tuple[_Argument, ...], Field(strict=False, max_length=100)] = ()
    """Names of its arguments. Where the tool is at hand its own schema says more, and is taken."""


class PlannerConfig(_Part):
    """What a `ReActPlanner` goes by."""

    tool_descriptions: Annotated[tuple[ToolDescription, ...], Field(strict=False, max_length=MAX_TOOLS)]
    """The tools that the model has, and no others."""
    system_prompt: str = ""
    """Who the model is, and how it is to work."""
    use_function_calling: bool = True
    """Calls as the provider's own; without, as text (``Action``, ``Action Input``) that any model can write."""
    max_parallel_tool_calls: int | None = Field(default=None, ge=1, le=64)
    """So many calls of one turn run at the same time; more of them wait. None: `DEFAULT_PARALLEL`."""
    inference_gateway: str | None = None
    """Name of the gateway; None for the first."""


class GatewayConfig(_Part):
    """How a model is asked."""

    model: str = Field(min_length=1, max_length=200)
    """Its name, as the endpoint knows it."""
    tool_choice: ToolChoice | None = None
    """``auto``, ``required``, ``none``, or a tool's name."""
    reset_tool_choice: bool = True
    """``required``, or a certain tool, until the task's first result is there, and ``auto`` from then on: a model that
    has to call can never answer. False: in every turn."""
    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """Of the endpoint; None for the provider's own, or what its SDK's environment variable says."""
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Environment variable that holds the key; None for the one that the SDK reads."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Of an `AnthropicGateway` at most 1."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    timeout_seconds: float | None = Field(default=None, gt=0)
    """For one request."""
    max_retries: int | None = Field(default=None, ge=0, le=20)
    """Of the SDK, for one request."""


class Gateway(_Part):
    """An endpoint of a model, by name."""

    name: str = Field(min_length=1, max_length=200)
    type: Literal["OpenAIGateway", "AnthropicGateway"]
    config: GatewayConfig

    @property
    def provider(self) -> ModelProvider:
        """Whose API it speaks."""
        return "openai" if self.type == "OpenAIGateway" else "anthropic"


class AgentConfig(_Part):
    """A configuration, checked."""

    planner: PlannerConfig
    gateways: Annotated[tuple[Gateway, ...], Field(strict=False)] = ()
    openai_tool_choice: str = "auto"
    """What `OPENAI_TOOL_CHOICE` said when the configuration was read."""

    @property
    def gateway(self) -> Gateway | None:
        """The planner's: the one that it names, or the first. None where there are none."""
        wanted = self.planner.inference_gateway
        return next((each for each in self.gateways if wanted is None or each.name == wanted), None)

    def tool_choice(self, provider: ModelProvider) -> str:
        """``auto``, ``required``, ``none`` or a tool's name, for a model of this provider: as the gateway says; where
        it does not, for OpenAI as the environment says; else ``auto``."""
        said = None if self.gateway is None else self.gateway.config.tool_choice
        if said is None and provider == "openai":
            said = self.openai_tool_choice
        return said or "auto"


class _Planner(_Part):
    type: Literal["ReActPlanner"]
    config: PlannerConfig


class _Spec(_Part):
    planner: _Planner


class _Resources(_Part):
    inference_gateways: Annotated[tuple[Gateway, ...], Field(strict=False, max_length=100)] = ()


class _File(_Part):
    apiVersion: Any = None
    kind: Any = None
    metadata: Any = None
    spec: _Spec
    resources: _Resources = _Resources()


def read_config(source: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> AgentConfig:
    """The configuration in a YAML file.

    Args:
        source: a path; or the YAML itself, which is told by its line breaks.
        environment: where `OPENAI_TOOL_CHOICE` is looked up; None for the process's own.

    Raises:
        ConfigurationError: it cannot be read, or is no such configuration: what is wrong, where, and what was probably
            meant.
    """
    if isinstance(source, str) and "\n" in source:
        what, text = "the agent's configuration", source
    else:
        path = FilePath(source).expanduser()
        if isinstance(source, str) and ("{" in source or ": " in source) and not os.path.exists(path):
            raise ConfigurationError(
                f"{printable(source[:60])!r} is no path of a file; YAML itself is known by its line breaks"
            )
        what, text = str(path), _text_of(path)
    values, places = yaml_values(text, what)
    try:
        file = _File.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(_told(error, what, places)) from None
    where = _Where(what, places)
    _check_names(file, where)
    config = AgentConfig(
        planner=file.spec.planner.config,
        gateways=file.resources.inference_gateways,
        openai_tool_choice=tool_choice_from_environment(environment),
    )
    _check_choices(config, where)
    return config


def _text_of(path: FilePath) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigurationError(f"{path} is no file")
        with path.open("rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
        if len(data) > MAX_TEXT_BYTES:
            raise ConfigurationError(
                f"{path} is larger than {MAX_TEXT_BYTES} bytes; it is no configuration of an agent"
            )
        return data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise ConfigurationError(f"{path} is not UTF-8 text") from None
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(f"the agent's configuration {path} cannot be read: {reason}") from None


class _Where:
    """Says where in a file something is wrong."""

    def __init__(self, what: str, places: Mapping[Path, Place]) -> None:
        self._what = what
        self._places = places

    def __call__(self, path: Path, problem: str) -> str:
        known = path
        while known not in self._places:
            known = known[:-1]
        line, column = self._places[known]
        shown = path_text(path)
        return f"{self._what}, line {line}, column {column}{f' ({printable(shown)})' if shown else ''}: {problem}"


def _told(error: ValidationError, what: str, places: Mapping[Path, Place]) -> str:
    """What is wrong, a line for each."""
    where = _Where(what, places)
    faults = error.errors(include_url=False)
    lines = []
    for each in faults[:_MAX_FAULTS]:
        path = tuple(each["loc"])
        lines.append(where(path, _problem(each, path)))
    if len(faults) > _MAX_FAULTS:
        lines.append(f"and {len(faults) - _MAX_FAULTS} more")
    return "\n".join(lines)


def _problem(fault: Any, path: Path) -> str:
    kind, given, context = fault["type"], fault["input"], fault.get("ctx", {})
    if kind == "extra_forbidden":
        known = _fields_of(path[:-1])
        hint = did_you_mean(str(path[-1]), known) or _elsewhere(path[-1]) or f"; there are: {', '.join(known)}"
        return f"there is no such field{hint}"
    if kind == "missing":
        return "this field is missing"
    if given is None:
        return "nothing is written there: write a value, or leave the field out"
    if kind in _UNQUOTED and isinstance(given, str):
        return f"it has to be {_UNQUOTED[kind]}, without quotes, not {given[:60]!r}"
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        hint = did_you_mean(given, choices) if isinstance(given, str) else ""
        return f"there is no type {str(given)[:60]!r}{hint or '; there are: ' + ', '.join(choices)}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "model_type":
        return "it has to be an object with fields"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(str(path[-1]), _PATTERNS["args"])
    shown = f", not {given!r}" if isinstance(given, str | int | float | bool) and len(repr(given)) <= 60 else ""
    return f"{str(fault['msg']).replace('Input should', 'it has to').replace('a valid tuple', 'a list')}{shown}"


_UNQUOTED = {"bool_type": "true or false", "int_type": "a whole number", "float_type": "a number"}
_PATTERNS = {
    "args": "an argument's name has letters, digits, _, . and -, at most 64 of them",
    "name": "a tool's name has letters, digits, _ and -, at most 64 of them",
    "base_url": "it has to begin with http:// or https://",
    "api_key_env": "it has to be the name of an environment variable, not the key itself",
}


def _fields_of(path: Path) -> list[str]:
    """The fields that there are at a place."""
    model: type[BaseModel] = _File
    for part in path:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def _elsewhere(field: Any) -> str:
    """Where a field stands that stands in the wrong place."""
    places: dict[str, type[_Part]] = {
        "spec.planner.config": PlannerConfig,
        "resources.inference_gateways[].config": GatewayConfig,
    }
    return next((f"; it belongs into {at}" for at, part in places.items() if field in part.model_fields), "")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each)) is not None), None)


def _check_names(file: _File, where: _Where) -> None:
    """No name twice, and the planner's gateway is there."""
    tools: Path = ("spec", "planner", "config", "tool_descriptions")
    gateways: Path = ("resources", "inference_gateways")
    described = file.spec.planner.config.tool_descriptions
    for path, names in (
        (tools, [each.name for each in described]),
        (gateways, [each.name for each in file.resources.inference_gateways]),
    ):
        for position, name in enumerate(names):
            if name in names[:position]:
                raise ConfigurationError(where((*path, position, "name"), f"{name!r} is there twice"))
    wanted = file.spec.planner.config.inference_gateway
    known = [each.name for each in file.resources.inference_gateways]
    if wanted is not None and wanted not in known:
        hint = did_you_mean(wanted, known) or (f"; there are: {', '.join(known)}" if known else "; there are none")
        raise ConfigurationError(
            where(("spec", "planner", "config", "inference_gateway"), f"there is no gateway {wanted[:60]!r}{hint}")
        )


def _check_choices(config: AgentConfig, where: _Where) -> None:
    """A tool that has to be called is one that the model has."""
    known = [each.name for each in config.planner.tool_descriptions]
    for position, gateway in enumerate(config.gateways):
        if (problem := _choice_problem(gateway.config.tool_choice, known)) is not None:
            path: Path = ("resources", "inference_gateways", position, "config", "tool_choice")
            raise ConfigurationError(where(path, problem))
        if gateway.provider == "anthropic" and (gateway.config.temperature or 0) > MOST_OF_ANTHROPIC:
            path = ("resources", "inference_gateways", position, "config", "temperature")
            raise ConfigurationError(where(path, f"Anthropic takes 0 to {MOST_OF_ANTHROPIC}"))
    asked = config.gateway
    if asked is not None and (asked.provider != "openai" or asked.config.tool_choice is not None):
        return  # the variable says nothing here: it may be meant for another agent
    if (problem := _choice_problem(config.openai_tool_choice, known)) is not None:
        raise ConfigurationError(f"OPENAI_TOOL_CHOICE: {problem}")


def _choice_problem(choice: str | None, known: list[str]) -> str | None:
    if choice in (None, "auto", "none"):
        return None
    if choice == "required":
        return None if known else "it is required that a tool is called, and tool_descriptions has none"
    if choice in known:
        return None
    hint = did_you_mean(str(choice), [*known, *_WORDS]) or f"; there are {', '.join(_WORDS)}, and the names of tools"
    return f"there is no tool {choice!r} among tool_descriptions{hint}"
