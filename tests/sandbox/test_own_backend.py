"""The backend of the page on a sandbox of your own passes the suite, and runs programs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from callgate import Runtime
from callgate.errors import SandboxUnavailable
from callgate.sandbox.process import ProcessBackend

PAGE = Path(__file__).parents[2] / "docs" / "own_backend.md"
NAMES: dict[str, Any] = {"__name__": __name__}
for block in re.findall(r"^```py\n(.+?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S):
    exec(block, NAMES)

works = subprocess.run(["unshare", "--user", "--net", "true"], capture_output=True, check=False).returncode == 0
needs_namespaces = pytest.mark.skipif(not works, reason="`unshare --user --net` does not work here")


TestTheBackendOfThePage = needs_namespaces(pytest.mark.slow(NAMES["TestWithoutNetwork"]))


@needs_namespaces
@pytest.mark.anyio
async def test_a_runtime_takes_it() -> None:
    async with Runtime(sandbox=NAMES["WithoutNetwork"](), pool_size=0) as runtime:
        code = "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9))\n"
        code += "except OSError as error:\n    r = error.errno\nr"
        assert (await runtime.execute_code(code)).value in (101, 111)  # no network; a loopback that is down
        assert runtime.backend.name == "unshare"


@pytest.mark.anyio
async def test_a_command_that_is_not_there_is_told() -> None:
    class Missing(ProcessBackend):
        name = "missing"

        def command(self, code: str) -> list[str]:
            return ["no-such-command", *super().command(code)]

    async with Runtime(sandbox=Missing(), pool_size=0) as runtime:
        with pytest.raises(SandboxUnavailable, match="sandbox 'missing' needs 'no-such-command', which is not here"):
            await runtime.execute_code("1", path="sandbox")
