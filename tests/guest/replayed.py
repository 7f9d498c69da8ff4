"""A bare guest that replays, driven by hand: its host answers in an order that a seed decides, with invented times."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import Any

from guest.driver import SECONDS, TOOLS, GuestProcess, Ran, reply_of

SEED = "5e" * 32
START = 1_700_000_000.0


@dataclass
class Replayed:
    """Outcome of one program: what it received and what it sent."""

    ran: Ran = field(default_factory=Ran)
    events: list[dict[str, Any]] = field(default_factory=list)
    """All of them, those of its history included."""
    waits: list[float | None] = field(default_factory=list)
    """The member ``until`` of each wait."""
    before_first_wait: list[str] = field(default_factory=list)
    """Methods of the messages that came before the guest first waited."""

    @property
    def value(self) -> Any:
        assert self.ran.error is None, self.ran.error
        return self.ran.value

    @property
    def seen(self) -> Any:
        """Everything that a replay of the whole history has to show again."""
        return self.ran.value, self.ran.error, self.ran.logs


def time_of(event: dict[str, Any]) -> float:
    found: float = event["time"] if "time" in event else event["params"]["time"]
    return found


def replayed(code: str, events: list[dict[str, Any]] | None = None, *, order: int = 0) -> Replayed:
    """Run a program from its history on: what is waited for afterwards comes in an order that `order` decides.

    Args:
        code: the program.
        events: its history.
        order: the seed of the order. A call takes up to 10 ms of invented time.
    """
    chosen = random.Random(order)
    found = Replayed(events=list(events or ()))
    with GuestProcess(replays=True) as guest:
        params = {
            "code": code, "tools": TOOLS, "inputs": {},
            "replay": {"seed": SEED, "start": START, "events": len(found.events)},
        }  # fmt: skip
        guest.write({"method": "execute", "params": params, "id": 1}, *found.events)
        arriving: list[tuple[float, dict[str, Any]]] = []
        deadline = time.monotonic() + SECONDS
        while (message := guest.next_message(found.ran, deadline)) is not None:
            found.ran.messages.append(message)
            method, now = message.get("method"), time_of(found.events[-1]) if found.events else START
            if method is None:
                result = message.get("result", {})
                found.ran.value, found.ran.error = result.get("value"), message.get("error")
                return found
            if not found.waits and method != "$wait":
                found.before_first_wait.append(method)
            if method == "cancel":
                arriving = [each for each in arriving if each[1]["id"] != message["params"]["id"]]
            elif method == "$wait":
                found.waits.append(until := message["params"]["until"])
                at, call = min(arriving, key=lambda each: each[0], default=(float("inf"), {}))
                if until is not None and until < at:
                    event: dict[str, Any] = {"method": "$event", "params": {"time": max(until, now)}}
                    found.events.append(event)
                else:
                    assert call, "the guest waits for nothing"
                    arriving.remove((at, call))
                    event = {**reply_of(call["method"], call["params"]), "id": call["id"], "time": max(at, now)}
                    made = json.dumps(call["params"], separators=(",", ":"))
                    found.events.append({**event, "call": [call["method"], made]})
                guest.write(event)
            elif "id" in message:
                arriving.append((now + chosen.random() / 100, message))
        raise AssertionError(f"the guest ended without a reply: {found}")
