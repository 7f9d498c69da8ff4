"""The harness's side of the scripted endpoint: its process, and how conversations are registered with it."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
import anyio.to_thread
from anyio.streams.buffered import BufferedByteReceiveStream

from callgate.bench.contestants.seat import Opened

__all__ = ["ModelServerFailed", "ScriptedEndpoint", "model_server"]

_START_SECONDS = 60.0
_ENDING_SECONDS = 1.0
_CLOSE_SECONDS = 10.0
_LONGEST_LINE = 1000


class ModelServerFailed(Exception):
    """Its process did not start, or it would not register a conversation; the text says why."""


class ScriptedEndpoint:
    """One that runs.

    Args:
        address: e.g. ``http://127.0.0.1:40123``.
        process: in which it does, where that is known.
    """

    def __init__(self, address: str, process: anyio.abc.Process | None = None) -> None:
        self.address = address
        self._process = process

    async def has_ended(self) -> bool:
        """Whether its process is there no more; one that does not answer may be about to end, and has a second."""
        if self._process is None:
            return False
        with anyio.move_on_after(_ENDING_SECONDS):
            await self._process.wait()
        return self._process.returncode is not None

    async def register(
        self,
        workload: str,
        opened: Opened,
        *,
        turn_seconds: float = 0.0,
        token_seconds: float = 0.0,
        context_tokens: int = 0,
    ) -> str:
        """Register one conversation; returns the name of the model that will have it.

        Args:
            workload: its name.
            opened: what the contestant shows the model.
            turn_seconds: the simulated wait of every turn.
            token_seconds: the simulated wait for each output token.
            context_tokens: input beyond this is refused; 0 for no limit.

        Raises:
            ModelServerFailed: it was refused, or nobody answered.
        """
        order: dict[str, Any] = {"workload": workload, "form": opened.form}
        order |= {"tool": opened.tool, "argument": opened.argument, "dialect": opened.dialect}
        order |= {"turn_seconds": turn_seconds, "token_seconds": token_seconds, "context_tokens": context_tokens}
        if getattr(opened, "first", None):
            order["first"] = getattr(opened, "first")  # noqa: B009
        return str((await anyio.to_thread.run_sync(_post, self.address, order))["model"])


@asynccontextmanager
async def model_server(workloads: str = "callgate.bench.workloads:WORKLOADS") -> AsyncIterator[ScriptedEndpoint]:
    """The scripted endpoint in a process of its own; on leaving it is gone.

    Args:
        workloads: where they are, ``MODULE:NAME``.

    Raises:
        ModelServerFailed: it did not start.
    """
    command = [sys.executable, "-P", "-m", "callgate.bench.model.model_server", workloads]
    with contextlib.ExitStack() as stack:
        try:
            complaints = stack.enter_context(tempfile.TemporaryFile())
            process = await anyio.open_process(
                command, stdin=subprocess.PIPE, stderr=complaints, start_new_session=True
            )  # Ctrl-C is the harness's
        except OSError as error:
            raise ModelServerFailed(f"the model server could not be started: {error}") from error
        try:
            assert process.stdout is not None
            try:
                with anyio.fail_after(_START_SECONDS):
                    line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", _LONGEST_LINE)
            except (TimeoutError, anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound) as error:
                complaints.seek(0)
                told = complaints.read().decode(errors="replace").strip()
                raise ModelServerFailed(f"the model server did not start: {told[-400:] or repr(error)}") from error
            yield ScriptedEndpoint(line.decode(), process)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _end(process: anyio.abc.Process) -> None:
    assert process.stdin is not None
    try:
        with contextlib.suppress(OSError, anyio.BrokenResourceError):
            await process.stdin.aclose()
        with anyio.move_on_after(_CLOSE_SECONDS):
            await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.aclose()


def _post(address: str, order: dict[str, Any]) -> dict[str, Any]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=_START_SECONDS)
    try:
        connection.request("POST", "/conversations", json.dumps(order))
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ModelServerFailed(f"the model server does not answer: {error!r}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise ModelServerFailed(f"the model server refused the conversation: {answer['error']['message']}")
    return answer
