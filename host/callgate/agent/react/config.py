"""An agent's configuration: its planner, the tools as they are described to the model, and the endpoints of models.

The YAML is that of the tool choice mechanism: ``spec.planner`` and ``resources.inference_gateways``. What is unknown or
wrong in it is refused, with its place in the file. ``apiVersion``, ``kind`` and ``metadata`` may stand beside them, and
change nothing. The file is the operator's own: `yaml.SafeLoader` reads it, which makes plain values alone.

Knows what was written, `OPENAI_TOOL_CHOICE`, and the model behind a gateway; no tools. The one door to `yaml`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from callgate.agent.models.model import Model, ModelProvider
from callgate.agent.models.named import model_named, tool_choice_from_environment
from callgate.errors import ConfigurationError
from callgate.extras import how_to_install
from callgate.tools.faults import did_you_mean, path_text, printable

__all__ = [
    "DEFAULT_PARALLEL", "MAX_TOOLS", "AgentConfig", "Gateway", "GatewayConfig", "PlannerConfig", "ToolDescription",
    "gateway_model", "read_config",
]  # fmt: skip

DEFAULT_PARALLEL = 8
"""Calls of one turn that run at the same time, where the configuration does not say."""
MAX_TOOLS = 128
"""Descriptions of tools; OpenAI's Chat Completions take no more in a request."""
WORDS = ("auto", "required", "none")
"""Tool choices that are not the name of a tool."""

_MAX_FAULTS = 10
_TOOL_NAME = r"^[a-zA-Z0-9_-]{1,64}$"
"""What providers take for a tool's name."""


def _named(value: Any) -> Any:
    """A tool choice as one word: OpenAI's object for a certain tool becomes the tool's name."""
    match value:
        case {"type": "function", "function": {"name": str(name), **more}, **rest} if not more and not rest:
            return name
        case Mapping():
            raise ValueError('a certain tool is {"type": "function", "function": {"name": "..."}}, or its name')
    return value


_Argument = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ToolDescription(_Part):
    """A tool as it is described to the model."""

    name: str = Field(pattern=_TOOL_NAME)
    """The tool's: as it is registered, or as models are shown it."""
    description: str = ""
    """When to call it, and for what. Where there is none, the tool's own."""
    args: Annotated[tuple[_Argument, ...], Field(strict=False, max_length=100)] = ()
    """Names of its arguments. Where the tool is at hand its own schema says more, and is taken."""


class PlannerConfig(_Part):
    """The options of a `ReActPlanner`."""

    tool_descriptions: Annotated[tuple[ToolDescription, ...], Field(strict=False, max_length=MAX_TOOLS)]
    """The tools that the model has, and no others."""
    system_prompt: str = ""
    """Who the model is, and how it is to work."""
    use_function_calling: bool = True
    """Calls as the provider's own; without, as text (``Action``, ``Action Input``) that any model can write."""
    max_parallel_tool_calls: int | None = Field(default=None, ge=1, le=64)
    """The most calls of one turn that run at the same time; others wait. None: `DEFAULT_PARALLEL`."""
    inference_gateway: str | None = None
    """Name of the gateway; None for the first."""


class GatewayConfig(_Part):
    """The options of requests to a model."""

    model: str = Field(min_length=1, max_length=200)
    """Its name, as the endpoint knows it."""
    tool_choice: Annotated[str, Field(pattern=_TOOL_NAME), BeforeValidator(_named)] | None = None
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
        """The provider whose API the endpoint speaks."""
        return "openai" if self.type == "OpenAIGateway" else "anthropic"

    @model_validator(mode="after")
    def _fits(self) -> Gateway:
        if self.provider == "anthropic" and (self.config.temperature or 0) > 1:
            raise ValueError(f"temperature: Anthropic takes 0 to 1, not {self.config.temperature}")
        return self


class AgentConfig(_Part):
    """A configuration, checked."""

    planner: PlannerConfig
    gateways: Annotated[tuple[Gateway, ...], Field(strict=False)] = ()
    openai_tool_choice: str = "auto"
    """What `OPENAI_TOOL_CHOICE` said when the configuration was read."""

    @property
    def gateway(self) -> Gateway | None:
        """The gateway that the planner names, or the first one; None without gateways."""
        wanted = self.planner.inference_gateway
        return next((each for each in self.gateways if wanted is None or each.name == wanted), None)

    def tool_choice(self, provider: ModelProvider) -> str:
        """``auto``, ``required``, ``none`` or a tool's name, for a model of this provider: as the gateway says; where
        it does not, for OpenAI as the environment says; else ``auto``."""
        choice = None if self.gateway is None else self.gateway.config.tool_choice
        if choice is None and provider == "openai":
            choice = self.openai_tool_choice
        return choice or "auto"


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

    @model_validator(mode="after")
    def _fits(self) -> _File:
        """Refuse a name that is there twice, and a planner's gateway that is not there."""
        planner, gateways = self.spec.planner.config, self.resources.inference_gateways
        tools = [each.name for each in planner.tool_descriptions]
        names = [each.name for each in gateways]
        for kind, given in (("tool", tools), ("gateway", names)):
            for position, name in enumerate(given):
                if name in given[:position]:
                    raise ValueError(f"the {kind} {name!r} is there twice")
        wanted = planner.inference_gateway
        if wanted is not None and wanted not in names:
            hint = did_you_mean(wanted, names) or f"; there are: {', '.join(names) or 'none'}"
            raise ValueError(f"inference_gateway: there is no gateway {wanted[:60]!r}{hint}")
        return self


def read_config(source: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> AgentConfig:
    """The configuration in a YAML file.

    Args:
        source: a path; or the YAML itself, which has line breaks.
        environment: where `OPENAI_TOOL_CHOICE` is looked up; None for the process's own.

    Raises:
        ConfigurationError: it cannot be read, or is not such a configuration: what is wrong, where, and what was
            probably meant. Or PyYAML is not installed.
    """
    if isinstance(source, str) and "\n" in source:
        what, text = "the agent's configuration", source
    else:
        what = str(source)
        try:
            text = Path(source).expanduser().read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"the agent's configuration {what} cannot be read: {error}") from None
    node, values = _loaded(text, what)
    try:
        file = _File.model_validate(values)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        lines = [_located(each, what, node) for each in faults[:_MAX_FAULTS]]
        more = [f"and {len(faults) - _MAX_FAULTS} more"] if len(faults) > _MAX_FAULTS else []
        raise ConfigurationError("\n".join([*lines, *more])) from None
    return AgentConfig(
        planner=file.spec.planner.config,
        gateways=file.resources.inference_gateways,
        openai_tool_choice=tool_choice_from_environment(environment),
    )


def _loaded(text: str, what: str) -> tuple[Any, Any]:
    """The YAML as PyYAML's nodes, which know their places, and as plain values."""
    try:
        import yaml
    except ImportError:
        raise ConfigurationError(f"PyYAML, which reads YAML, is not installed: {how_to_install('agent')}") from None
    try:
        loader = yaml.SafeLoader(text)
        node: Any = loader.get_single_node()
        return node, None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())[:400]
        raise ConfigurationError(f"{what} is not YAML that can be read: {words}") from None


def _located(fault: Any, what: str, node: Any) -> str:
    """A fault, with its place in the file."""
    path = tuple(fault["loc"])
    mark = None if node is None else node.start_mark
    for part in path:
        if isinstance(part, int) and getattr(node, "id", "") == "sequence":
            node = node.value[part]
            mark = node.start_mark
        elif key := next((pair for pair in getattr(node, "value", ()) if pair[0].value == part), None):
            mark, node = key[0].start_mark, key[1]
    where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
    return f"{what}{where}{f' ({printable(path_text(path))})' if path else ''}: {_problem(fault, path)}"


def _problem(fault: Any, path: tuple[Any, ...]) -> str:
    given = str(fault["input"])[:60]
    match fault["type"]:
        case "extra_forbidden":
            parts = (_File, _Spec, _Planner, PlannerConfig, ToolDescription, _Resources, Gateway, GatewayConfig)
            known = [name for part in parts for name in part.model_fields]
            return f"there is no such field{did_you_mean(str(path[-1]), known)}"
        case "missing":
            return "this field is missing"
        case "value_error":
            return str(fault["ctx"]["error"])
    return f"{fault['msg'].replace('Input should', 'it has to')}, not {given!r}"


def gateway_model(config: AgentConfig, environment: Mapping[str, str] | None = None) -> Model:
    """The model that the planner's gateway names. Close it (`aclose`) when you no longer need it.

    Args:
        config: the configuration.
        environment: where the variable of `api_key_env` is looked up; None for the process's own.

    Raises:
        ConfigurationError: the configuration has no gateway, the environment has no key, or the SDK is not installed.
    """
    gateway = config.gateway
    if gateway is None:
        raise ConfigurationError(
            "the configuration has no model: write resources.inference_gateways, or name a model beside it"
        )
    asked = gateway.config
    options = asked.model_dump(include={"base_url", "timeout_seconds", "max_retries"}, exclude_none=True)
    if asked.api_key_env is not None:
        options["api_key"] = (os.environ if environment is None else environment).get(asked.api_key_env, "").strip()
        if not options["api_key"]:
            raise ConfigurationError(f"gateway {gateway.name!r}: the environment has no {asked.api_key_env} (its key)")
    return model_named(f"{gateway.provider}:{asked.model}", **options)
