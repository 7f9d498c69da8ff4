"""The other end of `peers.PeerProcess`: serves one peer's functions over stdin and stdout. Knows no peer.

Reads one JSON object a line from stdin, ``{"do": name, ...}``, and answers each with one line: what the function of
that name returned, or ``{"failed": reason}``. Ends when stdin does, without an interpreter shutdown, which some peers
do not always survive.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["serve"]


async def serve(peer: object) -> None:
    """Serve until stdin ends.

    Args:
        peer: its public coroutine functions may be asked for; each takes JSON values and returns a JSON object.
    """
    asked: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(asked.put_nowait, line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        request = json.loads(await asked.get())
        answer = await _answer(getattr(peer, request.pop("do")), request)
        print(json.dumps(answer), flush=True)


async def _answer(action: Callable[..., Awaitable[dict[str, Any]]], details: dict[str, Any]) -> dict[str, Any]:
    try:
        return await action(**details)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:300]}
