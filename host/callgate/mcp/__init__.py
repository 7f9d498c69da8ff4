"""MCP, both ways: servers whose tools are imported (`McpServers`), and callgate as a server. The one room that imports
the `mcp` SDK, which is the extra ``mcp``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callgate.errors import ConfigurationError
from callgate.extras import how_to_install
from callgate.lazily import names_from

if TYPE_CHECKING:
    from .client.servers import McpServers
    from .client.status import ServerStatus
    from .server import ask_client, serve_http, serve_stdio

__all__ = ["McpServers", "ServerStatus", "ask_client", "serve_http", "serve_stdio"]

_EXTRA = ("mcp", "mcp_types", "httpx2", "uvicorn", "starlette", "dotenv")

_named, __dir__ = names_from(
    __name__,
    {
        "client.servers": ("McpServers",),
        "client.status": ("ServerStatus",),
        "server": ("ask_client", "serve_http", "serve_stdio"),
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _named(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise ConfigurationError(f"{missing.name} is not installed: {how_to_install('mcp')}") from None
