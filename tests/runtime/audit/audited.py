"""An audit log that a test may read, and a runtime that writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from callgate import Allow, ApprovalRequest, AuditLog, Deny, Runtime, tool
from callgate.runtime.audit.chain import Keys
from callgate.runtime.audit.verify import Verified, verify

__all__ = ["KEY", "TOOLS", "checked", "log_in", "open_runtime", "records"]

KEY = b"a key that nobody can guess"


@tool(read_only=True)
async def look(x: int) -> int:
    """Reads."""
    return x


@tool
async def put(x: int, secret: str = "", note: str = "") -> str:
    """Has an effect."""
    if x < 0:
        raise ValueError("below zero")
    return f"put {x}"


@tool(requires_approval=True)
async def pay(x: int) -> int:
    """Asks first."""
    return x


TOOLS = [look, put, pay]


def by_ann(request: ApprovalRequest) -> Allow | Deny:
    """Ann pays up to 10, and says so."""
    x = request.arguments["x"]
    return Deny("too much", by="ann") if x > 10 else Allow({"x": 1} if x == 7 else None, by="ann")


def log_in(folder: Path, **options: Any) -> AuditLog:
    """A log in that folder, with the key of the tests."""
    return AuditLog(folder / "audit.jsonl", key=KEY, **options)


def open_runtime(log: AuditLog, **options: Any) -> Runtime:
    """A runtime with this log, which is not entered."""
    given: dict[str, Any] = {"sandbox": None, "approve": by_ann, **options}
    return Runtime(TOOLS, audit=log, **given)


def records(log: AuditLog) -> list[dict[str, Any]]:
    """The lines of the log."""
    return [json.loads(line) for line in log.path.read_text().splitlines()]


def checked(path: Path) -> Verified:
    """What `verify` finds."""
    with path.open("rb") as file:
        return verify(file, Keys(KEY))
