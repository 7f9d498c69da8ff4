"""What the tests of the MCP server share: the command with a file of tools, and clients of it, made with the SDK."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from with_mcp.server.served import TOOLS, Served


@pytest.fixture
def anyio_backend() -> str:
    """The server is a process of its own, on asyncio whatever the test runs on; `test_in_process` has both."""
    return "asyncio"


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """`callgate serve` in a folder that holds `tools.py`."""
    (tmp_path / "tools.py").write_text(TOOLS)
    os.mkfifo(tmp_path / "go")
    names = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return Served(tmp_path, kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", "WORD": "a-long-enough-token"})
