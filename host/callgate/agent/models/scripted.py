"""A model that plays a script, in this process: for examples and tests in which HTTP is not the point.

Tokens are counted as four characters each, see `messages_json`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from anyio import sleep
from anyio.lowlevel import checkpoint

from .messages_json import estimated
from .model import Assistant, Delta, Ended, ModelProvider, Reply, Request, ToolCall, Usage

__all__ = ["Calls", "Move", "Say", "ScriptedModel", "Turn", "in_pieces"]

_PIECE = 16
"""Characters of a piece of a reply."""
_MOST_PIECES = 10_000
"""Pieces of one text; those of a longer text are longer."""
_CHARACTERS = 4
"""Characters of a token."""


class Calls:
    """A turn in which the model calls tools.

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
    """A turn with all of its properties. ``Say()`` is an empty reply.

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
        tokens_per_second: how fast it writes, for `on_delta`; None: at once.

    Raises:
        TypeError: `turns` is a text, which would be played letter by letter.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        *,
        provider: ModelProvider = "openai",
        name: str = "scripted",
        tokens_per_second: float | None = None,
    ) -> None:
        if isinstance(turns, str):
            raise TypeError(f"a script is a list of turns, and this is a text: [{turns[:40]!r}]")
        self._turns = list(turns)
        self._provider: ModelProvider = provider
        self._name = name
        self._pause = 0.0 if tokens_per_second is None else 1 / _CHARACTERS / tokens_per_second
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
        played = _whole(cast(Move, move), number)
        provider = self._provider if played.native is not None else ""
        turn = Assistant(
            text=played.text, calls=cast(tuple[ToolCall, ...], played.calls), native=played.native, provider=provider
        )
        if on_delta is not None:
            await in_pieces(turn, on_delta, restarts=played.restarts, pause=self._pause)
        return Reply(
            turn=turn,
            ended=_ended(played),
            usage=replace(estimated(request, turn), estimated=False) if played.usage is None else played.usage,
            refusal=played.refusal,
            model=self._name,
            attempts=1 + played.restarts,
        )

    async def aclose(self) -> None:
        """Nothing is open."""


async def in_pieces(
    turn: Assistant, on_delta: Callable[[Delta], None], *, restarts: int = 0, pause: float = 0.0
) -> None:
    """Report a whole turn in pieces, as a stream would.

    Args:
        turn: of the model.
        on_delta: receives each piece.
        restarts: how often the stream breaks off in the middle first: of the text, or of the calls if there is none.
        pause: seconds before each piece, for each of its characters.
    """
    deltas = _deltas(turn)
    for _ in range(restarts):
        half = [Delta(text=turn.text[: len(turn.text) // 2])] if turn.text else deltas[: len(deltas) // 2]
        await _reported(half, on_delta, pause)
        on_delta(Delta(restarted=True))
    await _reported(deltas, on_delta, pause)


async def _reported(deltas: Sequence[Delta], on_delta: Callable[[Delta], None], pause: float) -> None:
    for delta in deltas:
        if pause:
            await sleep(pause * len(delta.text or delta.name or delta.arguments))
        on_delta(delta)
        await checkpoint()


def _deltas(turn: Assistant) -> list[Delta]:
    deltas = [Delta(text=piece) for piece in _pieces(turn.text)]
    for position, call in enumerate(turn.calls):
        deltas.append(Delta(call=position, name=call.name))
        text = call.written if call.fault else json.dumps(call.arguments)
        deltas += [Delta(call=position, arguments=piece) for piece in _pieces(text)]
    return deltas


def _pieces(text: str) -> list[str]:
    size = max(_PIECE, len(text) // _MOST_PIECES)
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def _whole(move: Move, number: int) -> Say:
    """The move as a whole turn, with an id for each call."""
    turn = move if isinstance(move, Say) else _joined(move, number)
    calls = turn.calls.calls if isinstance(turn.calls, Calls) else turn.calls
    return replace(
        turn,
        calls=tuple(
            replace(call, id=call.id or f"call_{number + 1}_{position + 1}") for position, call in enumerate(calls)
        ),
    )


def _joined(move: Any, number: int) -> Say:
    texts: list[str] = []
    calls: list[ToolCall] = []
    for part in move if isinstance(move, list | tuple) else [move]:
        match part:
            case str():
                texts.append(part)
            case ToolCall():
                calls.append(part)
            case Calls():
                texts.extend([part.text] if part.text else [])
                calls.extend(part.calls)
            case _:
                raise AssertionError(f"turn {number + 1} of the script is not a move: {part!r}")
    return Say("\n".join(texts), calls)


def _ended(turn: Say) -> Ended:
    if turn.refusal or turn.cut:
        return "refused" if turn.refusal else "cut"
    return "calls" if turn.calls else "answered" if turn.text.strip() else "empty"
