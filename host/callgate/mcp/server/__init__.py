"""callgate as an MCP server: search, describe, run a program, run a plan; and tools passed through."""

from __future__ import annotations

from .asking import ask_client
from .clients import Serving
from .serve import serve_http, serve_stdio
from .stdio import StdioWire, stdio_wire

__all__ = ["Serving", "StdioWire", "ask_client", "serve_http", "serve_stdio", "stdio_wire"]
