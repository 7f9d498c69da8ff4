"""A model that plays a script, in this process: for examples and tests in which HTTP is not the point.

Tokens are counted as four characters each, see `tokens`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from anyio.lowlevel import checkpoint

from .model import Assistant, Delta, Ended, ModelProvider, Reply, Request, ToolCall, Usage
from .pieces import in_pieces
from .tokens import estimated

__all__ = ["Calls", "Move", "Say", "ScriptedModel", "Turn"]


class Calls:
    """The model calls tools.

    Args:
        calls: each a `ToolCall`, whose empty id is filled in, or a pair of name and arguments.
        text: what it says before.
    """

    def __init__(self, *calls: ToolCall | tuple[str, Mapping[str, Any]], text: str = "") -> None:
        self.calls = tuple(
            each if isinstance(each, ToolCall) else ToolCall(id="", name=each[0], arguments=dict(each[1]))
            for each in calls
        )
        self.text = text


@dataclass(frozen=True, slots=True)
class Say:
    """A turn with all that can be said of it. ``Say()`` is an empty reply.

    Attributes:
        text: the words.
        calls: of tools.
        refusal: why the model will not go on.
        cut: the reply ended at the limit of its tokens.
        usage: what it cost; None: counted, see the module.
        restarts: how often the stream breaks off in the middle first; for `on_delta`.
        native: see `Assistant`.
    """

    text: str = ""
    calls: Sequence[ToolCall] | Calls = ()
    refusal: str = ""
    cut: bool = False
    usage: Usage | None = None
    restarts: int = 0
    native: Any = None


Move = str | ToolCall | Calls | Say | Exception | Sequence["str | ToolCall | Calls"]
"""Text, calls, both, a whole turn, or an error of the endpoint that is raised (`ModelUnavailable`, ...)."""

Turn = Move | Callable[[Request], Move | Awaitable[Move]]
"""A move, or what gives one for the request."""


class ScriptedModel:
    """Plays these turns, one for each time it is asked; see `Model`.

    Args:
        turns: each a move, or a function (async or not) of the request that gives one.
        provider: whose form the tool definitions in requests have.
        name: of the model.

    Raises:
        TypeError: `turns` is a text, which would be played letter by letter.
    """

    def __init__(self, turns: Sequence[Turn], *, provider: ModelProvider = "openai", name: str = "scripted") -> None:
        if isinstance(turns, str):
            raise TypeError(f"a script is a list of turns, and this is a text: [{turns[:40]!r}]")
        self._turns = list(turns)
        self._provider: ModelProvider = provider
        self._name = name
        self.requests: list[Request] = []
        """Every request, as it came."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> ModelProvider:
        return self._provider

    async def ask(self, request: Request, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
        """See `Model.ask`.

        Raises:
            AssertionError: the script has no turn left, or a turn is not a move.
        """
        number = len(self.requests)
        # a copy: the conversation may grow in place
        self.requests.append(replace(request, messages=tuple(request.messages)))
        if number >= len(self._turns):
            last = str(request.messages[-1])[:400] if request.messages else "nothing"
            raise AssertionError(
                f"the script of the model {self._name!r} has {len(self._turns)} turns, and it is asked once more; "
                f"last came: {last}"
            )
        next_turn = self._turns[number]
        made = next_turn(request) if callable(next_turn) else next_turn
        move = await made if inspect.isawaitable(made) else made
        await checkpoint()
        if isinstance(move, Exception):
            raise move
        said = _said(cast(Move, move), number)
        calls = tuple(said.calls.calls if isinstance(said.calls, Calls) else said.calls)
        native = {"native": said.native, "provider": self._provider} if said.native is not None else {}
        turn = Assistant(text=said.text, calls=calls, **native)
        if on_delta is not None:
            await in_pieces(turn, on_delta, restarts=said.restarts)
        return Reply(
            turn=turn,
            ended=_ended(said, calls),
            usage=replace(estimated(request, turn), estimated=False) if said.usage is None else said.usage,
            refusal=said.refusal,
            model=self._name,
            attempts=1 + said.restarts,
        )

    async def aclose(self) -> None:
        """Nothing is open."""


def _said(move: Move, number: int) -> Say:
    """The move as a whole turn, with an id for each call."""
    if isinstance(move, Say):
        said = move
    else:
        texts: list[str] = []
        calls: list[ToolCall] = []
        parts = [move] if isinstance(move, str | ToolCall | Calls) else move
        if isinstance(parts, Exception) or not isinstance(parts, Sequence):
            raise AssertionError(f"turn {number + 1} of the script is no move: {move!r}")
        for part in parts:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, ToolCall):
                calls.append(part)
            elif isinstance(part, Calls):
                texts.extend([part.text] if part.text else [])
                calls.extend(part.calls)
            else:
                raise AssertionError(f"turn {number + 1} of the script holds what is no move: {part!r}")
        said = Say("\n".join(texts), calls)
    given = said.calls.calls if isinstance(said.calls, Calls) else said.calls
    named = [
        call if call.id else replace(call, id=f"call_{number + 1}_{position + 1}")
        for position, call in enumerate(given)
    ]
    return replace(said, calls=named)


def _ended(said: Say, calls: Sequence[ToolCall]) -> Ended:
    if said.refusal:
        return "refused"
    if said.cut:
        return "cut"
    return "calls" if calls else "answered" if said.text.strip() else "empty"
