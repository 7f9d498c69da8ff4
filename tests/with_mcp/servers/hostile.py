"""Servers that go wrong, written by hand: ``python hostile.py KIND``. Standard library only. Needs ``tests`` on the
path.

What every kind has in common is a handshake, a listing of one tool, and calls that are echoed; each kind spoils a part.
"""

from __future__ import annotations

import sys

from with_mcp.servers import hostile_calls, hostile_floods, hostile_listings, hostile_starts
from with_mcp.servers.hostile_server import server

if __name__ == "__main__":
    kind = sys.argv[1]
    if kind != "well":
        (room,) = (
            each for each in (hostile_calls, hostile_floods, hostile_listings, hostile_starts) if hasattr(each, kind)
        )
        getattr(room, kind)()
    server.run()
