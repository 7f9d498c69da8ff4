"""What the first part of a run has brought, for a program that begins anew in the sandbox: no call is made twice.

A call of the same tool with the same arguments is answered from it, once for each time that it was made, in that order.
Everything else passes the gate as ever, and its record follows the others.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Any

from callgate.errors import ToolError
from callgate.runtime.gate.calls import CallRecord
from callgate.tools.encoding import NotJson, canonical_json

from .calls import OneCall, records_of

__all__ = ["Journal"]


class Journal:
    """The outcomes of the calls so far; `answered` gives each of them once.

    Args:
        calls: what was called so far.
        records: what the gate recorded of it.
    """

    def __init__(self, calls: Sequence[OneCall], records: list[CallRecord]) -> None:
        self._records = records
        self.given_up = sum(len(records_of(call, records)) for call in calls if call.reached is None and not call.ended)
        """Records of calls that have no outcome, and that the program may make again."""
        self.made: set[int] = set()
        """Ids of the records of early calls that the program has made now: they are its own from here on."""
        self._outcomes: dict[tuple[str, bytes], deque[OneCall]] = {}
        reached = [call for call in calls if call.reached is not None]
        for call in (*reached, *sorted((c for c in calls if c.reached is None), key=lambda call: call.place)):
            if call.ended:
                key = call.site.tool, _digest(call.arguments)
                self._outcomes.setdefault(key, deque()).append(call)

    def answered(self, name: str, arguments: Any) -> str | ToolError | None:
        """The outcome of the next call of this tool with these arguments; None where there is none left."""
        if not self._outcomes:
            return None
        try:
            known = self._outcomes.get((name, _digest(arguments)))
        except NotJson:
            return None
        if not known:
            return None
        call = known.popleft()
        if call.reached is None:
            self.made.update(record.id for record in records_of(call, self._records))
        return call.text if call.error is None else call.error


def _digest(arguments: Any) -> bytes:
    """Tells arguments apart without keeping them. Raises `NotJson`."""
    return hashlib.blake2b(canonical_json(arguments).encode("utf-8", "surrogatepass"), digest_size=32).digest()
