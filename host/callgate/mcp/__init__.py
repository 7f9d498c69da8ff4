"""MCP, both ways: servers whose tools are imported (`McpServers`), and callgate as a server. The one room that imports
the `mcp` SDK, which is the extra ``mcp``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from callgate.errors import ConfigurationError
from callgate.extras import how_to_install

if TYPE_CHECKING:
    from .client.artifacts import Artifact, Artifacts
    from .client.servers import McpServers
    from .client.status import ServerStatus
    from .server import ask_client, serve_http, serve_stdio

__all__ = ["Artifact", "Artifacts", "McpServers", "ServerStatus", "ask_client", "serve_http", "serve_stdio"]

_HOMES = {
    "Artifact": "client.artifacts",
    "Artifacts": "client.artifacts",
    "McpServers": "client.servers",
    "ServerStatus": "client.status",
    "ask_client": "server",
    "serve_http": "server",
    "serve_stdio": "server",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types", "httpx2", "uvicorn", "starlette"):
            raise
        raise ConfigurationError(f"{missing.name} is not installed: {how_to_install('mcp')}") from None
    return getattr(home, name)
