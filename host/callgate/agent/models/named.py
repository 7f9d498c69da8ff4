"""Models by their names, with keys, addresses and the tool choice from the environment.

The environment, besides what the SDKs read themselves: OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY,
ANTHROPIC_BASE_URL, and OPENAI_TOOL_CHOICE. The variables of the tool planner are `PlannerSettings`' to read; its
`planner_model` is a name for `model_named`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Unpack

from callgate.errors import ConfigurationError

from .anthropic_model import AnthropicModel
from .connection import Connection, ConnectionOptions
from .direct import DirectModel
from .model import Model
from .openai_model import OpenAIModel
from .recording import ReplayModel

__all__ = ["OLLAMA_URL", "is_provider", "model_named", "other_model", "tool_choice_from_environment"]

OLLAMA_URL = "http://localhost:11434/v1"
"""Where Ollama serves OpenAI's API (https://github.com/ollama/ollama/blob/main/docs/openai.md)."""

_KINDS = ("openai", "anthropic", "ollama", "replay")


def model_named(spec: str, *, extra: Mapping[str, Any] | None = None, **options: Unpack[ConnectionOptions]) -> Model:
    """Make the model of that name.

    Args:
        spec: ``openai:NAME``, ``anthropic:NAME``, ``ollama:NAME`` (at `OLLAMA_URL`, without a key), ``replay:FILE`` (a
            recording), ``PROVIDER:NAME`` with any other provider that pydantic-ai knows (``google``, ``bedrock``,
            ``mistral``; see `other_model`), or a name alone: ``claude...`` is Anthropic's, any other speaks OpenAI's
            API.
        extra: fields that each request has besides.
        options: see `Connection`.

    Raises:
        ConfigurationError: there is no name, no key, no SDK, or no such recording.
    """
    kind, colon, name = spec.partition(":")
    # names may have colons: qwen3:8b
    if not colon or not (kind in _KINDS or is_provider(kind)):
        kind, name = ("anthropic" if spec.startswith("claude") else "openai"), spec
    if not name.strip():
        raise ConfigurationError(
            f"a model has to be named, as openai:NAME, anthropic:NAME, ollama:NAME or replay:FILE, not {spec!r}"
        )
    match kind:
        case "replay":
            return ReplayModel(name)
        case "anthropic":
            return AnthropicModel(name, extra=extra, **options)
        case "openai":
            return OpenAIModel(name, extra=extra, **options)
        case "ollama":  # never the environment's key: it is another's
            options["base_url"] = options.get("base_url") or OLLAMA_URL
            options["api_key"] = options.get("api_key") or "ollama"
            return OpenAIModel(name, extra=extra, **options)
        case _:
            return other_model(kind, name, extra=extra, **options)


def tool_choice_from_environment(environment: Mapping[str, str] | None = None) -> str:
    """The value of OPENAI_TOOL_CHOICE in the form of `Request.tool_choice`; ``"auto"`` where the variable is not set.

    Args:
        environment: instead of the process's own.

    Raises:
        ConfigurationError: it is neither ``auto``, ``required``, ``none``, the name of a tool, nor OpenAI's object
            ``{"type": "function", "function": {"name": ...}}``.
    """
    given = (os.environ if environment is None else environment).get("OPENAI_TOOL_CHOICE", "").strip()
    name: Any = given or "auto"
    if given.startswith("{"):
        try:
            name = json.loads(given)["function"]["name"]
        except (ValueError, KeyError, TypeError, RecursionError):
            name = None
    if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9_.-]{1,128}", name):
        raise ConfigurationError(
            f"OPENAI_TOOL_CHOICE has to be auto, required, none, or the name of a tool, not {given[:80]!r}"
        )
    return name


def is_provider(kind: str) -> bool:
    """Whether pydantic-ai has a provider of that name; False where pydantic-ai is not installed."""
    try:
        importlib.import_module("pydantic_ai.providers").infer_provider_class(kind)
    except ImportError as error:  # its SDK is missing, or all of pydantic-ai
        return not (error.name or "").startswith("pydantic_ai")
    except ValueError:
        return False
    return True


def other_model(
    kind: str, name: str, *, extra: Mapping[str, Any] | None = None, **options: Unpack[ConnectionOptions]
) -> DirectModel:
    """Make a model of a provider that pydantic-ai knows.

    Args:
        kind: the provider, by pydantic-ai's name.
        name: of the model.
        extra: pydantic-ai's settings for each request (``thinking``, ``google_safety_settings``).
        options: see `Connection`. The key and the address come from the environment where none is given, by the names
            that pydantic-ai documents. `max_retries` counts only where the provider's SDK takes it.

    Raises:
        ConfigurationError: pydantic-ai or the provider's SDK is not installed, or there is no key.
    """
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import infer_provider_class

    from .exchange import other_http_client

    connection = Connection(**options)
    http: Any = None

    def provider(kind: str) -> Any:
        nonlocal http
        made = infer_provider_class(kind)
        takes = inspect.signature(made.__init__).parameters
        given: dict[str, Any] = {"base_url": connection.base_url, "api_key": connection.api_key}
        # bounded and noted, where the provider's SDK sends by httpx2
        if "http_client" in takes and not str(takes["http_client"].annotation).startswith("httpx."):
            given["http_client"] = http = other_http_client(connection.timeout_seconds)
        return made(**{key: value for key, value in given.items() if value is not None})

    try:
        model = infer_model(f"{kind}:{name}", provider)
    except ImportError as error:
        raise ConfigurationError(
            f"the SDK of {kind} is not installed: pip install 'pydantic-ai-slim[{kind}]'"
        ) from error
    except (UserError, TypeError, ValueError) as error:
        raise ConfigurationError(f"there is no model {kind}:{name}: {error}") from error
    asked = {
        "timeout": connection.timeout_seconds,
        "max_retries": connection.max_retries,
        "extra_headers": dict(connection.headers),
    }
    return DirectModel(
        model,
        provider="openai",
        connection=connection,
        client=getattr(model, "client", None),
        http=None if http is None else http.aclose,
        settings={**{each: asked[each] for each in asked.keys() - model.unsupported_settings}, **(extra or {})},
    )
