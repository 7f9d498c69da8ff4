"""The budget of a task, and whether it is spent. Values only: measures nothing and knows no prices.

1. A budget is looked at before each request and before each call; its seconds bound what is under way, too.
2. The last request that a budget allows is made without tools, so that there is an answer: the last of `turns`, the
   first after nine tenths of another field are spent, and one that will go beyond `tokens` or `cost` by its
   conversation alone.
3. A request that goes beyond `tokens` or `cost` is not broken off. They are exceeded by that request and its reply, and
   by no other.
4. A task inside another one has a part of the outer budget, which is reserved while it runs: what it has not used yet
   counts as spent for any other task that begins. Seconds pass for both at once, and are not reserved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from callgate.agent.checked import check

__all__ = ["NEARLY", "Budget", "Spent"]

NEARLY = 0.9
"""From this share of tokens, cost or seconds on, the next request is the last."""

_Count = Annotated[int, Field(gt=0)]
_Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_UNITS = {"turns": "turns", "tokens": "tokens", "cost": "dollars", "seconds": "seconds"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What was spent so far.

    Attributes:
        turns: replies of the model.
        tokens: of all requests and replies together; the conversation counts anew with every request. Where an endpoint
            gives no count, four characters count as a token.
        cost: US dollars; None where the price is unknown.
        seconds: since the beginning, what was before a resumption included.
    """

    turns: int = 0
    tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """The budget of a task. None means that a field has no limit.

    Raises:
        ConfigurationError: a field is not a number above 0.
    """

    turns: _Count | None = 40
    """Replies of the model. In the last of them it has no tools; with 1, it answers without any."""
    tokens: _Count | None = None
    """Of all requests and replies together, by the endpoint's count. The request that goes beyond is the last. What
    nobody counts is not among them: requests that were cancelled or failed, and those that an SDK repeated."""
    cost: _Amount | None = None
    """US dollars, for these tokens. Needs a known price: see `Agent`."""
    seconds: _Amount | None = 600.0
    """From the beginning. A request or a call under way then is cancelled."""

    def __post_init__(self) -> None:
        check(self)

    def over(self, spent: Spent) -> str:
        """The part of the budget that is spent, in words; empty while some is left. An unknown cost counts as spent."""
        if self.cost is not None and spent.cost is None:
            return (
                "what was spent is not known, and a budget of cost cannot be held: a model that was asked has no price"
            )
        for name, allowed, used in self._shares(spent):
            if used >= allowed:
                return f"the budget is spent: {used:.6g} of {allowed:g} {_UNITS[name]}"
        return ""

    def is_last(self, spent: Spent, ahead: Spent) -> bool:
        """Whether the next request is the last.

        Args:
            spent: so far.
            ahead: tokens and cost that the next request has at least, as far as is known.
        """
        then = Spent(tokens=spent.tokens + ahead.tokens, cost=(spent.cost or 0.0) + (ahead.cost or 0.0))
        return (
            (self.turns is not None and spent.turns >= self.turns - 1)
            or any(used >= NEARLY * allowed for name, allowed, used in self._shares(spent) if name != "turns")
            or any(used >= allowed for name, allowed, used in self._shares(then) if name in ("tokens", "cost"))
        )

    def seconds_left(self, spent: Spent) -> float:
        """Seconds that are left; infinite without a limit, never below 0."""
        return math.inf if self.seconds is None else max(self.seconds - spent.seconds, 0.0)

    def rest(self, spent: Spent) -> Spent:
        """What is left of turns, tokens and cost; 0 for a field without a limit."""
        left = {name: max(allowed - used, 0) for name, allowed, used in self._shares(spent) if name != "seconds"}
        return Spent(turns=int(left.get("turns", 0)), tokens=int(left.get("tokens", 0)), cost=left.get("cost", 0.0))

    def part(self, own: Budget, spent: Spent, reserved: Iterable[Spent], seconds: float) -> Budget:
        """The budget of a task inside this one: its own, where nine tenths of what is left suffice for it; else half
        of what is left. So something is left for others that begin meanwhile, and for the answer of this task.

        Args:
            own: budget of that task.
            spent: by this task so far.
            reserved: the rests of the tasks that run inside this one.
            seconds: that it may take at the most.

        Raises:
            ValueError: there is nothing left; says of what.
        """
        if self.cost is not None and spent.cost is None:
            raise ValueError(self.over(spent))
        others = list(reserved)
        parts: dict[str, Any] = {}
        for name, allowed, used in self._shares(spent):
            if name == "seconds":
                continue
            taken = used + sum(getattr(each, name) or 0 for each in others)
            left = allowed - taken - (name == "turns")  # the last turn is this task's
            least = 0.0 if name == "cost" else 1
            if left <= 0 or left < least:
                raise ValueError(f"{taken:.6g} of {allowed:g} {_UNITS[name]} are spent, or reserved for other agents")
            wanted = getattr(own, name)
            enough = left if name == "turns" else left * NEARLY
            part = wanted if wanted is not None and wanted <= enough else max(left / 2, least)
            parts[name] = part if name == "cost" else int(part)
        left = NEARLY * min(self.seconds_left(spent), seconds)
        if left <= 0:
            raise ValueError("the time is over")
        if left < (math.inf if own.seconds is None else own.seconds):
            parts["seconds"] = left
        return replace(own, **parts)

    def _shares(self, spent: Spent) -> list[tuple[str, float, float]]:
        return [
            (name, allowed, used)
            for name in _UNITS
            if (allowed := getattr(self, name)) is not None and (used := getattr(spent, name)) is not None
        ]
