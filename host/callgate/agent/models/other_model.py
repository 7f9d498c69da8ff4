"""Models of the providers that have no class of their own here: Google, Bedrock, Mistral and all others that
pydantic-ai knows by the name before the colon (https://ai.pydantic.dev/models/overview/)."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Unpack

from callgate.errors import ConfigurationError

from .connection import Connection, ConnectionOptions
from .direct import DirectModel

__all__ = ["is_provider", "other_model"]


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
    """A model of a provider that pydantic-ai knows.

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
