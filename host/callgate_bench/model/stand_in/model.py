"""The scripted model: what it is shown, and what it may do. Knows no wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """The model calls a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What came back for a call."""

    name: str
    text: str


@dataclass(frozen=True)
class Turn:
    """All that a model sees when it is its turn."""

    number: int
    """How often it has spoken before."""
    user: str
    """What the user said last."""
    tools: Mapping[str, Mapping[str, Any]]
    """Input schemas of the tools it may call, by name."""
    descriptions: Mapping[str, str]
    answers: tuple[Answer, ...]
    """Results of the calls of its last turn, in the order of the calls."""

    @property
    def answer(self) -> str:
        """The one result there is."""
        (only,) = self.answers
        return only.text


@dataclass(frozen=True)
class Refusal:
    """The model will not go on, and says why."""

    text: str


Said = str | Call | Refusal
Move = Said | Sequence[Said]
"""Text, a call, a refusal, or several of them."""


class Script:
    """A model that plays these turns, one after the other.

    Args:
        turns: one function for each time it is asked.
    """

    def __init__(self, *turns: Callable[[Turn], Move]) -> None:
        self.turns = turns

    def play(self, turn: Turn) -> list[Said]:
        """What the model does now.

        Raises:
            AssertionError: it has no turn left; or as the turn's function does.
        """
        if turn.number >= len(self.turns):
            raise AssertionError(f"the script has {len(self.turns)} turns, and the model is asked once more: {turn}")
        move = self.turns[turn.number](turn)
        return [move] if isinstance(move, Said) else list(move)
