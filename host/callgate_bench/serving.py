"""The other end of `contest.process.PeerProcess`: serves one peer's functions over stdin and stdout. Knows no peer.

Reads one JSON object a line from stdin, ``{"do": name, ...}``, and answers each with one line: what the function of
that name returned, or ``{"failed": reason}``. Stdin and stdout are the wire's alone: what a peer prints goes to stderr,
and what it or a process of its own reads is empty. When stdin ends, the peer is closed, if it has an `aclose`, and the
process ends without an interpreter shutdown, which some peers do not always survive. Where it leads a session, all that
is in it ends with it: the harness may have been killed, and nobody else would see to that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TextIO

__all__ = ["serve"]

_CLOSING_SECONDS = 10.0


async def serve(peer: object) -> None:
    """Serve until stdin ends.

    Args:
        peer: its public coroutine functions may be asked for; each takes JSON values and returns a JSON object. One
            that it does not have does nothing.
    """
    wire = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    asked: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    work = asyncio.create_task(_work(peer, asked, wire))

    def read() -> None:
        for line in requests:
            loop.call_soon_threadsafe(asked.put_nowait, line)
        threading.Timer(_CLOSING_SECONDS, _end, [1]).start()
        loop.call_soon_threadsafe(work.cancel)

    threading.Thread(target=read, daemon=True).start()
    await asyncio.wait([work])
    if not work.cancelled() and (error := work.exception()):
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    await _answer(getattr(peer, "aclose", _nothing), {})
    _end(0)


def _end(status: int) -> NoReturn:
    if sys.platform != "win32" and os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            os.killpg(0, signal.SIGKILL)
    os._exit(status)


async def _work(peer: object, asked: asyncio.Queue[str], wire: TextIO) -> None:
    while True:
        request = json.loads(await asked.get())
        answer = await _answer(getattr(peer, request.pop("do"), _nothing), request)
        print(json.dumps(answer), file=wire, flush=True)


async def _nothing(**_: Any) -> dict[str, Any]:
    return {}


async def _answer(action: Callable[..., Awaitable[dict[str, Any]]], details: dict[str, Any]) -> dict[str, Any]:
    try:
        return await action(**details)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:300]}
