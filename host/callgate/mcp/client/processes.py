"""Starts the process of an MCP server so that it can be ended with everything that it starts: a process group, and on
Windows a job. Knows no messages.

Only the group was seen at work; the job is the SDK's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
from anyio.abc import Process

__all__ = ["end_tree", "started"]


async def started(command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> Process:
    """Start the process, with a pipe each for stdin, stdout and stderr.

    Raises:
        OSError, ValueError: the command cannot be run.
    """
    if sys.platform != "win32":
        return await anyio.open_process(command, env=env, cwd=cwd, stderr=subprocess.PIPE, start_new_session=True)
    else:
        from mcp.os.win32.utilities import create_windows_process

        pipe: Any = subprocess.PIPE  # the SDK passes it on, and thinks of files only
        process = await create_windows_process(command[0], [*command[1:]], env=dict(env), errlog=pipe, cwd=cwd)
        if not isinstance(process, Process):
            process.kill()
            raise ValueError(
                "this event loop starts no processes: use asyncio.ProactorEventLoop, the default on Windows"
            )
        return process


async def end_tree(process: Process, term_seconds: float) -> None:
    """End the process and everything that it has started.

    Args:
        process: from `started`.
        term_seconds: time between SIGTERM and SIGKILL. Windows has neither: there, all of it ends at once.
    """
    if sys.platform != "win32":
        from mcp.os.posix.utilities import terminate_posix_process_tree

        await terminate_posix_process_tree(process, term_seconds)
    else:
        from mcp.os.win32.utilities import terminate_windows_process_tree

        await terminate_windows_process_tree(process)
